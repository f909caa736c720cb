"""Acts on CDI: has the specifications written anew, and asks for devices by the names that they list."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.resources.container.cdi import compare_specification, position_names
from gpuplan.resources.container.toolkit import read_toolkit
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.devices import Gpus, read_gpus
from gpuplan.resources.snapshot.labels import DEVICES
from gpuplan.resources.snapshot.raw import mapping
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem, Refused
from gpuplan.types.value import JsonObject

PREFIX = "nvidia.com/gpu="


def regenerate(paths: Sequence[str], address: Address, context: ApplyContext) -> None:
    """Write each specification anew, and believe it when a second look finds the node's devices in it.

    Raises:
        Problem: it could not be written, or does not list what is there.
    """
    for path in paths:
        try:
            context.agent("cdi.generate", path=path)
        except Refused as refused:
            raise Problem(_refused(refused, path, address)) from refused
        context.say(f"wrote {path}")
    snapshot = context.look("gpu", "toolkit")
    gpus, found = read_gpus(snapshot), read_toolkit(snapshot).specifications
    for path in paths:
        written = next((each for each in found if each.path == path), None)
        if written is None or (gpus.known and compare_specification(written, gpus)):
            raise Problem(
                Diagnostic(
                    "A CDI specification is still stale",
                    f"{path} on {address.node} was written, and does not list the devices that are there.",
                    f"See what it lists, on {address.node}:\n    nvidia-ctk cdi list",
                    address=str(address),
                )
            )


def by_cdi(body: JsonObject, devices: Sequence[str], address: Address, context: ApplyContext) -> JsonObject:
    """The engine's create request with its devices named as the specifications list them.

    A name by place says nothing of the identity, so a label keeps the UUIDs.

    Raises:
        Problem: no specification lists one of them.
    """
    snapshot = context.look("gpu", "toolkit")
    gpus = read_gpus(snapshot)
    listed = {name for each in read_toolkit(snapshot).specifications for name in each.devices}
    names = [_name(uuid, gpus, listed, address) for uuid in devices]
    request: JsonObject = {"Driver": "cdi", "Count": 0, "DeviceIDs": [PREFIX + name for name in names]}
    labels = dict(mapping(body.get("Labels")))
    if names != list(devices):
        labels[DEVICES] = ",".join(devices)
    return {**body, "Labels": labels, "HostConfig": {**mapping(body.get("HostConfig")), "DeviceRequests": [request]}}


def _name(uuid: str, gpus: Gpus, listed: set[str], address: Address) -> str:
    """By UUID, or by place where the toolkit is one that lists no UUIDs."""
    if uuid in listed:
        return uuid
    for gpu in gpus.gpus:
        if uuid in gpu.usable:
            place = position_names(gpu.index, gpu.mig, len(gpu.slices))[gpu.usable.index(uuid)]
            if place in listed:
                return place
    raise Problem(
        Diagnostic(
            "A device is in no CDI specification",
            f"No CDI specification on {address.node} lists {uuid}, which {address.name} is to have.",
            "Run gpuplan plan again: it has a stale specification written anew.",
            address=str(address),
        )
    )


def _refused(refused: Refused, path: str, address: Address) -> Diagnostic:
    if refused.code == "no_tool":
        return Diagnostic(
            "A CDI specification cannot be regenerated",
            f"nvidia-ctk is not on {address.node}, so {path} cannot be written anew.",
            "Install it:\n    sudo apt-get install -y nvidia-container-toolkit-base",
            address=str(address),
        )
    return Diagnostic(
        "A CDI specification was not written",
        f"{path} on {address.node}: {refused.text}",
        f"Try it by hand, on {address.node}:\n    sudo nvidia-ctk cdi generate --output={path}",
        address=str(address),
    )
