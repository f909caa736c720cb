"""What is desired of one container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from gpuplan.resources.container.fields.table import ContainerFields
from gpuplan.types.value import JsonObject, as_object

if TYPE_CHECKING:
    from pydantic import TypeAdapter

THEIRS = "/repository"
"""Where a model server sees a directory of its node that it serves models from."""
TRITON_PORT = 8000
"""Triton's HTTP port inside the container."""
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
"""The variable by which NVIDIA's runtime gives GPUs; set to void in a container that is to have none."""
REPLACES = "replaces"
"""Key of what a node remembers of a container while it takes the place of an unmanaged one: the id of that one, so that
a run after one that was cut off knows which one it renamed."""

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
    """Seconds until it has to run and, with http or tcp, to take connections; `timeout` if not stated."""
    interval: float = 0.25
    """Seconds between two probes."""
    stated: bool = False
    """The plan file states the timeout; if not, a health check that decides has its own time as well."""


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
class ContainerSpec(ContainerFields):
    """One container: the fields that the engine understands, and what gpuplan does with it."""

    image: str
    archive: str = ""
    """Path next to the plan file; loaded if the image is not on the node."""
    archived: Archived = field(default_factory=Archived)
    pull: str = "missing"
    platform: str = ""
    """``linux/arm64``; empty = that of the node."""
    gpus: tuple[str, ...] = ()
    """GPUs and slices by their names in the plan file: ``a100-0/cls-a``."""
    env: Mapping[str, EnvValue] = field(default_factory=dict)
    drain: float = 10.0
    """Seconds in which requests in flight may end before a replaced container is stopped."""
    start_first: bool = False
    """A replacement starts while the previous container still serves."""
    adopt: bool = False
    """An unmanaged container of that name is replaced."""
    ready: Readiness = field(default_factory=Readiness)
    own: bool = False
    """A model server that the container's own command starts, so that nothing is mounted for it."""
    triton: bool = False
    """A model server."""
    configs_say_all: bool = False
    """Its auto-completion is off because no config needs it: one that runs with it on serves as well."""
    config_lacks: str = ""
    """What the first incomplete config lacks, in words; for the reason why a server with completion off is replaced."""

    @property
    def mounts_repository(self) -> bool:
        """gpuplan mounts the model repository directory, at /gpuplan."""
        return self.triton and not self.own


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
