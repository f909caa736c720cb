"""A container's output, as `GET /containers/ID/logs` gives it."""

from __future__ import annotations

import hashlib
import re
from functools import partial

from gpuplan.simulator.engine import lifecycle
from gpuplan.simulator.engine.create import NAME, claim, create
from gpuplan.simulator.engine.http import (
    Daemon,
    EngineError,
    EngineRequest,
    EngineResponse,
    Route,
    answer,
    changing,
    frame,
    nothing,
    reading,
    route,
)
from gpuplan.simulator.engine.inspect import inspect, listed
from gpuplan.simulator.engine.lookup import containers as filtered
from gpuplan.simulator.engine.lookup import find_container, image_by_id
from gpuplan.simulator.engine.programs import ON_MEMORY, on_memory
from gpuplan.simulator.state import (
    Document,
    Execution,
    NodeState,
    SimulatedContainer,
    mapping,
    number,
    stamp,
    text,
    texts,
)


def logs(container: SimulatedContainer, request: EngineRequest) -> EngineResponse:
    """The lines that the request asks for, multiplexed unless the container has a terminal."""
    wanted = [channel for channel, name in ((1, "stdout"), (2, "stderr")) if request.flag(name)]
    if not wanted:
        raise EngineError(400, "Bad parameters: you must choose at least one stream")
    since = float(request.query.get("since") or 0)
    lines = [line for line in container.log if line.stream in wanted and line.at >= since]
    tail = request.query.get("tail", "all")
    if tail.isdigit():
        lines = lines[len(lines) - min(len(lines), int(tail)) :]
    shown = [
        (line.stream, f"{stamp(line.at)} {line.text}" if request.flag("timestamps") else line.text) for line in lines
    ]
    if container.config.get("Tty"):
        return EngineResponse(
            body="".join(f"{text}\r\n" for _, text in shown).encode(), kind="application/octet-stream"
        )
    body = b"".join(frame(channel, f"{text}\n") for channel, text in shown)
    return EngineResponse(body=body, kind="application/vnd.docker.multiplexed-stream")


# --- docker exec: shells exit with the code they are given, every other known command succeeds silently ---

_EXIT = re.compile(r"\bexit (\d+)")
_NOT_FOUND = 126
_NO_DRIVER = "no CUDA driver: libcuda.so.1: cannot open shared object file: No such file or directory\n"


def new_execution(state: NodeState, container: SimulatedContainer, body: Document) -> Execution:
    """A new exec in a running container."""
    if not container.running:
        raise EngineError(409, f"Container {container.id} is not running")
    command = texts(body.get("Cmd"))
    if not command:
        raise EngineError(400, "No exec command specified")
    reads = body.get("AttachStdin") is True
    identity = hashlib.sha256(f"{container.id} exec {state.count()}".encode()).hexdigest()
    state.executions[identity] = Execution(identity, container.id, command, reads=reads)
    return state.executions[identity]


def start_execution(state: NodeState, execution: Execution, given: bytes = b"") -> bytes:
    """Run it on what was written to its input; returns its output as frames."""
    container = state.containers[execution.container]
    image = image_by_id(state, container.image)
    program = execution.command[0].rpartition("/")[2]
    execution.started = True
    if image and image.programs is not None and program not in (*image.programs, "test"):
        execution.exit_code = _NOT_FOUND
        return frame(
            1,
            "OCI runtime exec failed: exec failed: unable to start container process: "
            f'exec: "{execution.command[0]}": executable file not found in $PATH: unknown\r\n',
        )
    if program in ON_MEMORY:
        execution.exit_code, output = on_memory(container, execution.command, given)
        return output
    script = " ".join(execution.command)
    if program == "python3" and "libcuda" in script:
        execution.exit_code = 1
        return frame(2, _NO_DRIVER)
    exit_match = _EXIT.search(script)
    execution.exit_code = int(exit_match[1]) if exit_match else int(program == "false")
    return frame(1, f"{' '.join(execution.command[1:])}\n") if program == "echo" else b""


def awaited(execution: Execution) -> int:
    """Bytes that the program reads before it ends."""
    count = next((word.removeprefix("count=") for word in execution.command if word.startswith("count=")), "0")
    return int(count) if execution.reads and execution.command[0] == "dd" and count.isdigit() else 0


