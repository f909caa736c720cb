"""The observed state of a node's GPUs: slices, processes, containers, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.snapshot import ProbeError

SettingValue: TypeAlias = bool | int | str
Placement: TypeAlias = tuple[int, int]
"""(start, size) in memory slices."""


@dataclass(frozen=True)
class MigProfile:
    """One GPU instance profile that a GPU offers."""

    id: int
    name: str
    slices: int
    """Compute slices."""
    memory_mib: int
    instances: int
    """The most that the GPU holds."""
    placements: tuple[Placement, ...] | None
    """None while MIG mode is off: NVML then does not report them."""
    engines: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Media engines of one instance: decoders, encoders, JPEG, optical flow."""


@dataclass(frozen=True)
class ComputeInstance:
    """One compute instance; it is what a program sees as a MIG device."""

    id: int
    slices: int
    """Compute slices."""
    uuid: str
    """UUID of its MIG device."""


@dataclass(frozen=True)
class GpuInstance:
    """One GPU instance: a slice as the node has it."""

    id: int
    profile_id: int
    profile: str
    start: int
    size: int
    compute_instances: tuple[ComputeInstance, ...]
    """By id; without any, no program can use the slice."""

    @property
    def devices(self) -> tuple[str, ...]:
        """UUIDs of its MIG devices."""
        return tuple(compute.uuid for compute in self.compute_instances)

    def __str__(self) -> str:
        return f"{self.profile} at {self.start}"


@dataclass(frozen=True)
class ObservedProcess:
    """One process that has a GPU, or a slice of it, open."""

    pid: int
    name: str
    gpu_instance: int | None
    """None if NVML does not report it."""
    compute_instance: int | None
    container: str | None
    """Full id of the container that it runs in."""
    service: str = ""
    """The systemd service that it belongs to."""


@dataclass(frozen=True)
class PowerLimitRange:
    """The power limits that a GPU accepts, in milliwatts."""

    default_mw: int
    lowest_mw: int
    highest_mw: int


@dataclass(frozen=True)
class ObservedGpu:
    """One physical GPU."""

    index: int
    uuid: str
    pci: str
    name: str
    mig_supported: bool
    mig_enabled: bool
    mig_pending: bool
    """MIG mode after the next reset; the GPU waits for a reset if it differs from `mig_enabled`."""
    profiles: tuple[MigProfile, ...]
    instances: tuple[GpuInstance, ...] | ProbeError
    processes: tuple[ObservedProcess, ...] | ProbeError
    holders: tuple[ObservedProcess, ...] = ()
    """Processes that have its device file open, computing or not: daemons, monitors. Empty without root."""
    architecture: str | None = None
    resettable: bool = True
    """False if the hypervisor around the node keeps a guest from resetting it."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Name (of `settings.SETTINGS`) → value in effect; without those that this GPU does not have."""
    power_limits: PowerLimitRange | None = None
    ecc_pending: bool | None = None
    """ECC mode after the next reset."""

    def profile(self, name: str) -> MigProfile | None:
        """The profile of that name on this GPU."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    @property
    def known_instances(self) -> tuple[GpuInstance, ...]:
        """Its instances; empty if they could not be read."""
        return () if isinstance(self.instances, ProbeError) else self.instances

    @property
    def known_processes(self) -> tuple[ObservedProcess, ...]:
        """Its processes; empty if they could not be read."""
        return () if isinstance(self.processes, ProbeError) else self.processes

    def instance_at(self, profile: str, start: int) -> GpuInstance | None:
        """The instance of that profile that begins at that memory slice."""
        instances = self.known_instances
        return next((found for found in instances if (found.profile, found.start) == (profile, start)), None)

    @property
    def reset_pending(self) -> bool:
        """A mode was set that takes effect only with a reset."""
        ecc = self.settings.get("ecc")
        return self.mig_enabled != self.mig_pending or (ecc is not None and ecc != self.ecc_pending)


@dataclass(frozen=True)
class UnreadableGpu:
    """A GPU that is listed and does not answer."""

    index: int
    error: ProbeError


@dataclass(frozen=True)
class GpuContainer:
    """A running container, as far as it matters to GPUs."""

    id: str
    name: str
    plan: str
    """The plan file that made it; empty for an unmanaged one."""
    devices: tuple[str, ...]
    """UUIDs of its GPUs and slices, however it requested them; a name that matches none stays as written."""
    all_gpus: bool
    """It requested all GPUs."""


@dataclass(frozen=True)
class OtherPlanSlice:
    """A slice in the record of another plan file; it may not exist any more."""

    plan: str
    gpu: str
    """UUID of the GPU."""
    profile: str
    start: int


@dataclass(frozen=True)
class OtherPlans:
    """What the records of a node's other plan files contain."""

    slices: tuple[OtherPlanSlice, ...] = ()
    error: ProbeError | None = None
    """Why some of it could not be read; `slices` are then the rest."""

    def slices_on(self, gpu: str) -> Sequence[OtherPlanSlice]:
        """Those on the GPU of that UUID."""
        return [other for other in self.slices if other.gpu == gpu]

    def owner(self, gpu: str, profile: str, start: int) -> str:
        """The plan file that made the slice at that place; empty if no record has it."""
        on_gpu = self.slices_on(gpu)
        return next((other.plan for other in on_gpu if (other.profile, other.start) == (profile, start)), "")


