"""What the agent touches of a simulated node, in the place of the real one (`reach.agent.world.World`)."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from gpuplan.agent.failure import Failure
from gpuplan.agent.world import World
from gpuplan.simulator import tools
from gpuplan.simulator.devices import processes
from gpuplan.simulator.engine.create import network_of
from gpuplan.simulator.engine.http import EngineRequest
from gpuplan.simulator.engine.lifecycle import boot
from gpuplan.simulator.engine.routes import KERNEL, SimulatedEngine
from gpuplan.simulator.faults import Faults
from gpuplan.simulator.nvml import SimulatedNvml
from gpuplan.simulator.state import Document, NodeState, board_of
from gpuplan.simulator.store import Machine, StateStore
from gpuplan.simulator.tools import device_access, refresh, toolkit
from gpuplan.simulator.triton.model_files import NeverAnswers
from gpuplan.simulator.triton.serve import Servers

# --- Listening ports: the engine's proxies, servers on the node's own network, and other programs ---

_SSHD, _PROXY = 600, 700
"""Process ids of programs that every node runs."""


def listening(state: NodeState) -> Iterator[Document]:
    """As the agent tells it of a real node."""
    for container in state.containers.values():
        for port in container.ports:
            protocol = port.inside.partition("/")[2]
            yield _listener_document(protocol, port.host_ip, port.host_port, _PROXY, "docker-proxy", None)
        server = state.servers.get(container.id)
        if container.running and server is not None and network_of(container) == "host":
            yield _listener_document("tcp", "0.0.0.0", server.http_port, container.pid, "tritonserver", container.id)  # noqa: S104 - reported
    yield _listener_document("tcp", "0.0.0.0", 22, _SSHD, "sshd", None)  # noqa: S104 - reported, not bound
    for listener in state.listeners:
        yield _listener_document("tcp", listener.address, listener.port, listener.pid, listener.name, None)


def _listener_document(protocol: str, address: str, port: int, pid: int, name: str, container: str | None) -> Document:
    return {"protocol": protocol, "address": address, "port": port, "pid": pid, "name": name, "container": container}


_PYTHON = "3.11.2"
_MODULES = ["br_netfilter", "bridge", "nvidia", "nvidia_modeset", "nvidia_uvm", "overlay", "veth"]


class SimulatedWorld(World):
    """One simulated node as the agent sees it; `closing` ends everything that hangs."""

    def __init__(self, name: str, store: StateStore, faults: Faults, closing: threading.Event) -> None:
        super().__init__(str(store.root))
        self._store = store
        self._name = name
        self._faults = faults
        self._closing = closing
        self._machine = Machine(name, store.root)
        self.docker_engine = SimulatedEngine(store, self._machine, closing)
        self.servers = Servers(store, self._machine)

    def nvml(self) -> Any:
        """The simulated library."""
        self._hang("gpu")
        return SimulatedNvml(self._store, self._faults.nvml, self._closing.wait)

    def engine(self, method: str, path: str) -> tuple[int, bytes]:
        """One request to the simulated engine."""
        self._hang("docker")
        if self._faults.docker == "absent":
            raise FileNotFoundError(2, "No such file or directory")
        if self._faults.docker == "refused":
            raise ConnectionRefusedError(111, "Connection refused")
        where, _, query = path.partition("?")
        response = self.docker_engine.answer(EngineRequest(method, where, dict(parse_qsl(query))))
        return response.status, response.body

    def triton(self, address: str, method: str, path: str, body: bytes | None, timeout: float) -> tuple[int, bytes]:
        """One request to whatever listens at the address."""
        self._hang("triton")
        host, _, port = address.rpartition(":")
        try:
            answer = self.servers.answer(host.strip("[]"), int(port), method, path, body or b"")
        except NeverAnswers:
            self._closing.wait(timeout)
            raise TimeoutError("timed out") from None
        return answer.status, answer.body

    def folders(self, path: str) -> list[str]:
        """Names of the directories in a directory of the node's disk."""
        return super().folders(str(self._machine.file(path) or path))

    def host(self) -> dict[str, object]:
        """The host probe without disk and lock."""
        self._hang("host")
        state = self._store.read()
        return {
            "hostname": self._name,
            "kernel": KERNEL,
            "boot_id": state.boot_id,
            "uptime_seconds": round(time.time() - state.booted, 2),
            "python": _PYTHON,
            "uid": 0,
            "modules": sorted({*_MODULES, *state.modules}),
            "hypervisor": state.virtualization in ("passthrough", "vgpu"),
            "listening": list(listening(state)),
        }

    def process(self, pid: int) -> dict[str, str | None]:
        """Name of a process, and its container."""
        state = self._store.read()
        for running in processes(state):
            if running.pid == pid:
                return {"name": running.name, "container": running.container, "service": None}
        for service in state.services:
            if service.pid == pid:
                return {"name": service.name, "container": None, "service": f"{service.name}.service"}
        return {"name": "", "container": None, "service": None}

    def holders(self) -> Mapping[int, Sequence[int]]:
        """Minor number of a GPU → who has it open: the processes on it, and the services that run."""
        state = self._store.read()
        services = [one.pid for one in state.services if one.active]
        return {
            index: sorted({*(one.pid for one in processes(state) if one.device.gpu == index), *services})
            for index in range(len(state.gpus))
        }

    def device_access(self, pids: Mapping[str, int]) -> dict[str, object]:
        """Which device files each container has, and may open."""
        state = self._store.read()
        return {name: device_access(state, state.containers[name]) for name in pids if name in state.containers}

    def toolkit(self) -> dict[str, object]:
        """The value of the toolkit probe."""
        return toolkit(self._store.read())

    def run(self, argv: Sequence[str], seconds: float) -> tuple[int, str]:
        """A program of the node; none of them takes its time."""
        del seconds
        try:
            return tools.run(self._store, argv)
        except FileNotFoundError as error:
            raise Failure("no_tool", f"{argv[0]} is not on the node") from error

    def _hang(self, probe: str) -> None:
        if probe in self._faults.hang:
            self._closing.wait()


def reboot(store: StateStore, node: str) -> None:
    """Reboot the node: MIG instances go everywhere, MIG mode stays only where the board keeps it (Ampere), and the
    engine brings back the containers whose restart policy says so.
    """
    with store.write() as state:
        state.boot_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}/boot/{state.count()}"))
        state.booted = time.time()
        state.processes.clear()
        for service in state.services:
            service.active = True
        for gpu in state.gpus:
            gpu.instances.clear()
            gpu.mig = gpu.pending = gpu.pending and board_of(gpu).mode_survives_reboot
            gpu.ecc, gpu.power_limit_mw, gpu.compute_mode = gpu.ecc_pending, 0, 0
        refresh(state)
        boot(state, Machine(node, store.root))
