"""The simulated NVML, met through the real pynvml, obeys NVML's rules and error codes."""

from __future__ import annotations

import pynvml
import pytest

from tests.lab.nvml.driver import GPU, MIG_ON, ONE_SLICE, SLICES, STANDING, Driver


def test_says_what_the_boards_are(driver: Driver) -> None:
    answer = driver.run(
        """
answer = []
for index in range(nvmlDeviceGetCount()):
    gpu = nvmlDeviceGetHandleByIndex(index)
    major, minor = nvmlDeviceGetCudaComputeCapability(gpu)
    answer.append([nvmlDeviceGetName(gpu), f"{major}.{minor}", nvmlDeviceGetMemoryInfo(gpu).total >> 20,
                   nvmlDeviceGetPciInfo(gpu).busId, nvmlDeviceGetPersistenceMode(gpu)])
"""
    )
    assert answer == [
        ["NVIDIA A100-SXM4-80GB", "8.0", 81920, "00000000:07:00.0", 0],
        ["NVIDIA H100 80GB HBM3", "9.0", 81559, "00000000:0F:00.0", 0],
        ["NVIDIA A30", "8.0", 24576, "00000000:17:00.0", 0],
        ["NVIDIA L4", "8.9", 23034, "00000000:1F:00.0", 0],
    ]


def test_says_versions_and_power(driver: Driver) -> None:
    answer = driver.run(
        GPU + "answer = [nvmlSystemGetDriverVersion(), nvmlSystemGetCudaDriverVersion(),"
        " nvmlDeviceGetPowerManagementLimit(gpu), nvmlDeviceGetPowerManagementLimitConstraints(gpu)]"
    )
    assert answer == ["570.86.15", 12080, 400_000, [100_000, 400_000]]


def test_finds_gpus_by_uuid_and_pci_address(driver: Driver) -> None:
    answer = driver.run(
        GPU + "uuid = nvmlDeviceGetUUID(gpu)\n"
        "answer = [nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(uuid)),"
        " nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId('00000000:0F:00.0')),"
        " refused(nvmlDeviceGetHandleByUUID, 'GPU-none'), refused(nvmlDeviceGetHandleByIndex, 9)]"
    )
    assert answer == [0, 1, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT]


PROFILES = """
answer = {}
for index in range(NVML_GPU_INSTANCE_PROFILE_COUNT):
    try:
        info = nvmlDeviceGetGpuInstanceProfileInfo(gpu, index, version=2)
    except NVMLError_NotSupported:
        continue
    count = ctypes.c_uint()
    nvmlDeviceGetGpuInstancePossiblePlacements(gpu, info.id, None, ctypes.byref(count))
    places = (c_nvmlGpuInstancePlacement_t * count.value)()
    nvmlDeviceGetGpuInstancePossiblePlacements(gpu, info.id, places, ctypes.byref(count))
    answer[info.name] = [info.id, info.instanceCount, [place.start for place in places]]
"""


@pytest.mark.parametrize("index", [0, 1])
def test_profiles_of_a_seven_slice_board(driver: Driver, index: int) -> None:
    answer = driver.run(f"gpu = nvmlDeviceGetHandleByIndex({index})\nnvmlDeviceSetMigMode(gpu, 1)\n" + PROFILES)
    assert answer == {
        "MIG 1g.10gb": [19, 7, [0, 1, 2, 3, 4, 5, 6]],
        "MIG 1g.10gb+me": [20, 1, [0, 1, 2, 3, 4, 5, 6]],
        "MIG 1g.20gb": [15, 4, [0, 2, 4, 6]],
        "MIG 2g.20gb": [14, 3, [0, 2, 4]],
        "MIG 3g.40gb": [9, 2, [0, 4]],
        "MIG 4g.40gb": [5, 1, [0]],
        "MIG 7g.80gb": [0, 1, [0]],
    }


