"""The programs of a simulated node that the agent runs: nvidia-smi, nvidia-ctk and systemctl."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.simulator.devices import processes
from gpuplan.simulator.hardware import board_of
from gpuplan.simulator.state import Gpu, NodeState, Service
from gpuplan.simulator.store import Store
from gpuplan.simulator.toolkit import generate, kind

_REFUSED = "The following GPUs could not be reset:\n  GPU {}: {}\n"


def run(store: Store, argv: Sequence[str]) -> tuple[int, str]:
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


def reset(gpu: Gpu) -> None:
    """What a reset leaves: the modes that pend, where the board keeps MIG mode at all; no slices, no settings."""
    gpu.instances.clear()
    gpu.mig = gpu.pending = gpu.pending and board_of(gpu).mode_survives_reboot
    gpu.ecc = gpu.ecc_pending
    gpu.power_limit_mw, gpu.compute_mode = 0, 0


def _reset(store: Store, uuid: str) -> tuple[int, str]:
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


def _service(store: Store, verb: str, name: str) -> tuple[int, str]:
    with store.write() as state:
        found = next((one for one in state.services if one.name == name), None)
        if verb == "is-active":
            active = found is not None and found.active
            return (0, "active\n") if active else (3, "inactive\n")
        if found is None:
            return 5, f"Failed to {verb} {name}.service: Unit {name}.service not loaded.\n"
        _turn(state, found, verb == "start")
    return 0, ""


def _turn(state: NodeState, service: Service, on: bool) -> None:
    if on and not service.active:
        service.pid = 1000 + state.count()
    service.active = on
