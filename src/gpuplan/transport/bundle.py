"""The program that travels to a node: the agent's modules and pynvml in one zip, and the command that receives it.

Nothing of it is written to the node's disk. The command line is short and the same for every program: it reads one line
of Python from standard input and runs it. For the agent that line is `agent/boot.py`, which takes the zip that follows
it into memory and imports from there.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import zipfile
from pathlib import Path

from gpuplan.types.inventory import Host

LOADER = 'import sys;sys.path.pop(0);exec(getattr(sys.stdin,"buffer",sys.stdin).readline())'
"""Runs on every Python since 2.7, so that an old one can be reported. What lies in the directory where it starts
(path entry 0) is not imported: it may be anybody's, and this may run as root."""
PACKAGE = "gpuplan_agent"
DOCKER_SOCKET = "/var/run/docker.sock"
SOCKET_VARIABLE = "GPUPLAN_DOCKER_SOCKET"
"""Tells the programs on the node where else an engine listens; sudo passes nothing on that is not said after it."""
LOCK_TIMEOUT = 180.0
"""Seconds without a sign of life after which an agent that holds the node's lock ends and so gives it back."""
AGENT = Path(__file__).parents[1] / "agent"
ALONE = ("boot.py", "bridge.py")
"""What is sent by itself, outside of the zip."""


def command(host: Host, become: bool) -> list[str]:
    """The argv that runs a program on the node; `sudo -n` never asks for a password."""
    python = "python3" if host.python.startswith("auto") else host.python
    sudo = ["sudo", "-n", "--"] if become else []
    place = ["env", f"{SOCKET_VARIABLE}={host.docker_socket}"] if host.docker_socket else []
    return ["env", "LC_ALL=C", *sudo, *place, python, "-E", "-s", "-S", "-c", LOADER]


def engine_socket(host: Host) -> str:
    """Where the engine of a node listens."""
    return host.docker_socket or DOCKER_SOCKET


@functools.cache
def agent_program() -> bytes:
    """What the agent's standard input begins with: the line that boots it, then the zip."""
    bundle = agent_bundle()
    return _line("boot.py", f"boot({len(bundle)}, {LOCK_TIMEOUT!r})") + bundle


@functools.cache
def bridge_program() -> bytes:
    """The line that joins standard input and output to the Docker engine's socket."""
    return _line("bridge.py", f"bridge({DOCKER_SOCKET!r})")


def agent_bundle() -> bytes:
    """The zip itself."""
    pynvml = importlib.util.find_spec("pynvml")
    if pynvml is None or pynvml.origin is None:
        raise ModuleNotFoundError("nvidia-ml-py is not installed in gpuplan's environment")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as bundle:
        for path in sorted(AGENT.rglob("*.py")):
            if path.name not in ALONE:
                bundle.write(path, f"{PACKAGE}/{path.relative_to(AGENT)}")
        bundle.write(pynvml.origin, "pynvml.py")
    return content.getvalue()


def _line(file: str, call: str) -> bytes:
    source = (AGENT / file).read_text(encoding="utf-8") + f"\n{call}\n"
    return f"exec({source!r})\n".encode("ascii", "backslashreplace")
