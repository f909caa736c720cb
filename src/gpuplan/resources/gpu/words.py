"""What is said about GPUs that cannot be read, found, changed or filled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpuplan.types.diagnostic import Diagnostic, Location

if TYPE_CHECKING:
    from gpuplan.resources.gpu.desired import SliceSpec
    from gpuplan.resources.gpu.placement.solve.solve import Shortage
    from gpuplan.resources.gpu.read import Gpu, LostGpu, ObservedGpus
    from gpuplan.types.address import Address
    from gpuplan.types.diagnostic import Problem
    from gpuplan.types.resource import Desired
    from gpuplan.types.snapshot import ProbeError

_REMEDIES = {
    "no_library": "Install the NVIDIA driver on the node; libnvidia-ml.so.1 comes with it.",
    "no_driver": "Load the NVIDIA driver on the node, then try again.",
    "driver_mismatch": "The driver was upgraded while the old one is loaded: reboot the node, then try again.",
    "no_permission": "Let gpuplan become root on the node: ansible_become: true.",
    "gpu_is_lost": "The GPU fell off the bus; look at the kernel's log, then reboot the node.",
    "timeout": "The driver did not answer in time; look for processes in state D and at the kernel's log on the node.",
}
_PARTS = re.compile(r"^(?:\d+c\.)?(\d+)g(?:\.(\d+)gb)?(.*)$")
_LAST_REMEDY = "Run nvidia-smi on the node and look at the kernel's log there."


def listed(words: Iterable[str]) -> str:
    """“a, b and c”."""
    *first, last = [*words] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def told(problem: Problem) -> str:
    """What a problem says, in one line."""
    return "; ".join(f"{each.summary}: {each.detail}" for each in problem.diagnostics)


def unread(address: Address, error: ProbeError, what: str = "GPUs") -> Diagnostic:
    """A GPU, or part of what it should say, that could not be read."""
    return Diagnostic(
        "GPUs could not be read",
        f"The {what} of {address.node} could not be read: {error.text}.",
        _REMEDIES.get(error.code, _LAST_REMEDY),
        address=str(address),
    )


def unread_containers(address: Address, error: ProbeError) -> Diagnostic:
    """Containers that could not be read, so that nobody knows who was given a GPU."""
    return Diagnostic(
        "Who uses the GPU is not known",
        f"The containers of {address.node} could not be read: {error.text}. One that was given {address.name} and"
        " computes nothing just now would not be seen.",
        "See why Docker does not answer on the node (systemctl status docker), then try again.",
        address=str(address),
    )


def unread_others(address: Address, error: ProbeError) -> Diagnostic:
    """Records of other plan files that could not be read, so that nobody knows whose a slice is."""
    return Diagnostic(
        "Whose the slices are is not known",
        f"What other plan files made on {address.node} could not be read: {error.text}. A slice that {address.name}"
        " did not make may be one of theirs.",
        "Put the record of that plan file back, or remove it where nothing of it stands, then try again.",
        address=str(address),
    )


def lost(address: Address, gpu: LostGpu) -> Diagnostic:
    """A GPU that does not answer."""
    return unread(address, gpu.error, f"GPU {gpu.index}")


def no_gpu(desired: Desired, sought: str, observed: ObservedGpus) -> Diagnostic:
    """A selector that means no GPU."""
    there = listed(f"{gpu.index}: {gpu.name} ({gpu.uuid}, {gpu.pci})" for gpu in observed.gpus)
    return Diagnostic(
        "No such GPU",
        f"{observed.node} has no GPU with {sought}. There: {there}.",
        "Correct the selector in the plan file, or look why the GPU is not there.",
        desired.where,
        str(desired.address),
    )


def many_gpus(desired: Desired, sought: str, matching: Sequence[Gpu]) -> Diagnostic:
    """A selector that means more than one GPU."""
    return Diagnostic(
        "A selector means more than one GPU",
        f"{sought} means {listed(f'{gpu.index} ({gpu.name}, {gpu.uuid})' for gpu in matching)}.",
        "Select by index, uuid or pci, or write select: all.",
        desired.where,
        str(desired.address),
    )


def no_mig(address: Address, gpu: Gpu, where: Location | None) -> Diagnostic:
    """Slices on a GPU that cannot be cut."""
    return Diagnostic(
        "This GPU has no MIG",
        f"{address.name} is to be cut into slices, but it is an {gpu.name}, which cannot be.",
        "Select another GPU, or leave mig out.",
        where,
        str(address),
    )


def unknown_profile(address: Address, wanted: SliceSpec, gpu: Gpu, where: Location | None) -> Diagnostic:
    """A profile that this GPU does not have, with those that it has, the nearest first."""
    if wanted.memory is not None:
        have = listed(f"{each.name} with {each.memory_mib} MiB" for each in gpu.profiles)
        fix = f"State at most {max((each.memory_mib for each in gpu.profiles), default=0)}MiB, or select a larger GPU."
    else:
        valid = sorted((each.name for each in gpu.profiles), key=lambda name: _distance(wanted.profile, name))
        have = listed(valid)
        fix = f"Write {valid[0]}, or another of them." if valid else "Update the driver, or leave mig out."
    return Diagnostic(
        "This GPU does not have the profile",
        f"The slice {wanted.name} of {address.name} is to be {wanted.wish}, which this {gpu.name} does not have."
        f" It has {have}.",
        fix,
        where,
        str(address),
    )


def _distance(wanted: str, name: str) -> tuple[object, ...]:
    """How far one profile's name is from another's: slices first, then what is added to it, then memory."""
    ours, theirs = (_PARTS.match(each) for each in (wanted, name))
    if ours is None or theirs is None:
        return (True, name)
    slices, memory = (abs(int(ours[part]) - int(theirs[part])) if ours[part] and theirs[part] else 0 for part in (1, 2))
    return (False, slices, ours[3] != theirs[3], memory, name)


def no_room(address: Address, gpu: Gpu, short: Shortage, where: Location | None) -> Diagnostic:
    """Slices that do not fit together."""
    fitting = f"{listed(short.fitting)} {'fits' if len(short.fitting) == 1 else 'fit together'}"
    return Diagnostic(
        "The slices do not fit on the GPU",
        f"The slices of {address.name} cannot stand on one {gpu.name} together: {short.resource}.",
        short.fix or f"Of those written, {fitting}: take {listed(short.surplus)} away, or write smaller ones.",
        where,
        str(address),
    )


def needs_reset(address: Address, gpu: Gpu, holders: Sequence[str]) -> Diagnostic:
    """A mode that was changed and has not taken effect."""
    held = f" It is held by {listed(holders)}." if holders else ""
    return Diagnostic(
        "A GPU waits for a reset",
        f"{_pending(address, gpu)} after a reset of the GPU.{held}",
        f"Stop what holds the GPU (also monitors such as DCGM), then run `nvidia-smi --gpu-reset -i {gpu.uuid}` on"
        " the node, or reboot it.",
        address=str(address),
    )


def needs_reboot(address: Address, gpu: Gpu) -> Diagnostic:
    """A mode that was changed on a GPU that cannot be reset where it is."""
    return Diagnostic(
        "A GPU waits for a reboot",
        f"{_pending(address, gpu)} after a reboot of {address.node}: it is passed through to a virtual machine, where"
        " no guest can reset it.",
        "Reboot the node when that suits, then apply again; gpuplan never reboots a node.",
        address=str(address),
    )


def _pending(address: Address, gpu: Gpu) -> str:
    """“MIG mode of a100-0 (GPU-…) is off and will be on”."""
    what, on = ("MIG mode", gpu.current) if gpu.current != gpu.pending else ("ECC", bool(gpu.ecc and gpu.ecc.current))
    now, then = ("on", "off") if on else ("off", "on")
    return f"{what} of {address.name} ({gpu.uuid}) is {now} and will be {then}"
