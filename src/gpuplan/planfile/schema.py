"""The plan file as typed values: the schema that validates it and that editors read (`gpuplan schema`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, PrivateAttr, StringConstraints, model_validator

from gpuplan.planfile.scalars import (
    Bytes,
    Interval,
    Milliwatts,
    ModelName,
    Name,
    Natural,
    Nodes,
    Port,
    Seconds,
    Section,
    ServiceName,
    SliceName,
    Whole,
    refuse_boolean,
)
from gpuplan.resources.container.fields.networking import Attachment, ServerPorts
from gpuplan.resources.container.fields.table import EngineOptions
from gpuplan.types.diagnostic import Location


class VariableSection(Section):
    """A value that ${var.NAME} stands for."""

    default: str | int | float | bool | None = None
    description: str = ""


class SelectSection(Section):
    """Which physical GPU a logical one is; exactly one key."""

    index: Natural | None = Field(default=None, description="NVML index, resolved at plan time")
    uuid: str | None = None
    pci: str | None = Field(default=None, description="PCI bus id, such as 0000:07:00.0")
    model: str | None = Field(default=None, description="product name or a part of it; must match one GPU")

    @model_validator(mode="after")
    def _exactly_one(self) -> SelectSection:
        if len([value for value in (self.index, self.uuid, self.pci, self.model) if value is not None]) != 1:
            raise ValueError("must select a GPU by one key; set exactly one of index, uuid, pci, model")
        return self


class SliceSection(Section):
    """A MIG slice; count n > 1 gives NAME[0] … NAME[n-1], more than one compute instance the parts NAME/0, NAME/1, …"""

    profile: str | None = Field(default=None, description="3g.40gb, 1g.10gb+me, 2c.3g.40gb, or 1g for the plain one")
    memory: Bytes | None = Field(
        default=None, description="20GiB: the smallest profile whose memory, as the node reports it, holds that"
    )
    count: Annotated[int, Field(ge=1, le=7), BeforeValidator(refuse_boolean)] = 1
    compute: tuple[Annotated[str, StringConstraints(pattern=r"^[1-8]c$")], ...] = Field(
        default=(), description="compute instances, such as [1c, 2c]; one that fills the slice if empty"
    )
    start: Natural | None = Field(
        default=None,
        description="the memory slice that it begins at, as nvidia-smi mig -lgipp tells; else it is solved",
    )

    @model_validator(mode="after")
    def _one_size(self) -> SliceSection:
        if (self.profile is None) == (self.memory is None):
            raise ValueError("must have one size; set exactly one of profile and memory")
        if self.start is not None and self.count > 1:
            raise ValueError("sets start together with a count above 1; write each slice separately")
        return self


MigSection = Literal["disabled"] | Mapping[SliceName, str | SliceSection]
"""How a GPU is cut: not at all, or slice name → profile."""


class GpuSection(Section):
    """One logical GPU on each matching node: where it is and how it is cut."""

    nodes: Nodes
    select: SelectSection | Literal["all"]
    mig: MigSection | None = None
    persistence_mode: bool | None = None
    power_limit: Milliwatts | None = Field(default=None, description="350W; within what the GPU allows")
    compute_mode: Literal["default", "exclusive_process", "prohibited"] | None = None
    ecc: bool | None = Field(default=None, description="takes effect with a reset of the GPU")
    stop_services: tuple[ServiceName, ...] = Field(
        default=(), description="services that may be stopped while the GPU is reset, and are started again"
    )


class ReadinessSection(Section):
    """When a container counts as ready. Model servers: live, and all that they load at their start is READY, always."""

    timeout: Seconds | None = Field(
        default=None,
        description="60s; for a model server its models' load_timeout as well, for a health check what it needs to say",
    )
    boot: Seconds | None = Field(
        default=None, description="by when it runs and takes connections; as long as timeout if not stated"
    )
    interval: Interval = Field(default=0.25, description="between two looks; a quarter of a second")
    healthcheck: bool = Field(default=False, description="the container's own health check says when")
    http: str | None = Field(default=None, description="PORT/PATH inside the container, such as 8080/health")
    tcp: Port | None = Field(default=None, description="port inside the container")
    exec: tuple[str, ...] | None = Field(default=None, description="command that exits with 0 when ready")


FlagValue = str | int | float | bool
"""One value of an option of tritonserver."""


class TritonSection(Section):
    """Makes a container a model server in explicit model control."""

    flags: Mapping[str, FlagValue | tuple[FlagValue, ...]] = Field(default_factory=dict)
    cache: Bytes | None = Field(default=None, description="size of the response cache")
    auto_complete: bool | None = Field(
        default=None, description="the server fills in what configs leave out; off by itself where they say all"
    )
    repository: str = Field(
        default="local",
        description="local: delivered from next to the plan; /DIR of the node, s3://, gs://, as://: served as it is"
        "; own: the container's own command starts the server, and says where its models are",
    )
    overcommit: bool = Field(default=False, description="more model memory than the GPUs of the server have")


class ContainerSection(EngineOptions):
    """One container on each matching node (or one for each slice that `each` matches)."""

    nodes: Nodes
    container_name: Name | None = Field(default=None, description="its name on the nodes, if another than its key")
    image: str | None = None
    archive: str | None = Field(default=None, description="docker archive next to the plan file")
    pull: Literal["missing", "always", "never"] = "missing"
    platform: str | None = Field(
        default=None, pattern=r"^linux/[a-z0-9]+(/v[0-9]+)?$", description="linux/arm64; the node's own if not stated"
    )
    each: str | None = Field(default=None, description="GPU/SLICE glob; one container for each match")
    gpus: tuple[str, ...] = ()
    env: Mapping[str, str | int | float | bool] = Field(default_factory=dict)
    drain: Seconds | None = Field(
        default=None, description="how long requests in flight are waited for before a replaced one is stopped; 10s"
    )
    update: Literal["stop-first", "start-first"] = "stop-first"
    adopt: bool = Field(default=False, description="an unmanaged container of its name is replaced by this one")
    ready: ReadinessSection = Field(default_factory=ReadinessSection)
    triton: TritonSection | None = None

    if TYPE_CHECKING:  # those of the table of container fields that code reads by name
        command: tuple[str, ...] | str | None
        hostname: str | None
        ipc: str | None
        labels: Mapping[str, str]
        network: str | None
        networks: tuple[str, ...] | Mapping[str, Attachment]
        ports: ServerPorts | tuple[str | int, ...]
        shm_size: int | None
        stop_timeout: float | None


class IgnoredCheck(Section):
    """A check of models that is silenced (docs/checks.md)."""

    id: str = Field(description="the id of the finding")
    reason: str = Field(min_length=1)


class ExpectedOutput(Section):
    """What one output of a smoke inference should be."""

    values: JsonValue = None
    file: str | None = Field(default=None, description="next to the plan file: of numpy (.npy), or raw")
    tolerance: float | None = Field(default=None, ge=0, description="how far off a float may be")
    finite: bool = Field(default=False, description="no NaN and no infinity")

    @model_validator(mode="after")
    def _once(self) -> ExpectedOutput:
        if self.values is not None and self.file is not None:
            raise ValueError("sets both values and file; keep one of them")
        return self


class InputFile(Section):
    """The content of an input of a smoke inference."""

    file: str = Field(description="next to the plan file: of numpy (.npy), or raw")


InputValue = str | int | float | bool | InputFile | tuple[JsonValue, ...]
"""zeros, ones, random, one value for all elements, nested lists, or a file."""
OutputValue = str | int | float | bool | ExpectedOutput | tuple[JsonValue, ...]


class SmokeSection(Section):
    """An inference that must answer after a load; what is not stated is generated from the model's config."""

    inputs: Mapping[str, InputValue] = Field(default_factory=dict, description="zeros, ones, random, values, a file")
    shapes: Mapping[str, tuple[Natural, ...]] = Field(default_factory=dict, description="of inputs with variable dims")
    outputs: Mapping[str, OutputValue] = Field(default_factory=dict, description="expected values")
    batch: Annotated[int, Field(ge=1), BeforeValidator(refuse_boolean)] | None = None
    protocol: Literal["http", "grpc"] | None = None
    shared_memory: Literal["none", "system", "cuda"] = "none"
    timeout: Annotated[Seconds, Field(gt=0)] = 30.0
    version: Annotated[int, Field(ge=1), BeforeValidator(refuse_boolean)] | None = Field(
        default=None, description="the one version that is asked; every wanted one if not stated"
    )


