"""Bound: a container's GPUs and slices as the gpu room resolved them, against those that it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.resources.container.fields import mounts
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.resources.snapshot.devices import asked, requested
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.labels import DEVICES
from gpuplan.resources.snapshot.raw import mappings
from gpuplan.types.address import Address
from gpuplan.types.change import FieldChange
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.value import Later


@dataclass(frozen=True)
class ResolvedDevices:
    """The devices of one container; `missing` names those that the gpu room could not resolve."""

    devices: Mapping[Address, str | Later]
    missing: tuple[str, ...] = ()

    @property
    def later(self) -> tuple[Address, ...]:
        """Slices that exist only after another step."""
        return tuple(address for address, uuid in self.devices.items() if isinstance(uuid, Later))


def resolve_devices(parts: Sequence[str], context: DiffContext) -> ResolvedDevices:
    """Each part with its UUID; ``h100`` or ``h100[*]`` of a `select: all` stands for ``h100[0]``, ``h100[1]``, …"""
    devices: dict[Address, str | Later] = {}
    missing: list[str] = []
    for part in parts:
        found = {address: uuid for address, uuid in context.bindings.items() if _means(part, address)}
        devices.update(found)
        if not found:
            missing.append(part)
    return ResolvedDevices(devices, tuple(missing))


def devices_of(live: Live, observed: ObservedContainers, context: DiffContext) -> tuple[Address, ...]:
    """The GPUs and slices, by every name that the plan file or the node's memory has for them, that a container has.

    What is remembered counts as well: a container may hold a GPU that the plan file no longer names.
    """
    has = _has(live, observed)
    holding = {gpu.uuid for gpu in observed.gpus.gpus if has & {gpu.uuid, *(each.uuid for each in gpu.slices)}}
    found = [address for address, uuid in context.bindings.items() if uuid in holding]
    for address, fact in context.record.remembered.items():
        if address.kind == "gpu" and holding & {str(fact.get("uuid")), str(fact.get("gpu"))}:
            found.append(address)
    return tuple(dict.fromkeys(found))


def devices_are_known(live: Live, observed: ObservedContainers) -> bool:
    """False where the container asks by index or for all, and not every GPU of the node is known."""
    if observed.gpus.known or live.labels.get(DEVICES):
        return True
    names = asked(live.config, live.host_config, observed.default_runtime)
    return all(name.startswith(("GPU-", "MIG-")) for name in names)


def compare_devices(
    bound: ResolvedDevices, live: Live, observed: ObservedContainers
) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference in devices, and why."""
    has = _has(live, observed)
    before = sorted(has)
    if bound.later:
        names = ", ".join(address.name for address in bound.later)
        return FieldChange("gpus", before, Later(f"UUID of {names}")), (
            f"slice identity changed: {names} is made anew",
        )
    wanted = sorted(str(uuid) for uuid in bound.devices.values())
    if wanted == before:
        return None, ()
    return FieldChange("gpus", before, list(wanted)), tuple(_why(bound, has, observed))


def _has(live: Live, observed: ObservedContainers) -> frozenset[str]:
    if made_with := live.labels.get(DEVICES):
        return frozenset(made_with.split(","))
    return requested(live.config, live.host_config, observed.default_runtime, observed.gpus)


def _why(bound: ResolvedDevices, has: frozenset[str], observed: ObservedContainers) -> Iterator[str]:
    gone = sorted(has - observed.gpus.uuids) if observed.gpus.known else []
    for uuid in gone:
        slice_gone = f"slice identity changed: the container holds {uuid}, which no longer exists"
        yield slice_gone if uuid.startswith("MIG-") else f"it asks for {uuid}, which is not on the node"
    if not bound.devices:
        yield "it has GPUs, and the plan file gives it none"
    elif not gone:
        yield "it has other GPUs than the plan file gives it"


def _means(part: str, address: Address) -> bool:
    if address.kind != "gpu":
        return False
    if address.name == part:
        return True
    name, _, rest = part.partition("/")
    pattern = re.escape(name.removesuffix("[*]")) + r"\[\d+\]" + (re.escape(f"/{rest}") if rest else "")
    return re.fullmatch(pattern, address.name) is not None


@dataclass(frozen=True)
class DesiredContainer:
    """One container as it is wanted here: its spec, its devices, and what it had when it was last applied."""

    desired: Desired
    spec: ContainerSpec
    bound: ResolvedDevices
    had: tuple[Address, ...] = ()
    """Needs that the record has of it."""
    leaves: tuple[Address, ...] = ()
    """Images of the containers that stand for it on the node."""
    specifications: tuple[Address, ...] = ()
    """What lists its devices, where the engine gives them by CDI."""
    adopts: str = ""
    """Id of the container of somebody else's whose place it takes."""
    by_cdi: bool = False
    """The engine has to be asked for its devices by the names of CDI."""
    beside: tuple[Live, ...] = ()
    """What else of it runs, left of a replacement that was cut off."""

    @property
    def address(self) -> Address:
        """Its address."""
        return self.desired.address

    @property
    def needs(self) -> tuple[Address, ...]:
        """Its devices by their own names, and its repository."""
        return (*self.bound.devices, *(need for need in self.desired.needs if need.kind != "gpu"))

    @property
    def settings(self) -> Address:
        """What is set on a container before it is started: its name, its limits."""
        return self.address.part("settings")


_DEVICE = re.compile(r"^/dev/nvidia(\d+)$")
_WITH_EVERY_DEVICE = ("/", "/dev", "/dev/char")
"""Directories below which the device files of all GPUs lie; given as a device, all of them are given."""


def seen(live: Live, observed: ObservedContainers) -> frozenset[str]:
    """UUIDs of all devices that a container could use while it runs, however it came to them.

    A privileged one has every device file of the node. A device file alone is taken for the GPU of that index: the
    driver numbers both in the order of the bus.
    """
    found = requested(live.config, live.host_config, observed.default_runtime, observed.gpus)
    if live.host_config.get("Privileged") is True:
        found |= every(observed)
    for device in mappings(live.host_config.get("Devices")):
        path = mounts.path(str(device.get("PathOnHost") or ""))
        if path in _WITH_EVERY_DEVICE:
            found |= every(observed)
        if match := _DEVICE.match(path):
            found |= {uuid for gpu in observed.gpus.gpus if gpu.index == int(match[1]) for uuid in gpu.usable}
    return found


def every(observed: ObservedContainers) -> frozenset[str]:
    """UUIDs of everything that can be computed on: whole GPUs, and the slices of those that are cut."""
    return frozenset(uuid for gpu in observed.gpus.gpus for uuid in gpu.usable)


def intrudes(live: Live, observed: ObservedContainers, context: DiffContext) -> tuple[Address, ...]:
    """The GPUs and slices of the plan file that a running container of somebody else sees."""
    if not live.busy:
        return ()
    devices = seen(live, observed) & every(observed)
    return tuple(sorted(address for address, uuid in context.bindings.items() if uuid in devices))
