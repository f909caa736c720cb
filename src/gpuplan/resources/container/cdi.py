"""CDI: specifications that do not list what the node has, and the change that has them written anew.

An engine that gives GPUs by CDI finds a slice only where a specification lists it, and nothing on a node writes one
anew when slices change (NVIDIA/nvidia-container-toolkit#1828).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuplan.resources.container.gpu_access import FIRST_CDI, HOOK, WRITER, GpuMethod, Specification, Toolkit
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.resolve import DesiredContainer
from gpuplan.resources.snapshot.devices import Gpus
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Verb
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import Json, Later, digest

CDI_KIND = "cdi"
"""Specifications are in nobody's wishes: neither recorded nor a finding of a drift check, as images are not."""
DEFAULT_PATH = "/etc/cdi/nvidia.yaml"
"""Where one is written that is not there: /var/run/cdi is empty after a boot, when containers come up."""
_UUID = ("GPU-", "MIG-")
_PLACE_NAME = re.compile(r"(?:gpu|mig)?(\d+(?::\d+)?)")


@dataclass(frozen=True)
class SpecificationDifference:
    """How the devices that one specification lists differ from those of the node."""

    specification: Specification
    gone: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gone or self.missing or self.specification.fault)


def cdi_address(node: str) -> Address:
    """The address of a node's specifications."""
    return Address(node, CDI_KIND, "nvidia")


def compare_specification(specification: Specification, gpus: Gpus) -> SpecificationDifference:
    """By UUID where it lists any, else by place: ``0``, ``1:0``; also in the older forms ``gpu0`` and ``mig1:0``."""
    listed = {name for name in specification.devices if name.startswith(_UUID)}
    if listed:
        there = {uuid for gpu in gpus.gpus for uuid in gpu.usable}
    else:
        listed = {match[1] for name in specification.devices if (match := _PLACE_NAME.fullmatch(name))}
        there = {place for gpu in gpus.gpus for place in position_names(gpu.index, gpu.mig, len(gpu.slices))}
    return SpecificationDifference(specification, tuple(sorted(listed - there)), tuple(sorted(there - listed)))


def position_names(index: int, mig: bool, slices: int) -> tuple[str, ...]:
    """The names of a GPU's devices by their place."""
    return tuple(f"{index}:{number}" for number in range(slices)) if mig else (str(index),)


def with_specifications(wanted: DesiredContainer, toolkit: Toolkit) -> DesiredContainer:
    """The same container, with what its GPUs depend on where the engine gives them by CDI."""
    if not wanted.bound.devices or not toolkit.reads_specifications:
        return wanted
    return replace(wanted, specifications=(cdi_address(wanted.address.node),), by_cdi=toolkit.way is GpuMethod.CDI)


def specification_change(
    users: Sequence[DesiredContainer], observed: ObservedContainers, context: DiffContext
) -> Change | None:
    """The change that writes the specifications anew, where containers that are wanted get their GPUs by them."""
    users = [wanted for wanted in users if wanted.specifications]
    if not users:
        return None
    moving = _moving(users, context)
    stale = _stale(observed)
    if not moving and not stale:
        return None
    here = observed.toolkit.specifications
    paths = [each.specification.path for each in stale] or [each.path for each in here] or [DEFAULT_PATH]
    title = f"regenerate CDI specification {', '.join(paths)}"
    step = Step(
        "regenerate",
        cdi_address(observed.node),
        Verb.UPDATE if here else Verb.CREATE,
        title,
        {"paths": list(paths)},
        makes=(cdi_address(observed.node), *moving),
        uses=moving,
    )
    return Change(
        cdi_address(observed.node),
        Action.UPDATE if here else Action.CREATE,
        tuple(_field(each, moving, observed.gpus) for each in stale),
        reasons=tuple(_reasons(stale, moving, bool(here))),
        steps=(step,),
    )


def specifications_digest(observed: ObservedContainers) -> str:
    """Digest of what the specifications list: a saved change set is stale when that has moved."""
    return digest([[each.path, *each.devices] for each in observed.toolkit.specifications])


def writer_missing(change: Change | None, observed: ObservedContainers, making: bool) -> Iterator[Diagnostic]:
    """The specifications have to be written anew, and the program that does so is not there."""
    if change is None or WRITER in observed.toolkit.tools:
        return
    yield Diagnostic(
        "A CDI specification cannot be regenerated",
        f"{'; '.join(change.reasons)}; {WRITER} is not on {observed.node}, so it cannot be written anew.",
        "Install it:\n    sudo apt-get install -y nvidia-container-toolkit-base",
        address=str(change.address),
        severity=Severity.ERROR if making else Severity.WARNING,
    )


def _stale(observed: ObservedContainers) -> tuple[SpecificationDifference, ...]:
    """Nothing where not all GPUs are known: what is not seen may well be there."""
    here = observed.toolkit.specifications
    if not observed.gpus.known:
        return ()
    if not here:
        return (compare_specification(Specification(DEFAULT_PATH), observed.gpus),)
    return tuple(filter(None, (compare_specification(each, observed.gpus) for each in here)))


