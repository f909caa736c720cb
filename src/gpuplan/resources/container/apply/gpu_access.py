"""Acts on CDI: has the specifications written anew, and asks for devices by the names that they list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.resources.container.cdi import compare_specification, position_names
from gpuplan.resources.container.gpu_access import UNKNOWN_ERROR, read_access, read_toolkit
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.devices import Gpus, read_gpus
from gpuplan.resources.snapshot.labels import DEVICES
from gpuplan.resources.snapshot.raw import mapping, mappings, sequence, whole
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem, Refused
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Json, JsonObject

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


def devices_now(gpus: Mapping[str, Json], address: Address, context: ApplyContext) -> tuple[str, ...]:
    """UUIDs of the parts, where `gpus` has those that were already known when the change set was made.

    A slice is where the gpu room remembers to have put it; the node says which MIG device stands there now.

    Raises:
        Problem: one is not on the node.
    """
    if not gpus:
        return ()
    snapshot = context.look("gpu", "record")
    remembered = mapping(mapping(snapshot.probe("record").value).get("remembered"))
    there = read_gpus(snapshot).uuids
    found: dict[str, str] = {}
    for part, known in gpus.items():
        uuid = str(known or "")
        if uuid not in there:
            uuid = _standing(*_remembered(remembered, address.node, part), snapshot)
        if uuid not in there:
            raise Problem(_gone(part, address))
        found[part] = uuid
    return tuple(found.values())


def _remembered(remembered: JsonObject, node: str, part: str) -> tuple[JsonObject, int]:
    """What is remembered of a GPU or slice, and which compute instance is meant: ``a100-0/b/1`` is number 1 of b."""
    fact = mapping(remembered.get(str(Address(node, "gpu", part))))
    slice_, _, number = part.rpartition("/")
    if fact or not (slice_ and number.isdigit()):
        return fact, 0
    return mapping(remembered.get(str(Address(node, "gpu", slice_)))), int(number)


def _standing(fact: JsonObject, number: int, snapshot: Snapshot) -> str:
    """The device that stands where a slice is remembered to be; the GPU itself where the fact is of a GPU."""
    if "start" not in fact:
        return str(fact.get("uuid") or "")
    for gpu in mappings(mapping(snapshot.probe("gpu").value).get("gpus")):
        if gpu.get("uuid") != fact.get("gpu"):
            continue
        for instance in mappings(gpu.get("instances")):
            if instance.get("profile") == fact.get("profile") and whole(instance.get("start")) == whole(fact["start"]):
                return _compute(instance, sequence(fact.get("computes")), number)
    return ""


def _compute(instance: JsonObject, ids: Sequence[Json], number: int) -> str:
    """The MIG device of a compute instance by the id under which it was made; the first where no ids are remembered."""
    there = {whole(each.get("id")): str(each["uuid"]) for each in mappings(instance.get("compute_instances"))}
    if ids:
        return there.get(whole(ids[number]), "") if number < len(ids) else ""
    return next(iter(there.values()), "") if number == 0 else ""


def _gone(part: str, address: Address) -> Diagnostic:
    return Diagnostic(
        "A GPU or slice of the container is not on the node",
        f"{part} was not found on {address.node} when {address.name} was to be started on it.",
        "Run gpuplan plan again: it shows what became of the slice.",
        address=str(address),
    )


def check_gpu_access(container: str, address: Address, context: ApplyContext) -> None:
    """Look into the container's control group; where nobody can tell, it is believed.

    Raises:
        Problem: it may not open the device files that it was given.
    """
    denied = read_access(context.look("access")).get(container)
    if denied:
        raise Problem(
            Diagnostic(
                "A container does not reach its GPUs",
                f"{address.name} runs, and its control group denies {', '.join(f'/dev/{name}' for name in denied)}: "
                f"programs in it would say “{UNKNOWN_ERROR}”.",
                "Look at the device rules of the node: no-cgroups in /etc/nvidia-container-runtime/config.toml has to "
                "be false for an engine that runs as root.",
                address=str(address),
            )
        )
