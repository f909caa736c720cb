"""What a container of the plan file states under the names that Compose has for it, passed on to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from gpuplan.planfile.scalars import Bytes, Natural, Seconds, Section, Whole

NetworkName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""Name or id of a network, as the engine takes them."""
Capability = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]+$")]
"""With or without ``CAP_``, in any case."""
Scalar = str | int | float | bool


class Ulimit(Section):
    """One resource limit of the processes in a container."""

    soft: Whole
    hard: Whole


class Healthcheck(Section):
    """The engine's own health check; what is not stated comes from the image."""

    test: tuple[str, ...] | str | None = Field(
        default=None, description="[CMD, WORD, …], [CMD-SHELL, TEXT], or one text for the container's shell"
    )
    interval: Seconds | None = None
    timeout: Seconds | None = None
    start_period: Seconds | None = None
    retries: Natural | None = None
    disable: bool = Field(default=False, description="no health check, not even the image's")

    @model_validator(mode="after")
    def _one_or_none(self) -> Healthcheck:
        stated = (self.test, self.interval, self.timeout, self.start_period, self.retries)
        if self.disable and any(each is not None for each in stated):
            raise ValueError("is disabled; state nothing else beside disable: true")
        return self


class Logging(Section):
    """Where the engine puts the container's output."""

    driver: str | None = Field(default=None, description="json-file, local, journald, …; not stated = the engine's")
    options: Mapping[str, Scalar] = Field(default_factory=dict)


class Attachment(Section):
    """How a container is on one of its networks."""

    aliases: tuple[str, ...] = Field(default=(), description="further names for it on this network")


class EngineOptions(Section):
    """The options of one container that the engine itself understands."""

    user: str | None = None
    group_add: tuple[str, ...] = Field(default=(), description="further groups, by name or number in the container")
    workdir: str | None = None
    hostname: str | None = None
    network: str | None = Field(default=None, description="host, none, bridge, or a network by name or id")
    networks: tuple[NetworkName, ...] | Mapping[NetworkName, Attachment] = Field(
        default=(), description="one or several networks of the node, instead of network"
    )
    dns: tuple[str, ...] = ()
    extra_hosts: Mapping[str, str] = Field(default_factory=dict)
    ipc: str | None = None
    pid: str | None = Field(default=None, description="host, or the container's own where not stated")
    shm_size: Bytes | None = None
    memory: Bytes | None = None
    cpus: float | None = Field(default=None, gt=0)
    ulimits: Mapping[str, Whole | Ulimit] = Field(default_factory=dict)
    sysctls: Mapping[str, Scalar] = Field(default_factory=dict)
    cap_add: tuple[Capability, ...] = ()
    cap_drop: tuple[Capability, ...] = ()
    security_opt: tuple[str, ...] = Field(default=(), description="no-new-privileges, seccomp=unconfined, …")
    privileged: Literal["with-every-gpu"] | bool = Field(
        default=False, description="with-every-gpu: such a container sees every GPU of the node, whatever gpus says"
    )
    read_only: bool = Field(default=False, description="the container's own file system is read-only")
    init: bool | None = Field(default=None, description="a process 1 that reaps; not stated = as the engine is set up")
    devices: tuple[str, ...] = Field(default=(), description="devices of the node: /dev/fuse:/dev/fuse:rwm")
    tmpfs: tuple[str, ...] = Field(default=(), description="/run, or /run:size=64m,mode=1777")
    healthcheck: Healthcheck | None = None
    logging: Logging | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
