"""Shortage: which resource of a GPU runs out, in words with numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuplan.resources.gpu.placement.solve.geometry import RESOURCES, Geometry, Shape


def shortages(geometry: Geometry, profiles: Sequence[str], more_memory: int = 0) -> str:
    """What is short where instances of all these profiles are to stand: “memory slices 11/8 and compute slices 8/7”.

    `more_memory` is what instances of other profiles take. Media engines are named where nothing else is short: they
    come with the slices. Empty where nothing is short by its number; then the places may still not fit together.
    """
    shapes = [geometry.by_name[profile] for profile in profiles]
    found = [*_instances(shapes), *_memory(geometry, shapes, more_memory), *_shared(geometry, shapes, RESOURCES[:1])]
    return " and ".join(found or _shared(geometry, shapes, RESOURCES))


def _instances(shapes: Sequence[Shape]) -> Iterator[str]:
    for shape, count in Counter(shapes).items():
        if count > shape.instances:
            yield f"instances of {shape.name} {count}/{shape.instances}"


def _memory(geometry: Geometry, shapes: Sequence[Shape], more: int) -> Iterator[str]:
    needed = more + sum(shape.size for shape in shapes)
    if needed > geometry.memory:
        yield f"memory slices {needed}/{geometry.memory}"


def _shared(geometry: Geometry, shapes: Sequence[Shape], resources: Sequence[str]) -> Iterator[str]:
    for number, resource in enumerate(resources):
        needed = sum(shape.demands[number] for shape in shapes)
        if needed > geometry.capacity[number]:
            yield f"{resource} {needed}/{geometry.capacity[number]}"