def test_profiles_of_an_a30(driver: Driver) -> None:
    answer = driver.run("gpu = nvmlDeviceGetHandleByIndex(2)\nnvmlDeviceSetMigMode(gpu, 1)\n" + PROFILES)
    assert answer == {
        "MIG 1g.6gb": [14, 4, [0, 1, 2, 3]],
        "MIG 1g.6gb+me": [21, 1, [0, 1, 2, 3]],
        "MIG 2g.12gb": [5, 2, [0, 2]],
        "MIG 2g.12gb+me": [6, 1, [0, 2]],
        "MIG 4g.24gb": [0, 1, [0]],
    }


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (GPU + "answer = refused(nvmlDeviceSetMigMode, gpu, 2)", pynvml.NVML_ERROR_INVALID_ARGUMENT),
        (
            "answer = refused(nvmlDeviceSetMigMode, nvmlDeviceGetHandleByIndex(3), 1)",
            pynvml.NVML_ERROR_NOT_SUPPORTED,
        ),
        (GPU + "answer = refused(nvmlDeviceGetGpuInstanceRemainingCapacity, gpu, 9)", pynvml.NVML_ERROR_NOT_SUPPORTED),
        (GPU + SLICES + "answer = refused(create, 9, 0, 4)", pynvml.NVML_ERROR_NOT_SUPPORTED),
        (MIG_ON + SLICES + "answer = refused(create, 77, 0, 4)", pynvml.NVML_ERROR_INVALID_ARGUMENT),
        (MIG_ON + SLICES + "answer = refused(create, 9, 2, 4)", pynvml.NVML_ERROR_INVALID_ARGUMENT),
        (ONE_SLICE + "answer = refused(create, 9, 4, 4)", pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES),
        (ONE_SLICE + "answer = refused(create, 0, 0, 8)", pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES),
        (
            ONE_SLICE + "answer = refused(nvmlGpuInstanceCreateComputeInstance, gi, 0)",
            pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES,
        ),
        (
            ONE_SLICE + "answer = refused(nvmlGpuInstanceCreateComputeInstance, gi, 4)",
            pynvml.NVML_ERROR_NOT_SUPPORTED,
        ),
        (ONE_SLICE + "answer = refused(nvmlGpuInstanceDestroy, gi)", pynvml.NVML_ERROR_IN_USE),
        (ONE_SLICE + "answer = refused(nvmlDeviceSetMigMode, gpu, 0)", pynvml.NVML_ERROR_IN_USE),
        (ONE_SLICE + "answer = refused(nvmlDeviceGetGpuInstanceById, gpu, 1)", pynvml.NVML_ERROR_NOT_FOUND),
        (
            ONE_SLICE + "nvmlComputeInstanceDestroy(ci)\nanswer = refused(nvmlComputeInstanceDestroy, ci)",
            pynvml.NVML_ERROR_INVALID_ARGUMENT,
        ),
        (
            GPU + "memory = c_nvmlMemory_v2_t()\nmemory.version = 7\n"
            "fn = pynvml._nvmlGetFunctionPointer('nvmlDeviceGetMemoryInfo_v2')\nanswer = fn(gpu, ctypes.byref(memory))",
            pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        ),
        (
            MIG_ON + SLICES + "answer = refused(nvmlDeviceGetName, ctypes.c_void_p(7))",
            pynvml.NVML_ERROR_INVALID_ARGUMENT,
        ),
    ],
)
def test_refuses_as_nvml_does(driver: Driver, program: str, code: int) -> None:
    assert driver.run("import pynvml\n" + program) == code


def test_too_small_an_array_is_told(driver: Driver) -> None:
    answer = driver.run(
        MIG_ON + "count = ctypes.c_uint(1)\nplaces = (c_nvmlGpuInstancePlacement_t * 1)()\n"
        "code = refused(nvmlDeviceGetGpuInstancePossiblePlacements, gpu, 19, places, ctypes.byref(count))\n"
        "answer = [code, count.value]"
    )
    assert answer == [pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 7]


