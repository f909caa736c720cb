"""The rooms: one folder for each resource kind, in the order in which a node is compared and built up."""

from collections.abc import Iterable

from gpuplan.resources.container import CONTAINER
from gpuplan.resources.gpu import GPU
from gpuplan.resources.model import MODEL
from gpuplan.resources.repository import REPOSITORY

KINDS = (GPU, REPOSITORY, CONTAINER, MODEL)


def with_companions(kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds, and those that their rooms bring along: containers come with their images."""
    also = {room.kind: room.also for room in KINDS}
    return tuple(dict.fromkeys(each for kind in kinds for each in (kind, *also.get(kind, ()))))
