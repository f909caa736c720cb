"""What the plan file wants of a node's GPUs: one resource for each logical GPU, slices in the order written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpuplan.nvidia.profile_names import parse_profile
from gpuplan.planfile.expand import on_node, slices_of
from gpuplan.resources.gpu import settings
from gpuplan.resources.gpu.settings import Settings, read_settings
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Location, Severity
from gpuplan.types.resource import Desired
from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    from gpuplan.planfile.schema import GpuSection, GpuSelector, PlanFile
    from gpuplan.resources.kind import Told
    from gpuplan.types.inventory import Host

SELECTORS = ("index", "uuid", "pci", "model")


@dataclass(frozen=True)
class SliceSpec:
    """One wanted slice."""

    name: str
    profile: str = ""
    """As the plan file names it; on a certain GPU (`profiles.settle`) as that GPU names it. Empty where by memory."""
    memory: int | None = None
    """Bytes that it must hold."""
    compute: tuple[int, ...] = ()
    """Compute slices of each compute instance; empty where one fills the slice."""
    start: int | None = None
    """The memory slice that it must begin at; None where its place is solved."""

    @property
    def wish(self) -> str:
        """The size as it is stated: a profile, or “at least 20480 MiB”."""
        return self.profile if self.memory is None else f"at least {-(-self.memory // 1024**2)} MiB"

    def to_json(self) -> JsonObject:
        """The form that is digested, recorded and saved; what is not stated is not in it."""
        found: dict[str, Json] = {"name": self.name}
        if self.memory is not None:
            found["memory"] = self.memory
        else:
            found["profile"] = self.profile
        if self.compute:
            found["compute"] = list(self.compute)
        return found if self.start is None else {**found, "start": self.start}


@dataclass(frozen=True)
class GpuSpec:
    """One logical GPU."""

    select: tuple[str, str | int] | Literal["all"]
    """(selector, value), or every GPU of the node."""
    mig: Literal["disabled"] | tuple[SliceSpec, ...] | None
    """None: MIG is left alone."""
    settings: Settings = field(default_factory=Settings)
    stop_services: tuple[str, ...] = ()
    """Services that may be stopped while the GPU is reset."""

    @property
    def states_nothing(self) -> bool:
        """It only says which GPU it is."""
        return self.mig is None and not self.settings.stated

    @property
    def wants_mig(self) -> bool | None:
        """MIG mode as it is to be; None leaves it alone."""
        return None if self.mig is None else self.mig != "disabled"

    @property
    def slices(self) -> tuple[SliceSpec, ...]:
        """The wanted slices; none where MIG is off or left alone."""
        return self.mig if isinstance(self.mig, tuple) else ()

    def to_json(self) -> JsonObject:
        """The form that is digested, recorded and saved."""
        mig: Json = [each.to_json() for each in self.mig] if isinstance(self.mig, tuple) else self.mig
        select: Json = "all" if self.select == "all" else {self.select[0]: self.select[1]}
        settings: JsonObject = {"settings": self.settings.to_json()} if self.settings.stated else {}
        stops: JsonObject = {"stop_services": list(self.stop_services)} if self.stop_services else {}
        return {"select": select, "mig": mig, **settings, **stops}


def read_spec(stated: JsonObject) -> GpuSpec:
    """The spec behind its JSON form.

    Raises:
        ValueError: it is not one that `GpuSpec.to_json` gave.
    """
    select, mig = stated.get("select"), stated.get("mig")
    if mig is not None and mig != "disabled" and (isinstance(mig, str) or not isinstance(mig, Sequence)):
        raise ValueError(f"not the MIG section of a GPU: {mig!r}")
    slices = tuple(_read_slice(each) for each in mig) if isinstance(mig, Sequence) and mig != "disabled" else None
    return GpuSpec(
        _read_select(select),
        "disabled" if mig == "disabled" else slices,
        read_settings(stated.get("settings")),
        settings.read_names(stated.get("stop_services")),
    )


def _read_select(select: Json) -> tuple[str, str | int] | Literal["all"]:
    if select == "all":
        return "all"
    if isinstance(select, Mapping) and len(select) == 1:
        key, value = next(iter(select.items()))
        if key in SELECTORS and isinstance(value, str | int):
            return key, value
    raise ValueError(f"not a selector of a GPU: {select!r}")


def _read_slice(stated: Json) -> SliceSpec:
    if not isinstance(stated, Mapping):
        raise ValueError(f"not a slice: {stated!r}")
    memory, compute, start = stated.get("memory"), stated.get("compute", ()), stated.get("start")
    sizes = compute if isinstance(compute, Sequence) and not isinstance(compute, str) else ()
    return SliceSpec(
        str(stated["name"]),
        str(stated["profile"]) if memory is None else "",
        memory if isinstance(memory, int) else None,
        tuple(int(str(size)) for size in sizes),
        start if isinstance(start, int) else None,
    )


def spec(plan: PlanFile, host: Host) -> Told:
    """The spec door: every logical GPU of this node, and what is wrong with how it is written."""
    desired: list[Desired] = []
    diagnostics: list[Diagnostic] = []
    for name, gpu in plan.gpus.items():
        if not on_node(gpu.nodes, host):
            continue
        faults = [*_faults(name, gpu, plan)]
        diagnostics.extend(faults)
        if any(fault.severity is Severity.ERROR for fault in faults):
            continue
        wanted = GpuSpec(_select(gpu.select), _mig(gpu), _settings(gpu), gpu.stop_services)
        desired.append(Desired(Address(host.name, "gpu", name), wanted.to_json(), where=plan.where("gpus", name)))
    return desired, diagnostics


def _select(select: GpuSelector | Literal["all"]) -> tuple[str, str | int] | Literal["all"]:
    """The one selector that the schema lets through."""
    if select == "all":
        return "all"
    return next((key, value) for key in SELECTORS if (value := getattr(select, key)) is not None)


def _mig(gpu: GpuSection) -> Literal["disabled"] | tuple[SliceSpec, ...] | None:
    if gpu.mig is None or gpu.mig == "disabled":
        return gpu.mig
    return tuple(
        SliceSpec(
            name, each.profile or "", each.memory, tuple(int(size.rstrip("c")) for size in each.compute), each.start
        )
        for name, each in slices_of(gpu.mig)
    )


def _settings(gpu: GpuSection) -> Settings:
    return Settings(gpu.persistence_mode, gpu.power_limit, gpu.compute_mode, gpu.ecc)


def _faults(name: str, gpu: GpuSection, plan: PlanFile) -> Iterator[Diagnostic]:
    if isinstance(gpu.mig, Mapping) and not gpu.mig:
        yield Diagnostic(
            "MIG without slices",
            f"With MIG mode on and no slice, no program can use the GPU {name}.",
            "Write the slices, `mig: disabled`, or leave mig out to leave the GPU as it is.",
            plan.where("gpus", name, "mig"),
            severity=Severity.WARNING,
        )
    for part, stated in slices_of(gpu.mig):
        if stated.profile is not None and parse_profile(stated.profile) is None:
            yield _no_profile(name, part, stated.profile, plan.where("gpus", name, "mig", part.partition("[")[0]))


def _no_profile(gpu: str, part: str, profile: str, where: Location) -> Diagnostic:
    return Diagnostic(
        "Not the name of a MIG profile",
        f"The slice {part} of the GPU {gpu} has the profile {profile!r}.",
        "Write it as `nvidia-smi mig -lgip` prints it, such as 3g.40gb or 1g.10gb+me.",
        where,
    )
