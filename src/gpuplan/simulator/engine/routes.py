"""The engine: which request does what."""

from __future__ import annotations

import time
from urllib.parse import unquote

from gpuplan.simulator.engine import containers, images, lifecycle, networks
from gpuplan.simulator.engine.create import CPUS
from gpuplan.simulator.engine.http import (
    Daemon,
    EngineError,
    EngineRequest,
    EngineResponse,
    Release,
    Route,
    answer,
    release_of,
    route,
)
from gpuplan.simulator.state import Document, NodeState, stamp
from gpuplan.simulator.store import Machine
from gpuplan.simulator.tools import DIRECTORIES, kind

# What the engine says of itself: version and info.

KERNEL = "6.1.0-28-amd64"


def version(release: Release) -> Document:
    """`GET /version`."""
    about: Document = {
        "ApiVersion": release.api,
        "Arch": "amd64",
        "BuildTime": "2023-04-04T00:00:00.000000000+00:00",
        "Experimental": "false",
        "GitCommit": "5d6db84",
        "GoVersion": "go1.19.7",
        "KernelVersion": KERNEL,
        "MinAPIVersion": release.least,
        "Os": "linux",
    }
    return {
        "Platform": {"Name": ""},
        "Components": [
            {"Name": "Engine", "Version": release.version, "Details": about},
            {"Name": "containerd", "Version": "1.6.20", "Details": {"GitCommit": "1.6.20"}},
            {"Name": "runc", "Version": "1.1.5", "Details": {"GitCommit": "1.1.5"}},
            {"Name": "docker-init", "Version": "0.19.0", "Details": {"GitCommit": ""}},
        ],
        "Version": release.version,
        **{key: value for key, value in about.items() if key != "Experimental"},
    }


def info(state: NodeState, machine: Machine, api: tuple[int, int]) -> Document:
    """`GET /info`, in that version of the API."""
    statuses = [container.status for container in state.containers.values()]
    running = sum(status in ("running", "restarting") for status in statuses)
    return {
        "ID": state.boot_id.upper(),
        "Containers": len(statuses),
        "ContainersRunning": running,
        "ContainersPaused": statuses.count("paused"),
        "ContainersStopped": len(statuses) - running - statuses.count("paused"),
        "Images": len(state.images),
        "Driver": "overlay2",
        "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"], ["Native Overlay Diff", "true"]],
        "Plugins": {
            "Volume": ["local"],
            "Network": ["bridge", "host", "ipvlan", "macvlan", "null", "overlay"],
            "Authorization": None,
            "Log": ["json-file", "journald", "local", "syslog"],
        },
        **dict.fromkeys(_limits(api), True),
        "Debug": False,
        "NFd": 30,
        "NGoroutines": 40,
        "SystemTime": stamp(time.time()),
        "LoggingDriver": "json-file",
        "CgroupDriver": "cgroupfs",
        "CgroupVersion": "1",
        "NEventsListener": 0,
        "KernelVersion": KERNEL,
        "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
        "OSVersion": "12",
        "OSType": "linux",
        "Architecture": "x86_64",
        "IndexServerAddress": "https://index.docker.io/v1/",
        "RegistryConfig": {
            "AllowNondistributableArtifactsCIDRs": [],
            "AllowNondistributableArtifactsHostnames": [],
            "InsecureRegistryCIDRs": ["127.0.0.0/8"],
            "IndexConfigs": {"docker.io": {"Name": "docker.io", "Mirrors": [], "Secure": True, "Official": True}},
            "Mirrors": [],
        },
        "NCPU": CPUS,
        "MemTotal": 540_000_000_000,
        "GenericResources": None,
        "DockerRootDir": "/var/lib/docker",
        "HttpProxy": "",
        "HttpsProxy": "",
        "NoProxy": "",
        "Name": machine.name,
        "Labels": [],
        "ExperimentalBuild": False,
        "ServerVersion": release_of(state.hardware).version,
        "Runtimes": {
            name: {"path": "runc"} for name in ("io.containerd.runc.v2", "io.containerd.runtime.v1.linux", "runc")
        },
        "DefaultRuntime": "runc",
        "Swarm": _SWARM,
        "LiveRestoreEnabled": False,
        "Isolation": "",
        "InitBinary": "docker-init",
        "ContainerdCommit": {"ID": "1.6.20", "Expected": "1.6.20"},
        "RuncCommit": {"ID": "1.1.5", "Expected": "1.1.5"},
        "InitCommit": {"ID": "", "Expected": ""},
        "SecurityOptions": ["name=seccomp,profile=default"],
        "Warnings": None,
        **({"CDISpecDirs": DIRECTORIES} if kind(state) == "cdi" else {}),
    }


_LIMITS = (
    "MemoryLimit", "SwapLimit", "KernelMemory", "KernelMemoryTCP", "CpuCfsPeriod", "CpuCfsQuota", "CPUShares",
    "CPUSet", "PidsLimit", "IPv4Forwarding", "BridgeNfIptables", "BridgeNfIp6tables", "OomKillDisable",
)  # fmt: skip
_GONE = {"KernelMemory": (1, 42), "BridgeNfIptables": (1, 50), "BridgeNfIp6tables": (1, 50)}
"""Limits that info does not name any more, by the API version that was the first without them."""


def _limits(api: tuple[int, int]) -> list[str]:
    return [name for name in _LIMITS if api < _GONE.get(name, (9, 9))]


_SWARM: Document = {
    "NodeID": "", "NodeAddr": "", "LocalNodeState": "inactive", "ControlAvailable": False, "Error": "",
    "RemoteManagers": None,
}  # fmt: skip


class SimulatedEngine(Daemon):
    """The Docker engine of one node."""

    def answer(self, request: EngineRequest) -> EngineResponse:
        """The response to one request; errors are responses too."""
        try:
            return self._answer(request)
        except EngineError as error:
            return answer({"message": error.message}, error.status)

    def _answer(self, request: EngineRequest) -> EngineResponse:
        path = release_of(self.store.read().hardware).plain(request.path)
        if lifecycle.due(self.store.read()):
            with self.store.write() as state:
                lifecycle.tick(state, self.machine)
        for method, pattern, handler in _ROUTES:
            if method == request.method and (match := pattern.fullmatch(path)):
                return handler(self, request, unquote(match[1]) if pattern.groups else "")
        raise EngineError(404, "page not found")


def _ping(_daemon: Daemon, request: EngineRequest, _name: str) -> EngineResponse:
    return EngineResponse(body=b"" if request.method == "HEAD" else b"OK", kind="text/plain; charset=utf-8")


def _about(daemon: Daemon, _request: EngineRequest, _name: str) -> EngineResponse:
    return answer(version(release_of(daemon.store.read().hardware)))


def _info(daemon: Daemon, request: EngineRequest, _name: str) -> EngineResponse:
    state = daemon.store.read()
    return answer(info(state, daemon.machine, release_of(state.hardware).asked(request.path)))


_ROUTES: tuple[Route, ...] = (
    route("GET", "/_ping", _ping),
    route("HEAD", "/_ping", _ping),
    route("GET", "/version", _about),
    route("GET", "/info", _info),
    *containers.ROUTES,
    *images.ROUTES,
    *networks.ROUTES,
)