def test_a_slice_is_a_device(driver: Driver) -> None:
    answer = driver.run(
        ONE_SLICE + "mig = nvmlDeviceGetHandleByUUID(uuids()[0])\nplace = nvmlGpuInstanceGetInfo(gi).placement\n"
        "answer = [nvmlDeviceGetName(mig), nvmlDeviceGetMemoryInfo(mig).total >> 20, nvmlDeviceGetGpuInstanceId(mig),"
        " nvmlDeviceGetComputeInstanceId(mig), nvmlDeviceIsMigDeviceHandle(mig).value, [place.start, place.size],"
        " nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)) == nvmlDeviceGetUUID(gpu),"
        " nvmlDeviceGetAttributes(mig).multiprocessorCount, nvmlComputeInstanceGetInfo(ci).profileId]"
    )
    assert answer == ["NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40192, 2, 0, 1, [4, 4], True, 42, 2]


def test_capacity_shrinks(driver: Driver) -> None:
    ask = "[nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile) for profile in (19, 20, 15, 14, 9, 5, 0)]"
    answer = driver.run(MIG_ON + SLICES + f"before = {ask}\ncreate(9, 4, 4)\nanswer = [before, {ask}]")
    assert answer == [[7, 1, 4, 3, 2, 1, 1], [4, 1, 2, 2, 1, 1, 0]]


def test_compute_instances_share_a_gpu_instance(driver: Driver) -> None:
    answer = driver.run(
        MIG_ON + SLICES + "gi = create(9, 0, 4)\n"
        "made = [nvmlGpuInstanceCreateComputeInstance(gi, profile) for profile in (0, 1)]\n"
        "places = [nvmlComputeInstanceGetInfo(one).placement for one in made]\n"
        "answer = [[[p.start, p.size] for p in places], nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 0)]"
    )
    assert answer == [[[0, 1], [1, 2]], 0]


def test_every_creation_has_a_new_uuid(driver: Driver) -> None:
    again = "nvmlComputeInstanceDestroy(ci)\nnvmlGpuInstanceDestroy(gi)\ngi = create(9, 4, 4)\n"
    again += "ci = nvmlGpuInstanceCreateComputeInstance(gi, 2)\n"
    first, second = driver.run(ONE_SLICE + "first = uuids()\n" + again + "answer = first + uuids()")
    assert first.startswith("MIG-")
    assert first != second


def test_state_outlives_the_process(driver: Driver) -> None:
    made = driver.run(ONE_SLICE + "answer = uuids()")
    assert driver.run(STANDING + "answer = uuids()") == made


def test_a_process_holds_its_slice_and_the_mode(driver: Driver) -> None:
    driver.run(ONE_SLICE + "answer = None")
    driver.sim("process", "0", "2", "0", "4242", "2048")
    answer = driver.run(
        STANDING + "mig = nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)\n"
        "(seen,) = nvmlDeviceGetComputeRunningProcesses(mig)\nci = nvmlGpuInstanceGetComputeInstanceById(gi, 0)\n"
        "answer = [seen.pid, seen.usedGpuMemory >> 20, seen.gpuInstanceId, nvmlDeviceGetMemoryInfo(mig).used >> 20,"
        " refused(nvmlComputeInstanceDestroy, ci)]"
    )
    assert answer == [4242, 2048, 2, 2048, pynvml.NVML_ERROR_IN_USE]


MODE = "set_mode = pynvml._nvmlGetFunctionPointer('nvmlDeviceSetMigMode')\nstatus = ctypes.c_uint(99)\n"


@pytest.mark.parametrize("index", [0, 1])
def test_mode_pends_while_a_process_runs(driver: Driver, index: int) -> None:
    driver.sim("process", str(index), "-1", "-1", "77", "10")
    gpu = f"import pynvml\ngpu = nvmlDeviceGetHandleByIndex({index})\n" + MODE
    change = gpu + "answer = [set_mode(gpu, 1, ctypes.byref(status)), status.value, nvmlDeviceGetMigMode(gpu)]"
    assert driver.run(change) == [0, pynvml.NVML_ERROR_IN_USE, [0, 1]]
    driver.sim("clear-processes")
    assert driver.run(change) == [0, 0, [1, 1]]


def test_a_reboot_takes_what_it_takes(driver: Driver) -> None:
    both_on = "for index in (0, 1):\n    nvmlDeviceSetMigMode(nvmlDeviceGetHandleByIndex(index), 1)\n"
    driver.run(ONE_SLICE + both_on + "nvmlDeviceSetPersistenceMode(gpu, 1)\nanswer = None")
    driver.sim("boot")
    answer = driver.run(
        GPU + SLICES + "answer = [[nvmlDeviceGetMigMode(nvmlDeviceGetHandleByIndex(i)) for i in (0, 1)], uuids(),"
        " nvmlDeviceGetPersistenceMode(gpu)]"
    )
    assert answer == [[[1, 1], [0, 0]], [], 0]


def test_a_pending_mode_of_ampere_is_there_after_a_reboot(driver: Driver) -> None:
    driver.sim("process", "0", "-1", "-1", "77", "10")
    driver.run(MIG_ON + "answer = None")
    driver.sim("boot")
    assert driver.run(GPU + "answer = nvmlDeviceGetMigMode(gpu)") == [1, 1]
