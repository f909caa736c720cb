"""What is wanted of one container, as a frozen value and as the JSON of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from gpuplan.model.value import JsonObject, as_object

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

EnvValue = str | Mapping[str, str]
"""Text, or ``{"secret": reference}``."""


@dataclass(frozen=True)
class Readiness:
    """When the container counts as ready; at most one of http, tcp and exec."""

    timeout: float = 60.0
    http: str = ""
    """PORT/PATH inside the container."""
    tcp: int = 0
    exec: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContainerSpec:
    """One container in canonical form. None or empty = not stated, and so left alone."""

    image: str
    archive: str = ""
    """Path beside the plan file; loaded where the image is not on the node."""
    pull: str = "missing"
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
    labels: Mapping[str, str] = field(default_factory=dict)
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    restart: str | None = None
    stop_timeout: int | None = None
    """Seconds."""
    ready: Readiness = field(default_factory=Readiness)
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
