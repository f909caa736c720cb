"""Describe: a container of the node as the section of a plan file that would make it; the way back of `spec`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpuplan.resources.container import normal
from gpuplan.resources.container.canonical import FROM_IMAGE, HEALTH, Fields, image_fields
from gpuplan.resources.container.differences import UNLABELLED, unconfined
from gpuplan.resources.container.forms import split_side
from gpuplan.resources.container.images import find_image
from gpuplan.resources.container.livefields import live_fields
from gpuplan.resources.container.read import ObservedContainers, ObservedImage, unnamed_volumes
from gpuplan.resources.container.shape import VISIBLE, ContainerSpec
from gpuplan.resources.snapshot.devices import environment, requested
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mapping, texts, whole
from gpuplan.types.value import Json, JsonObject

Private = Callable[[str, str], bool]
_SHM = 64 << 20
"""Bytes of shared memory that the engine gives where nobody says (moby, daemon/config)."""
_SILENT: Mapping[str, tuple[Json, ...]] = {
    "restart": ("no",), "memory": (0,), "cpus": (0, 0.0), "shm_size": (_SHM, 0), "init": (None,),
    "ipc": ("", "private", "shareable"), "stop_timeout": (None,), "pid": ("",),
}  # fmt: skip
"""What an engine gives a container that states nothing."""
_SETS = ("cap_add", "cap_drop", "security_opt", "group_add", "dns")
_UNSAID = {
    "Links": "links", "VolumesFrom": "volumes of another container", "CgroupParent": "a cgroup of its own",
    "UsernsMode": "a user namespace", "OomScoreAdj": "an OOM score", "PidsLimit": "a limit of processes",
    "CpusetCpus": "a set of CPUs", "CpuShares": "a share of CPU time", "BlkioWeight": "a share of the disks",
    "MemoryReservation": "reserved memory", "DnsSearch": "search domains", "DnsOptions": "options of name resolution",
}  # fmt: skip
"""Settings of the engine for which the plan file has no word."""


@dataclass(frozen=True)
class Described:
    """One container as a plan file has it."""

    name: str
    section: JsonObject
    """Without `nodes`."""
    secrets: tuple[str, ...] = ()
    """Variables whose values look like secrets; the section refers to those of the same name where gpuplan runs."""
    unsaid: tuple[str, ...] = ()
    """What it has and a plan file does not say; such things are neither compared nor changed."""


def describe(live: Live, observed: ObservedContainers, devices: Mapping[str, str], private: Private) -> Described:
    """Describe one container.

    `devices` are the plan file's names of GPUs and slices by UUID; `private` says of a variable and its value whether
    it is a secret.
    """
    image = observed.image(live.image_id)
    fields = live_fields(live, observed.networks)
    given = _devices(live, observed)
    env = dict(_env(live, image, bool(given)))
    secrets = tuple(name for name, value in env.items() if private(name, value))
    section: dict[str, Json] = {
        "image": _image_name(live, observed),
        "gpus": sorted(devices.get(uuid, uuid) for uuid in given),
        "ports": list(_ports(fields)),
        "env": {name: f"${{env:{name}}}" if name in secrets else _plain(value) for name, value in env.items()},
        "volumes": list(_volumes(fields)),
        **dict(_process(fields, image)),
        **dict(_engine_options(fields, live)),
        **_network(fields),
        "tmpfs": [":".join(filter(None, (path, str(value)))) for path, value in _below("tmpfs", fields)],
        "devices": list(_host_devices(fields)),
        "healthcheck": _health(fields, image),
        "logging": _logging(fields, observed),
        "labels": {name: _plain(str(value)) for name, value in _own_labels(fields, image)},
    }
    stated = {key: value for key, value in section.items() if value not in ([], {}, None)}
    return Described(live.name, stated, secrets, tuple(_unsaid(live, image)))


def _image_name(live: Live, observed: ObservedContainers) -> str:
    """The name that it was made by, where that still means its image; else another one, or the id."""
    image = observed.image(live.image_id)
    names = (live.image, *(image.tags if image else ()), *(image.digests if image else ()))
    meant = (name for name in names if (found := find_image(name, observed.images)) and found.id == live.image_id)
    return next(meant, live.image_id)


def _devices(live: Live, observed: ObservedContainers) -> frozenset[str]:
    return requested(live.config, live.host_config, observed.default_runtime, observed.gpus)


def _env(live: Live, image: ObservedImage | None, gpus: bool) -> Iterator[tuple[str, str]]:
    """What differs from the image, without what a container with GPUs is given anyway."""
    brought = environment(image.config) if image else {}
    given = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID") if gpus else ()
    for name, value in sorted(environment(live.config).items()):
        if name != VISIBLE and brought.get(name) != value and (name, value) != given:
            yield name, value


def _plain(text: str) -> str:
    """A text in which nothing is taken for a reference."""
    return text.replace("${", "$${")


def _ports(fields: Fields) -> Iterator[Json]:
    for inside, sides in _below("ports", fields):
        port, _, protocol = inside.partition("/")
        end = port if protocol == "tcp" else inside
        for side in texts(sides):
            address, outside = split_side(side)
            host = f"[{address}]" if ":" in address else address
            yield f"{host}:{outside}:{end}" if host else f"{outside}:{end}" if outside else end


def _volumes(fields: Fields) -> Iterator[Json]:
    for target, value in _below("mounts", fields):
        source, colon, options = str(value).partition(":")
        if source:
            yield f"{source}:{target}{colon}{options}"


def _process(fields: Fields, image: ObservedImage | None) -> Iterator[tuple[str, Json]]:
    """What differs from the image. An entrypoint of its own takes the image's command away."""
    brought = image_fields(image, ContainerSpec("")) if image else {}
    own = fields["entrypoint"] != brought.get("entrypoint", [])
    for name in FROM_IMAGE:
        value = fields.get(name)
        given = [] if name == "command" and own else brought.get(name)
        if name != "healthcheck" and value and value != given:
            yield name, [_plain(word) for word in texts(value)] if isinstance(value, list) else _plain(str(value))


