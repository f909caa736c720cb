"""`docker exec` on a simulated node: shells exit as they are told, every other known command succeeds in silence."""

from __future__ import annotations

import hashlib
import re

from gpuplan.simulator.document import texts
from gpuplan.simulator.engine.find import image_by_id
from gpuplan.simulator.engine.http import EngineError, frame
from gpuplan.simulator.engine.memory import ON_MEMORY, on_memory
from gpuplan.simulator.state import Container, Document, Execution, NodeState

_EXIT = re.compile(r"\bexit (\d+)")
_NOT_FOUND = 126
_NO_DRIVER = "no CUDA driver: libcuda.so.1: cannot open shared object file: No such file or directory\n"


def create(state: NodeState, container: Container, body: Document) -> Execution:
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


def start(state: NodeState, execution: Execution, given: bytes = b"") -> bytes:
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
    told = _EXIT.search(script)
    execution.exit_code = int(told[1]) if told else int(program == "false")
    return frame(1, f"{' '.join(execution.command[1:])}\n") if program == "echo" else b""


def awaited(execution: Execution) -> int:
    """Bytes that the program reads before it ends."""
    count = next((word.removeprefix("count=") for word in execution.command if word.startswith("count=")), "0")
    return int(count) if execution.reads and execution.command[0] == "dd" and count.isdigit() else 0


def find(state: NodeState, identity: str) -> Execution:
    """The exec of an id."""
    execution = state.executions.get(identity)
    if execution is None:
        raise EngineError(404, f"No such exec instance: {identity}")
    return execution


def inspect(execution: Execution) -> Document:
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
