"""Live fields: what an engine says of a container, as the same flat fields that `canonical` has of a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.resources.container import normal
from gpuplan.resources.container.canonical import RENDERED, Fields, health_fields
from gpuplan.resources.container.forms import host_side, mount_text
from gpuplan.resources.container.shape import REPOSITORY
from gpuplan.resources.snapshot.devices import is_cdi
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mapping, mappings, texts, whole
from gpuplan.types.value import Json, JsonObject

_PERIOD = 100_000
"""Microseconds that a quota of processor time is of, where the engine is told nothing else."""
_NOT_ATTACHED = ("host", "none")


def live_fields(live: Live, networks: Mapping[str, str] | None = None) -> Fields:
    """All fields of a container; of those without an engine's default only what it has.

    `networks` are the names of the node's networks by id.
    """
    host = live.host_config
    owned = {**_security(host), **_sets(host)}
    return {
        **_process(live),
        **_resources(host),
        **health_fields(mapping(live.config.get("Healthcheck")), silent=True),
        **{name: value for name, value in owned.items() if value},
        **_networks(live, networks or {}),
        **_ports(host, live.config),
        **_mounts(host, live),
        **dict(_tmpfs(host)),
        **dict(_devices(host)),
        **_logging(host),
        **{f"labels.{name}": value for name, value in live.labels.items() if not name.startswith("gpuplan.")},
        **{f"sysctls.{name}": str(value) for name, value in mapping(host.get("Sysctls")).items()},
        **dict(_extra_host(line) for line in texts(host.get("ExtraHosts"))),
    }


def primary_network(live: Live, networks: Mapping[str, str]) -> str:
    """The network that a container was created on."""
    mode = str(live.host_config.get("NetworkMode") or "")
    return normal.network(networks.get(mode, mode))


def own_names(live: Live) -> frozenset[str]:
    """Names on every network that are nobody's wish: those that gpuplan gives, and the short id and host name.

    The engine gives the last two by itself (moby, daemon/container_operations.go).
    """
    return frozenset((live.role, live.id[:12], str(live.config.get("Hostname") or "")))


def _process(live: Live) -> Fields:
    config, policy = live.config, mapping(live.host_config.get("RestartPolicy"))
    return {
        "command": list(texts(config.get("Cmd"))),
        "entrypoint": list(texts(config.get("Entrypoint"))),
        "user": normal.user(str(config.get("User") or "")),
        "workdir": normal.workdir(str(config.get("WorkingDir") or "")),
        "hostname": str(config.get("Hostname") or ""),
        "stop_timeout": config.get("StopTimeout"),
        "restart": normal.policy(str(policy.get("Name") or ""), whole(policy.get("MaximumRetryCount"))),
        "init": live.host_config.get("Init"),
    }


def _resources(host: JsonObject) -> Fields:
    quota, period = whole(host.get("CpuQuota")), whole(host.get("CpuPeriod")) or _PERIOD
    by_quota = round(max(quota, 0) / period * 1e9)
    return {
        "ipc": str(host.get("IpcMode") or ""),
        "shm_size": whole(host.get("ShmSize")),
        "memory": whole(host.get("Memory")),
        "cpus": (whole(host.get("NanoCpus")) or by_quota) / 1e9,
        **{
            f"ulimits.{each.get('Name')}": [whole(each.get("Soft")), whole(each.get("Hard"))]
            for each in mappings(host.get("Ulimits"))
        },
    }


def _security(host: JsonObject) -> Fields:
    return {
        "privileged": host.get("Privileged") is True,
        "read_only": host.get("ReadonlyRootfs") is True,
        "pid": str(host.get("PidMode") or ""),
        "security_opt": normal.security(texts(host.get("SecurityOpt"))),
    }


def _sets(host: JsonObject) -> Fields:
    return {
        "cap_add": normal.capabilities(texts(host.get("CapAdd"))),
        "cap_drop": normal.capabilities(texts(host.get("CapDrop"))),
        "group_add": sorted(set(texts(host.get("GroupAdd")))),
        "dns": list(texts(host.get("Dns"))),
    }


def _networks(live: Live, names: Mapping[str, str]) -> Fields:
    """The network it was created on, and the further names that it has on each of its networks."""
    found: dict[str, Json] = {"network": primary_network(live, names)}
    for name, raw in live.networks.items():
        if name not in _NOT_ATTACHED:
            aliases = set(texts(mapping(raw).get("Aliases"))) - own_names(live)
            found[f"networks.{normal.network(names.get(name, name))}"] = sorted(aliases)
    return found


def _ports(host: JsonObject, config: JsonObject) -> Fields:
    """Host sides by port; where every port is published, those that are exposed have any free one."""
    exposed = mapping(config.get("ExposedPorts")) if host.get("PublishAllPorts") is True else {}
    found: dict[str, Json] = {f"ports.{inside}": [""] for inside in exposed}
    for inside, sides in mapping(host.get("PortBindings")).items():
        told = {host_side(str(side.get("HostIp") or ""), str(side.get("HostPort") or "")) for side in mappings(sides)}
        if told:
            found[f"ports.{inside if '/' in inside else f'{inside}/tcp'}"] = sorted(told)
    return found


def _mounts(host: JsonObject, live: Live) -> Fields:
    found: dict[str, Json] = {}
    for bind in texts(host.get("Binds")):
        source, colon, rest = bind.partition(":")
        target, _, words = rest.partition(":") if colon else (bind, "", "")
        found[f"mounts.{target}"] = _source(source if colon else "", target, words.split(","), live)
    for mount in mappings(host.get("Mounts")):
        if mount.get("Type") != "tmpfs":
            target = str(mount.get("Target", ""))
            found[f"mounts.{target}"] = _source(str(mount.get("Source") or ""), target, list(_options(mount)), live)
    return found


def _options(mount: JsonObject) -> Iterator[str]:
    if mount.get("ReadOnly") is True:
        yield "ro"
    if mapping(mount.get("VolumeOptions")).get("NoCopy") is True:
        yield "nocopy"
    yield str(mapping(mount.get("BindOptions")).get("Propagation") or "")


def _source(source: str, target: str, options: list[str], live: Live) -> str:
    if target == REPOSITORY and source.endswith(f"/plans/{live.plan}/triton/{live.role}") and "ro" in options:
        return RENDERED
    return mount_text(source, options)


def _tmpfs(host: JsonObject) -> Iterator[tuple[str, Json]]:
    for path, options in mapping(host.get("Tmpfs")).items():
        yield f"tmpfs.{path}", normal.tmpfs(str(options).split(","))
    for mount in mappings(host.get("Mounts")):
        if mount.get("Type") == "tmpfs":
            stated = mapping(mount.get("TmpfsOptions"))
            size, mode = whole(stated.get("SizeBytes")), whole(stated.get("Mode"))
            told = [f"size={size}" if size else "", f"mode={mode:o}" if mode else ""]
            yield f"tmpfs.{mount.get('Target', '')}", normal.tmpfs([*told, *_options(mount)])


def _devices(host: JsonObject) -> Iterator[tuple[str, Json]]:
    """Devices of the node; those that CDI names are GPUs, and compared as such."""
    for device in mappings(host.get("Devices")):
        path = str(device.get("PathOnHost") or "")
        if not is_cdi(path):
            inside = str(device.get("PathInContainer") or path)
            yield f"devices.{inside}", normal.device(path, str(device.get("CgroupPermissions") or ""))


def _logging(host: JsonObject) -> Fields:
    log = mapping(host.get("LogConfig"))
    options = mapping(log.get("Config"))
    return {
        "logging.driver": str(log.get("Type") or ""),
        **{f"logging.options.{name}": str(value) for name, value in options.items()},
    }


def _extra_host(line: str) -> tuple[str, str]:
    name, _, address = line.partition("=" if "=" in line else ":")
    return f"extra_hosts.{name}", address