class ModelSection(Section):
    """One model: where its files are, and which model servers serve it."""

    source: str | None = Field(default=None, description="directory next to the plan file: 1/model.onnx, config.pbtxt")
    containers: tuple[str, ...] = Field(min_length=1)
    versions: str | tuple[Whole, ...] | None = Field(default=None, description="latest N, all, or a list")
    memory: Bytes | None = Field(default=None, description="GPU memory of one instance, such as 2.1GiB")
    config: Mapping[str, JsonValue] = Field(default_factory=dict, description="laid over config.pbtxt")
    overrides: Mapping[str, Mapping[str, JsonValue]] = Field(default_factory=dict, description="by container")
    depends_on: tuple[str, ...] = Field(default=(), description="models that this one calls by itself (BLS)")
    ignore_checks: tuple[IgnoredCheck, ...] = Field(default=(), description="checks that are silenced, with a reason")
    load_timeout: Seconds = 300.0
    smoke: SmokeSection | bool = Field(
        default=False, description="true: an inference with generated inputs after each load"
    )


class IgnoredDrift(Section):
    """Drift that is expected for a while."""

    address: str = Field(description="glob over node/kind/name")
    field: str = Field(default="*", description="glob over the field's path")
    reason: str = Field(min_length=1)
    until: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$", description="last day, YYYY-MM-DD")


class DriftSection(Section):
    """How drift is judged."""

    ignore: tuple[IgnoredDrift, ...] = ()


class PlanFile(Section):
    """The whole plan file."""

    version: Literal[1]
    name: Name
    variables: Mapping[str, VariableSection] = Field(default_factory=dict)
    gpus: Mapping[Name, GpuSection] = Field(default_factory=dict)
    containers: Mapping[Name, ContainerSection] = Field(default_factory=dict)
    models: Mapping[ModelName, ModelSection] = Field(default_factory=dict)
    drift: DriftSection = Field(default_factory=DriftSection)

    _path: str = PrivateAttr(default="")
    _positions: Mapping[tuple[str | int, ...], Location] = PrivateAttr(default_factory=dict)

    @property
    def path(self) -> str:
        """The file it was read from; sources and archives are next to it."""
        return self._path

    def where(self, *path: str | int) -> Location:
        """Where the file states the value at `path`, or the nearest thing around it that it does state."""
        for end in range(len(path), 0, -1):
            if found := self._positions.get(path[:end]):
                return found
        return Location(self._path)
