"""MIG geometry on every board, and what holds after any sequence of calls."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuplan.nvidia.boards import BOARDS, Board
from gpuplan.simulator.hardware import open_store
from gpuplan.simulator.nvml import SimulatedNvml
from gpuplan.simulator.state import SimulatedProcess, board_of
from gpuplan.simulator.store import StateStore
from tests.conftest import examples
from tests.simulator.conftest import host

FRESH = itertools.count()
A100 = "A100-SXM4-80GB"


def node(board: str = A100, mig: bool = True) -> tuple[StateStore, SimulatedNvml]:
    """A node that no other test has."""
    store = open_store(host(board, name=f"n{next(FRESH)}"))
    nvml = SimulatedNvml(store, (), lambda: None)
    if mig:
        assert nvml.nvmlDeviceSetMigMode(nvml.nvmlDeviceGetHandleByIndex(0), 1) == pynvml.NVML_SUCCESS
    return store, nvml


def code(act: Callable[[], object]) -> int:
    """The code with which NVML refuses."""
    with pytest.raises(pynvml.NVMLError) as refused:
        act()
    return int(refused.value.value)


def create(nvml: SimulatedNvml, profile_id: int, start: int, size: int) -> object:
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return nvml.nvmlDeviceCreateGpuInstanceWithPlacement(
        nvml.nvmlDeviceGetHandleByIndex(0), profile_id, ctypes.byref(place)
    )


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.catalog_name)
def test_every_profile_stands_at_each_of_its_places(board: Board) -> None:
    _, nvml = node(board.catalog_name)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    for profile in board.profiles:
        info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, profile.enum)
        assert (info.id, info.name, info.memorySizeMB) == (profile.id, f"MIG {profile.name}", profile.memory_mib)
        for start, size in profile.placements:
            made = create(nvml, profile.id, start, size)
            told = nvml.nvmlGpuInstanceGetInfo(made)
            assert (told.profileId, told.placement.start, told.placement.size) == (profile.id, start, size)
            nvml.nvmlGpuInstanceDestroy(made)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.catalog_name)
def test_a_gpu_holds_as_many_as_the_profile_says(board: Board) -> None:
    for profile in board.profiles:
        _, nvml = node(board.catalog_name)
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        for left in range(profile.instances, 0, -1):
            assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile.id) == left
            nvml.nvmlDeviceCreateGpuInstance(gpu, profile.id)
        assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile.id) == 0
        full = code(lambda gpu=gpu, id_=profile.id, nvml=nvml: nvml.nvmlDeviceCreateGpuInstance(gpu, id_))
        assert full == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES


def test_media_engines_are_given_once() -> None:
    _, nvml = node("RTX-PRO-6000")
    create(nvml, 21, 0, 1)
    assert code(lambda: create(nvml, 65, 1, 1)) == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    create(nvml, 14, 1, 1)


Act = tuple[str, int, int]


@pytest.mark.faults
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    board=st.sampled_from([board.catalog_name for board in BOARDS]),
    acts=st.lists(
        st.tuples(st.sampled_from(["create", "destroy"]), st.integers(0, 10), st.integers(0, 6)), max_size=20
    ),
)
def test_instances_never_overlap_nor_exceed_the_gpu(board: str, acts: list[Act]) -> None:
    store, nvml = node(board)
    known = board_of(store.read().gpus[0])
    seen: set[str] = set()
    for act, first, second in acts:
        instances = store.read().gpus[0].instances
        if act == "create":
            profile = known.profiles[first % len(known.profiles)]
            start, size = profile.placements[second % len(profile.placements)]
            if uuid := cut(store, nvml, profile.id, start, size):
                assert uuid not in seen
                seen.add(uuid)
        elif instances:
            destroy(nvml, instances[first % len(instances)].id)
        holds(store, known)


def cut(store: StateStore, nvml: SimulatedNvml, profile_id: int, start: int, size: int) -> str:
    """Make a slice; its UUID, or an empty text where there is no room."""
    try:
        made = create(nvml, profile_id, start, size)
    except nvml.NVMLError_InsufficientResources:
        return ""
    nvml.nvmlGpuInstanceCreateComputeInstance(made, 0)
    (uuid,) = [one.computes[0].uuid for one in store.read().gpus[0].instances if one.start == start]
    return uuid


def destroy(nvml: SimulatedNvml, number: int) -> None:
    """Destroy a slice, which does not go before its compute instance."""
    instance = nvml.nvmlDeviceGetGpuInstanceById(nvml.nvmlDeviceGetHandleByIndex(0), number)
    assert code(lambda: nvml.nvmlGpuInstanceDestroy(instance)) == pynvml.NVML_ERROR_IN_USE
    (compute,) = compute_instances(nvml, instance)
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)


def compute_instances(nvml: SimulatedNvml, instance: object) -> list[object]:
    count = ctypes.c_uint(8)
    array = (pynvml.c_nvmlComputeInstance_t * 8)()
    nvml.nvmlGpuInstanceGetComputeInstances(instance, 0, array, ctypes.byref(count))
    return [array[index] for index in range(count.value)]


def holds(store: StateStore, board: Board) -> None:
    """What is true of a GPU at any time."""
    instances = store.read().gpus[0].instances
    slices = [place for one in instances for place in range(one.start, one.start + one.size)]
    assert len(slices) == len(set(slices))
    assert len({one.id for one in instances}) == len(instances)
    by_id = {profile.id: profile for profile in board.profiles}
    assert sum(by_id[one.profile_id].slices for one in instances) <= board.max_instances
    for one in instances:
        assert (one.start, one.size) in by_id[one.profile_id].placements


def test_a_compute_instance_with_a_process_stays() -> None:
    store, nvml = node()
    instance = create(nvml, 9, 0, 4)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
    number = nvml.nvmlGpuInstanceGetInfo(instance).id
    with store.write() as state:
        state.processes.append(SimulatedProcess(99, "python", 0, 1024, number, 0))
    assert code(lambda: nvml.nvmlComputeInstanceDestroy(compute)) == pynvml.NVML_ERROR_IN_USE
    (process,) = nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(0))
    assert (process.pid, process.usedGpuMemory, process.gpuInstanceId) == (99, 1 << 30, number)
    mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.nvmlDeviceGetHandleByIndex(0), 0)
    assert nvml.nvmlDeviceGetMemoryInfo(mig).used == 1 << 30
    with store.write() as state:
        state.processes.clear()
    nvml.nvmlComputeInstanceDestroy(compute)


def test_mode_stays_pending_while_a_process_is_on_the_gpu() -> None:
    store, nvml = node(mig=False)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    with store.write() as state:
        state.processes.append(SimulatedProcess(99, "python", 0, 1024))
    assert nvml.nvmlDeviceSetMigMode(gpu, 1) == pynvml.NVML_ERROR_IN_USE
    assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 1]
    with store.write() as state:
        state.processes.clear()
    assert nvml.nvmlDeviceSetMigMode(gpu, 1) == pynvml.NVML_SUCCESS
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]


def test_a_part_of_an_instance() -> None:
    _, nvml = node()
    instance = create(nvml, 9, 0, 4)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 1)
    full = code(lambda: nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0))
    assert full == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0)
    assert (info.name, info.sliceCount, info.instanceCount) == ("MIG 1c.3g.40gb", 1, 3)


def test_handles_of_what_is_gone_are_refused() -> None:
    _, nvml = node()
    instance = create(nvml, 9, 0, 4)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    uuid = nvml.nvmlDeviceGetUUID(mig)
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)
    assert code(lambda: nvml.nvmlGpuInstanceGetInfo(instance)) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code(lambda: nvml.nvmlDeviceGetHandleByUUID(uuid)) == pynvml.NVML_ERROR_NOT_FOUND
    assert code(lambda: nvml.nvmlDeviceGetUUID(instance)) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code(lambda: nvml.nvmlDeviceGetUUID(None)) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code(lambda: nvml.nvmlDeviceGetHandleByIndex(1)) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_errors_have_the_words_of_the_library() -> None:
    _, nvml = node()
    with pytest.raises(pynvml.NVMLError_NotSupported, match="Not Supported"):
        nvml.nvmlDeviceGetGpuInstanceProfileInfo(nvml.nvmlDeviceGetHandleByIndex(0), 10)
    create(nvml, 0, 0, 8)
    with pytest.raises(nvml.NVMLError, match="Insufficient Resources"):
        create(nvml, 0, 0, 8)
    with pytest.raises(nvml.NVMLError, match="In use by another client"):
        nvml.nvmlDeviceSetMigMode(nvml.nvmlDeviceGetHandleByIndex(0), 0)


def test_a_function_that_is_not_simulated_is_not_found() -> None:
    _, nvml = node()
    assert code(lambda: nvml.nvmlDeviceGetFanSpeed(0)) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
