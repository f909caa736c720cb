"""The tensors of an ensemble: which step writes each, which read it, and which are never ready."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuplan.triton.lint.repository import listed, objects, text
from gpuplan.types.value import JsonObject

At = tuple[int, str]
"""Number of a step, and the key of its map."""


@dataclass
class Flow:
    """What becomes of the tensors of one ensemble."""

    writers: dict[str, At] = field(default_factory=dict)
    readers: dict[str, At] = field(default_factory=dict)
    """The first step that reads a tensor."""
    twice: dict[str, tuple[At, int, str]] = field(default_factory=dict)
    """Tensor → its first writer, and the second one's step and key."""
    needs: dict[str, set[str]] = field(default_factory=dict)
    """Tensor → those that the step which writes it reads."""
    ready: set[str] = field(default_factory=set)
    """Tensors that come to be once the inputs are there."""
    stuck: list[int] = field(default_factory=list)
    """Steps that wait for what only their own output could bring."""

    def missing_for(self, tensor: str) -> list[str]:
        """The tensors for want of which this one is never ready."""
        return sorted(self.needs.get(tensor, set()) - self.ready)


def flow_of(config: JsonObject) -> Flow:
    """The flow of an ensemble's config, as Triton sees it (ValidateEnsembleSchedulingConfig)."""
    flow = Flow()
    steps = listed(objects(config, "ensemble_scheduling"), "step")
    for index, step in enumerate(steps):
        inputs = {key: text(tensor) for key, tensor in objects(step, "input_map").items()}
        outputs = {key: text(tensor) for key, tensor in objects(step, "output_map").items()}
        for key, tensor in inputs.items():
            flow.readers.setdefault(tensor, (index, key))
        for key, tensor in outputs.items():
            if tensor in flow.writers:
                flow.twice[tensor] = (flow.writers[tensor], index, key)
            else:
                flow.writers[tensor] = (index, key)
            flow.needs.setdefault(tensor, set()).update(inputs.values())
    flow.ready = {text(tensor.get("name")) for tensor in listed(config, "input")}
    while more := {tensor for tensor, needs in flow.needs.items() if tensor not in flow.ready and needs <= flow.ready}:
        flow.ready |= more
    flow.stuck = [index for index in range(len(steps)) if _waits_for_itself(flow, index)]
    return flow


def _waits_for_itself(flow: Flow, index: int) -> bool:
    written = {tensor for tensor, (step, _) in flow.writers.items() if step == index}
    behind, waiting = set[str](), [need for tensor in written for need in flow.needs[tensor]]
    while waiting:
        tensor = waiting.pop()
        if tensor in written:
            return True
        if tensor not in behind:
            behind.add(tensor)
            waiting.extend(flow.needs.get(tensor, ()))
    return False
