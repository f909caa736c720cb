"""The simulated driver beside NVML: who may change it, ordered faults, processes that hold a slice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pynvml
import pytest

from tests.lab.nvml.build import bare_state
from tests.lab.nvml.driver import BOARDS, GPU, MIG_ON, ONE_SLICE, STANDING, Driver


def test_who_may_not_write(built: Path) -> None:
    with TemporaryDirectory() as directory:
        driver = Driver(built, Path(directory))
        driver.state.write_text(bare_state("test", BOARDS))
        Path(directory).chmod(0o555)
        nobody = "import os\nif os.geteuid() == 0:\n    os.seteuid(65534)\n"
        answer = driver.run(
            nobody + GPU + "answer = [refused(nvmlDeviceSetMigMode, gpu, 1), nvmlDeviceGetMigMode(gpu)]"
        )
    assert answer == [pynvml.NVML_ERROR_NO_PERMISSION, [0, 0]]


def test_ordered_faults(driver: Driver) -> None:
    driver.sim("fault", "nvmlDeviceGetMemoryInfo", str(pynvml.NVML_ERROR_GPU_IS_LOST), "1")
    answer = driver.run(
        "answer = [refused(nvmlDeviceGetMemoryInfo, nvmlDeviceGetHandleByIndex(index)) for index in range(3)]"
    )
    assert answer == [0, pynvml.NVML_ERROR_GPU_IS_LOST, 0]
    driver.sim("clear-faults")
    assert driver.run("answer = refused(nvmlDeviceGetMemoryInfo, nvmlDeviceGetHandleByIndex(1))") == 0


def test_success_without_effect(driver: Driver) -> None:
    driver.sim("fault", "nvmlDeviceSetMigMode", "0")
    assert driver.run(MIG_ON + "answer = nvmlDeviceGetMigMode(gpu)") == [0, 0]


def _no_state(driver: Driver) -> None:
    driver.state.unlink()


def _mismatch(driver: Driver) -> None:
    driver.sim("fault", "nvmlInit", str(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH))


@pytest.mark.parametrize(
    ("break_it", "code"),
    [(_no_state, pynvml.NVML_ERROR_DRIVER_NOT_LOADED), (_mismatch, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)],
)
def test_a_driver_that_does_not_start(driver: Driver, break_it: Callable[[Driver], None], code: int) -> None:
    break_it(driver)
    program = "import pynvml\ntry:\n    pynvml.nvmlInit()\nexcept pynvml.NVMLError as error:\n    print(error.value)"
    done = subprocess.run([sys.executable, "-c", program], env=driver.env, capture_output=True, text=True, check=True)
    assert int(done.stdout) == code


def test_writers_do_not_lose_one_another(driver: Driver) -> None:
    program = (
        "gpu = nvmlDeviceGetHandleByIndex({})\nfor _ in range(50):\n    nvmlDeviceSetPersistenceMode(gpu, 0)\n"
        "    nvmlDeviceSetPersistenceMode(gpu, 1)\n    assert nvmlDeviceGetPersistenceMode(gpu) == 1\nanswer = None"
    )
    with ThreadPoolExecutor() as pool:
        list(pool.map(driver.run, [program.format(index) for index in range(4)]))
    modes = "[nvmlDeviceGetPersistenceMode(nvmlDeviceGetHandleByIndex(index)) for index in range(4)]"
    assert driver.run(f"answer = {modes}") == [1, 1, 1, 1]


def test_a_held_slice_is_free_when_its_process_ends(driver: Driver) -> None:
    (uuid,) = driver.run(ONE_SLICE + "answer = uuids()")
    count = STANDING + "answer = len(nvmlDeviceGetComputeRunningProcesses(gpu))"
    with subprocess.Popen(["sleep", "60"]) as holder:
        assert driver.sim("attach", str(holder.pid), "100", uuid).returncode == 0
        assert driver.run(count) == 1
        holder.kill()
    assert driver.run(count) == 0


@pytest.mark.parametrize("device", ["MIG-dead", "GPU-dead", "9", "0:3", "0:x"])
def test_an_unknown_device_is_refused(driver: Driver, device: str) -> None:
    done = driver.sim("check", device)
    assert (done.returncode, done.stderr) == (1, f"{device}: unknown device\n")


def test_devices_are_known_by_uuid_and_index(driver: Driver) -> None:
    (uuid,) = driver.run(ONE_SLICE + "answer = uuids()")
    gpu = driver.run(GPU + "answer = nvmlDeviceGetUUID(gpu)")
    assert driver.sim("check", uuid, gpu, "1", "0:0").returncode == 0
