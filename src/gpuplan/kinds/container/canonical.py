"""Canonical: a spec and an inspect document brought to the same flat fields, so that comparing them is dumb.

Not here: image, devices, environment and state, which need more than one document to be understood.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from gpuplan.kinds.container.forms import host_side, mount_text
from gpuplan.kinds.container.read import Image
from gpuplan.kinds.container.shape import REPOSITORY, ContainerSpec
from gpuplan.kinds.ground.docker import Live
from gpuplan.kinds.ground.raw import mapping, mappings, texts, whole
from gpuplan.model.value import Json, JsonObject

Fields = Mapping[str, Json]
RENDERED = "model repository:ro"
"""Stands for the repository directory, wherever the node's root of gpuplan is."""
OWNED = ("ports.", "mounts.", "labels.")
"""What the plan file states in full: whatever else a container has of these differs."""
FROM_IMAGE = ("command", "entrypoint", "user", "workdir")
"""What comes from the image where the plan file is silent."""


def shown(path: str, value: Json) -> Json:
    """A field's value as it is told: sizes with the unit in which they are whole, as the plan file writes them."""
    if path in ("command", "entrypoint") and isinstance(value, (list, tuple)):
        return shlex.join(str(word) for word in value)
    if path.startswith("ports.") and isinstance(value, (list, tuple)):
        bindings = ", ".join(str(binding) for binding in value)
        return int(bindings) if bindings.isdigit() else bindings
    if path not in ("shm_size", "memory") or not isinstance(value, int):
        return value
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return value


def wanted_fields(spec: ContainerSpec) -> Fields:
    """The fields that a spec states."""
    single = {
        name: _plain(getattr(spec, name))
        for name in ("hostname", "network", "ipc", "shm_size", "memory", "cpus", "restart", "stop_timeout", *FROM_IMAGE)
        if getattr(spec, name) is not None
    }
    if "network" in single:
        single["network"] = _network(str(single["network"]))
    if spec.cap_add:
        single["cap_add"] = list(spec.cap_add)
    mounts = {**spec.mounts, **({REPOSITORY: RENDERED} if spec.triton else {})}
    return {
        **single,
        **{f"ports.{inside}": list(sides) for inside, sides in spec.ports.items()},
        **{f"mounts.{path}": source for path, source in mounts.items()},
        **{f"labels.{name}": value for name, value in spec.labels.items()},
        **{f"ulimits.{name}": list(pair) for name, pair in spec.ulimits.items()},
        **{f"extra_hosts.{name}": address for name, address in spec.extra_hosts.items()},
    }


def live_fields(live: Live, image: Image | None) -> Fields:
    """All fields of a container; labels that its image brings are left out."""
    config, host = live.config, live.host_config
    policy = mapping(host.get("RestartPolicy"))
    from_image = mapping(image.config.get("Labels")) if image else {}
    return {
        "command": list(texts(config.get("Cmd"))),
        "entrypoint": list(texts(config.get("Entrypoint"))),
        "user": str(config.get("User") or ""),
        "workdir": str(config.get("WorkingDir") or ""),
        "hostname": str(config.get("Hostname") or ""),
        "network": _network(str(host.get("NetworkMode") or "")),
        "ipc": str(host.get("IpcMode") or ""),
        "shm_size": whole(host.get("ShmSize")),
        "memory": whole(host.get("Memory")) or None,
        "cpus": whole(host.get("NanoCpus")) / 1e9 or None,
        "restart": _policy(str(policy.get("Name") or ""), whole(policy.get("MaximumRetryCount"))),
        "stop_timeout": config.get("StopTimeout"),
        "cap_add": sorted(name.upper().removeprefix("CAP_") for name in texts(host.get("CapAdd"))),
        **_ports(host),
        **_mounts(host, live),
        **{f"labels.{n}": v for n, v in live.labels.items() if not n.startswith("gpuplan.") and from_image.get(n) != v},
        **{f"ulimits.{each.get('Name')}": [whole(each.get("Soft")), whole(each.get("Hard"))]
           for each in mappings(host.get("Ulimits"))},
        **dict(_extra_host(line) for line in texts(host.get("ExtraHosts"))),
    }  # fmt: skip


def image_fields(image: Image, spec: ContainerSpec) -> Fields:
    """What an image gives where the spec is silent; an entrypoint of the spec's own takes the image's command away."""
    config = image.config
    given: dict[str, Json] = {
        "command": list(texts(config.get("Cmd"))) if spec.entrypoint is None else [],
        "entrypoint": list(texts(config.get("Entrypoint"))),
        "user": str(config.get("User") or ""),
        "workdir": str(config.get("WorkingDir") or ""),
    }
    return {name: value for name, value in given.items() if getattr(spec, name) is None}


def _plain(value: Json | tuple[str, ...]) -> Json:
    return list(value) if isinstance(value, tuple) else value


def _network(mode: str) -> str:
    return "bridge" if mode in ("", "default") else mode


def _policy(name: str, count: int) -> str:
    return f"{name}:{count}" if name == "on-failure" and count else name or "no"


def _ports(host: JsonObject) -> Fields:
    found: dict[str, Json] = {}
    for inside, sides in mapping(host.get("PortBindings")).items():
        told = {host_side(str(side.get("HostIp") or ""), str(side.get("HostPort") or "")) for side in mappings(sides)}
        if told:
            found[f"ports.{inside}"] = sorted(told)
    return found


def _mounts(host: JsonObject, live: Live) -> Fields:
    found: dict[str, Json] = {}
    for bind in texts(host.get("Binds")):
        source, colon, rest = bind.partition(":")
        target, _, words = rest.partition(":") if colon else (bind, "", "")
        found[f"mounts.{target}"] = _source(source if colon else "", target, words.split(","), live)
    for mount in mappings(host.get("Mounts")):
        target = str(mount.get("Target", ""))
        options = ["ro"] if mount.get("ReadOnly") is True else []
        found[f"mounts.{target}"] = _source(str(mount.get("Source") or ""), target, options, live)
    return found


def _source(source: str, target: str, options: list[str], live: Live) -> str:
    if target == REPOSITORY and source.endswith(f"/plans/{live.plan}/triton/{live.role}") and "ro" in options:
        return RENDERED
    return mount_text(source, options)


def _extra_host(line: str) -> tuple[str, str]:
    name, _, address = line.partition("=" if "=" in line else ":")
    return f"extra_hosts.{name}", address
