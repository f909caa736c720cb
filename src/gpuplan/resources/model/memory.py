"""The memory of the GPUs and slices of a node, who uses it, and whether the models of a server fit in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.nvidia.mig_names import parse_profile
from gpuplan.resources.model.spec import ModelSpec, SliceSize, model_spec
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject, integer, mapping, mappings

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class MemoryPool:
    """The memory of one GPU or slice."""

    total: int
    """Bytes."""
    used: Mapping[str, int] | None = None
    """Bytes by container id, an empty id for other processes; None if the use of a process is not known."""

    @property
    def free(self) -> int | None:
        """Unused bytes; None if that is not known."""
        return None if self.used is None else max(0, self.total - sum(self.used.values()))


@dataclass(frozen=True)
class MemoryProfile:
    """A MIG profile that a GPU offers."""

    name: str
    slices: int
    memory: int
    """Bytes that the GPU reports, which is less than the name says."""


@dataclass(frozen=True)
class GpuMemory:
    """The memory of a node's GPUs."""

    pools: Mapping[str, MemoryPool] = field(default_factory=dict)
    """By the UUID of a GPU or MIG device."""
    profiles: Mapping[str, tuple[MemoryProfile, ...]] = field(default_factory=dict)
    """By the UUID of a GPU."""

    def of(self, device: str, size: SliceSize | None, context: DiffContext) -> MemoryPool | None:
        """The memory of a GPU or slice by its name in the plan file; None if it is not known.

        A slice of this `size` that is created in the same change set has the memory of its profile, all of it free.
        """
        bound = context.bindings.get(Address(context.node, "gpu", device))
        if isinstance(bound, str):
            return self.pools.get(bound)
        gpu = context.bindings.get(Address(context.node, "gpu", device.partition("/")[0]))
        if bound is None or size is None or not isinstance(gpu, str):
            return None
        profile = _choose_profile(self.profiles.get(gpu, ()), size)
        return MemoryPool(profile.memory, {}) if profile else None


def read_memory(snapshot: Snapshot) -> GpuMemory:
    """The memory of a snapshot's GPUs; empty if NVML did not answer."""
    probe = snapshot.probe("gpu")
    if probe.error is not None:
        return GpuMemory()
    gpus = [gpu for gpu in mappings(mapping(probe.value).get("gpus")) if "error" not in gpu]
    pools = {uuid: pool for gpu in gpus for uuid, pool in _pools(gpu)}
    return GpuMemory(pools, {str(gpu.get("uuid") or ""): _profiles(gpu) for gpu in gpus})


def format_bytes(count: int) -> str:
    """``4 GiB``, ``9.5 GiB``, ``512 MiB``."""
    number, unit = (count / GIB, "GiB") if count >= GIB else (count / MIB, "MiB")
    return f"{round(number, 2):g} {unit}"


def check_capacity(desired: Sequence[Desired], memory: GpuMemory, context: DiffContext) -> Iterator[Diagnostic]:
    """One diagnostic for each GPU or slice whose models declare more memory than it has."""
    servers: dict[str, dict[str, ModelSpec]] = {}
    where: dict[str, Location | None] = {}
    for resource in desired:
        spec = model_spec(resource.spec)
        if spec.budget is not None:
            servers.setdefault(spec.container, {})[spec.model] = spec
            where.setdefault(spec.container, resource.where)
    for container, models in servers.items():
        budget = next(iter(models.values())).budget
        if budget is None or budget.overcommit:
            continue
        for number, device in enumerate(budget.devices):
            pool = memory.of(device, budget.slices.get(device), context)
            needs = {name: need for name, spec in models.items() if (need := spec.memory_on(number))}
            if pool is not None and sum(needs.values()) > pool.total:
                yield Diagnostic(
                    "Models do not fit in GPU memory",
                    _list_needs(container, device, number, pool, models, needs),
                    f"Free {format_bytes(sum(needs.values()) - pool.total)}: move a model to another server, or use "
                    "fewer instances or a larger slice. If the models do not need all of their memory at once, set "
                    "triton: { overcommit: true }.",
                    where[container],
                    str(Address(context.node, "container", container)),
                )


def _list_needs(
    container: str,
    device: str,
    number: int,
    pool: MemoryPool,
    models: Mapping[str, ModelSpec],
    needs: Mapping[str, int],
) -> str:
    declared = format_bytes(sum(needs.values()))
    head = f"The models of {container} declare {declared} on {device}, which has {format_bytes(pool.total)}:"
    lines = [f"    {name}: {_need(models[name], number)}" for name in needs]
    return "\n".join([head, *lines, "The server itself needs a few hundred MiB more for its CUDA context."])


def _need(spec: ModelSpec, device: int) -> str:
    """``2 instances × 4 GiB = 8 GiB``."""
    if spec.budget is None:
        return ""
    instances, versions = spec.budget.instances(device), max(1, len(spec.versions))
    factors = [f"{instances} instances"] * (instances > 1) + [f"{versions} versions"] * (versions > 1)
    product = f" = {format_bytes(spec.memory_on(device))}" if factors else ""
    return f"{' × '.join([*factors, format_bytes(spec.budget.memory)])}{product}"


def _pools(gpu: JsonObject) -> Iterator[tuple[str, MemoryPool]]:
    raw = gpu.get("processes")
    processes = None if isinstance(raw, Mapping) else list(mappings(raw))
    if mapping(gpu.get("mig")).get("current") is not True:
        total = integer(mapping(gpu.get("memory")).get("total"))
        yield str(gpu.get("uuid") or ""), MemoryPool(total, _used(processes))
        return
    sizes = {
        integer(profile.get("id")): integer(profile.get("memory_mib")) * MIB
        for profile in mappings(gpu.get("profiles"))
    }
    for instance in mappings(gpu.get("instances")):
        total = sizes.get(integer(instance.get("profile_id")), 0)
        own = None if processes is None else [p for p in processes if p.get("gpu_instance") == instance["id"]]
        for compute_instance in mappings(instance.get("compute_instances")) if total else ():
            yield str(compute_instance.get("uuid") or ""), MemoryPool(total, _used(own))


def _used(processes: Sequence[JsonObject] | None) -> Mapping[str, int] | None:
    if processes is None:
        return None
    used: dict[str, int] = {}
    for process in processes:
        memory, container = process.get("used_memory"), str(process.get("container") or "")
        if not isinstance(memory, int):
            return None
        used[container] = used.get(container, 0) + memory
    return used


def _profiles(gpu: JsonObject) -> tuple[MemoryProfile, ...]:
    return tuple(
        MemoryProfile(str(raw.get("name") or ""), integer(raw.get("slices")), integer(raw.get("memory_mib")) * MIB)
        for raw in mappings(gpu.get("profiles"))
    )


def _choose_profile(profiles: Sequence[MemoryProfile], size: SliceSize) -> MemoryProfile | None:
    """The profile of a slice that is to be created: by its name, by its slices, or by the memory that it must have."""
    if size.memory:
        plain = [profile for profile in profiles if "+" not in profile.name and "-" not in profile.name]
        fitting = [profile for profile in plain if profile.memory >= size.memory]
        return min(fitting, key=lambda profile: (profile.memory, profile.slices), default=None)
    stated = parse_profile(size.profile)
    if stated is None:
        return None
    if stated.instance:
        return next((profile for profile in profiles if profile.name == stated.instance), None)
    parsed = [(profile, parse_profile(profile.name)) for profile in profiles]
    alike = [p for p, name in parsed if name and (p.slices, name.suffix) == (stated.slices, stated.suffix)]
    return min(alike, key=lambda profile: profile.memory, default=None)
