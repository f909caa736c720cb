"""Preflight: why an engine would refuse GPUs to containers, or lose them, told before anything is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuplan.resources.container.steps import DesiredContainer
from gpuplan.resources.container.toolkit import FIRST_CDI, HOOK, WRITER, GpuMethod, Toolkit
from gpuplan.types.diagnostic import Diagnostic, Severity


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
