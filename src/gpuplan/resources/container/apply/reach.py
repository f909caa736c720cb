"""Reach: whether a container that was started really gets to its GPUs."""

from __future__ import annotations

from gpuplan.resources.container.access import UNKNOWN_ERROR, read_access
from gpuplan.resources.kind import ApplyContext
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem


def check_gpu_access(container: str, address: Address, context: ApplyContext) -> None:
    """Look into the container's control group; where nobody can tell, it is believed.

    Raises:
        Problem: it may not open the device files that it was given.
    """
    denied = read_access(context.look("access")).get(container)
    if denied:
        raise Problem(
            Diagnostic(
                "A container does not reach its GPUs",
                f"{address.name} runs, and its control group denies {', '.join(f'/dev/{name}' for name in denied)}: "
                f"programs in it would say “{UNKNOWN_ERROR}”.",
                "Look at the device rules of the node: no-cgroups in /etc/nvidia-container-runtime/config.toml has to "
                "be false for an engine that runs as root.",
                address=str(address),
            )
        )