@dataclass(frozen=True)
class ObservedGpus:
    """All GPUs of one node."""

    node: str
    gpus: tuple[ObservedGpu, ...] = ()
    unreadable: tuple[UnreadableGpu, ...] = ()
    error: ProbeError | None = None
    """Why no GPU could be read."""
    containers: Mapping[str, GpuContainer] | ProbeError = field(default_factory=dict)
    """Running containers by id; an error if Docker is installed and did not answer."""
    modules: tuple[str, ...] = ()
    """Loaded kernel modules, of those that the agent reports."""
    stopped_services: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """UUID of a GPU → services that an apply stopped for it and did not start again."""
    other_plans: OtherPlans = field(default_factory=OtherPlans)

    @property
    def known_containers(self) -> Mapping[str, GpuContainer]:
        """Running containers by id; empty if they could not be read."""
        return {} if isinstance(self.containers, ProbeError) else self.containers

    def gpu(self, uuid: str) -> ObservedGpu | None:
        """The GPU of that UUID, if it was read."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)


_FIXES = {
    "no_library": "Install the NVIDIA driver on the node; libnvidia-ml.so.1 comes with it.",
    "no_driver": "Load the NVIDIA driver on the node, then try again.",
    "driver_mismatch": "The driver was upgraded while the old one is loaded: reboot the node, then try again.",
    "no_permission": "Let gpuplan become root on the node: ansible_become: true.",
    "gpu_is_lost": "The GPU fell off the bus. Check the kernel log (dmesg), then reboot the node.",
    "timeout": "The driver did not answer in time. Check the kernel log (dmesg) and processes in state D on the node.",
}
_DEFAULT_FIX = "Run nvidia-smi on the node and check the kernel log (dmesg)."


def cannot_read(address: Address, error: ProbeError, what: str = "GPUs") -> Diagnostic:
    """A GPU, or a part of its state, that could not be read."""
    return Diagnostic(
        "Cannot read GPUs",
        f"Cannot read the {what} of {address.node}: {error.text}.",
        _FIXES.get(error.code, _DEFAULT_FIX),
        address=str(address),
    )


def cannot_read_gpu(address: Address, gpu: UnreadableGpu) -> Diagnostic:
    """A GPU that does not answer."""
    return cannot_read(address, gpu.error, f"GPU {gpu.index}")


def cannot_read_containers(address: Address, error: ProbeError) -> Diagnostic:
    """Containers that could not be read: one of them may have the GPU."""
    return Diagnostic(
        "Cannot determine which containers use the GPU",
        f"Cannot read the containers of {address.node}: {error.text}. An idle container that has {address.name} would"
        " be missed.",
        "Check Docker on the node (systemctl status docker), then try again.",
        address=str(address),
    )


def cannot_read_other_plans(address: Address, error: ProbeError) -> Diagnostic:
    """Records of other plan files that could not be read: an unmanaged slice may be theirs."""
    return Diagnostic(
        "Cannot determine which plan file made the slices",
        f"Cannot read the records of other plan files on {address.node}: {error.text}. A slice on {address.name} that"
        " this plan file did not make may belong to one of them.",
        "Restore the record of that plan file, or remove it if nothing of that plan file is left; then try again.",
        address=str(address),
    )
