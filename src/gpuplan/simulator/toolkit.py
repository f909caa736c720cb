"""NVIDIA's container toolkit on a simulated node: its programs, its CDI specifications, and the access it gives."""

from __future__ import annotations

from gpuplan.simulator.devices import UnknownDevice, requested
from gpuplan.simulator.document import text
from gpuplan.simulator.state import Container, Document, NodeState
from gpuplan.simulator.store import Store

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
    """What `nvidia-ctk cdi generate` lists of the node as it stands: each device by its place and by its UUID."""
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


def device_access(state: NodeState, container: Container) -> Document:
    """What a running container may do with the device files that it was given."""
    nodes = _nodes(state, container)
    return {"nodes": nodes, "denied": list(nodes) if container.cut_off else []}


def daemon_reload(store: Store) -> None:
    """`systemctl daemon-reload` under the systemd cgroup driver: what the hook had allowed is allowed no more."""
    with store.write() as state:
        for container in state.containers.values():
            container.cut_off = container.running and bool(_nodes(state, container))


def _nodes(state: NodeState, container: Container) -> list[str]:
    try:
        devices = requested(state, container)
    except UnknownDevice:
        return []
    minors = {f"nvidia{device.gpu}" for device in devices}
    return sorted({*minors, "nvidia-uvm", "nvidiactl"}) if minors else []
