"""What is known of a node's GPUs, and who runs on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.resources.gpu.foreign import Others
from gpuplan.types.snapshot import ProbeError


@dataclass(frozen=True)
class Profile:
    """One GPU instance profile that a GPU offers."""

    id: int
    name: str
    slices: int
    memory_mib: int
    instances: int
    """How many the GPU holds at most."""
    placements: tuple[tuple[int, int], ...] | None
    """(start, size) in memory slices; None while MIG mode is off, since NVML then refuses to say."""
    engines: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Media engines of one instance: decoders, encoders, JPEG, optical flow."""


@dataclass(frozen=True)
class Compute:
    """One live compute instance."""

    id: int
    slices: int
    """Compute slices."""
    uuid: str
    """UUID of its MIG device."""


@dataclass(frozen=True)
class Instance:
    """One live GPU instance."""

    id: int
    profile_id: int
    profile: str
    start: int
    size: int
    computes: tuple[Compute, ...]
    """Its compute instances by id; none is a fault."""

    @property
    def devices(self) -> tuple[str, ...]:
        """UUIDs of the MIG devices of its compute instances."""
        return tuple(each.uuid for each in self.computes)

    def __str__(self) -> str:
        return f"{self.profile} at {self.start}"


@dataclass(frozen=True)
class Process:
    """One process that has a GPU, or a slice of it, open."""

    pid: int
    name: str
    instance: int | None
    """Id of the GPU instance."""
    compute: int | None
    """Id of the compute instance."""
    container: str | None
    """Full id of the container that it runs in."""
    service: str = ""
    """The system's service that it belongs to, without ``.service``."""


@dataclass(frozen=True)
class Power:
    """The power limit of a GPU and what it may be, in milliwatts; zeros where the GPU does not say."""

    limit_mw: int
    default_mw: int = 0
    lowest_mw: int = 0
    highest_mw: int = 0

    @property
    def known(self) -> bool:
        """Its bounds are known."""
        return self.highest_mw > 0


@dataclass(frozen=True)
class Ecc:
    """ECC mode now and after the next reset."""

    current: bool
    pending: bool


@dataclass(frozen=True)
class Gpu:
    """One physical GPU."""

    index: int
    uuid: str
    pci: str
    name: str
    supported: bool
    """It has MIG at all."""
    current: bool
    pending: bool
    """MIG mode after the next reset; where it is not the current one the GPU waits for a reset."""
    profiles: tuple[Profile, ...]
    instances: tuple[Instance, ...] | ProbeError
    processes: tuple[Process, ...] | ProbeError
    holders: tuple[Process, ...] = ()
    """Processes that have its device file open, computing or not: daemons, monitors. None are known without root."""
    architecture: str | None = None
    resettable: bool = True
    """False where the hypervisor around the node keeps a guest from resetting it."""
    persistence: bool | None = None
    power: Power | None = None
    compute_mode: str | None = None
    ecc: Ecc | None = None

    def profile(self, name: str) -> Profile | None:
        """The profile of that name on this GPU."""
        return next((profile for profile in self.profiles if profile.name == name), None)


@dataclass(frozen=True)
class LostGpu:
    """A GPU that is there and does not answer."""

    index: int
    error: ProbeError


@dataclass(frozen=True)
class Container:
    """A running container, as far as it matters to GPUs."""

    id: str
    name: str
    plan: str
    """The plan file that made it; empty where none did."""
    devices: tuple[str, ...]
    """UUIDs of the GPUs and slices that it has, however it asked for them; a name that means none stays as written."""
    every: bool
    """It asked for all GPUs."""


@dataclass(frozen=True)
class ObservedGpus:
    """All GPUs of one node."""

    node: str
    gpus: tuple[Gpu, ...] = ()
    lost: tuple[LostGpu, ...] = ()
    error: ProbeError | None = None
    """Why nothing is known of the GPUs."""
    containers: Mapping[str, Container] | ProbeError = field(default_factory=dict)
    """Running containers by id; an error where the engine is there and did not answer."""
    modules: tuple[str, ...] = ()
    """Loaded kernel modules, as far as the node was asked."""
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """UUID of a GPU → services that were stopped for it and not started again."""

    others: Others = field(default_factory=Others)
    """What other plan files made."""

    @property
    def running(self) -> Mapping[str, Container]:
        """Running containers by id, as far as they are known; whoever is not known counts as a stranger."""
        return {} if isinstance(self.containers, ProbeError) else self.containers

    def gpu(self, uuid: str) -> Gpu | None:
        """The GPU of that UUID, if it was read."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)


def slice_uuid(observed: ObservedGpus, gpu_uuid: str, profile: str, start: int) -> str | None:
    """The UUID of the MIG device at that place; None where no such slice stands there or it has no compute instance."""
    gpu = observed.gpu(gpu_uuid)
    instance = None if gpu is None else instance_at(gpu, profile, start)
    return instance.devices[0] if instance is not None and instance.devices else None


def instance_at(gpu: Gpu, profile: str, start: int) -> Instance | None:
    """The live instance of that profile at that place."""
    live = () if isinstance(gpu.instances, ProbeError) else gpu.instances
    return next((each for each in live if (each.profile, each.start) == (profile, start)), None)
