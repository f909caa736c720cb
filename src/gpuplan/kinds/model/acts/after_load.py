"""Right after a load: the model answers the inference that its `smoke` asks, or the load has failed."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.kinds.model.acts.proving import ONCE, Place, failures, prove
from gpuplan.kinds.model.smoke.asked import asked_from
from gpuplan.model.change import Step
from gpuplan.model.diagnostic import Problem
from gpuplan.model.value import as_object


def prove_loaded(step: Step, place: Place, versions: Sequence[int]) -> None:
    """Ask each version once, where the step has an inference to ask.

    Raises:
        Problem: one of them does not answer as it should, or it did not come to asking.
    """
    if "smoke" not in step.arguments:
        return
    proofs = prove(place, step.address, versions, asked_from(as_object(step.arguments["smoke"])), ONCE)
    if wrong := failures(proofs):
        raise Problem(wrong)
    for proof in proofs:
        place.hands.say(f"version {proof.version} answers in {1000 * proof.latencies[0]:.1f} ms")
