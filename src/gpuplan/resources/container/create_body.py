"""The body of the engine's create call for one container (Docker Engine API 1.41, ContainerCreate)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuplan.resources.container.fields.conversion import create_fields
from gpuplan.resources.container.fields.mounts import REPOSITORY
from gpuplan.resources.container.replacement import stop_timeout
from gpuplan.resources.container.spec import THEIRS, TRITON_PORT, ContainerSpec
from gpuplan.resources.snapshot.containers import DIGEST, NAME, PLAN, TRITON
from gpuplan.types.value import Json, JsonObject


@dataclass(frozen=True)
class Owner:
    """What the labels say of a container."""

    plan: str
    name: str
    digest: str
    seals: Mapping[str, str] = field(default_factory=dict)
    """The label with the keyed digests of its secrets."""


def create_body(
    spec: ContainerSpec, owner: Owner, devices: Sequence[str], env: Mapping[str, str], repository: str
) -> JsonObject:
    """The whole body. `devices` are UUIDs, `env` holds the secrets, `repository` is its directory on the node."""
    served = {path: source for path, source in spec.volumes.items() if spec.triton and path == THEIRS}
    volumes = {path: source for path, source in spec.volumes.items() if path not in served}
    if spec.mounts_repository:
        volumes[REPOSITORY] = f"{repository}:ro"
    parts = create_fields(replace(spec, volumes=volumes, stop_timeout=stop_timeout(spec)))
    host, networking = parts["HostConfig"], parts["NetworkingConfig"]
    if served:
        host["Mounts"] = [_mount(target, source) for target, source in served.items()]
    if devices:
        host["DeviceRequests"] = [_request(devices)]
    own: JsonObject = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {**spec.labels, **labels(spec, owner)},
        "HostConfig": host,
    }
    return {**parts["Config"], **own, **({"NetworkingConfig": networking} if networking else {})}


def labels(spec: ContainerSpec, owner: Owner) -> Mapping[str, str]:
    """The labels by which gpuplan recognises its own containers (docs/architecture.md)."""
    own = {PLAN: owner.plan, NAME: owner.name, DIGEST: owner.digest, **owner.seals}
    return {**own, TRITON: str(TRITON_PORT)} if spec.triton else own


def _request(devices: Sequence[str]) -> Json:
    """What `docker run --gpus '"device=UUID"'` sends: no driver named, so the engine takes the one for GPUs."""
    return {"Driver": "", "Count": 0, "DeviceIDs": list(devices), "Capabilities": [["gpu"]], "Options": {}}


def _mount(target: str, source: str) -> Json:
    """A directory that must exist: of a bind whose directory is missing the engine creates an empty one silently."""
    return {"Type": "bind", "Source": source.partition(":")[0], "Target": target, "ReadOnly": True}
