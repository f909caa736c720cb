"""GPU access while applying: the devices of a container, CDI specifications, and a check that it can open its GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.resources.container.cdi import compare_specification, position_names
from gpuplan.resources.container.gpu_access import UNKNOWN_ERROR, read_access, read_toolkit
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.containers import DEVICES
from gpuplan.resources.snapshot.devices import NodeGpus, read_gpus
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem, Refused
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Json, JsonObject, integer, mapping, mappings, sequence

CDI_PREFIX = "nvidia.com/gpu="


def current_devices(gpus: Mapping[str, Json], address: Address, context: ApplyContext) -> tuple[str, ...]:
    """UUIDs of a container's devices, looked up now: a slice may have been re-created since the change set was made.

    `gpus` has the UUID of each GPU or slice, if it was known then. Where a slice is, the node's record remembers.

    Raises:
        Problem: one is not on the node.
    """
    if not gpus:
        return ()
    snapshot = context.look("gpu", "record")
    remembered = mapping(mapping(snapshot.probe("record").value).get("remembered"))
    on_node = read_gpus(snapshot).uuids
    uuids: list[str] = []
    for name, known in gpus.items():
        uuid = str(known or "")
        if uuid not in on_node:
            uuid = _uuid_at(*_remembered(remembered, address.node, name), snapshot)
        if uuid not in on_node:
            raise Problem(
                Diagnostic(
                    "A GPU or slice of the container is not on the node",
                    f"{name} does not exist on {address.node}, so {address.name} cannot be started on it.",
                    "Run gpuplan plan again to see what happened to it.",
                    address=str(address),
                )
            )
        uuids.append(uuid)
    return tuple(uuids)


def check_gpu_access(container_id: str, address: Address, context: ApplyContext) -> None:
    """Check that a running container's control group allows its GPUs; skipped if the node cannot report that.

    Raises:
        Problem: it may not open its device files.
    """
    if denied := read_access(context.look("access")).get(container_id):
        files = ", ".join(f"/dev/{name}" for name in denied)
        raise Problem(
            Diagnostic(
                "The container cannot use its GPUs",
                f"{address.name} runs, but its control group denies {files}; programs in it fail with "
                f"“{UNKNOWN_ERROR}”.",
                "Check the device rules on the node: if the engine runs as root, no-cgroups in "
                "/etc/nvidia-container-runtime/config.toml must be false.",
                address=str(address),
            )
        )


def write_specifications(paths: Sequence[str], address: Address, context: ApplyContext) -> None:
    """Write each CDI specification again, and check that it lists the node's devices.

    Raises:
        Problem: it could not be written, or does not list them.
    """
    for path in paths:
        try:
            context.agent("cdi.generate", path=path)
        except Refused as refused:
            raise Problem(_not_written(refused, path, address)) from refused
        context.say(f"wrote {path}")
    snapshot = context.look("gpu", "toolkit")
    gpus, written = read_gpus(snapshot), {file.path: file for file in read_toolkit(snapshot).specifications}
    for path in paths:
        if path not in written or (gpus.known and compare_specification(written[path], gpus)):
            raise Problem(
                Diagnostic(
                    "CDI specification is still outdated",
                    f"{path} on {address.node} was written, but it does not list the node's devices.",
                    f"See what it lists, on {address.node}:\n    nvidia-ctk cdi list",
                    address=str(address),
                )
            )


def request_by_cdi(body: JsonObject, devices: Sequence[str], address: Address, context: ApplyContext) -> JsonObject:
    """The body of a create request with its devices by the names that the CDI specifications list.

    A name by position does not identify a device, so a label keeps the UUIDs.

    Raises:
        Problem: no specification lists one of them.
    """
    snapshot = context.look("gpu", "toolkit")
    gpus = read_gpus(snapshot)
    listed = {name for specification in read_toolkit(snapshot).specifications for name in specification.devices}
    names = [_cdi_name(uuid, gpus, listed, address) for uuid in devices]
    request: JsonObject = {"Driver": "cdi", "Count": 0, "DeviceIDs": [CDI_PREFIX + name for name in names]}
    labels = dict(mapping(body.get("Labels")))
    if names != list(devices):
        labels[DEVICES] = ",".join(devices)
    return {**body, "Labels": labels, "HostConfig": {**mapping(body.get("HostConfig")), "DeviceRequests": [request]}}


def _cdi_name(uuid: str, gpus: NodeGpus, listed: set[str], address: Address) -> str:
    """The UUID, or the position if the toolkit's specifications list no UUIDs."""
    if uuid in listed:
        return uuid
    for gpu in gpus.gpus:
        if uuid in gpu.usable:
            name = position_names(gpu.index, gpu.mig, len(gpu.slices))[gpu.usable.index(uuid)]
            if name in listed:
                return name
    raise Problem(
        Diagnostic(
            "A device is in no CDI specification",
            f"No CDI specification on {address.node} lists {uuid}, which {address.name} needs.",
            "Run gpuplan plan again: it plans to write an outdated specification again.",
            address=str(address),
        )
    )


def _not_written(refused: Refused, path: str, address: Address) -> Diagnostic:
    if refused.code == "no_tool":
        return Diagnostic(
            "Cannot write a CDI specification",
            f"nvidia-ctk is not installed on {address.node}, so {path} cannot be written.",
            "Install it on the node:\n    sudo apt-get install -y nvidia-container-toolkit-base",
            address=str(address),
        )
    return Diagnostic(
        "Cannot write a CDI specification",
        f"{path} on {address.node}: {refused.text}",
        f"Try it on {address.node}:\n    sudo nvidia-ctk cdi generate --output={path}",
        address=str(address),
    )


def _remembered(remembered: JsonObject, node: str, name: str) -> tuple[JsonObject, int]:
    """The record's entry of a GPU or slice, and the number of the compute instance: ``a100-0/b/1`` is 1 of b."""
    entry = mapping(remembered.get(str(Address(node, "gpu", name))))
    slice_name, _, number = name.rpartition("/")
    if entry or not (slice_name and number.isdigit()):
        return entry, 0
    return mapping(remembered.get(str(Address(node, "gpu", slice_name)))), int(number)


def _uuid_at(entry: JsonObject, number: int, snapshot: Snapshot) -> str:
    """UUID of the device at the profile and start that the record has; of the GPU itself if the entry is a GPU's."""
    if "start" not in entry:
        return str(entry.get("uuid") or "")
    for gpu in mappings(mapping(snapshot.probe("gpu").value).get("gpus")):
        for instance in mappings(gpu.get("instances")) if gpu.get("uuid") == entry.get("gpu") else ():
            same_start = integer(instance.get("start")) == integer(entry["start"])
            if instance.get("profile") == entry.get("profile") and same_start:
                return _compute_uuid(instance, sequence(entry.get("computes")), number)
    return ""


def _compute_uuid(instance: JsonObject, ids: Sequence[Json], number: int) -> str:
    """UUID of the compute instance with the id it was created with; of the first one if the record has no ids."""
    uuids = {
        integer(compute.get("id")): str(compute["uuid"]) for compute in mappings(instance.get("compute_instances"))
    }
    if ids:
        return uuids.get(integer(ids[number]), "") if number < len(ids) else ""
    return next(iter(uuids.values()), "") if number == 0 else ""
