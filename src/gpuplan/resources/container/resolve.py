"""Resolve: one desired container on one node, its GPUs and slices as UUIDs, and which devices live containers have."""

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
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.value import KnownAfterApply

_GPU_FILE = re.compile(r"^/dev/nvidia(\d+)$")
_DEVICE_DIRECTORIES = ("/", "/dev", "/dev/char")
"""Given as a device, each of these gives the device files of all GPUs."""


@dataclass(frozen=True)
class NodeDiff:
    """The node whose containers are compared."""

    observed: ObservedContainers
    context: DiffContext


@dataclass(frozen=True)
class ResolvedDevices:
    """GPUs and slices of one container with their UUIDs."""

    devices: Mapping[Address, str | KnownAfterApply]
    unresolved: tuple[str, ...] = ()
    """Names whose UUID is not known because the node's GPUs could not be read."""

    @property
    def unknown(self) -> tuple[Address, ...]:
        """Slices whose UUID is known only after apply."""
        return tuple(address for address, uuid in self.devices.items() if isinstance(uuid, KnownAfterApply))


@dataclass(frozen=True)
class DesiredContainer:
    """One container as the plan file states it for this node, with what its steps depend on."""

    resource: Desired
    spec: ContainerSpec
    resolved: ResolvedDevices
    recorded_needs: tuple[Address, ...] = ()
    """Its needs when it was last applied."""
    current_images: tuple[Address, ...] = ()
    """Images of its containers on the node."""
    specifications: tuple[Address, ...] = ()
    """The CDI specifications that list its devices, if the engine gives them by CDI."""
    adopts: str = ""
    """Id of the unmanaged container that it replaces."""
    by_cdi: bool = False
    """Its devices have to be requested by their CDI names."""
    also_running: tuple[Live, ...] = ()
    """Further running containers of it, left by an interrupted replacement."""

    @property
    def address(self) -> Address:
        """Its address."""
        return self.resource.address

    @property
    def needs(self) -> tuple[Address, ...]:
        """Its devices by their own addresses, and its repository."""
        return (*self.resolved.devices, *(need for need in self.resource.needs if need.kind != "gpu"))

    @property
    def settings(self) -> Address:
        """What is set before the container is started: its name and limits."""
        return self.address.part("settings")

    def issue(self, summary: str, detail: str, fix: str, severity: Severity = Severity.ERROR) -> Diagnostic:
        """A diagnostic about it."""
        return Diagnostic(summary, detail, fix, self.resource.where, str(self.address), severity)


def resolve_devices(names: Sequence[str], context: DiffContext) -> ResolvedDevices:
    """The UUIDs of GPUs and slices; ``h100`` or ``h100[*]`` of a `select: all` means ``h100[0]``, ``h100[1]``, …"""
    devices: dict[Address, str | KnownAfterApply] = {}
    unresolved: list[str] = []
    for name in names:
        matches = {address: uuid for address, uuid in context.bindings.items() if _names_device(name, address)}
        devices.update(matches)
        if not matches:
            unresolved.append(name)
    return ResolvedDevices(devices, tuple(unresolved))


def devices_of(live: Live, node: NodeDiff) -> tuple[Address, ...]:
    """Addresses of the GPUs and slices that a container has, by the plan file and by the node's record.

    The record counts because a container may hold a GPU that the plan file no longer names.
    """
    held = _devices(live, node.observed)
    uuids = {gpu.uuid for gpu in node.observed.gpus.gpus if held & {gpu.uuid, *(slice_.uuid for slice_ in gpu.slices)}}
    addresses = [address for address, uuid in node.context.bindings.items() if uuid in uuids]
    for address, entry in node.context.record.remembered.items():
        if address.kind == "gpu" and uuids & {str(entry.get("uuid")), str(entry.get("gpu"))}:
            addresses.append(address)
    return tuple(dict.fromkeys(addresses))


def devices_are_known(live: Live, observed: ObservedContainers) -> bool:
    """False if the container requests GPUs by index or all of them, and not every GPU of the node is known."""
    if observed.gpus.known or live.labels.get(DEVICES):
        return True
    names = asked(live.config, live.host_config, observed.default_runtime)
    return all(name.startswith(("GPU-", "MIG-")) for name in names)


def compare_devices(
    resolved: ResolvedDevices, live: Live, observed: ObservedContainers
) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference between the desired devices and those of a container, and the reasons."""
    held = _devices(live, observed)
    before = sorted(held)
    if resolved.unknown:
        names = ", ".join(address.name for address in resolved.unknown)
        reason = f"slice identity changes: {names} is re-created"
        return FieldChange("gpus", before, KnownAfterApply(f"UUID of {names}")), (reason,)
    after = sorted(str(uuid) for uuid in resolved.devices.values())
    if after == before:
        return None, ()
    return FieldChange("gpus", before, list(after)), tuple(_device_reasons(resolved, held, observed))


def usable_devices(live: Live, observed: ObservedContainers) -> frozenset[str]:
    """UUIDs of all devices that a running container can use, however it was given them.

    A privileged one has every device file of the node. A device file alone counts as the GPU of that index, because
    the driver numbers both in PCI bus order.
    """
    devices = requested(live.config, live.host_config, observed.default_runtime, observed.gpus)
    if live.host_config.get("Privileged") is True:
        devices |= all_devices(observed)
    for device in mappings(live.host_config.get("Devices")):
        path = mounts.path(str(device.get("PathOnHost") or ""))
        if path in _DEVICE_DIRECTORIES:
            devices |= all_devices(observed)
        if match := _GPU_FILE.match(path):
            devices |= {uuid for gpu in observed.gpus.gpus if gpu.index == int(match[1]) for uuid in gpu.usable}
    return devices


def all_devices(observed: ObservedContainers) -> frozenset[str]:
    """UUIDs of everything that can run programs: GPUs without MIG, and the slices of those with it."""
    return frozenset(uuid for gpu in observed.gpus.gpus for uuid in gpu.usable)


def _devices(live: Live, observed: ObservedContainers) -> frozenset[str]:
    if labelled := live.labels.get(DEVICES):
        return frozenset(labelled.split(","))
    return requested(live.config, live.host_config, observed.default_runtime, observed.gpus)


def _device_reasons(resolved: ResolvedDevices, held: frozenset[str], observed: ObservedContainers) -> Iterator[str]:
    gone = sorted(held - observed.gpus.uuids) if observed.gpus.known else []
    for uuid in gone:
        if uuid.startswith("MIG-"):
            yield f"slice identity changed: the container holds {uuid}, which no longer exists"
        else:
            yield f"it requests {uuid}, which is not on the node"
    if not resolved.devices:
        yield "it has GPUs, but the plan file gives it none"
    elif not gone:
        yield "it has other GPUs than the plan file gives it"


def _names_device(name: str, address: Address) -> bool:
    if address.kind != "gpu":
        return False
    if address.name == name:
        return True
    gpu, _, part = name.partition("/")
    pattern = re.escape(gpu.removesuffix("[*]")) + r"\[\d+\]" + (re.escape(f"/{part}") if part else "")
    return re.fullmatch(pattern, address.name) is not None
