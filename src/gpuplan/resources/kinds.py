"""All resource kinds, in the order in which a node is compared and built up."""

from __future__ import annotations

from collections.abc import Iterable

from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.gpu import GPU
from gpuplan.resources.model import MODEL
from gpuplan.resources.repository import REPOSITORY

KINDS = (GPU, REPOSITORY, CONTAINER, MODEL)


def with_companions(kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds, and those that belong to them: containers come with their images."""
    also = {kind.name: kind.companion_kinds for kind in KINDS}
    return tuple(dict.fromkeys(each for kind in kinds for each in (kind, *also.get(kind, ()))))
