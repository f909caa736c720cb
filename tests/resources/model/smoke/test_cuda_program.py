"""The program that holds CUDA shared memory, against a fake driver that records every call."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuplan.resources.model.smoke import cuda_program

FAKE = Path(__file__).parent / "fake_cuda.c"
CALLS = [
    "cuInit",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuMemAlloc_v2",
    "cuMemcpyHtoD_v2",
    "cuCtxSynchronize",
    "cuIpcGetMemHandle",
    "cuMemcpyDtoH_v2",
    "cuMemFree_v2",
    "cuDevicePrimaryCtxRelease_v2",
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 of our own."""
    folder = tmp_path_factory.mktemp("cuda")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", str(folder / "libcuda.so.1"), str(FAKE)], check=True)
    return folder


@pytest.fixture
def region(tmp_path: Path) -> Path:
    """A file that stands for one in /dev/shm."""
    file = tmp_path / "region"
    file.write_bytes(bytes(range(100)))
    return file


def start(library: Path, region: Path, seconds: str = "20", **environ: str) -> subprocess.Popen[str]:
    source = Path(cuda_program.__file__).read_text("utf-8")
    return subprocess.Popen(
        [sys.executable, "-c", source, str(region), seconds],
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_LOG": f"{region}.log", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def calls(region: Path) -> list[str]:
    return Path(f"{region}.log").read_text().split()


def test_it_holds_the_memory_until_the_done_file_exists_and_writes_it_back(library: Path, region: Path) -> None:
    program = start(library, region)
    assert program.stdout is not None
    assert base64.b64decode(program.stdout.readline()) == bytes(range(64))
    assert program.poll() is None
    assert calls(region) == CALLS[:8]
    Path(f"{region}.done").touch()
    assert program.communicate(timeout=20) == ("", "")
    assert program.returncode == 0
    assert calls(region) == CALLS
    assert region.read_bytes() == bytes([0xFF, *range(1, 100)])


@pytest.mark.parametrize("call", ["cuInit", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuIpcGetMemHandle"])
def test_a_failed_call_is_named_and_everything_is_freed(library: Path, region: Path, call: str) -> None:
    program = start(library, region, FAKE_FAILS=call)
    out, err = program.communicate(timeout=20)
    assert (out, program.returncode) == ("", 1)
    assert err == f"{call} failed: CUDA_ERROR_OUT_OF_MEMORY (2)\n"
    made = calls(region)
    assert ("cuMemFree_v2" in made) is (call in ("cuMemcpyHtoD_v2", "cuIpcGetMemHandle"))
    assert ("cuDevicePrimaryCtxRelease_v2" in made) is (call != "cuInit")


def test_it_does_not_hold_the_gpu_forever(library: Path, region: Path) -> None:
    program = start(library, region, "0.2")
    began = time.monotonic()
    _, err = program.communicate(timeout=20)
    assert time.monotonic() - began < 15
    assert err == "no request to end within 0.2 s\n"
    assert calls(region)[-2:] == ["cuMemFree_v2", "cuDevicePrimaryCtxRelease_v2"]


def test_a_missing_driver_is_reported(region: Path, tmp_path: Path) -> None:
    program = start(tmp_path, region)
    _, err = program.communicate(timeout=20)
    assert err.startswith("no CUDA driver: libcuda.so.1")
