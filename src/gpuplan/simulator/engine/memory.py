"""The few programs that put something into a container's /dev/shm, read it, or take it away."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from gpuplan.simulator.engine.http import frame_of
from gpuplan.simulator.state import Container

ON_MEMORY = ("dd", "head", "rm", "touch")
_DIRECTORY = "/dev/shm/"  # noqa: S108 - a simulated container's own


def on_memory(container: Container, command: Sequence[str], given: bytes) -> tuple[int, bytes]:
    """Run one of them: its exit code, and its output as frames."""
    named = [word.removeprefix("of=") for word in command[1:] if word.removeprefix("of=").startswith(_DIRECTORY)]
    if not named:
        return 0, b""
    key = named[0].removeprefix(_DIRECTORY)
    match command[0]:
        case "dd" | "touch":
            container.memory[key] = base64.b64encode(given).decode()
        case "rm":
            container.memory.pop(key, None)
        case _ if key not in container.memory:
            words = f"{command[0]}: cannot open '{named[0]}' for reading: No such file or directory\n"
            return 1, frame_of(2, words.encode())
        case _:
            size = int(command[2]) if command[1] == "-c" and command[2].isdigit() else None
            return 0, frame_of(1, base64.b64decode(container.memory[key])[:size])
    return 0, b""
