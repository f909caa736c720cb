"""CDI: specifications that do not list the node's devices, and containers whose GPUs the engine would refuse.

An engine that gives GPUs by CDI finds a slice only if a specification lists it, and nothing on a node updates the
specifications when slices change (NVIDIA/nvidia-container-toolkit#1828).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuplan.resources.container.gpu_access import FIRST_CDI, HOOK, WRITER, GpuMethod, Specification, Toolkit
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.resolve import DesiredContainer, NodeDiff
from gpuplan.resources.snapshot.devices import Gpus
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Verb
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import Json, KnownAfterApply, digest

CDI_KIND = "cdi"
"""Kind of the specifications' address. Like images they are not in the plan file, so neither recorded nor drift."""
DEFAULT_PATH = "/etc/cdi/nvidia.yaml"
"""Where a missing one is written: /var/run/cdi is empty after a boot, when containers start."""
_UUID = ("GPU-", "MIG-")
_POSITION = re.compile(r"(?:gpu|mig)?(\d+(?::\d+)?)")


@dataclass(frozen=True)
class SpecificationDifference:
    """How the devices that one specification lists differ from those of the node; false if they do not."""

    specification: Specification
    gone: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gone or self.missing or self.specification.fault)


def cdi_address(node: str) -> Address:
    """The address of a node's specifications."""
    return Address(node, CDI_KIND, "nvidia")


def compare_specification(specification: Specification, gpus: Gpus) -> SpecificationDifference:
    """Compare by UUID if it lists any, else by position: ``0``, ``1:0``, or in older forms ``gpu0`` and ``mig1:0``."""
    listed = {name for name in specification.devices if name.startswith(_UUID)}
    if listed:
        on_node = {uuid for gpu in gpus.gpus for uuid in gpu.usable}
    else:
        listed = {match[1] for name in specification.devices if (match := _POSITION.fullmatch(name))}
        on_node = {name for gpu in gpus.gpus for name in position_names(gpu.index, gpu.mig, len(gpu.slices))}
    return SpecificationDifference(specification, tuple(sorted(listed - on_node)), tuple(sorted(on_node - listed)))


def position_names(index: int, mig: bool, slices: int) -> tuple[str, ...]:
    """The CDI names of a GPU's devices by their position."""
    return tuple(f"{index}:{number}" for number in range(slices)) if mig else (str(index),)


def with_specifications(desired: DesiredContainer, toolkit: Toolkit) -> DesiredContainer:
    """The same container, depending on the node's CDI specifications if the engine gives GPUs by them."""
    if not desired.resolved.devices or not toolkit.reads_specifications:
        return desired
    by_cdi = toolkit.method is GpuMethod.CDI
    return replace(desired, specifications=(cdi_address(desired.address.node),), by_cdi=by_cdi)


def specification_change(containers: Sequence[DesiredContainer], node: NodeDiff) -> Change | None:
    """The change that writes the specifications again, if desired containers depend on them."""
    users = [desired for desired in containers if desired.specifications]
    if not users:
        return None
    observed = node.observed
    changing = _changing_devices(users, node.context)
    outdated = _outdated(observed)
    if not changing and not outdated:
        return None
    existing = observed.toolkit.specifications
    paths = [difference.specification.path for difference in outdated]
    paths = paths or [specification.path for specification in existing] or [DEFAULT_PATH]
    address = cdi_address(observed.node)
    step = Step(
        "write-cdi",
        address,
        Verb.UPDATE if existing else Verb.CREATE,
        f"write CDI specification {', '.join(paths)}",
        {"paths": list(paths)},
        makes=(address, *changing),
        uses=changing,
    )
    return Change(
        address,
        Action.UPDATE if existing else Action.CREATE,
        tuple(_device_field(difference, changing, observed.gpus) for difference in outdated),
        reasons=tuple(_reasons(outdated, changing, bool(existing))),
        steps=(step,),
    )


def specifications_digest(observed: ObservedContainers) -> str:
    """Digest of what the specifications list: a saved change set is stale if it has changed."""
    return digest([[file.path, *file.devices] for file in observed.toolkit.specifications])


def writer_missing(change: Change | None, observed: ObservedContainers, creating: bool) -> Iterator[Diagnostic]:
    """The specifications have to be written, but the program that writes them is not installed."""
    if change is None or WRITER in observed.toolkit.tools:
        return
    yield Diagnostic(
        "Cannot write the CDI specification",
        f"{'; '.join(change.reasons)}. {WRITER}, which writes it, is not installed on {observed.node}.",
        "Install it on the node:\n    sudo apt-get install -y nvidia-container-toolkit-base",
        address=str(change.address),
        severity=Severity.ERROR if creating else Severity.WARNING,
    )


def gpus_refused(starting: Sequence[DesiredContainer], toolkit: Toolkit) -> Iterator[Diagnostic]:
    """Why the engine would refuse GPUs to the containers that are to be started, or why they would lose them."""
    users = [desired for desired in starting if desired.resolved.devices]
    if users and toolkit.method is GpuMethod.NONE:
        yield _no_method(users, toolkit)
    elif users and toolkit.method is GpuMethod.HOOK and not toolkit.reads_specifications:
        yield from _access_at_risk(users[0], toolkit)


