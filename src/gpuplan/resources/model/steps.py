"""The steps of a model, with the payloads that `apply` gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.resources.model.smoke.spec import SmokeSpec, smoke_from_json
from gpuplan.resources.model.spec import ModelSpec, model_spec
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject, as_list, as_object

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
    return None if desired.proof is None else smoke_from_json(desired.proof)


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


def encode(payload: LoadModel | UnloadModel | RestartServer) -> JsonObject:
    """The JSON form of a payload."""
    match payload:
        case LoadModel():
            return {
                **_pair(payload.spec, payload.smoke),
                "force": payload.force,
                "unload_first": payload.unload_first,
                "dependents": [_pair(dependent.spec, dependent.smoke) for dependent in payload.dependents],
                "unloaded": list(payload.unloaded),
            }
        case UnloadModel():
            return vars(payload)
        case RestartServer():
            return vars(payload)


def payload_of(step: Step) -> LoadModel | UnloadModel | RestartServer:
    """The payload of a step."""
    value = step.payload
    match step.name:
        case "load":
            dependents = (Dependent(*_unpair(as_object(each))) for each in as_list(value["dependents"]))
            spec, smoke = _unpair(value)
            return LoadModel(
                spec,
                smoke,
                value["force"] is True,
                value["unload_first"] is True,
                tuple(dependents),
                tuple(map(str, as_list(value["unloaded"]))),
            )
        case "unload":
            with_parts, own_command = value["with_parts"] is True, value["own_command"] is True
            return UnloadModel(str(value["container"]), str(value["model"]), with_parts, own_command)
        case _:
            return RestartServer(str(value["container"]))


def _pair(spec: ModelSpec, smoke: SmokeSpec | None) -> JsonObject:
    return {"spec": spec.json(), "smoke": smoke.json() if smoke else None}


def _unpair(value: JsonObject) -> tuple[ModelSpec, SmokeSpec | None]:
    smoke = value["smoke"]
    return model_spec(as_object(value["spec"])), smoke_from_json(as_object(smoke)) if smoke else None
