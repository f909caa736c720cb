"""Loading and unloading in a server: what is polled, what is loaded with it, and what is left as it was."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpuplan.simulator.devices import UnknownDevice, requested
from gpuplan.simulator.state import (
    Document,
    NodeState,
    SimulatedContainer,
    SimulatedModel,
    SimulatedModelVersion,
    SimulatedTriton,
)
from gpuplan.simulator.store import Machine
from gpuplan.simulator.triton.describe import served_config
from gpuplan.simulator.triton.model_files import NeverAnswers, Polled, PollFailed, misfit, poll, refusal

UNLOADING_SECONDS = 0.05
"""How long a model stays UNLOADING; the real Python backend takes 1.2 s."""


class LoadFailed(Exception):
    """A load call fails: HTTP status and the error's text."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text
        super().__init__(text)


@dataclass(frozen=True)
class Serving:
    """A running server with its container and node."""

    state: NodeState
    machine: Machine
    container: SimulatedContainer
    server: SimulatedTriton

    @property
    def gpus(self) -> int:
        """How many GPUs or slices the server sees."""
        try:
            return len(requested(self.state, self.container))
        except UnknownDevice:
            return 0

    def log(self, text: str) -> None:
        """A line in the container's log."""
        self.container.write(2, text)

    def directories(self) -> dict[str, tuple[Path, str]]:
        """Model → its directory, and that directory's path inside the container."""
        paths: dict[str, tuple[Path, str]] = {}
        for shown in self.server.repositories:
            real = self.machine.inside(self.container, shown)
            for entry in sorted(real.iterdir()) if real and real.is_dir() else ():
                if entry.is_dir() and not entry.name.startswith("."):
                    paths.setdefault(entry.name, (entry, f"{shown.rstrip('/')}/{entry.name}"))
        return paths


def load(serving: Serving, name: str, config: str = "") -> None:
    """Load a model by name, and the parts of an ensemble with it; `config` is a JSON in the place of its own config.

    Raises:
        LoadFailed: as the API answers.
        NeverAnswers: the call would hang; the model is LOADING from then on.
    """
    polled = _poll(serving, name, config)
    if polled is None or not _parts_of_known(serving, polled):
        raise LoadFailed(500, f"failed to load '{name}', failed to poll from model repository")
    try:
        error = _circle(serving, polled, (name,)) or _load(serving, polled, by_name=True)
    finally:
        _drop(serving, name)
        _revive(serving)
    if error:
        raise LoadFailed(400, f"load failed for model '{name}': {error}\n")


def unload(serving: Serving, name: str, dependents: bool) -> None:
    """Unload a model; of one that is not there nothing is said. Ensembles that need it become unavailable."""
    served = serving.server.models.get(name)
    if served is None:
        return
    parts = served.steps if dependents else []
    served.asked, served.override = False, ""
    _take_down(served, time.time() + UNLOADING_SECONDS)
    for other, ensemble in serving.server.models.items():
        if other != name and name in _needed(serving.server, ensemble.steps):
            _take_down(ensemble, None)
            serving.log(
                f"Invalid argument: ensemble {other} contains models that are not available or ambiguous: {name}"
            )
    for part in parts:
        held = serving.server.models.get(part)
        others = [one.steps for other, one in serving.server.models.items() if other != name and ready(one)]
        if held and not held.by_name and not any(part in steps for steps in others):
            unload(serving, part, dependents=True)


def ready(served: SimulatedModel) -> bool:
    """True where a version is READY."""
    return any(version.state == "READY" for version in served.versions.values())


def settle(server: SimulatedTriton) -> None:
    """Let time do what it does: what was UNLOADING is gone."""
    now = time.time()
    for served in server.models.values():
        for version in served.versions.values():
            if version.until is not None and version.until <= now:
                version.state, version.reason, version.until = "UNAVAILABLE", "unloaded", None


def unsettled(server: SimulatedTriton) -> bool:
    """True where `settle` would change something."""
    now = time.time()
    return any(
        version.until is not None and version.until <= now
        for served in server.models.values()
        for version in served.versions.values()
    )


def _poll(serving: Serving, name: str, config: str = "") -> Polled | None:
    """A model as it lies there; the config that a load call gave holds until its files change, or it is unloaded."""
    known = serving.server.models.get(name)
    override = config or (known.override if known else "")
    place = serving.directories().get(name)
    if place is None:
        serving.log(f"failed to poll model '{name}': model not found in any model repository.")
        return None
    try:
        read = partial(poll, place[0], place[1], serving.server.auto_complete, serving.server.release)
        polled = read(override)
        return read() if override and not config and known and polled.modified > known.modified else polled
    except (PollFailed, OSError) as error:
        serving.log(f"Poll failed for model directory '{name}': {error}")
        return None


def _parts_of_known(serving: Serving, polled: Polled) -> bool:
    """An ensemble that the server knows already is polled together with its parts, and fails as one of them does."""
    known = polled.steps and polled.name in serving.server.models
    return not known or all(_poll(serving, step) for step in polled.steps)