def _engine_options(fields: Fields, live: Live) -> Iterator[tuple[str, Json]]:
    for name, silent in _SILENT.items():
        if name in fields and fields[name] not in silent:
            yield name, _size(fields[name]) if name in ("memory", "shm_size") else fields[name]
    if fields["hostname"] not in ("", live.id[:12]) and fields["network"] != "host":
        yield "hostname", fields["hostname"]
    for name in _SETS:
        yield name, fields.get(name)
    if unconfined(fields):
        yield "security_opt", [each for each in texts(fields.get("security_opt")) if each != UNLABELLED]
    yield "ulimits", {name: _limit(value) for name, value in _below("ulimits", fields)}
    yield "sysctls", dict(_below("sysctls", fields))
    yield "extra_hosts", dict(_below("extra_hosts", fields))
    yield "privileged", "with-every-gpu" if fields.get("privileged") else None
    yield "read_only", fields.get("read_only") or None


def _network(fields: Fields) -> JsonObject:
    """One network by its name; several, or one with further names for the container, as a mapping."""
    primary, attached = str(fields["network"]), dict(_below("networks", fields))
    if len(attached) < 2 and not any(attached.values()):
        return {} if primary == "bridge" else {"network": primary}
    order = sorted(attached, key=lambda name: name != primary)
    return {"networks": {name: {"aliases": attached[name]} if attached[name] else {} for name in order}}


def _host_devices(fields: Fields) -> Iterator[Json]:
    for inside, value in _below("devices", fields):
        on_node, permissions = normal.split_device(str(value))
        yield f"{on_node}:{inside}:{permissions}"


def _health(fields: Fields, image: ObservedImage | None) -> JsonObject:
    brought = image_fields(image, ContainerSpec("")) if image else {}
    has = dict(_below("healthcheck", fields))
    own = {
        name: has[name]
        for name in ("test", *HEALTH, "retries")
        if has.get(name) is not None and has[name] != brought.get(f"healthcheck.{name}")
    }
    if own.get("test") == ["NONE"]:
        return {"disable": True}
    return {name: normal.seconds(whole(value)) if name in HEALTH else value for name, value in own.items()}


def _logging(fields: Fields, observed: ObservedContainers) -> JsonObject:
    driver, options = fields["logging.driver"], dict(_below("logging.options", fields))
    if driver == observed.engine.log_driver and not options:
        return {}
    return {"driver": driver, **({"options": options} if options else {})}


def _own_labels(fields: Fields, image: ObservedImage | None) -> Iterator[tuple[str, Json]]:
    brought = mapping(image.config.get("Labels")) if image else {}
    return ((name, value) for name, value in _below("labels", fields) if brought.get(name) != value)


def _unsaid(live: Live, image: ObservedImage | None) -> Iterator[str]:
    for key, words in _UNSAID.items():
        if live.host_config.get(key) not in (None, "", 0, -1, False, [], {}):
            yield words
    if paths := unnamed_volumes(live, image):
        yield f"a volume without a name at {', '.join(paths)}"
    if str(live.host_config.get("Runtime") or "runc") not in ("runc", "nvidia", "io.containerd.runc.v2"):
        yield f"the runtime {live.host_config['Runtime']}"


def _below(name: str, fields: Fields) -> Iterator[tuple[str, Json]]:
    start = f"{name}."
    return ((path.removeprefix(start), value) for path, value in sorted(fields.items()) if path.startswith(start))


def _limit(value: Json) -> Json:
    soft, hard = value if isinstance(value, list) else (value, value)
    return soft if soft == hard else {"soft": soft, "hard": hard}


def _size(value: Json) -> Json:
    size = whole(value)
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % bytes_ == 0:
            return f"{size // bytes_}{unit}"
    return size
