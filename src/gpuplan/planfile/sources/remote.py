"""Models that a server reads from a repository of its own: what the plan file lays over their configs, as JSON.

Their files are not seen from here, so nothing of their content is known: only what the server says of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gpuplan.planfile.expand import Placed, containers_on, models_on
from gpuplan.planfile.repositories import STORES, canonical, is_remote, missing_variables, on_node
from gpuplan.planfile.schema import Container, Model, PlanFile
from gpuplan.planfile.sources.render import MARK, Layer, policy, with_layers
from gpuplan.triton import model_config
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.value import JsonObject, digest


@dataclass(frozen=True)
class Served:
    """One model of a repository that is not ours, as one container serves it."""

    model: str
    versions: tuple[int, ...]
    """The versions that should be READY; empty where the plan file leaves them to the repository."""
    overlay: tuple[JsonObject, ...]
    """What the plan file lays over the model's config, layer by layer."""
    content: str
    """Digest of the overlay, by which the server tells that it is in force; empty where there is none."""
    place: str
    """The repository, as the plan file names it."""


def served_on(plan: PlanFile, host: Host, container: str) -> tuple[Served, ...]:
    """The models of one container of this host, where its repository is not brought from beside the plan file."""
    home = next((placed for placed in containers_on(plan, host) if placed.name == container), None)
    if home is None or not has_remote(home.container) or home.container.triton is None:
        return ()
    place = canonical(home.container.triton.repository)
    return tuple(_served(name, model, place) for name, model in models_on(plan, host, container))


def has_remote(container: Container) -> bool:
    """True for a model server that is not given its models by gpuplan."""
    return container.triton is not None and is_remote(container.triton.repository)


def laid_over(reported: JsonObject, overlay: Sequence[JsonObject], content: str) -> str:
    """The whole config as the text of a load call's `config`: what the server reports, the overlay, and our mark.

    Raises:
        Problem: the overlay does not fit the config.
        Unparsable: the server reports a field that is not known here.
    """
    layers = [*overlay, {"parameters": {MARK: {"string_value": content}}}]
    message = with_layers(model_config.from_json(reported), [Layer(each, lambda *_: Location("")) for each in layers])
    return json.dumps(model_config.to_json(message), separators=(",", ":"))


def overlay_faults(plan: PlanFile, name: str, model: Model) -> Iterator[Diagnostic]:
    """What is wrong with what the plan file lays over a config that it has not: fields, values, versions."""
    where = partial(plan.where, "models", name)
    layers = [Layer(model.config, partial(where, "config"))]
    layers.extend(Layer(stated, partial(where, "overrides", server)) for server, stated in model.overrides.items())
    for layer in layers:
        try:
            with_layers(model_config.empty(), [layer])
        except Problem as problem:
            yield from problem.diagnostics
    try:
        policy(model.versions)
    except ValueError as fault:
        fix = "Write latest N, all, or a list of versions such as [1, 3]."
        yield Diagnostic("Not a choice of versions", f"{fault}.", fix, where("versions"))


def credential_warnings(plan: PlanFile, home: Placed) -> Iterator[Diagnostic]:
    """What Triton needs of its environment to open a bucket, and is not given."""
    triton = home.container.triton
    if triton is None or on_node(triton.repository) or not is_remote(triton.repository):
        return
    if names := missing_variables(triton.repository, home.container.env):
        store = STORES[triton.repository.partition("://")[0]].name
        yield Diagnostic(
            "A model server may not open its repository",
            f"Triton reads {_listed(names)} to open {triton.repository} on {store}, and {home.path[1]} does not state "
            f"{'it' if len(names) == 1 else 'them'}; without, it may try for long, and answer nothing meanwhile.",
            f'Write env: {{ {names[0]}: "${{env:{names[0]}}}" }}, and so on; where the node\'s own role opens it, '
            "nothing is to be done.",
            plan.where(*home.path, "triton", "repository"),
            severity=Severity.WARNING,
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _served(name: str, model: Model, place: str) -> Served:
    stated: tuple[JsonObject, ...] = (model.config, *model.overrides.values(), policy(model.versions))
    overlay = tuple(layer for layer in stated if layer)
    numbers = tuple(sorted(set(model.versions))) if isinstance(model.versions, tuple) else ()
    return Served(name, numbers, overlay, digest(list(overlay)) if overlay else "", place)
