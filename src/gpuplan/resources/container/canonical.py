"""Canonical: a spec as flat fields, the same that `livefields` has of a container, so that comparing them is dumb.

Not here: image, devices, environment and state, which need more than one document to be understood.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from gpuplan.resources.container import normal
from gpuplan.resources.container.read import ObservedImage
from gpuplan.resources.container.shape import REPOSITORY, ContainerSpec
from gpuplan.resources.snapshot.raw import mapping, texts, whole
from gpuplan.types.value import Json, JsonObject

Fields = Mapping[str, Json]
RENDERED = "model repository:ro"
"""Stands for the repository directory, wherever the node's root of gpuplan is."""
OWNED = (
    *("ports.", "mounts.", "tmpfs.", "devices.", "networks.", "labels.", "extra_hosts.", "sysctls."),
    *("cap_add", "cap_drop", "security_opt", "group_add", "dns", "privileged", "read_only", "pid"),
)
"""What the plan file states in full: whatever else a container has of these differs. No engine has defaults."""
FROM_IMAGE = ("command", "entrypoint", "user", "workdir", "healthcheck")
"""What comes from the image where the plan file is silent."""
HEALTH = {"interval": "Interval", "timeout": "Timeout", "start_period": "StartPeriod"}
"""Durations of a health check: nanoseconds in the engine."""
_SINGLE = ("hostname", "network", "ipc", "shm_size", "memory", "cpus", "restart", "stop_timeout", "init", "pid")


def shown(path: str, value: Json) -> Json:
    """A field's value as it is told: as the plan file writes it."""
    if value is None or (path in _UNLIMITED and value == 0):
        return None
    tell = _TELLING.get(path) or _TELLING.get(path.partition(".")[0])
    return tell(value) if tell else value


def wanted_fields(spec: ContainerSpec, networks: Mapping[str, str] | None = None) -> Fields:
    """The fields that a spec states. `networks` are the names of the node's networks by id."""
    names = networks or {}
    single = {
        name: _plain(getattr(spec, name))
        for name in (*_SINGLE, "command", "entrypoint", "user", "workdir")
        if getattr(spec, name) is not None
    }
    single |= {name: list(getattr(spec, name)) for name in ("cap_add", "cap_drop", "security_opt", "group_add", "dns")}
    single |= {name: getattr(spec, name) for name in ("privileged", "read_only")}
    mounts = {**spec.mounts, **({REPOSITORY: RENDERED} if spec.triton and not spec.own else {})}
    return {
        **{name: value for name, value in single.items() if value not in ([], False) or name not in OWNED},
        **_normal(spec, names),
        **health_fields(health_check(spec), silent=False),
        **_logging(spec),
        **{f"ports.{inside}": list(sides) for inside, sides in spec.ports.items()},
        **{f"mounts.{path}": source for path, source in mounts.items()},
        **{f"tmpfs.{path}": options for path, options in spec.tmpfs.items()},
        **{f"devices.{path}": device for path, device in spec.host_devices.items()},
        **{f"networks.{names.get(name, name)}": list(aliases) for name, aliases in spec.networks.items()},
        **{f"labels.{name}": value for name, value in spec.labels.items()},
        **{f"ulimits.{name}": list(pair) for name, pair in spec.ulimits.items()},
        **{f"sysctls.{name}": value for name, value in spec.sysctls.items()},
        **{f"extra_hosts.{name}": address for name, address in spec.extra_hosts.items()},
    }


def image_fields(image: ObservedImage, spec: ContainerSpec) -> Fields:
    """What an image gives where the spec is silent; an entrypoint of the spec's own takes the image's command away."""
    config = image.config
    given: dict[str, Json] = {
        "command": list(texts(config.get("Cmd"))) if spec.entrypoint is None else [],
        "entrypoint": list(texts(config.get("Entrypoint"))),
        "user": normal.user(str(config.get("User") or "")),
        "workdir": normal.workdir(str(config.get("WorkingDir") or "")),
    }
    health = health_fields(mapping(config.get("Healthcheck")), silent=True)
    return {**{name: value for name, value in given.items() if getattr(spec, name) is None}, **health}


def health_fields(raw: JsonObject, *, silent: bool) -> Fields:
    """A health check as the engine writes it; with `silent` also the parts that it does not state."""
    parts: dict[str, Json] = {
        "test": list(texts(raw.get("Test"))) or None,
        "retries": whole(raw.get("Retries")) or None,
    }
    parts |= {name: whole(raw.get(key)) or None for name, key in HEALTH.items()}
    return {f"healthcheck.{name}": value for name, value in parts.items() if silent or value is not None}


def health_check(spec: ContainerSpec) -> JsonObject:
    """The spec's health check as the engine takes it; empty where nothing is stated."""
    check = spec.healthcheck
    stated: dict[str, Json] = {"Test": _plain(check.test), "Retries": check.retries}
    for name, key in HEALTH.items():
        duration = getattr(check, name)
        stated[key] = None if duration is None else round(duration * 1e9)
    return {name: value for name, value in stated.items() if value is not None}


def _normal(spec: ContainerSpec, names: Mapping[str, str]) -> Fields:
    """Those whose text may be another than the one that was stated."""
    found: dict[str, Json] = {}
    if spec.network is not None:
        found["network"] = normal.network(names.get(spec.network, spec.network))
    if spec.restart is not None:
        name, _, count = spec.restart.partition(":")
        found["restart"] = normal.policy(name, int(count or 0))
    if spec.user is not None:
        found["user"] = normal.user(spec.user)
    if spec.cpus is not None:
        found["cpus"] = round(spec.cpus * 1e9) / 1e9
    return found


def _logging(spec: ContainerSpec) -> Fields:
    driver: Fields = {"logging.driver": spec.logging.driver} if spec.logging.driver else {}
    return {**driver, **{f"logging.options.{name}": value for name, value in spec.logging.options.items()}}


def _size(value: int) -> Json:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return value


def _plain(value: Json | tuple[str, ...]) -> Json:
    return list(value) if isinstance(value, tuple) else value


def _words(value: Json) -> Json:
    return shlex.join(texts(value)) if isinstance(value, list | tuple) else value


def _sides(value: Json) -> Json:
    bindings = ", ".join(texts(value))
    return int(bindings) if bindings.isdigit() else bindings or "any free port"


def _listed(value: Json) -> Json:
    return ", ".join(texts(value))


def _aliases(value: Json) -> Json:
    return f"attached as {', '.join(texts(value))}" if value else "attached"


_UNLIMITED = ("memory", "cpus")
_TELLING: Mapping[str, Callable[[Json], Json]] = {
    "command": _words,
    "entrypoint": _words,
    "healthcheck.test": _words,
    "healthcheck.retries": lambda value: value,
    "healthcheck": lambda value: normal.seconds(whole(value)),
    **dict.fromkeys(("cap_add", "cap_drop", "security_opt", "group_add", "dns"), _listed),
    "ulimits": lambda value: ":".join(texts(value)),
    "ports": _sides,
    "networks": _aliases,
    "tmpfs": lambda value: value or "mounted",
    "memory": lambda value: _size(whole(value)),
    "shm_size": lambda value: _size(whole(value)),
}
"""How the values of a field, or of a kind of field, are told."""
