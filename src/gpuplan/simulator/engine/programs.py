"""What a container's command does on a simulated node: serve models, run on, or end."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.simulator.engine.create import argv
from gpuplan.simulator.engine.http import EngineError, frame_of
from gpuplan.simulator.state import SimulatedContainer, SimulatedImage
from gpuplan.simulator.store import Machine

_SHELLS = ("sh", "bash", "ash", "dash")
_PASSES_ON = ("nvidia_entrypoint.sh", "docker-entrypoint.sh", "tini", "dumb-init", "env")
"""Programs that run the rest of their arguments."""
_CAT = re.compile(r"\$\(\s*(?:cat|<)\s*([^)\s]+)[^)]*\)")
_STOPS_AT_ONCE = ("true", "false", "echo", "env", "ls", "cat", "python3", "python", *_SHELLS)
_DEAF = ("sleep", "tail")


@dataclass(frozen=True)
class SimulatedProgram:
    """The command that really runs in the end; `seconds` is None where it runs on."""

    words: tuple[str, ...]
    seconds: float | None = None
    exit_code: int = 0
    output: tuple[str, ...] = ()

    @property
    def triton(self) -> bool:
        """True for a Triton server."""
        return bool(self.words) and _base(self.words[0]) == "tritonserver"

    @property
    def deaf(self) -> bool:
        """True where it ignores SIGTERM, so that a stop ends in SIGKILL: process 1 has no handler by default."""
        return bool(self.words) and _base(self.words[0]) in _DEAF


def program_of(container: SimulatedContainer, image: SimulatedImage | None, machine: Machine) -> SimulatedProgram:
    """What the container runs.

    Raises:
        EngineError: the image is known not to have the program.
    """
    words = _unwrapped(argv(container))
    if words and _base(words[0]) in _SHELLS and "-c" in words[1:3]:
        script = words[words.index("-c") + 1 :]
        words = _script(script, container, machine) if script else words
    _check(words, image)
    interactive = bool(container.config.get("Tty") or container.config.get("OpenStdin"))
    return _outcome(tuple(words), interactive)


def _outcome(words: tuple[str, ...], interactive: bool) -> SimulatedProgram:
    first = _base(words[0]) if words else ""
    if first in ("exit", "false"):
        code = int(words[1]) if words[1:] and words[1].isdigit() else int(first == "false")
        return SimulatedProgram(words, 0.0, code)
    if first == "echo":
        return SimulatedProgram(words, 0.0, 0, (" ".join(words[1:]),))
    if first == "sleep" and words[1:] and words[1].replace(".", "", 1).isdigit():
        return SimulatedProgram(words, float(words[1]))
    ends = first in _STOPS_AT_ONCE and not interactive and len(words) == 1
    return SimulatedProgram(words, 0.0 if ends else None)


def _unwrapped(words: list[str]) -> list[str]:
    while words and _base(words[0]) in _PASSES_ON:
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1:]
    return words or ["bash"]


def _script(words: list[str], container: SimulatedContainer, machine: Machine) -> list[str]:
    """The first command of `sh -c SCRIPT NAME ARGUMENTS…`, with "$@" and $(cat FILE) filled in."""

    def content(matched: re.Match[str]) -> str:
        file = machine.inside(container, matched[1])
        return file.read_text("utf-8") if file and file.is_file() else ""

    arguments = " ".join(map(shlex.quote, words[2:]))
    script = _CAT.sub(content, words[0]).replace('"$@"', arguments).replace("$@", arguments)
    try:
        parts = shlex.split(script, comments=True)
    except ValueError:
        return ["sh"]
    while parts and (parts[0] in ("exec", "set") or re.match(r"^\w+=", parts[0])):
        parts = parts[2:] if parts[0] == "set" else parts[1:]
    return [part.rstrip(";") for part in parts] or ["sh"]


def _check(words: list[str], image: SimulatedImage | None) -> None:
    known = image.programs if image else None
    if known is None or not words or _base(words[0]) in (*known, "exit"):
        return
    raise EngineError(
        400,
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
        f'exec: "{words[0]}": executable file not found in $PATH: unknown',
    )


def _base(word: str) -> str:
    return word.rpartition("/")[2]


# --- Programs that write, read or remove files in a container's /dev/shm ---

ON_MEMORY = ("dd", "head", "rm", "touch")
_DIRECTORY = "/dev/shm/"  # noqa: S108 - a simulated container's own


def on_memory(container: SimulatedContainer, command: Sequence[str], given: bytes) -> tuple[int, bytes]:
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