def find_execution(state: NodeState, identity: str) -> Execution:
    """The exec of an id."""
    execution = state.executions.get(identity)
    if execution is None:
        raise EngineError(404, f"No such exec instance: {identity}")
    return execution


def inspect_execution(execution: Execution) -> Document:
    """`GET /exec/ID/json`."""
    return {
        "ID": execution.id,
        "Running": False,
        "ExitCode": execution.exit_code if execution.started else None,
        "ProcessConfig": {
            "tty": False,
            "entrypoint": execution.command[0],
            "arguments": execution.command[1:],
            "privileged": False,
        },
        "OpenStdin": False,
        "OpenStderr": True,
        "OpenStdout": True,
        "CanRemove": False,
        "ContainerID": execution.container,
        "DetachKeys": "",
        "Pid": 0,
    }


# Requests about containers and what runs in them.

_TURN = 0.02
_SWAP = "Memory limit should be smaller than already set memoryswap limit, update the memoryswap at the same time"


def _create(daemon: Daemon, state: NodeState, request: EngineRequest, _name: str) -> EngineResponse:
    container = create(state, daemon.machine, request.query.get("name", ""), request.json())
    return answer({"Id": container.id, "Warnings": []}, 201)


def _start(daemon: Daemon, state: NodeState, _request: EngineRequest, name: str) -> EngineResponse:
    container = find_container(state, name)
    if container.running:
        return nothing(304)
    container.restarts = 0
    return _start_result(lifecycle.start(state, container, daemon.machine))


def _stop(daemon: Daemon, state: NodeState, _request: EngineRequest, name: str) -> EngineResponse:
    container = find_container(state, name)
    if not container.running and container.status != "restarting":
        return nothing(304)
    lifecycle.stop(state, container, daemon.machine)
    return nothing()


def _restart(daemon: Daemon, state: NodeState, _request: EngineRequest, name: str) -> EngineResponse:
    container = find_container(state, name)
    if container.running:
        lifecycle.stop(state, container, daemon.machine)
    container.restarts = 0
    return _start_result(lifecycle.start(state, container, daemon.machine))


def _start_result(refusal: str) -> EngineResponse:
    """A refused start is written into the container's state, and so it must not undo the change."""
    if not refusal:
        return nothing()
    status, _, message = refusal.partition(" ")
    return answer({"message": message}, int(status))


