"""A simulated driver in a directory, and programs that meet it through the real pynvml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PRELUDE = """
import ctypes, json
from pynvml import *
def refused(call, *arguments):
    try:
        call(*arguments)
    except NVMLError as error:
        return error.value
    return 0
nvmlInit()
"""

BOARDS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "A30", "L4")

GPU = "gpu = nvmlDeviceGetHandleByIndex(0)\n"
MIG_ON = GPU + "nvmlDeviceSetMigMode(gpu, 1)\n"
SLICES = """
def create(profile, start, size):
    place = c_nvmlGpuInstancePlacement_t(start, size)
    return nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, ctypes.byref(place))
def uuids():
    found = []
    for index in range(nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            found.append(nvmlDeviceGetUUID(nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)))
        except NVMLError_NotFound:
            pass
    return found
"""
ONE_SLICE = MIG_ON + SLICES + "gi = create(9, 4, 4)\nci = nvmlGpuInstanceCreateComputeInstance(gi, 2)\n"
STANDING = GPU + SLICES + "gi = nvmlDeviceGetGpuInstanceById(gpu, 2)\n"
"""What stands after ONE_SLICE, to a later process."""


class Driver:
    """The driver whose library lies in `built` and whose state lies in `directory`."""

    def __init__(self, built: Path, directory: Path) -> None:
        self._built = built
        self.state = directory / "state"
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(built), "NVMLSIM_STATE": str(self.state)}

    def run(self, program: str) -> Any:
        """What a Python program leaves in `answer`, run in a process of its own after `nvmlInit`."""
        text = PRELUDE + program + "\nprint(json.dumps(answer))\n"
        done = subprocess.run([sys.executable, "-c", text], env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def sim(self, *order: str) -> subprocess.CompletedProcess[str]:
        """`nvmlsim` with an order."""
        return subprocess.run(
            [str(self._built / "nvmlsim"), *order], env=self.env, capture_output=True, text=True, check=False
        )
