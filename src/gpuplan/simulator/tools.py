"""The programs of a simulated node that the agent runs: nvidia-smi, nvidia-ctk and systemctl."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.simulator.devices import UnknownDevice, processes, requested
from gpuplan.simulator.state import Document, NodeState, Service, SimulatedContainer, SimulatedGpu, board_of, text
from gpuplan.simulator.store import StateStore

# --- NVIDIA container toolkit: its programs, CDI specifications, and the device access it gives ---

KINDS = ("hook", "cdi", "none")
"""What an inventory may say of `toolkit`: the engine gives GPUs by the hook, by CDI alone, or not at all."""
DIRECTORIES = ["/etc/cdi", "/var/run/cdi"]
REFRESHED = "/var/run/cdi/nvidia.yaml"
"""The specification that the toolkit's own service writes when the node boots."""
CDI = "nvidia.com/gpu="
_PROGRAMS = {
    "hook": ("nvidia-container-runtime-hook", "nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-ctk"),
    "cdi": ("nvidia-cdi-hook", "nvidia-ctk"),
    "none": (),
}


def kind(state: NodeState) -> str:
    """Which toolkit the node has."""
    return text(state.hardware.get("toolkit")) or "hook"


def toolkit(state: NodeState) -> Document:
    """The value of the toolkit probe."""
    programs = _PROGRAMS[kind(state)]
    return {
        "tools": {name: f"/usr/bin/{name}" if name in programs else None for name in _PROGRAMS["hook"]},
        "cdi": [{"path": path, "devices": names} for path, names in sorted(state.cdi.items())],
        "char_links": False if state.gpus else None,
    }


def device_names(state: NodeState) -> list[str]:
    """What `nvidia-ctk cdi generate` lists: each device by its position and by its UUID."""
    names: list[str] = []
    for index, gpu in enumerate(state.gpus):
        uuids = [compute.uuid for instance in gpu.instances for compute in instance.computes] if gpu.mig else [gpu.uuid]
        for place, identity in enumerate(uuids):
            names.extend((f"{index}:{place}" if gpu.mig else str(index), identity))
    return [*names, "all"] if names else []


def generate(state: NodeState, path: str) -> None:
    """Write a specification of what is there now."""
    state.cdi[path] = device_names(state)


def refresh(state: NodeState) -> None:
    """What the toolkit's service does at boot, when /var/run is empty."""
    state.cdi.pop(REFRESHED, None)
    if kind(state) == "cdi":
        generate(state, REFRESHED)


def unresolvable(state: NodeState, names: list[str]) -> list[str]:
    """Those CDI names that no specification of the node lists."""
    listed = {f"{CDI}{name}" for names in state.cdi.values() for name in names}
    return [name for name in names if name not in listed]


def device_access(state: NodeState, container: SimulatedContainer) -> Document:
    """What a running container may do with the device files that it was given."""
    nodes = _nodes(state, container)
    return {"nodes": nodes, "denied": list(nodes) if container.cut_off else []}


def daemon_reload(store: StateStore) -> None:
    """`systemctl daemon-reload` under the systemd cgroup driver: what the hook had allowed is allowed no more."""
    with store.write() as state:
        for container in state.containers.values():
            container.cut_off = container.running and bool(_nodes(state, container))


def _nodes(state: NodeState, container: SimulatedContainer) -> list[str]:
    try:
        devices = requested(state, container)
    except UnknownDevice:
        return []
    minors = {f"nvidia{device.gpu}" for device in devices}
    return sorted({*minors, "nvidia-uvm", "nvidiactl"}) if minors else []


_REFUSED = "The following GPUs could not be reset:\n  GPU {}: {}\n"


def run(store: StateStore, argv: Sequence[str]) -> tuple[int, str]:
    """Exit code and what it says.

    Raises:
        FileNotFoundError: the node does not have this program.
    """
    match tuple(argv):
        case ("nvidia-smi", "--gpu-reset", "-i", uuid):
            return _reset(store, uuid)
        case ("nvidia-smi", "-L"):
            return 0, "".join(f"GPU {at}: {gpu.board} (UUID: {gpu.uuid})\n" for at, gpu in enumerate(store.read().gpus))
        case ("nvidia-ctk", "cdi", "generate", output) if kind(store.read()) != "none":
            with store.write() as state:
                generate(state, output.removeprefix("--output="))
            return 0, ""
        case ("systemctl", "is-active" | "stop" | "start" as verb, "--", name):
            return _service(store, verb, name.removesuffix(".service"))
        case _:
            raise FileNotFoundError(argv[0])


def held(state: NodeState, index: int) -> bool:
    """Somebody keeps the GPU from being reset: a process on it, or a service that has it open."""
    return any(one.device.gpu == index for one in processes(state)) or any(one.active for one in state.services)


def reset(gpu: SimulatedGpu) -> None:
    """What a reset leaves: the modes that pend, where the board keeps MIG mode at all; no slices, no settings."""
    gpu.instances.clear()
    gpu.mig = gpu.pending = gpu.pending and board_of(gpu).mode_survives_reboot
    gpu.ecc = gpu.ecc_pending
    gpu.power_limit_mw, gpu.compute_mode = 0, 0


def _reset(store: StateStore, uuid: str) -> tuple[int, str]:
    with store.write() as state:
        for index, gpu in enumerate(state.gpus):
            if gpu.uuid != uuid:
                continue
            if state.virtualization in ("passthrough", "vgpu"):
                return 255, _REFUSED.format(gpu.pci, "Not Supported")
            if gpu.persistence or held(state, index):
                return 255, _REFUSED.format(gpu.pci, "In use by another client")
            reset(gpu)
            return 0, f"GPU {gpu.pci} was successfully reset.\nAll done.\n"
    return 6, "No devices were found\n"


def _service(store: StateStore, verb: str, name: str) -> tuple[int, str]:
    with store.write() as state:
        known_service = next((one for one in state.services if one.name == name), None)
        if verb == "is-active":
            active = known_service is not None and known_service.active
            return (0, "active\n") if active else (3, "inactive\n")
        if known_service is None:
            return 5, f"Failed to {verb} {name}.service: Unit {name}.service not loaded.\n"
        _turn(state, known_service, verb == "start")
    return 0, ""


def _turn(state: NodeState, service: Service, on: bool) -> None:
    if on and not service.active:
        service.pid = 1000 + state.count()
    service.active = on


# Turning a simulated node off and on: what a reboot takes away, and what comes back.
