"""The apply door of the gpu room: one act through NVML, then a second look; success codes are never believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gpuplan.resources.gpu import memory
from gpuplan.resources.gpu.apply import gpu_settings, slices
from gpuplan.resources.gpu.apply.task import Fact, Task
from gpuplan.resources.kind import ApplyContext, Facts
from gpuplan.types.address import parse_address
from gpuplan.types.change import Step


def apply_step(step: Step, context: ApplyContext) -> Facts:
    """The apply door. How the GPU was found is remembered before anything is done to it.

    Raises:
        Problem: the node refused, somebody holds what would change, or the second look does not find it done.
    """
    task = Task(step, context)
    unit = parse_address(task.text("unit"))
    forgets = bool(step.payload.get("forget_gpu"))
    gpu = memory.gpu_fact(task.uuid, step.payload["found"])
    if not forgets and task.text("act") != "remember":
        context.remember([(unit, gpu)])
    facts = _ACTS[task.text("act")](task)
    return [*facts, (unit, None if forgets else gpu)]


def _remember(task: Task) -> list[Fact]:
    remember, forget = task.step.payload["remember"], task.step.payload["forget"]
    gone: list[Fact] = [(parse_address(str(each)), None) for each in forget] if isinstance(forget, list) else []
    named = remember.items() if isinstance(remember, Mapping) else ()
    return [*gone, *((parse_address(part), fact) for part, fact in named if isinstance(fact, Mapping))]


_ACTS: Mapping[str, Callable[[Task], list[Fact]]] = MappingProxyType(
    {"remember": _remember, **slices.ACTS, **gpu_settings.ACTS}
)
