"""Builds the simulated libnvidia-ml.so.1 and its tool, and writes the state that a bare node starts with."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tests.lab.nvml.boards import EXTRAS, c_table

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")
SHARED = ("boards.c", "state.c", "state_file.c", "reset.c")
LIBRARY = (
    *SHARED, "call.c", "system.c", "device.c", "power.c", "settings.c", "usage.c", "geometry.c", "mig_mode.c",
    "gpu_instance.c", "compute_instance.c", "mig_device.c",
)  # fmt: skip


def build(directory: Path) -> None:
    """Make `libnvidia-ml.so.1`, `nvmlsim` and `nvidia-smi` in a directory; needs gcc."""
    directory.mkdir(parents=True, exist_ok=True)
    table = directory / "board_table.c"
    table.write_text(c_table(), encoding="utf-8")
    library = ("-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(directory / "libnvidia-ml.so.1"))
    _gcc(*library, str(table), *(str(HERE / source) for source in LIBRARY))
    for name, source in {"nvmlsim": "tool.c", "nvidia-smi": "smi.c"}.items():
        _gcc("-o", str(directory / name), str(table), str(HERE / source), *(str(HERE / each) for each in SHARED))


def _gcc(*arguments: str) -> None:
    subprocess.run(["gcc", *FLAGS, f"-I{HERE}", *arguments], check=True)


def bare_state(node: str, boards: Sequence[str], driver: str = "570.86.15", cuda: int = 12080) -> str:
    """The state of a node that was never touched: these boards by catalog name, MIG off, nothing running."""
    lines = [f"driver {driver}", f"cuda {cuda}", "nonce 0"]
    for index, board in enumerate(boards):
        uuid = f"GPU-{sha256(node.encode()).hexdigest()[:8]}-4b1d-4000-8000-{index:012x}"
        power = EXTRAS.get(board, (0, 0, 0))[1]
        lines.append(f"gpu {index} {board} {uuid} 00000000:{7 + 8 * index:02X}:00.0 0 0 0 {power}")
    return "\n".join(lines) + "\n"