def _load(serving: Serving, polled: Polled, *, by_name: bool) -> str:
    """Load it unless it serves and is unchanged; returns why it could not be loaded."""
    served = serving.server.models.setdefault(polled.name, SimulatedModel(modified=0, by_name=by_name))
    served.by_name, served.asked = served.by_name or by_name, True
    served.steps = list(polled.steps)
    if any(version.state == "LOADING" for version in served.versions.values()):
        raise NeverAnswers
    served.error = _load_steps(serving, polled) or _misfit(serving, polled.name, polled.config)
    unchanged = served.modified >= polled.modified and served.override == polled.override
    if not served.error and not (ready(served) and unchanged):
        served.error = _load_versions(serving, served, polled)
    return served.error


def _load_versions(serving: Serving, served: SimulatedModel, polled: Polled) -> str:
    """All versions of a load succeed or none; a failed reload leaves the old ones serving."""
    if not polled.versions:
        return f"at least one version must be available under the version policy of model '{polled.name}'"
    reasons: dict[str, str] = {}
    for version in polled.versions:
        try:
            why = "" if polled.steps else refusal(polled, version, serving.server.backends, serving.gpus)
        except NeverAnswers:
            served.versions[version] = SimulatedModelVersion("LOADING")
            shown = f"{polled.shown}/{version}/{polled.file}"
            serving.log(f"Failed to preinitialize Python stub: Python model file not found in '{shown}'")
            raise
        if why:
            reasons[version] = why
    if not reasons:
        _take_over(serving, served, polled)
        return ""
    error = "".join(f"version {one} is at UNAVAILABLE state: {why};" for one, why in reasons.items())
    serving.log(f"failed to load '{polled.name}' {error}")
    if not ready(served):
        served.versions = {one: SimulatedModelVersion("UNAVAILABLE", why) for one, why in reasons.items()}
    return error


def _take_over(serving: Serving, served: SimulatedModel, polled: Polled) -> None:
    """The new versions serve, and versions that are no longer wanted go."""
    served.modified, served.override = polled.modified, polled.override
    served.config = served_config(polled.config, serving.gpus)
    for number, old in served.versions.items():
        if number not in polled.versions:
            old.state, old.reason, old.until = "UNAVAILABLE", "unloaded", None
    served.versions.update({number: SimulatedModelVersion("READY") for number in polled.versions})
    serving.log(f"successfully loaded '{polled.name}'")


def _load_steps(serving: Serving, polled: Polled) -> str:
    """Load what an ensemble is composed of; returns why it cannot be an ensemble then."""
    for step in polled.steps:
        part = _poll(serving, step)
        if part is None:
            serving.server.models.pop(step, None)
            return f"ensemble {polled.name} contains models that are not available or ambiguous: {step}"
        error = _load(serving, part, by_name=False)
        if not ready(serving.server.models[step]):
            return (
                f"ensemble '{polled.name}' depends on '{step}' which has no loaded version. "
                f"Model '{step}' loading failed with error: {error}"
            )
    return ""


def _circle(serving: Serving, polled: Polled, path: tuple[str, ...]) -> str:
    """What is wrong with ensembles that are composed of one another; an empty text where none is."""
    for step in polled.steps:
        if step in path:
            return f"circular dependency between ensembles: {step} -> ... -> {polled.name} -> {step}"
        part = _poll(serving, step)
        if part and (paths := _circle(serving, part, (*path, step))):
            return paths
    return ""


def _revive(serving: Serving) -> None:
    """Ensembles that are wanted come up by themselves once all their parts are READY."""
    for name, served in serving.server.models.items():
        parts = [serving.server.models.get(step) for step in served.steps]
        if parts and served.asked and not ready(served) and all(part and ready(part) for part in parts):
            polled = _poll(serving, name)
            if polled and not _misfit(serving, name, polled.config):
                served.error = _load_versions(serving, served, polled)


def _drop(serving: Serving, part: str) -> None:
    """Ensembles that a part no longer fits, after it was reloaded, stop serving."""
    for name, served in serving.server.models.items():
        if ready(served) and part in served.steps and (why := _misfit(serving, name, served.config)):
            _take_down(served, None)
            serving.log(f"Invalid argument: {why}")


def _misfit(serving: Serving, name: str, config: Document) -> str:
    parts = {part: served.config for part, served in serving.server.models.items() if ready(served)}
    return misfit(name, config, parts)


def _take_down(served: SimulatedModel, until: float | None) -> None:
    """Nothing of the model serves any more; until then it is UNLOADING, ensembles go at once."""
    for version in served.versions.values():
        if version.state == "READY":
            version.state, version.until = ("UNLOADING", until) if until else ("UNAVAILABLE", None)
            version.reason = "" if until else "unloaded"


def _needed(server: SimulatedTriton, steps: Iterable[str]) -> set[str]:
    """Steps, and the steps of those that are ensembles."""
    paths: set[str] = set()
    for step in steps:
        paths.add(step)
        if step in server.models:
            paths |= _needed(server, server.models[step].steps)
    return paths
