"""Isolation: which GPUs and slices of the plan file a container sees that the plan file did not make."""

from __future__ import annotations

import re

from gpuplan.resources.container import normal
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.snapshot.devices import requested
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mappings
from gpuplan.types.address import Address
from gpuplan.types.resource import DiffContext

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
        path = normal.path(str(device.get("PathOnHost") or ""))
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
