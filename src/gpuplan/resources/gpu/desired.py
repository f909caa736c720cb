"""The desired GPUs: what the plan file's `gpus:` section asks of one node, one resource for each logical GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpuplan.nvidia.mig_names import parse_profile
from gpuplan.planfile.expand import on_node, slices_of
from gpuplan.resources.gpu.observed import SettingValue
from gpuplan.resources.gpu.settings import SETTINGS
from gpuplan.resources.typed import decode, encode
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from gpuplan.planfile.schema import GpuSection, PlanFile, SelectSection
    from gpuplan.types.inventory import Host


@dataclass(frozen=True)
class SliceSpec:
    """One desired slice."""

    name: str
    profile: str = ""
    """As the plan file writes it, once resolved (`resolve.resolve_profiles`) as the GPU reports it; empty if `memory`
    is stated."""
    memory: int | None = None
    """Bytes that it must have at least."""
    compute: tuple[int, ...] = ()
    """Compute slices of each compute instance; empty if one fills the slice."""
    start: int | None = None
    """The memory slice that it must begin at; None if placement is free."""

    @property
    def size(self) -> str:
        """The size as it is stated: a profile, or “at least 20480 MiB”."""
        return self.profile if self.memory is None else f"at least {-(-self.memory // 1024**2)} MiB"


@dataclass(frozen=True)
class GpuSelector:
    """Which physical GPU a logical one is."""

    key: Literal["all", "index", "uuid", "pci", "model"]
    value: str | int = ""

    def __str__(self) -> str:
        return "any GPU" if self.key == "all" else f"{self.key} {self.value}"


@dataclass(frozen=True)
class GpuSpec:
    """One logical GPU, or all GPUs of a node under one name."""

    select: GpuSelector
    mig: Literal["disabled"] | tuple[SliceSpec, ...] | None = None
    """None: MIG mode and slices are left alone."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Name (of `settings.SETTINGS`) → value; settings that are not in it are left alone."""
    stop_services: tuple[str, ...] = ()
    """Services that may be stopped while the GPU is reset."""

    @property
    def changes_nothing(self) -> bool:
        """It only gives the GPU a name."""
        return self.mig is None and not self.settings

    @property
    def mig_enabled(self) -> bool | None:
        """The desired MIG mode; None leaves it alone."""
        return None if self.mig is None else self.mig != "disabled"

    @property
    def slices(self) -> tuple[SliceSpec, ...]:
        """The desired slices; empty if MIG is disabled or left alone."""
        return self.mig if isinstance(self.mig, tuple) else ()


def spec(plan: PlanFile, host: Host) -> tuple[Sequence[Desired], Sequence[Diagnostic]]:
    """Every logical GPU of this node, and what is wrong with how it is written."""
    desired: list[Desired] = []
    diagnostics: list[Diagnostic] = []
    for name, gpu in plan.gpus.items():
        if not on_node(gpu.nodes, host):
            continue
        problems = [*_check_mig(name, gpu, plan)]
        diagnostics.extend(problems)
        if all(problem.severity is not Severity.ERROR for problem in problems):
            address = Address(host.name, "gpu", name)
            desired.append(Desired(address, encode(_gpu_spec(gpu)), where=plan.where("gpus", name)))
    return desired, diagnostics


def _gpu_spec(gpu: GpuSection) -> GpuSpec:
    values = {setting.name: getattr(gpu, setting.key) for setting in SETTINGS}
    stated = {name: value for name, value in values.items() if value is not None}
    return GpuSpec(_selector(gpu.select), _mig_spec(gpu), stated, gpu.stop_services)


def _selector(select: SelectSection | Literal["all"]) -> GpuSelector:
    """The one selector that the schema lets through."""
    if isinstance(select, str):
        return GpuSelector("all")
    keys: tuple[Literal["index", "uuid", "pci", "model"], ...] = ("index", "uuid", "pci", "model")
    return next(GpuSelector(key, value) for key in keys if (value := getattr(select, key)) is not None)


def _mig_spec(gpu: GpuSection) -> Literal["disabled"] | tuple[SliceSpec, ...] | None:
    if gpu.mig is None or gpu.mig == "disabled":
        return gpu.mig
    return tuple(
        SliceSpec(name, stated.profile or "", stated.memory, _compute_sizes(stated.compute), stated.start)
        for name, stated in slices_of(gpu.mig)
    )


def _compute_sizes(compute: Sequence[str]) -> tuple[int, ...]:
    return tuple(int(size.rstrip("c")) for size in compute)


def _check_mig(name: str, gpu: GpuSection, plan: PlanFile) -> Iterator[Diagnostic]:
    if isinstance(gpu.mig, Mapping) and not gpu.mig:
        yield Diagnostic(
            "MIG without slices",
            f"MIG mode of {name} is on without slices: no program can use the GPU.",
            "Add slices, write `mig: disabled`, or remove mig to leave the GPU as it is.",
            plan.where("gpus", name, "mig"),
            severity=Severity.WARNING,
        )
    for slice_name, stated in slices_of(gpu.mig):
        if stated.profile is not None and parse_profile(stated.profile) is None:
            yield Diagnostic(
                "Not the name of a MIG profile",
                f"The slice {slice_name} of the GPU {name} has the profile {stated.profile!r}.",
                "Write it as `nvidia-smi mig -lgip` prints it, such as 3g.40gb or 1g.10gb+me.",
                plan.where("gpus", name, "mig", slice_name.partition("[")[0]),
            )


def decode_spec(encoded: JsonObject) -> GpuSpec:
    """The spec behind its recorded form; raises ValueError if it does not have this form."""
    return decode(GpuSpec, encoded)
