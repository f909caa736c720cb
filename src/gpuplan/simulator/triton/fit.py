"""Whether the tensors of an ensemble have one data type each, whichever of its parts one asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.simulator.document import items, mapping, text
from gpuplan.simulator.state import Document

_SIDES = (("input_map", "input"), ("output_map", "output"))


def misfit(name: str, config: Document, parts: Mapping[str, Document]) -> str:
    """Why the parts do not make this ensemble, in Triton's words; an empty text where they do."""
    seen: dict[str, tuple[str, str]] = {}
    for tensor, kind, model in _uses(name, config, parts):
        before, theirs = seen.setdefault(tensor, (kind, model))
        if kind != before:
            return (
                f"in ensemble {name}, ensemble tensor {tensor}: inconsistent data type: {kind} is inferred from model "
                f"{model} while {before} is inferred from model {theirs}"
            )
    return ""


def _uses(name: str, config: Document, parts: Mapping[str, Document]) -> Iterator[tuple[str, str, str]]:
    """Each tensor of the ensemble, its type, and the model that says so."""
    for _, side in _SIDES:
        yield from ((tensor, kind, name) for tensor, kind in _types(config, side).items())
    for step in map(mapping, items(mapping(config.get("ensemble_scheduling")).get("step"))):
        model = text(step.get("model_name"))
        for mapped, side in _SIDES:
            types = _types(parts.get(model, {}), side)
            for theirs, ours in mapping(step.get(mapped)).items():
                if theirs in types:
                    yield text(ours), types[theirs], model


def _types(config: Document, side: str) -> dict[str, str]:
    tensors = (mapping(each) for each in items(config.get(side)))
    return {text(each.get("name")): text(each.get("data_type")) for each in tensors}
