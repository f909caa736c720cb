"""The server that a plan file's models are for, as the checks want to know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.nvidia.boards import find_board
from gpuplan.planfile.expand import Placed
from gpuplan.planfile.schema import Container, PlanFile, Triton
from gpuplan.triton.lint import TargetServer, VisibleGpu
from gpuplan.triton.releases import cache_flag, flags, release_of

ENGINE_DEFAULT = 64 << 20
"""Bytes of /dev/shm that Docker gives a container that states none."""
_NUMBER = "["


def server_of(plan: PlanFile, placed: Placed) -> TargetServer:
    """What is known of one model server before any node is asked."""
    container = placed.container
    release = release_of(container.image or "")
    return TargetServer(
        name=placed.name,
        release=release.name if release else "",
        image=container.image or "",
        gpus=_gpus(plan, container),
        shm_size=_shared_memory(container),
        flags=_flags(container.triton or Triton(), container.image or ""),
        flags_are_checked=True,
        completion_is_stated=container.triton is not None and container.triton.auto_complete is not None,
        where=lambda *path: plan.where(*placed.path, *path),
    )


def _gpus(plan: PlanFile, container: Container) -> tuple[VisibleGpu, ...] | None:
    """The GPUs and slices in the order in which they are stated; None where `select: all` leaves their number open."""
    if any(_numbered_by_all(plan, reference) for reference in container.gpus):
        return None
    return tuple(VisibleGpu(reference, _capability(plan, reference)) for reference in container.gpus)


def _numbered_by_all(plan: PlanFile, reference: str) -> bool:
    gpu = plan.gpus.get(reference.partition("/")[0])
    return gpu is not None and gpu.select == "all"


def _capability(plan: PlanFile, reference: str) -> str:
    """The compute capability, where the plan file selects the GPU by a product name that the catalog has."""
    gpu = plan.gpus.get(reference.partition("/")[0].partition(_NUMBER)[0])
    if gpu is None or gpu.select == "all" or gpu.select.model is None:
        return ""
    board = find_board(gpu.select.model)
    return board.compute_capability if board else ""


def _shared_memory(container: Container) -> int | None:
    if container.ipc not in (None, "private", "shareable"):
        return None
    return ENGINE_DEFAULT if container.shm_size is None else container.shm_size


def _flags(triton: Triton, image: str) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for stated, value in triton.flags.items():
        name, words = stated.removeprefix("--"), tuple(_words(value))
        switched_off = name in flags() and flags()[name].takes == "none" and words == ("false",)
        if not switched_off:
            found[name] = words
    if triton.auto_complete is False:
        found.setdefault("disable-auto-complete-config", ("true",))
    if triton.cache is not None:
        name, _, size = cache_flag(triton.cache, release_of(image)).removeprefix("--").partition("=")
        found.setdefault(name, (size,))
    return found


def _words(value: object) -> Iterator[str]:
    for each in value if isinstance(value, tuple) else (value,):
        yield str(each).lower() if isinstance(each, bool) else str(each)
