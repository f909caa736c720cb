"""Differences: everything in which one container is not what its spec states, with the reasons in words.

No secret and no stranger's value is ever told of an environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuplan.kinds.container.bound import Bound, compare_devices
from gpuplan.kinds.container.canonical import FROM_IMAGE, OWNED, image_fields, live_fields, shown, wanted_fields
from gpuplan.kinds.container.images import canonical_name, find
from gpuplan.kinds.container.read import Image, Observed, leftover
from gpuplan.kinds.container.server import completion_flag
from gpuplan.kinds.container.shape import VISIBLE, ContainerSpec, EnvValue
from gpuplan.kinds.ground.devices import environment
from gpuplan.kinds.ground.docker import Live
from gpuplan.kinds.ground.raw import texts
from gpuplan.model.change import FieldChange
from gpuplan.model.resource import Circumstances
from gpuplan.model.value import Json, Secret

_DEFAULTS = {"restart": "no", "network": "bridge", "ipc": "private"}


@dataclass(frozen=True)
class Before:
    """A container as it was last applied."""

    spec: ContainerSpec
    digest: str
    """What the label of a container says that was made from it."""


@dataclass(frozen=True)
class Differences:
    """The differing fields, and why each that needs words differs."""

    fields: tuple[FieldChange, ...]
    reasons: tuple[str, ...]


def differences(
    spec: ContainerSpec,
    before: Before | None,
    live: Live,
    bound: Bound,
    observed: Observed,
    circumstances: Circumstances,
) -> Differences:
    """Compare one container. Only what is stated now, or was when it was last applied, takes part."""
    image = observed.image(live.image_id)
    found: list[FieldChange] = []
    reasons: list[str] = []
    for change, words in (
        _name(live),
        _state(live),
        _image(spec, live, observed),
        compare_devices(bound, live, observed),
    ):
        found.extend([change] if change else [])
        reasons.extend(words)
    found.extend(_fields(spec, before.spec if before else None, live, observed))
    reasons.extend(_completion(spec, live))
    env = compare_env(spec.env, before, live, image, circumstances.secrets)
    found.extend(sorted(env, key=lambda change: change.path))
    return Differences(tuple(found), tuple(reasons))


def compare_env(
    wanted: Mapping[str, EnvValue],
    before: Before | None,
    live: Live,
    image: Image | None,
    secrets: Mapping[str, Secret],
) -> Iterator[FieldChange]:
    """The differing variables. What the image brings counts as wanted where the plan file does not overlay it.

    What gives a container its GPUs is compared as devices, not here.
    """
    has = environment(live.config)
    brought = environment(image.config) if image else {}
    for name, value in wanted.items():
        if not isinstance(value, str):
            yield from _secret(name, has.get(name), secrets.get(value["secret"]))
        elif has.get(name) != value:
            public = name not in has or has[name] == brought.get(name) or _plain_before(name, has[name], before, live)
            shown_before, shown_after = (has.get(name), value) if public else (None, None)
            yield FieldChange(f"env.{name}", shown_before, shown_after, sensitive=not public)
    by_devices = {VISIBLE} if VISIBLE not in wanted else set()
    recorded = before.spec.env if before else {}
    for name in has.keys() - wanted.keys() - by_devices:
        if name in recorded or (image is not None and brought.get(name) != has[name]):
            yield FieldChange(f"env.{name}", None, None, sensitive=True)


def wanted_env(wanted: Mapping[str, EnvValue]) -> Iterator[FieldChange]:
    """The variables of a container that is yet to be made."""
    for name, value in wanted.items():
        secret = not isinstance(value, str)
        yield FieldChange(f"env.{name}", None, None if secret else str(value), sensitive=secret)


def _name(live: Live) -> tuple[FieldChange | None, tuple[str, ...]]:
    if live.name == live.role:
        return None, ()
    why = "a replacement was interrupted" if leftover(live) else "it was renamed"
    return FieldChange("name", live.name, live.role), (why,)


def _state(live: Live) -> tuple[FieldChange | None, tuple[str, ...]]:
    if live.status == "running":
        return None, ()
    memory = ", out of memory" if live.oom_killed else ""
    words = {
        "created": "it was created and has not been started",
        "paused": "it is paused",
        "restarting": f"it is in a restart loop: {live.restarts} restarts, last exit code {live.exit_code}{memory}",
    }.get(live.status, f"it ended with exit code {live.exit_code}{memory}")
    error = (f"the engine says: {live.error.strip().splitlines()[-1]}",) if live.error.strip() else ()
    return FieldChange("state", live.status, "running"), (words, *error)


def _image(spec: ContainerSpec, live: Live, observed: Observed) -> tuple[FieldChange | None, tuple[str, ...]]:
    same_name = canonical_name(live.image) == canonical_name(spec.image)
    wanted = find(spec.image, observed.images)
    if wanted is None:
        return (None, ()) if same_name else (FieldChange("image", live.image, spec.image), ())
    if wanted.id == live.image_id:
        return None, ()
    if not same_name:
        return FieldChange("image", live.image, spec.image), ()
    before, after = (f"{spec.image} ({_short(each)})" for each in (live.image_id, wanted.id))
    return FieldChange("image", before, after), ("the tag moved: it names another image of this node now",)


def _short(image_id: str) -> str:
    return image_id.removeprefix("sha256:")[:12]


def _fields(
    spec: ContainerSpec, recorded: ContainerSpec | None, live: Live, observed: Observed
) -> Iterator[FieldChange]:
    image = observed.image(live.image_id)
    wanted = {**(image_fields(image, spec) if image else {}), **wanted_fields(spec)}
    before = wanted_fields(recorded) if recorded else {}
    has = live_fields(live, image)
    for path, value in sorted(wanted.items()):
        if has.get(path) != value and not (path == "command" and _as_good(spec, has[path], value)):
            yield FieldChange(path, shown(path, has.get(path)), shown(path, value))
    for path in sorted(has.keys() - wanted.keys()):
        owned = path.startswith(OWNED) and (image is not None or not path.startswith("labels."))
        dropped = path in before and has[path] == before[path] != _DEFAULTS.get(path)
        if owned or (dropped and (image is None or path not in FROM_IMAGE)):
            yield FieldChange(path, shown(path, has[path]), None)


def _as_good(spec: ContainerSpec, has: Json, wanted: Json) -> bool:
    """A server that completes configs although none needs it is not replaced for that."""
    off = completion_flag(False, None)
    return spec.configs_say_all and isinstance(wanted, list) and has == [word for word in wanted if word not in off]


def _completion(spec: ContainerSpec, live: Live) -> tuple[str, ...]:
    """Why a server that takes configs as they stand must give way."""
    off = completion_flag(False, None)
    runs_without = any(word in off for word in texts(live.config.get("Cmd")))
    if not spec.config_lacks or not runs_without or set(off) & set(spec.command or ()):
        return ()
    return (f"it runs with {off[0]}, and {spec.config_lacks}: state that, and the container stays",)


def _secret(name: str, has: str | None, known: Secret | None) -> Iterator[FieldChange]:
    """A secret that is not at hand is not compared."""
    if has is None or (known is not None and known.reveal() != has):
        yield FieldChange(f"env.{name}", None, None, sensitive=True)


def _plain_before(name: str, has: str, before: Before | None, live: Live) -> bool:
    """True where the value that a container has can be no secret.

    The record has to state the variable as plain text, and the container must not come from another spec: a run that
    was cut off may have given it a secret that the record does not know.
    """
    stated = before.spec.env.get(name) if before else None
    if before is None or not isinstance(stated, str):
        return False
    return stated == has or live.digest in ("", before.digest)
