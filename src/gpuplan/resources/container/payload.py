"""Payload: the body of the engine's create call for one container (Docker Engine API 1.41, ContainerCreate)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.resources.container import normal
from gpuplan.resources.container.canonical import health_check
from gpuplan.resources.container.forms import split_side
from gpuplan.resources.container.replacement import stop_timeout
from gpuplan.resources.container.shape import REPOSITORY, THEIRS, TRITON_PORT, ContainerSpec
from gpuplan.resources.snapshot.labels import DIGEST, NAME, PLAN, TRITON
from gpuplan.types.value import Json, JsonObject


@dataclass(frozen=True)
class Owner:
    """What the labels say of a container."""

    plan: str
    name: str
    digest: str
    seals: Mapping[str, str] = field(default_factory=dict)
    """The label with the keyed digests of its secrets."""


def payload(
    spec: ContainerSpec, owner: Owner, devices: Sequence[str], env: Mapping[str, str], repository: str
) -> JsonObject:
    """The whole body. `devices` are UUIDs, `env` holds the secrets, `repository` is its directory on the node."""
    body: dict[str, Json] = {
        "Image": spec.image,
        "Labels": {**spec.labels, **labels(spec, owner)},
        "Env": [f"{name}={value}" for name, value in env.items()],
        "ExposedPorts": {inside: {} for inside in spec.ports},
        "HostConfig": _host(spec, devices, repository),
    }
    stated = {
        "Cmd": list(spec.command) if spec.command is not None else None,
        "Entrypoint": (list(spec.entrypoint) or [""]) if spec.entrypoint is not None else None,
        "User": spec.user,
        "WorkingDir": spec.workdir,
        "Hostname": spec.hostname,
        "StopTimeout": stop_timeout(spec),
        "Healthcheck": health_check(spec) or None,
        "NetworkingConfig": _networking(spec),
    }
    return {**body, **_without_none(stated)}


def labels(spec: ContainerSpec, owner: Owner) -> Mapping[str, str]:
    """The labels by which gpuplan knows its own (docs/architecture.md)."""
    own = {PLAN: owner.plan, NAME: owner.name, DIGEST: owner.digest, **owner.seals}
    return {**own, TRITON: str(TRITON_PORT)} if spec.triton else own


def restart_policy(stated: str) -> JsonObject:
    """``on-failure:3`` as the engine takes it."""
    name, _, count = stated.partition(":")
    return {"Name": name, "MaximumRetryCount": int(count or 0)}


def limits(spec: ContainerSpec) -> JsonObject:
    """Memory and processor limits, the same for create and update.

    Swap is as much again as the memory: the engine's own rule at creation, which an update has to repeat.
    """
    return _without_none(
        {
            "Memory": spec.memory,
            "MemorySwap": 2 * spec.memory if spec.memory else None,
            "NanoCpus": round(spec.cpus * 1e9) if spec.cpus is not None else None,
        }
    )


def _host(spec: ContainerSpec, devices: Sequence[str], repository: str) -> JsonObject:
    served = {path: source for path, source in spec.mounts.items() if spec.triton and path == THEIRS}
    binds = [_bind(target, source) for target, source in spec.mounts.items() if target not in served]
    if spec.triton and not spec.own:
        binds.append(f"{repository}:{REPOSITORY}:ro")
    stated: dict[str, Json] = {
        "Binds": binds or None,
        "Mounts": [_mount(target, source) for target, source in served.items()] or None,
        "PortBindings": {inside: [_side(side) for side in sides] for inside, sides in spec.ports.items()} or None,
        "DeviceRequests": [_request(devices)] if devices else None,
        "RestartPolicy": restart_policy(spec.restart) if spec.restart is not None else None,
        "NetworkMode": next(iter(spec.networks), spec.network),
        "Dns": list(spec.dns) or None,
        "IpcMode": spec.ipc,
        "PidMode": spec.pid,
        "ShmSize": spec.shm_size,
        "Ulimits": [{"Name": name, "Soft": soft, "Hard": hard} for name, (soft, hard) in spec.ulimits.items()] or None,
        "Sysctls": dict(spec.sysctls) or None,
        "CapAdd": list(spec.cap_add) or None,
        "CapDrop": list(spec.cap_drop) or None,
        "SecurityOpt": list(spec.security_opt) or None,
        "GroupAdd": list(spec.group_add) or None,
        "Privileged": spec.privileged or None,
        "ReadonlyRootfs": spec.read_only or None,
        "Init": spec.init,
        "Devices": [_device(path, device) for path, device in spec.host_devices.items()] or None,
        "Tmpfs": dict(spec.tmpfs) or None,
        "LogConfig": _logging(spec),
        "ExtraHosts": [f"{name}:{address}" for name, address in spec.extra_hosts.items()] or None,
    }
    return {**_without_none(stated), **limits(spec)}


def _networking(spec: ContainerSpec) -> JsonObject | None:
    """The first network alone: an engine before API 1.44 refuses several at creation, so the others follow."""
    first = next(iter(spec.networks), None)
    return {"EndpointsConfig": {first: _endpoint(spec.networks[first])}} if first else None


def _endpoint(aliases: Sequence[str]) -> JsonObject:
    """How a container is on one of its networks."""
    return {"Aliases": list(aliases)} if aliases else {}


def _logging(spec: ContainerSpec) -> JsonObject | None:
    log = spec.logging
    return {"Type": log.driver or "", "Config": dict(log.options)} if log.driver or log.options else None


def _device(path: str, device: str) -> JsonObject:
    on_node, permissions = normal.split_device(device)
    return {"PathOnHost": on_node, "PathInContainer": path, "CgroupPermissions": permissions}


def _request(devices: Sequence[str]) -> JsonObject:
    """What `docker run --gpus '"device=UUID"'` sends: no driver named, so the engine takes the one for GPUs."""
    return {"Driver": "", "Count": 0, "DeviceIDs": list(devices), "Capabilities": [["gpu"]], "Options": {}}


def _bind(target: str, source: str) -> str:
    path, _, options = source.partition(":")
    return f"{path}:{target}:{options}" if options else f"{path}:{target}"


def _mount(target: str, source: str) -> JsonObject:
    """A directory that must be there: where a bind finds none, the engine makes an empty one without a word."""
    return {"Type": "bind", "Source": source.partition(":")[0], "Target": target, "ReadOnly": True}


def _side(side: str) -> JsonObject:
    address, port = split_side(side)
    return {"HostIp": address, "HostPort": port}


def _without_none(stated: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in stated.items() if value is not None}