def _moving(users: Sequence[DesiredContainer], context: DiffContext) -> tuple[Address, ...]:
    """GPUs and slices that this change set makes anew."""
    disturbed = (address for address in context.disturbed if address.kind == "gpu")
    return tuple(dict.fromkeys((*disturbed, *(later for wanted in users for later in wanted.bound.later))))


def _field(stale: SpecificationDifference, moving: Sequence[Address], gpus: Gpus) -> FieldChange:
    before: Json = sorted(name for name in stale.specification.devices if name != "all")
    if moving:
        return FieldChange("devices", before, Later("the devices of the node"))
    uuids = not stale.specification.devices or any(name.startswith(_UUID) for name in stale.specification.devices)
    after = sorted(
        name
        for gpu in gpus.gpus
        for name in (gpu.usable if uuids else position_names(gpu.index, gpu.mig, len(gpu.slices)))
    )
    return FieldChange("devices", before, list(after))


def _reasons(stale: Sequence[SpecificationDifference], moving: Sequence[Address], here: bool) -> Iterator[str]:
    for each in stale:
        path = each.specification.path
        if each.specification.fault:
            yield f"{path} could not be read: {each.specification.fault}"
        elif not here:
            yield "there is no CDI specification of the GPUs"
        else:
            words = [f"lists {', '.join(each.gone)}, which no longer exists"] if each.gone else []
            words += [f"lacks {', '.join(each.missing)}"] if each.missing else []
            yield f"CDI specification is stale: {path} {' and '.join(words)}"
    if moving:
        names = sorted(each.name for each in moving if not any(each.covers(part) for part in moving if part != each))
        yield f"{', '.join(names)} {'change' if len(names) > 1 else 'changes'} in this run"


def gpus_refused(making: Sequence[DesiredContainer], toolkit: Toolkit) -> Iterator[Diagnostic]:
    """Why the engine would refuse the GPUs of the containers that are to be made or started."""
    having = [wanted for wanted in making if wanted.bound.devices]
    if having and toolkit.way is GpuMethod.NONE:
        yield _no_way(having, toolkit)
    elif having and toolkit.way is GpuMethod.HOOK and not toolkit.reads_specifications:
        yield from _loses_access(having, toolkit)


def runtime_refused(starting: Iterable[tuple[DesiredContainer, str]], toolkit: Toolkit) -> Iterator[Diagnostic]:
    """Containers that are to be started as they are, with the runtime of each, whose runtime the engine lacks."""
    for wanted, runtime in starting:
        if runtime and toolkit.runtimes and runtime not in toolkit.runtimes:
            name, node = wanted.address.name, wanted.address.node
            yield Diagnostic(
                "The engine does not have that runtime",
                f"{name} was made with the runtime {runtime}; the engine on {node} has "
                f"{', '.join(sorted(toolkit.runtimes))}.",
                "Set the runtime up again, then restart the engine:\n"
                "    sudo nvidia-ctk runtime configure --runtime=docker\n"
                "    sudo systemctl restart docker",
                where=wanted.desired.where,
                address=str(wanted.address),
            )


def _no_way(having: Sequence[DesiredContainer], toolkit: Toolkit) -> Diagnostic:
    first = having[0]
    names = ", ".join(wanted.address.name for wanted in having)
    off = "CDI is off" if toolkit.major >= FIRST_CDI else f"Docker before {FIRST_CDI} has no CDI"
    beside = ", though it has the runtime nvidia" if "nvidia" in toolkit.runtimes else ""
    if WRITER in toolkit.tools and toolkit.major >= FIRST_CDI:
        fix = (
            "Turn CDI on, then restart the engine:\n"
            "    sudo nvidia-ctk runtime configure --runtime=docker --cdi.enabled\n"
            "    sudo systemctl restart docker"
        )
    else:
        fix = (
            "Install the package nvidia-container-toolkit on the node, then restart the engine, which looks for it "
            "only when it starts:\n"
            "    sudo apt-get install -y nvidia-container-toolkit\n"
            "    sudo systemctl restart docker"
        )
    return Diagnostic(
        "The engine cannot give GPUs to containers",
        f"Docker {toolkit.version} on {first.address.node} cannot give GPUs to {names}: {HOOK} is not on its PATH"
        f"{beside}, and {off}.",
        fix,
        where=first.desired.where,
        address=str(first.address),
    )


def _loses_access(having: Sequence[DesiredContainer], toolkit: Toolkit) -> Iterator[Diagnostic]:
    """systemd keeps a device in its rules only where /dev/char leads to it (NVIDIA/nvidia-container-toolkit#48)."""
    if not toolkit.systemd or toolkit.char_links is not False:
        return
    first = having[0]
    yield Diagnostic(
        "Containers will lose their GPUs",
        f"On {first.address.node} systemd keeps the control groups of containers, and /dev/char has no links to the "
        "GPUs: at the next systemctl daemon-reload each container loses access to them.",
        "Have the links made, now and at each boot:\n"
        "    sudo nvidia-ctk system create-dev-char-symlinks --create-all\n"
        "or turn on CDI, or set native.cgroupdriver=cgroupfs for the engine.",
        where=first.desired.where,
        address=str(first.address),
        severity=Severity.WARNING,
    )
