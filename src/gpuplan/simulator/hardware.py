"""Makes a simulated node from what the inventory says of its hardware, and finds it again."""

from __future__ import annotations

import os
import re
import time
import uuid
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from gpuplan.nvidia.boards import BOARDS, find_board
from gpuplan.simulator.engine.http import KNOWN, known
from gpuplan.simulator.engine.registry import image_of
from gpuplan.simulator.state import Document, NodeState, Service, SimulatedGpu, items, mapping, number, text, texts
from gpuplan.simulator.store import StateStore
from gpuplan.simulator.tools import KINDS, refresh
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.inventory import Host

DRIVER = "570.86.15"
"""The driver of a node whose inventory names none."""
_CUDA = {"450": "11.0", "470": "11.4", "510": "11.6", "515": "11.7", "525": "12.0", "535": "12.2", "545": "12.3",
         "550": "12.4", "555": "12.5", "560": "12.6", "565": "12.7", "570": "12.8", "575": "12.9", "580": "13.0",
         "590": "13.1"}  # fmt: skip
"""The newest CUDA that each driver branch supports (CUDA Toolkit release notes, table of driver versions)."""
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
_KNOWN = ("gpus", "driver", "images", "services", "modules", "virtualization", "toolkit", "engine", "faults")
_VIRTUALIZATION = ("none", "passthrough", "vgpu", "host_vgpu", "host_vsga")
_MOST_GPUS = 16


def state_directory() -> Path:
    """Where simulated nodes live: $GPUPLAN_STATE_DIR, or the user's state directory."""
    if chosen := os.environ.get("GPUPLAN_STATE_DIR"):
        return Path(chosen)
    from platformdirs import user_state_path

    return user_state_path("gpuplan")


def open_store(host: Host) -> StateStore:
    """The node of this host, made when it is asked for the first time.

    Raises:
        Problem: the hardware is unknown or badly written, or is not that of the node that was made before.
    """
    hardware = _hardware(host)
    store = StateStore(state_directory() / "simulated" / host.name)
    if not store.exists:
        try:
            store.create(make_node(host.name, hardware))
        except OSError as error:
            raise Problem(
                Diagnostic(
                    "The state of a simulated node cannot be kept",
                    f"{store.directory}: {error.strerror or error}.",
                    "Set GPUPLAN_STATE_DIR to a directory that you may write to",
                    address=host.name,
                )
            ) from None
    if store.read().hardware != hardware:
        raise Problem(
            Diagnostic(
                "The simulated node has other hardware",
                f"The inventory gives {host.name} other hardware than the simulated node of that name was made with.",
                f"Remove the directory {store.directory} to re-create the node",
                where=host.where,
                address=host.name,
            )
        )
    return store


def make_node(name: str, hardware: Document) -> NodeState:
    """A node as it comes from the factory; the same name and hardware give the same UUIDs."""
    driver = text(hardware["driver"])
    state = NodeState(
        hardware=hardware,
        driver=driver,
        cuda=_CUDA.get(driver.partition(".")[0], "12.8"),
        boot_id=str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}/boot/0")),
        booted=time.time(),
    )
    for stated in items(hardware["gpus"]):
        for _ in range(number(mapping(stated)["count"])):
            state.gpus.append(_gpu(name, len(state.gpus), text(mapping(stated)["model"])))
    state.services = [
        Service(service_name, 800 + at) for at, service_name in enumerate(texts(hardware.get("services")))
    ]
    state.modules = texts(hardware.get("modules"))
    state.virtualization = text(hardware.get("virtualization")) or "none"
    refresh(state)
    state.images = [image for reference in texts(hardware["images"]) if (image := image_of(reference))]
    return state


def _gpu(node: str, index: int, model: str) -> SimulatedGpu:
    board = find_board(model)
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}/gpu/{index}")
    return SimulatedGpu(board.catalog_name if board else model, f"GPU-{identity}", f"00000000:{7 + 8 * index:02X}:00.0")


