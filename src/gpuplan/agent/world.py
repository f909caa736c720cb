"""Everything the agent touches of its node, in one place, so that a simulation can stand in for it."""

from __future__ import annotations

import http.client
import os
import platform
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from .failure import Failure
from .gpus.toolkit import read_toolkit
from .proc import device_access, device_holders, listening, service_of

# Running a program of the node, with a deadline that also holds where the program hangs in the driver.


def run(argv: Sequence[str], seconds: float) -> tuple[int, str]:
    """Exit code and everything it said.

    Raises Failure: `no_tool` if there is no such program, `timeout` if it does not end in time. One that hangs
    in the driver cannot be killed, so it is not waited for.
    """
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except FileNotFoundError as error:
        raise Failure("no_tool", "{} is not installed on the node".format(argv[0])) from error
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise Failure("timeout", "{} did not end within {:g} s".format(" ".join(argv), seconds)) from error
    return process.returncode, said.decode(errors="replace").strip()


DOCKER_SOCKET = "/var/run/docker.sock"
PATIENCE = 30.0
"""Seconds that one read from the engine may take; the probe's own deadline is usually shorter."""
LARGEST = 1 << 26
"""Bytes of one answer of the engine or of a model server; the list of thousands of images has a few million."""
MOST_FOLDERS = 10_000
"""Directories of a repository that are listed."""
CONTAINER = re.compile(r"(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.MULTILINE)
"""The container's id in /proc/PID/cgroup: `/docker/ID`, or `/system.slice/docker-ID.scope` where systemd has it."""


class World:
    """The real node. A simulation gives the agent another object with these attributes.

    `root` is the directory of docs/agent.md, which the agent itself reads and writes.
    """

    def __init__(self, root: str = "") -> None:
        self.root = root or os.environ.get("GPUPLAN_ROOT") or "/var/lib/gpuplan"

    def nvml(self) -> Any:
        """The module pynvml, or an object with its API; `nvml.py` lists which functions are called."""
        import pynvml

        return pynvml

    def engine(self, method: str, path: str) -> tuple[int, bytes]:
        """One HTTP request to the Docker engine.

        Raises FileNotFoundError if there is no socket, ConnectionRefusedError if nothing answers,
        PermissionError if this user may not ask, Failure `too_large` if the answer is out of all proportion.
        """
        connection = _EngineConnection(os.environ.get("GPUPLAN_DOCKER_SOCKET") or DOCKER_SOCKET)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, _whole(answer)
        except http.client.HTTPException as error:
            raise ConnectionError("the connection broke: {}".format(type(error).__name__)) from error
        finally:
            connection.close()

    def triton(self, address: str, method: str, path: str, body: bytes | None, timeout: float) -> tuple[int, bytes]:
        """One HTTP request to a model server at `host:port`.

        Raises OSError if it does not answer, Failure `too_large` if the answer is out of all proportion.
        """
        connection = http.client.HTTPConnection(address, timeout=timeout)
        try:
            connection.request(method, path, body=body)
            answer = connection.getresponse()
            return answer.status, _whole(answer)
        except http.client.HTTPException as error:
            raise ConnectionError("not an HTTP server: {}".format(type(error).__name__)) from error
        finally:
            connection.close()

    def folders(self, path: str) -> list[str]:
        """Names of the directories in a directory of the node, sorted; hidden ones left out.

        Raises OSError if it cannot be read, Failure `too_large` where it holds more than anybody serves.
        """
        found: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir() and not entry.name.startswith("."):
                    found.append(entry.name)
                if len(found) > MOST_FOLDERS:
                    raise Failure("too_large", "{} holds more than {} directories".format(path, MOST_FOLDERS))
        return sorted(found)

    def host(self) -> dict[str, object]:
        """The host probe without disk and lock."""
        return {
            "hostname": socket.gethostname(),
            "kernel": platform.release(),
            "boot_id": _first_line("/proc/sys/kernel/random/boot_id"),
            "uptime_seconds": float((_first_line("/proc/uptime") or "0").split()[0]),
            "python": platform.python_version(),
            "uid": os.geteuid(),
            "modules": _modules(),
            "hypervisor": _hypervisor(),
            "listening": listening(self.process),
        }

    def process(self, pid: int) -> dict[str, str | None]:
        """Name of a process, its container and its service; a process that is gone has an empty name."""
        arguments = _read("/proc/{}/cmdline".format(pid)).split("\0")
        name = os.path.basename(arguments[0]) or _first_line("/proc/{}/comm".format(pid))
        cgroup = _read("/proc/{}/cgroup".format(pid))
        found = CONTAINER.search(cgroup)
        return {"name": name, "container": found.group(1) if found else None, "service": service_of(cgroup)}

    def holders(self) -> Mapping[int, Sequence[int]]:
        """Minor number of a GPU → processes that have its device file open, whether they compute or not.

        Raises Failure `no_permission`: only root sees the open files of everybody.
        """
        if os.geteuid() != 0:
            raise Failure("no_permission", "only root can see which processes have the device files open")
        return device_holders()

    def device_access(self, pids: Mapping[str, int]) -> dict[str, object]:
        """For each container, by the number of its first process, what it may do with the GPU device files it has.

        Raises Failure `no_permission`: only root sees into other namespaces.
        """
        return device_access(pids)

    def toolkit(self) -> dict[str, object]:
        """The value of the toolkit probe."""
        return read_toolkit()

    def run(self, argv: Sequence[str], seconds: float) -> tuple[int, str]:
        """Run a program of the node: exit code and what it said. Raises Failure `no_tool` or `timeout`."""
        return run(argv, seconds)


def _whole(answer: http.client.HTTPResponse) -> bytes:
    """The body of an answer, all of it, and never more than there is room for."""
    body = answer.read(LARGEST + 1)
    if len(body) > LARGEST:
        raise Failure("too_large", "the answer is larger than {} MiB".format(LARGEST >> 20))
    if answer.length:  # what its head promised and did not come; read(n) takes an early end for the end
        raise http.client.IncompleteRead(body, answer.length)
    return body


class _EngineConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def _hypervisor() -> bool:
    """A processor in a virtual machine has the flag `hypervisor`."""
    lines = _read("/proc/cpuinfo").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return "hypervisor" in flags.split()


def _modules() -> list[str]:
    """Names of the loaded kernel modules."""
    return sorted(line.split()[0] for line in _read("/proc/modules").splitlines())


def _first_line(path: str) -> str:
    return _read(path).partition("\n")[0].strip()


def _read(path: str) -> str:
    """A file of /proc; empty if it is not there or went away while it was read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