def runtime_refused(starting: Iterable[tuple[DesiredContainer, str]], toolkit: Toolkit) -> Iterator[Diagnostic]:
    """Existing containers that are to be started, each with its runtime, whose runtime the engine no longer has."""
    for desired, runtime in starting:
        if runtime and toolkit.runtimes and runtime not in toolkit.runtimes:
            yield desired.issue(
                "Unknown container runtime",
                f"{desired.address.name} was created with the runtime {runtime}, but the engine on "
                f"{desired.address.node} has only {', '.join(sorted(toolkit.runtimes))}.",
                "Configure the runtime again, then restart the engine:\n"
                "    sudo nvidia-ctk runtime configure --runtime=docker\n"
                "    sudo systemctl restart docker",
            )


def _no_method(users: Sequence[DesiredContainer], toolkit: Toolkit) -> Diagnostic:
    names = ", ".join(desired.address.name for desired in users)
    cdi = "CDI is off" if toolkit.major >= FIRST_CDI else f"Docker before {FIRST_CDI} has no CDI"
    runtime = " (though it has the runtime nvidia)" if "nvidia" in toolkit.runtimes else ""
    if WRITER in toolkit.tools and toolkit.major >= FIRST_CDI:
        fix = (
            "Enable CDI, then restart the engine:\n"
            "    sudo nvidia-ctk runtime configure --runtime=docker --cdi.enabled\n"
            "    sudo systemctl restart docker"
        )
    else:
        fix = (
            "Install nvidia-container-toolkit on the node, then restart the engine, which looks for it only when it "
            "starts:\n"
            "    sudo apt-get install -y nvidia-container-toolkit\n"
            "    sudo systemctl restart docker"
        )
    return users[0].issue(
        "The engine cannot give GPUs to containers",
        f"Docker {toolkit.version} on {users[0].address.node} cannot give GPUs to {names}: {HOOK} is not on its "
        f"PATH{runtime}, and {cdi}.",
        fix,
    )


def _access_at_risk(desired: DesiredContainer, toolkit: Toolkit) -> Iterator[Diagnostic]:
    """systemd keeps a device in its rules only if /dev/char links to it (NVIDIA/nvidia-container-toolkit#48)."""
    if not toolkit.systemd or toolkit.char_links is not False:
        return
    yield desired.issue(
        "Containers will lose their GPUs",
        f"On {desired.address.node} systemd manages the control groups of containers, and /dev/char has no links to "
        "the GPUs: the next systemctl daemon-reload takes GPU access from each container.",
        "Create the links, now and at each boot:\n"
        "    sudo nvidia-ctk system create-dev-char-symlinks --create-all\n"
        "Or enable CDI, or set native.cgroupdriver=cgroupfs for the engine.",
        Severity.WARNING,
    )


def _outdated(observed: ObservedContainers) -> tuple[SpecificationDifference, ...]:
    """Nothing if not all GPUs are known: a device that was not read may well exist."""
    existing = observed.toolkit.specifications
    if not observed.gpus.known:
        return ()
    if not existing:
        return (compare_specification(Specification(DEFAULT_PATH), observed.gpus),)
    return tuple(filter(None, (compare_specification(file, observed.gpus) for file in existing)))


def _changing_devices(users: Sequence[DesiredContainer], context: DiffContext) -> tuple[Address, ...]:
    """GPUs and slices that this change set re-creates."""
    disturbed = (address for address in context.disturbed if address.kind == "gpu")
    unknown = (address for desired in users for address in desired.resolved.unknown)
    return tuple(dict.fromkeys((*disturbed, *unknown)))


def _device_field(difference: SpecificationDifference, changing: Sequence[Address], gpus: Gpus) -> FieldChange:
    devices = difference.specification.devices
    before: Json = sorted(name for name in devices if name != "all")
    if changing:
        return FieldChange("devices", before, KnownAfterApply("the devices of the node"))
    by_uuid = not devices or any(name.startswith(_UUID) for name in devices)
    after = sorted(
        name
        for gpu in gpus.gpus
        for name in (gpu.usable if by_uuid else position_names(gpu.index, gpu.mig, len(gpu.slices)))
    )
    return FieldChange("devices", before, list(after))


def _reasons(outdated: Sequence[SpecificationDifference], changing: Sequence[Address], exists: bool) -> Iterator[str]:
    for difference in outdated:
        path = difference.specification.path
        if difference.specification.fault:
            yield f"{path} could not be read: {difference.specification.fault}"
        elif not exists:
            yield "the node has no CDI specification of its GPUs"
        else:
            parts = [f"lists {', '.join(difference.gone)}, which no longer exists"] if difference.gone else []
            parts += [f"lacks {', '.join(difference.missing)}"] if difference.missing else []
            yield f"CDI specification is outdated: {path} {' and '.join(parts)}"
    if changing:
        names = sorted(
            address.name
            for address in changing
            if not any(address.covers(part) for part in changing if part != address)
        )
        yield f"{', '.join(names)} {'change' if len(names) > 1 else 'changes'} in this run"