def _kill(daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    container = find_container(state, name)
    if not container.running:
        raise EngineError(409, f"Cannot kill container: {name}: Container {container.id} is not running")
    signal = request.query.get("signal", "SIGKILL").upper().removeprefix("SIG")
    if signal in ("KILL", "9"):
        lifecycle.end(state, container, 137, by_hand=True)
    elif signal in ("TERM", "15", "INT", "2", "QUIT", "3"):
        lifecycle.interrupt(state, container, daemon.machine)
    return nothing()


def _pause(_daemon: Daemon, state: NodeState, _request: EngineRequest, name: str) -> EngineResponse:
    container = find_container(state, name)
    if container.status != "running":
        why = "already paused" if container.status == "paused" else "not running"
        raise EngineError(409, f"Container {container.id} is {why}")
    container.status = "paused"
    return nothing()


def _unpause(_daemon: Daemon, state: NodeState, _request: EngineRequest, name: str) -> EngineResponse:
    container = find_container(state, name)
    if container.status != "paused":
        raise EngineError(500, f"Container {container.id} is not paused")
    container.status = "running"
    return nothing()


def _rename(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    container, wanted = find_container(state, name), request.query.get("name", "").removeprefix("/")
    if not NAME.match(wanted):
        words = f"Invalid container name (/{wanted}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"
        raise EngineError(400, f"Error when allocating new name: {words}")
    if wanted == container.name:
        raise EngineError(400, "Renaming a container with the same name as its current name")
    claim(state, wanted, "Error when allocating new name: ")
    container.name = wanted
    return nothing()


def _remove(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    container = find_container(state, name)
    if (container.running or container.status == "restarting") and not request.flag("force"):
        kind = "paused" if container.status == "paused" else container.status
        advice = "Unpause and then stop" if kind == "paused" else "Stop"
        raise EngineError(
            409,
            f"You cannot remove a {kind} container {container.id}. "
            f"{advice} the container before attempting removal or force remove",
        )
    lifecycle.remove(state, container)
    return nothing()


def _update(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    container, stated = find_container(state, name), request.json()
    held, wanted = number(container.host_config["MemorySwap"]), number(stated.get("Memory"))
    if wanted > held >= 0 and not stated.get("MemorySwap"):
        raise EngineError(409, f"Cannot update container {container.id}: {_SWAP}")
    for key, option in (("CpuPeriod", "CPU Period"), ("CpuQuota", "CPU Quota")):
        if number(stated.get("NanoCpus")) > 0 and number(container.host_config.get(key)) > 0:
            why = f"Conflicting options: Nano CPUs cannot be updated as {option} has already been set"
            raise EngineError(409, f"Cannot update container {container.id}: {why}")
    container.host_config.update({key: value for key, value in stated.items() if key != "RestartPolicy"})
    if policy := mapping(stated.get("RestartPolicy")):
        full = {"Name": text(policy.get("Name")), "MaximumRetryCount": number(policy.get("MaximumRetryCount"))}
        container.host_config["RestartPolicy"] = full
    return answer({"Warnings": None})


def _wait(daemon: Daemon, _request: EngineRequest, name: str) -> EngineResponse:
    """Answers when the container has ended."""
    identity = find_container(daemon.store.read(), name).id
    while True:
        container = daemon.store.read().containers.get(identity)
        if container is None:
            return answer({"Error": None, "StatusCode": 0})
        if not container.running and container.status != "restarting":
            return answer({"Error": None, "StatusCode": container.exit_code})
        if daemon.closing.wait(_TURN):
            raise EngineError(500, "context canceled")
        if lifecycle.due(daemon.store.read()):
            with daemon.store.write() as state:
                lifecycle.tick(state, daemon.machine)


def _exec_create(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    return answer({"Id": new_execution(state, find_container(state, name), request.json()).id}, 201)


def _exec_start(daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    execution = find_execution(state, name)
    if size := awaited(execution):
        return EngineResponse(frames=b"", awaited=size, then=partial(_started, daemon, name))
    output = start_execution(state, execution)
    return nothing(200) if mapping(request.json()).get("Detach") else EngineResponse(frames=output)


def _started(daemon: Daemon, name: str, given: bytes) -> bytes:
    """The output of a program that was waiting for its input."""
    with daemon.store.write() as state:
        return start_execution(state, find_execution(state, name), given)


def _stats(state: NodeState, _request: EngineRequest, name: str) -> object:
    container = find_container(state, name)
    return {"id": container.id, "name": f"/{container.name}", "cpu_stats": {}, "memory_stats": {}, "networks": {}}


def _list(state: NodeState, request: EngineRequest, _name: str) -> object:
    return [listed(state, one) for one in filtered(state, request)]


def _inspect(state: NodeState, _request: EngineRequest, name: str) -> object:
    return inspect(state, find_container(state, name))


def _logs(daemon: Daemon, request: EngineRequest, name: str) -> EngineResponse:
    return logs(find_container(daemon.store.read(), name), request)


def _exec_inspect(state: NodeState, _request: EngineRequest, name: str) -> object:
    return inspect_execution(find_execution(state, name))


_ONE = "/containers/([^/]+)"
ROUTES: tuple[Route, ...] = (
    route("GET", "/containers/json", reading(_list)),
    route("POST", "/containers/create", changing(_create)),
    route("GET", f"{_ONE}/json", reading(_inspect)),
    route("GET", f"{_ONE}/logs", _logs),
    route("GET", f"{_ONE}/stats", reading(_stats)),
    route("POST", f"{_ONE}/start", changing(_start)),
    route("POST", f"{_ONE}/stop", changing(_stop)),
    route("POST", f"{_ONE}/restart", changing(_restart)),
    route("POST", f"{_ONE}/kill", changing(_kill)),
    route("POST", f"{_ONE}/pause", changing(_pause)),
    route("POST", f"{_ONE}/unpause", changing(_unpause)),
    route("POST", f"{_ONE}/rename", changing(_rename)),
    route("POST", f"{_ONE}/update", changing(_update)),
    route("POST", f"{_ONE}/wait", _wait),
    route("POST", f"{_ONE}/exec", changing(_exec_create)),
    route("DELETE", _ONE, changing(_remove)),
    route("POST", "/exec/([^/]+)/start", changing(_exec_start)),
    route("GET", "/exec/([^/]+)/json", reading(_exec_inspect)),
)
