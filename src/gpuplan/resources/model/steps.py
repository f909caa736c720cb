"""The steps of a model, with the payloads that `apply` gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.resources.model.spec import ModelSpec
from gpuplan.resources.typed import decode, encode
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.resource import Desired

CONCURRENCY_GROUP = "models"
"""Models load and unload in parallel."""


@dataclass(frozen=True)
class Dependent:
    """A model that is composed of the loaded one or calls it."""

    spec: ModelSpec
    smoke: SmokeSpec | None = None


@dataclass(frozen=True)
class LoadModel:
    """Load a model unless it is served as its spec says, and list it for the server's startup."""

    spec: ModelSpec
    smoke: SmokeSpec | None = None
    """Asked right after the load."""
    force: bool = False
    """Load it in any case: the server may have loaded files that were changed on the node."""
    unload_first: bool = False
    dependents: tuple[Dependent, ...] = ()
    """Models that must serve after the load, too."""
    unloaded: tuple[str, ...] = ()
    """Models that the same change set unloads from the server, whose memory may not be freed."""


@dataclass(frozen=True)
class UnloadModel:
    """Unload a model, and remove it from those that the server loads at startup."""

    container: str
    model: str
    with_parts: bool = False
    """Also unload the parts that the server loaded for it by itself."""
    own_command: bool = False
    """The container's own command decides what is loaded at startup."""


@dataclass(frozen=True)
class RestartServer:
    """Restart the container of a server, which then loads the models of its list."""

    container: str


def load(
    desired: Desired,
    spec: ModelSpec,
    verb: Verb,
    dropped_parts: Sequence[Address] = (),
    *,
    force: bool = False,
    unload_first: bool = False,
    swaps: bool = False,
) -> Step:
    """Load or reload a model; `swaps` = the server goes on serving the loaded one meanwhile."""
    title = f"{'load' if verb is Verb.CREATE else 'reload'} {spec.model}{_details(spec)} on {spec.container}"
    title += " without downtime" if verb is Verb.UPDATE and swaps and not unload_first else ""
    return Step(
        name="load",
        address=desired.address,
        verb=verb,
        title=title,
        payload=encode(LoadModel(spec, smoke_test(desired), force, unload_first)),
        makes=(desired.address,),
        uses=desired.needs,
        releases=tuple(dropped_parts),
        concurrency_group=CONCURRENCY_GROUP,
        max_parallel=spec.max_parallel,
    )


def list_at_start(desired: Desired, spec: ModelSpec) -> Step:
    """Only list a model, which is loaded, for the server's startup."""
    return _without_load(desired, spec, f"have {spec.container} load {spec.model} at startup")


def verify(desired: Desired, spec: ModelSpec) -> Step:
    """Only test a model, which is loaded, and delete the files that it had before."""
    return _without_load(desired, spec, f"verify {spec.model} on {spec.container}, then delete its previous files")


def unload(address: Address, payload: UnloadModel, releases: Sequence[Address]) -> Step:
    """Unload a model."""
    return Step(
        name="unload",
        address=address,
        verb=Verb.DELETE,
        title=f"unload {payload.model} from {payload.container}",
        payload=encode(payload),
        releases=tuple(releases),
        frees=(address,),
        concurrency_group=CONCURRENCY_GROUP,
    )


def unlist(address: Address, container: str, model: str) -> Step:
    """Only remove a model from those that a stopped server loads at startup, so before it is started."""
    return Step(
        name="unload",
        address=address,
        verb=Verb.DELETE,
        title=f"have {container} no longer load {model} at startup",
        payload=encode(UnloadModel(container, model)),
        makes=(Address(address.node, "repository", container),),
        frees=(address,),
    )


def restart_server(server: Address, container: Address) -> Step:
    """Restart a server's container, after the unloads and before the loads."""
    return Step(
        name="restart",
        address=server,
        verb=Verb.UPDATE,
        title=f"restart container {container.name} to free its GPU memory",
        payload=encode(RestartServer(container.name)),
        makes=(container,),
        frees=(container,),
    )


def smoke_test(desired: Desired) -> SmokeSpec | None:
    """The smoke test of a desired model."""
    return None if desired.proof is None else decode(SmokeSpec, desired.proof)


def _without_load(desired: Desired, spec: ModelSpec, title: str) -> Step:
    """What follows a load, of a model that is loaded."""
    return Step(
        name="load",
        address=desired.address,
        verb=Verb.UPDATE,
        title=title,
        payload=encode(LoadModel(spec, smoke_test(desired))),
        makes=(desired.address,),
        uses=desired.needs,
    )


def _details(spec: ModelSpec) -> str:
    versions = ", ".join(map(str, spec.versions))
    details = [f"{'version' if len(spec.versions) == 1 else 'versions'} {versions}"] if versions else []
    details += ["with config override"] if spec.overrides else []
    return f" ({', '.join(details)})" if details else ""


def payload_of(step: Step) -> LoadModel | UnloadModel | RestartServer:
    """The payload of a step."""
    match step.name:
        case "load":
            return decode(LoadModel, step.payload)
        case "unload":
            return decode(UnloadModel, step.payload)
        case _:
            return decode(RestartServer, step.payload)
