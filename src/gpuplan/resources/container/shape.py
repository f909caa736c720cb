"""What is wanted of one container, as a frozen value and as the JSON of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from gpuplan.types.value import JsonObject, as_object

if TYPE_CHECKING:
    from pydantic import TypeAdapter

REPOSITORY = "/gpuplan"
"""Where a model server sees its repository directory."""
THEIRS = "/repository"
"""Where a model server sees a directory of its node that it serves models from."""
TRITON_PORT = 8000
"""Triton's HTTP port inside the container."""
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
"""The variable by which NVIDIA's runtime gives GPUs; set to void in a container that is to have none."""

REPLACES = "replaces"
"""Key of what a node remembers of a container while it takes the place of one that somebody else made: the id of that,
so that of a run that was cut off it is known which one it moved aside."""

EnvValue = str | Mapping[str, str]
"""Text, or ``{"secret": reference}``."""


@dataclass(frozen=True)
class Readiness:
    """When the container counts as ready; at most one of http, tcp, exec and healthcheck."""

    timeout: float = 60.0
    """Seconds until it has to be ready."""
    http: str = ""
    """PORT/PATH inside the container."""
    tcp: int = 0
    exec: tuple[str, ...] = ()
    healthcheck: bool = False
    """The container's own health check says when; it has to have one."""
    boot: float | None = None
    """Seconds until it has to run and, with http or tcp, to take connections; not stated = as long as `timeout`."""
    interval: float = 0.25
    """Seconds between two looks."""
    stated: bool = False
    """The plan file states the timeout; where it does not, a health check that decides has its own time as well."""


@dataclass(frozen=True)
class Healthcheck:
    """The engine's own check; what is None comes from the image. Durations are in seconds."""

    test: tuple[str, ...] | None = None
    """``NONE`` alone, or ``CMD`` or ``CMD-SHELL`` and what they run."""
    interval: float | None = None
    timeout: float | None = None
    start_period: float | None = None
    retries: int | None = None


@dataclass(frozen=True)
class Logging:
    """Where output goes; None = the driver that the engine is set up with."""

    driver: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Archived:
    """What an archive holds, so that one that was changed under the same name is noticed."""

    configs: tuple[str, ...] = ()
    """Digest of the image's config: the id that an engine gives it in its own store."""
    manifests: tuple[str, ...] = ()
    """Digests of its manifest, and of the index that names it: the ids that containerd's store gives it."""
    platform: str = ""
    """``linux/amd64``."""


@dataclass(frozen=True)
class ContainerSpec:
    """One container in canonical form. None or empty = not stated, and so left alone."""

    image: str
    archive: str = ""
    """Path beside the plan file; loaded where the image is not on the node."""
    archived: Archived = field(default_factory=Archived)
    pull: str = "missing"
    platform: str = ""
    """``linux/arm64``; empty = that of the node."""
    devices: tuple[str, ...] = ()
    """GPUs and slices by their names in the plan file: ``a100-0/cls-a``."""
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """``8000/tcp`` → host sides: ``8000``, ``127.0.0.1:8000``, or an empty text for any free port."""
    env: Mapping[str, EnvValue] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Path in the container → source and options: ``/srv/cache:ro``, or a volume's name."""
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    user: str | None = None
    workdir: str | None = None
    hostname: str | None = None
    network: str | None = None
    ipc: str | None = None
    shm_size: int | None = None
    """Bytes."""
    memory: int | None = None
    """Bytes."""
    cpus: float | None = None
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name → soft and hard limit."""
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    privileged: bool = False
    read_only: bool = False
    init: bool | None = None
    pid: str | None = None
    group_add: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    host_devices: Mapping[str, str] = field(default_factory=dict)
    """Path in the container → path on the node and, where not all of them, permissions: ``/dev/fuse:r``."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """Path → options in their normal form."""
    networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Network by name or id → further names for the container on it; the first is the one it is created on."""
    dns: tuple[str, ...] = ()
    healthcheck: Healthcheck = field(default_factory=Healthcheck)
    logging: Logging = field(default_factory=Logging)
    labels: Mapping[str, str] = field(default_factory=dict)
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    restart: str | None = None
    stop_timeout: int | None = None
    """Seconds."""
    drain: float = 10.0
    """Seconds in which requests in flight may end before a replaced container is stopped."""
    start_first: bool = False
    """A new one takes over from the old while that still serves."""
    adopt: bool = False
    """One of that name that somebody else made is replaced."""
    ready: Readiness = field(default_factory=Readiness)
    own: bool = False
    """A model server whose own command starts it, so that nothing is mounted for it."""
    triton: bool = False
    """A model server, with its repository directory mounted at /gpuplan."""
    configs_say_all: bool = False
    """Its auto-completion is off because no config needs it: one that runs with it on serves as well."""
    config_lacks: str = ""
    """What the first config that does not say all lacks, in words; for what a server that runs without it must hear."""


def to_json(spec: ContainerSpec) -> JsonObject:
    """The JSON form: only what is stated, so that a later field does not change the digest of an old spec."""
    return as_object(_adapter().dump_python(spec, mode="json", exclude_defaults=True))


def from_json(value: JsonObject) -> ContainerSpec:
    """The spec of its JSON form.

    Raises:
        ValueError: it is not the JSON of a container's spec.
    """
    spec = _adapter().validate_python(value)
    if any(not isinstance(each, str) and set(each) != {"secret"} for each in spec.env.values()):
        raise ValueError("a variable is neither a text nor a secret")
    return spec


@cache
def _adapter() -> TypeAdapter[ContainerSpec]:
    from pydantic import TypeAdapter

    return TypeAdapter(ContainerSpec)
