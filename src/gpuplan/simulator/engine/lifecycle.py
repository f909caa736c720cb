"""Starting and ending containers: ports, devices, programs, restart policies, and what time does by itself."""

from __future__ import annotations

import time

from gpuplan.simulator.devices import UnknownDevice, requested
from gpuplan.simulator.engine.http import EngineError
from gpuplan.simulator.engine.lookup import image_by_id
from gpuplan.simulator.engine.networks import connect, disconnect
from gpuplan.simulator.engine.programs import program_of
from gpuplan.simulator.state import NodeState, SimulatedContainer, items, mapping, number, text, texts
from gpuplan.simulator.store import Machine
from gpuplan.simulator.tools import kind, unresolvable
from gpuplan.simulator.triton.startup import start_server

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 60.0
_HOOK = (
    "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
    "error during container init: error running hook #0: error running hook: exit status 1, stdout: , "
    "stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: device error: {device}: unknown device: unknown"
)


def start(state: NodeState, container: SimulatedContainer, machine: Machine) -> str:
    """Start it; returns the engine's error message, or an empty text.

    A refusal is written into the container's state, and so it is not an exception that would undo that.
    """
    try:
        connect(state, container)
        _check_devices(state, container)
        program = program_of(container, image_by_id(state, container.image), machine)
    except EngineError as error:
        disconnect(container)
        container.exit_code = 127 if "executable file not found" in error.message else 128
        container.error = error.message
        container.ends_at = None
        if container.status == "restarting":
            container.status = "exited"
        return f"{error.status} {error.message}"
    now = time.time()
    container.status, container.exit_code, container.error = "running", 0, ""
    container.pid, container.started = 4000 + state.count(), now
    container.stopped_by_hand = container.cut_off = False
    container.ends_at = None if program.seconds is None else now + program.seconds
    container.ends_with = program.exit_code
    container.write(1, "\n".join(program.output))
    if program.triton:
        failure = start_server(state, container, machine, program.words[1:])
        if failure is not None:
            container.ends_at, container.ends_with = now, failure
    tick(state, machine)
    return ""


def stop(state: NodeState, container: SimulatedContainer, machine: Machine) -> None:
    """`docker stop`: it ends by hand, and so no restart policy brings it back."""
    end(state, container, 137 if _deaf(state, container, machine) else 0, by_hand=True)


def interrupt(state: NodeState, container: SimulatedContainer, machine: Machine) -> None:
    """A signal that asks it to end, which not every program does."""
    if not _deaf(state, container, machine):
        end(state, container, 0, by_hand=True)


def _deaf(state: NodeState, container: SimulatedContainer, machine: Machine) -> bool:
    """True for a program that ignores SIGTERM, and for a Triton that hangs in a load."""
    server = state.servers.get(container.id)
    if server is not None:
        versions = [version for model in server.models.values() for version in model.versions.values()]
        return any(version.state == "LOADING" for version in versions)
    try:
        return program_of(container, image_by_id(state, container.image), machine).deaf
    except EngineError:
        return False


def end(state: NodeState, container: SimulatedContainer, code: int, by_hand: bool) -> None:
    """Its process is gone."""
    if container.running:
        container.exit_code, container.finished = code, time.time()
    container.pid, container.ends_at, container.memory = 0, None, {}
    container.stopped_by_hand = by_hand
    disconnect(container)
    state.servers.pop(container.id, None)
    if not by_hand and _again(container, code):
        container.status = "restarting"
        container.ends_at = time.time() + min(_LONGEST_DELAY, _FIRST_DELAY * 2**container.restarts)
        return
    container.status = "exited"
    if container.host_config.get("AutoRemove"):
        remove(state, container)


def remove(state: NodeState, container: SimulatedContainer) -> None:
    """The container is gone, whatever it was doing."""
    if container.running:
        disconnect(container)
    state.servers.pop(container.id, None)
    state.containers.pop(container.id, None)
    for identity in [one.id for one in state.executions.values() if one.container == container.id]:
        del state.executions[identity]


def due(state: NodeState) -> bool:
    """True where time has done something to a container since the state was written."""
    now = time.time()
    return any(one.ends_at is not None and one.ends_at <= now for one in state.containers.values())


def tick(state: NodeState, machine: Machine) -> None:
    """Let time do what it does: programs end, and containers that wait for their restart are started again."""
    now = time.time()
    for container in [one for one in state.containers.values() if one.ends_at is not None and one.ends_at <= now]:
        if container.status == "restarting":
            container.restarts += 1
            start(state, container, machine)
        else:
            end(state, container, container.ends_with, by_hand=False)


def boot(state: NodeState, machine: Machine) -> None:
    """The engine comes up after a reboot: containers were ended, and their policies bring them back."""
    for container in state.containers.values():
        if container.running or container.status == "restarting":
            end(state, container, 137, by_hand=False)
            container.status, container.ends_at = "exited", None
    for container in state.containers.values():
        policy = text(mapping(container.host_config.get("RestartPolicy")).get("Name"))
        wanted = policy == "always" or (policy == "unless-stopped" and not container.stopped_by_hand)
        if wanted and container.started:
            start(state, container, machine)


def _again(container: SimulatedContainer, code: int) -> bool:
    policy = mapping(container.host_config.get("RestartPolicy"))
    most = number(policy.get("MaximumRetryCount"))
    match text(policy.get("Name")):
        case "always" | "unless-stopped":
            return True
        case "on-failure":
            return code != 0 and (most == 0 or container.restarts < most)
        case _:
            return False


def _check_devices(state: NodeState, container: SimulatedContainer) -> None:
    for request in map(mapping, items(container.host_config.get("DeviceRequests"))):
        capabilities = [texts(one) for one in items(request.get("Capabilities"))]
        by_cdi = text(request.get("Driver")) == "cdi" and kind(state) == "cdi"
        if by_cdi and (unknown_names := unresolvable(state, texts(request.get("DeviceIDs")))):
            why = f"CDI device injection failed: unresolvable CDI devices {', '.join(unknown_names)}"
            raise EngineError(500, why)
        known = {"gpu", "nvidia", "compute", "utility", "video", "graphics", "display", "compat32", "ngx"}
        by_hook = kind(state) == "hook" and any("gpu" in one and set(one) <= known for one in capabilities)
        if not by_cdi and not by_hook:
            shown = " ".join(f"[{' '.join(one)}]" for one in capabilities)
            driver = text(request.get("Driver"))
            raise EngineError(500, f'could not select device driver "{driver}" with capabilities: [{shown}]')
        if request.get("Count") and request.get("DeviceIDs"):
            raise EngineError(500, "cannot set both Count and DeviceIDs on device request")
    try:
        requested(state, container)
    except UnknownDevice as unknown:
        raise EngineError(500, _HOOK.format(device=unknown.device)) from None