def _hardware(host: Host) -> Document:
    """The hardware in one form, whatever was left out."""
    stated: Document = dict(host.simulated)
    faults: list[Diagnostic] = []
    if not _NAME.match(host.name):
        faults.append(
            _fault(host, f"The name {host.name!r} cannot become a directory.", "Use letters, digits, - and _")
        )
    faults.extend(
        _fault(host, f"gpuplan_simulated has no key {key!r}.", f"Write one of {', '.join(_KNOWN)}")
        for key in stated
        if key not in _KNOWN
    )
    gpus = [_stated_gpu(host, one, faults) for one in items(stated.get("gpus", []))]
    if sum(number(gpu["count"]) for gpu in gpus) > _MOST_GPUS:
        faults.append(_fault(host, f"A simulated node holds at most {_MOST_GPUS} GPUs.", "Lower the counts"))
    images = texts(stated.get("images", []))
    faults.extend(
        _fault(host, f"The simulated registry has no image {image!r}.", "Leave it out, or name one that can be pulled")
        for image in images
        if image_of(image) is None
    )
    around = text(stated.get("virtualization")) or "none"
    if around not in _VIRTUALIZATION:
        fix = f"Write one of {', '.join(_VIRTUALIZATION)}"
        faults.append(_fault(host, f"No GPU is virtualised by {around!r}.", fix))
    if (toolkit := text(stated.get("toolkit")) or "hook") not in KINDS:
        fix = f"Write one of {', '.join(KINDS)}"
        faults.append(_fault(host, f"No node has the toolkit {toolkit!r}.", fix))
    if "engine" in stated and not known(str(stated["engine"])):
        fix = f"Write one of {', '.join(KNOWN)}, in quotes"
        faults.append(_fault(host, f"No simulated node has the engine {stated['engine']!r}.", fix))
    if faults:
        raise Problem(faults)
    kept = ("services", "modules", "virtualization", "toolkit", "engine")
    rest: Document = {key: stated[key] for key in kept if key in stated}
    return {"gpus": gpus, "driver": str(stated.get("driver") or DRIVER), "images": images, **rest}


def _stated_gpu(host: Host, stated: object, faults: list[Diagnostic]) -> Document:
    gpu = mapping({"model": stated} if isinstance(stated, str) else stated)
    model, count = text(gpu.get("model")), gpu.get("count", 1)
    if board := find_board(model):
        model = board.catalog_name
    else:
        names = [board.catalog_name for board in BOARDS]
        near = get_close_matches(model.upper(), names, n=3, cutoff=0.4) or names
        faults.append(_fault(host, f"The catalog has no board {model!r}.", f"Did you mean {', '.join(near)}?"))
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        faults.append(
            _fault(host, f"The count of {model} is {count!r}, which is not a number of GPUs.", "Write 1 or more")
        )
        count = 0
    return {"model": model, "count": count}


def _fault(host: Host, detail: str, fix: str) -> Diagnostic:
    return Diagnostic("Bad hardware of a simulated node", detail, fix, where=host.where, address=host.name)


# Power limits of the boards, in milliwatts.


@dataclass(frozen=True)
class PowerLimits:
    """The default, which is the highest as well, and the lowest."""

    default: int
    lowest: int


_POWER = {
    "A30": PowerLimits(165_000, 100_000), "A100-PCIE": PowerLimits(300_000, 150_000),
    "A100": PowerLimits(400_000, 100_000),
    "H100-PCIE": PowerLimits(350_000, 200_000), "H100": PowerLimits(700_000, 200_000),
    "H200": PowerLimits(700_000, 200_000),
}  # fmt: skip
_OTHERS = PowerLimits(1_000_000, 200_000)


def power_of(board: str) -> PowerLimits:
    """The limits of a board, by its name in the catalog."""
    return next((power for prefix, power in _POWER.items() if board.startswith(prefix)), _OTHERS)
