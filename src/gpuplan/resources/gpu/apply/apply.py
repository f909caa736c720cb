"""Apply one step of a GPU; success codes are never trusted, only what a second look shows."""

from __future__ import annotations

from gpuplan.resources.gpu.apply import modes, slices
from gpuplan.resources.gpu.apply.step import Fact, RunningStep
from gpuplan.resources.gpu.recorded import gpu_fact
from gpuplan.resources.gpu.steps import (
    ApplySettings,
    CreateComputeInstances,
    CreateSlice,
    DestroyComputeInstance,
    DestroySlice,
    SetModes,
    StartServices,
    UpdateRecord,
    decode_payload,
)
from gpuplan.resources.kind import ApplyContext, Facts
from gpuplan.types.change import Step


def apply_step(step: Step, context: ApplyContext) -> Facts:
    """Apply the step; how the GPU was is recorded before anything is done to it.

    Raises:
        Problem: the node refused, something uses what would change, or the second look does not show the result.
    """
    payload = decode_payload(step.payload)
    target = payload.target
    run = RunningStep(step, context, target.uuid)
    gpu = gpu_fact(target.uuid, target.original)
    if not target.forget and not isinstance(payload, UpdateRecord):
        context.remember([(target.address, gpu)])
    facts = _apply(run, payload)
    return [*facts, (target.address, None if target.forget else gpu)]


def _apply(run: RunningStep, payload: object) -> list[Fact]:
    match payload:
        case UpdateRecord():
            removed: list[Fact] = [(address, None) for address in payload.remove]
            return [*removed, *((recorded.address, recorded.fact()) for recorded in payload.add)]
        case DestroySlice():
            return slices.destroy(run, payload)
        case CreateSlice():
            return slices.create(run, payload)
        case DestroyComputeInstance():
            return slices.destroy_compute(run, payload)
        case CreateComputeInstances():
            return slices.create_compute(run, payload)
        case SetModes():
            modes.set_modes(run, payload)
        case StartServices():
            modes.start_services(run)
        case ApplySettings():
            modes.apply_settings(run, payload)
    return []
