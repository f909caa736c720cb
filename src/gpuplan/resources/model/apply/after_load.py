"""Right after a load: the model answers the inference that its `smoke` asks, or the load has failed."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.resources.model.apply.proving import ONCE, Place, failures, prove
from gpuplan.resources.model.smoke.asked import asked_from
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import JsonObject, as_object


def prove_loaded(place: Place, stated: JsonObject, versions: Sequence[int]) -> None:
    """Ask each version of a model once, where its spec, as a step holds it, has an inference to ask.

    Raises:
        Problem: one of them does not answer as it should, or it did not come to asking.
    """
    if "smoke" not in stated:
        return
    address = Address(place.context.node, "model", f"{stated['container']}/{stated['model']}")
    proofs = prove(place, address, versions, asked_from(as_object(stated["smoke"])), ONCE)
    if wrong := failures(proofs):
        raise Problem(wrong)
    for proof in proofs:
        place.context.say(f"version {proof.version} of {stated['model']} answers in {1000 * proof.latencies[0]:.1f} ms")
