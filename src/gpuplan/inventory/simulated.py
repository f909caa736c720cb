"""Whether the hardware of a simulated node exists: boards of the catalog, in numbers that a node holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from gpuplan.types.value import Json, JsonObject

MOST_GPUS = 16
"""GPUs of one node; no machine with MIG boards holds more."""
SHAPE = "Write gpus: [{model: A100-SXM4-80GB, count: 1}]."


def wrong_hardware(stated: JsonObject) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do) for each GPU that cannot be; the rest is checked when the node is made."""
    gpus = stated.get("gpus", [])
    if isinstance(gpus, str) or not isinstance(gpus, Sequence):
        yield "gpuplan_simulated.gpus is not a list.", SHAPE
        return
    total = 0
    for number, gpu in enumerate(gpus):
        model, count = _stated(gpu)
        if not isinstance(model, str):
            yield f"gpuplan_simulated.gpus[{number}] does not name a model.", SHAPE
        elif (fix := _unknown(model)) is not None:
            yield f"gpuplan_simulated has the GPU {model!r}, and the catalog has no board of that name.", fix
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            yield f"gpuplan_simulated.gpus[{number}].count is {count!r}; expected a whole number from 1.", ""
        else:
            total += count
    if total > MOST_GPUS:
        yield f"gpuplan_simulated has {total} GPUs; a node holds at most {MOST_GPUS}.", "Lower the counts."


def _stated(gpu: Json) -> tuple[Json, Json]:
    """Model and count; a text alone is the model of one GPU."""
    return (gpu.get("model"), gpu.get("count", 1)) if isinstance(gpu, Mapping) else (gpu, 1)


def _unknown(model: str) -> str | None:
    """The nearest names, where the catalog has no such board."""
    from gpuplan.nvidia.boards import BOARDS, find_board

    if find_board(model):
        return None
    names = [board.catalog_name for board in BOARDS]
    near = get_close_matches(model.upper(), names, n=3, cutoff=0.4)
    return f"Did you mean {' or '.join(near)}?" if near else f"Valid here: {', '.join(names)}."
