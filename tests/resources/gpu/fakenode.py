"""A fake node whose GPUs follow NVML's rules for MIG: it gives snapshots and does the agent's operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from gpuplan.nvidia.boards import Board, find_board
from gpuplan.resources.kind import Facts
from gpuplan.types.address import Address
from gpuplan.types.content import Arrived, Content
from gpuplan.types.diagnostic import Refused
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import JsonObject

GPU_KEYS = {
    "board", "uuid", "pci", "name", "current", "pending", "unsupported", "profiles", "renamed", "instances",
    "processes", "error", "holders", "architecture", "virtualization", "persistence_mode", "power", "compute_mode",
    "ecc",
}  # fmt: skip
BOUNDS = ("default", "lowest", "highest")
INSTANCE_KEYS = {"profile", "start", "mig", "bare", "compute"}
COMPUTE_KEYS = {"id", "slices", "mig"}
CONTAINER_KEYS = {"id", "name", "plan", "devices", "every", "running"}


def checked(stated: Mapping[str, Any], known: set[str]) -> Mapping[str, Any]:
    """The same, unless it has an unknown key."""
    assert set(stated) <= known, f"unknown keys {sorted(set(stated) - known)}"
    return stated


class Node:
    """State of one node, written short: boards by catalog name, instances by profile and start."""

    node = "n"
    plan = "prod"

    def __init__(
        self,
        gpus: Sequence[Mapping[str, Any]],
        containers: Sequence[Mapping[str, Any]] = (),
        modules: Sequence[str] = (),
    ) -> None:
        self.gpus = [self._gpu(number, checked(gpu, GPU_KEYS)) for number, gpu in enumerate(gpus)]
        self.containers = [checked(each, CONTAINER_KEYS) for each in containers]
        self.probe_error: Mapping[str, str] | None = None
        self.docker_error: Mapping[str, str] | None = None
        self.others: JsonObject = {}
        """Other plan file → what is told of it."""
        self.others_error: Mapping[str, str] | None = None
        self.host: JsonObject = {"modules": list(modules)}
        self.services: dict[str, bool] = {}
        """Name → whether it runs."""
        self.stopped: list[JsonObject] = []
        """What the node has noted down as stopped for a GPU."""
        self.stubborn: set[str] = set()
        """Services that do not stop, or do not start."""
        self.done: list[tuple[str, Mapping[str, Any]]] = []
        self.said: list[str] = []
        self.noted: list[tuple[Address, JsonObject | None]] = []
        """What was to be remembered before an act."""
        self.deaf: set[str] = set()
        """Operations that report success and do nothing."""
        self.before: Callable[[str], None] = lambda operation: None
        self._made = 0

    @staticmethod
    def _gpu(number: int, stated: Mapping[str, Any]) -> dict[str, Any]:
        if "error" in stated:
            return {"index": number, "error": stated["error"]}
        board = find_board(stated["board"])
        assert board is not None, stated["board"]
        instances = stated.get("instances", [])
        return {
            "index": number,
            "uuid": stated.get("uuid", f"GPU-{number}"),
            "pci": stated.get("pci", f"00000000:{7 + number:02X}:00.0"),
            "name": stated.get("name", board.product_name),
            "board": board,
            "supported": not stated.get("unsupported", False),
            "current": stated.get("current", True),
            "pending": stated.get("pending", stated.get("current", True)),
            "renamed": stated.get("renamed", {}),
            "instances": (
                instances
                if isinstance(instances, Mapping)
                else [_instance(board, id_, checked(each, INSTANCE_KEYS)) for id_, each in enumerate(instances, 1)]
            ),
            "processes": stated.get("processes", []),
            **{key: stated.get(key) for key in ("architecture", "virtualization", "persistence_mode", "compute_mode")},
            "power": stated.get("power"),
            "ecc": stated.get("ecc"),
            "holders": stated.get("holders", []),
        }

    def look(self, *probes: str) -> Snapshot:
        """What the real agent would answer (docs/snapshot.md)."""
        if self.probe_error is not None:
            return Snapshot(self.node, {"gpu": Probe(error=ProbeError(**self.probe_error))})
        gpus = [gpu if "error" in gpu else self._told(gpu) for gpu in self.gpus]
        docker = {"version": {}, "info": {}, "images": [], "containers": [_inspect(each) for each in self.containers]}
        gpu = {"driver": "570.86.15", "cuda": "12.8", "gpus": gpus, "stopped_services": list(self.stopped)}
        engine = Probe(docker) if self.docker_error is None else Probe(error=ProbeError(**self.docker_error))
        others = Probe(self.others) if self.others_error is None else Probe(error=ProbeError(**self.others_error))
        probes_ = {"gpu": Probe(gpu), "docker": engine, "host": Probe(self.host), "others": others}
        return Snapshot(self.node, probes_)

    def _told(self, gpu: dict[str, Any]) -> JsonObject:
        supported, live, processes = gpu["supported"], gpu["instances"], gpu["processes"]
        renamed = gpu["renamed"]
        profiles = [
            {
                "id": each.id, "name": renamed.get(each.name, each.name), "slices": each.slices,
                "memory_mib": each.memory_mib, "instances": each.instances, "multiprocessors": each.multiprocessors,
                "copy_engines": each.copy_engines, "decoders": each.decoders, "encoders": each.encoders,
                "jpeg": each.jpeg, "ofa": each.ofa,
                "placements": [list(place) for place in each.placements] if gpu["current"] else None,
            }
            for each in gpu["board"].profiles
        ]  # fmt: skip
        return {
            "index": gpu["index"], "uuid": gpu["uuid"], "pci": gpu["pci"], "name": gpu["name"],
            "memory": {"total": 1, "used": 0, "free": 1}, "compute_capability": "8.0",
            "architecture": gpu["architecture"], "virtualization": gpu["virtualization"],
            "persistence_mode": gpu["persistence_mode"], "compute_mode": gpu["compute_mode"],
            "power_limit_mw": gpu["power"] and gpu["power"][0],
            "power_limits_mw": gpu["power"] and dict(zip(BOUNDS, gpu["power"][1:], strict=True)),
            "ecc": gpu["ecc"] and {"current": gpu["ecc"][0], "pending": gpu["ecc"][1]},
            "holders": [_process(each) for each in gpu["holders"]],
            "mig": {"supported": supported, "current": gpu["current"], "pending": gpu["pending"]},
            "profiles": profiles if supported else [],
            "instances": live if isinstance(live, Mapping) else [dict(each) for each in live],
            "processes": processes if isinstance(processes, Mapping) else [_process(each) for each in processes],
        }  # fmt: skip

    def agent(self, operation: str, **arguments: Any) -> JsonObject:
        """One operation of docs/agent.md, by NVML's rules."""
        self.before(operation)
        self.done.append((operation, arguments))
        gpu = next(each for each in self.gpus if each.get("uuid") == arguments["uuid"])
        done: JsonObject = getattr(self, "_" + operation.replace(".", "_"))(gpu, arguments)
        return done

    def _mig_set_mode(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        on = arguments["enabled"]
        if on != gpu["current"] and (gpu["instances"] or gpu["processes"]):
            self._refuse("mig.set_mode", "in_use", "In use by another client")
        held = self._held(gpu) or gpu["virtualization"] == "passthrough"
        if "mig.set_mode" not in self.deaf:
            gpu["pending"] = on
            gpu["current"] = gpu["current"] if held else on
        return {"status": 19 if held else 0, "current": gpu["current"], "pending": gpu["pending"]}

    def _held(self, gpu: dict[str, Any]) -> bool:
        return any(self.services.get(each.get("service", "").removesuffix(".service"), True) for each in gpu["holders"])

    def _gpu_reset(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        if gpu["processes"] or self._held(gpu):
            self._refuse("gpu.reset", "in_use", "In use by another client")
        if "gpu.reset" not in self.deaf:
            gpu["current"] = gpu["pending"] = gpu["pending"] and gpu["board"].mode_survives_reboot
            gpu["instances"].clear()
            gpu["ecc"] = gpu["ecc"] and [gpu["ecc"][1]] * 2
            gpu["power"] = gpu["power"] and [gpu["power"][1], *gpu["power"][1:]]
        return {}

    def _gpu_set(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        setting, value = arguments["setting"], arguments["value"]
        if "gpu.set" in self.deaf:
            return {}
        if setting == "power_limit_mw":
            gpu["power"] = [value, *gpu["power"][1:]]
        elif setting == "ecc":
            gpu["ecc"] = [gpu["ecc"][0], value]
        else:
            gpu[setting] = value
        return {}

    def _service_stop(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        ran = [each for each in arguments["services"] if self.services.get(each)]
        for each in ran:
            self.stopped.append({"service": each, "gpu": gpu["uuid"]})
            if f"stop {each}" in self.stubborn:
                self._service_start(gpu, {})
                self._refuse("service.stop", "timeout", f"{each} did not stop within 60 s")
            self.services[each] = False
        return {"stopped": ran}

    def _service_start(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        started = []
        for each in [one for one in self.stopped if one["gpu"] == gpu["uuid"]]:
            name = str(each["service"])
            if f"start {name}" in self.stubborn:
                self._refuse("service.start", "timeout", f"{name} did not start within 60 s")
            self.services[name] = True
            self.stopped.remove(each)
            started.append(name)
        return {"started": started}

    def _mig_create(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        board: Board = gpu["board"]
        profile = next(each for each in board.profiles if each.id == arguments["profile_id"])
        start, size = arguments["start"], arguments["size"]
        slices = sum(each.slices for one in gpu["instances"] for each in board.profiles if each.id == one["profile_id"])
        if (
            (start, size) not in profile.placements
            or any(one["start"] < start + size and start < one["start"] + one["size"] for one in gpu["instances"])
            or slices + profile.slices > board.max_instances
        ):
            self._refuse("mig.create", "insufficient_resources", "Insufficient Resources")
        self._made += 1
        uuid = f"MIG-new-{self._made}"
        if "mig.create" not in self.deaf:
            id_ = 1 + max((one["id"] for one in gpu["instances"]), default=0)
            inside = [{"slices": each, "mig": f"{uuid}-{each}"} for each in arguments.get("compute") or ()]
            more = {"compute": inside} if inside else {}
            gpu["instances"].append(
                _instance(board, id_, {"profile": profile.name, "start": start, "mig": uuid, **more})
            )
        return {"instance": 1, "mig_uuids": [uuid]}

    def _mig_create_compute(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        one = next(each for each in gpu["instances"] if each["id"] == arguments["instance"])
        there = one["compute_instances"]
        made = []
        for slices in arguments["compute"]:
            self._made += 1
            id_ = next(number for number in range(8) if number not in {each["id"] for each in there})
            made.append({"id": id_, "profile_id": 0, "slices": slices, "uuid": f"MIG-new-{self._made}"})
            there.append(made[-1])
        if sum(each["slices"] for each in there) > _slices(gpu["board"], one):
            del there[-len(made) :]
            self._refuse("mig.create_compute", "insufficient_resources", "Insufficient Resources")
        return {"mig_uuids": [each["uuid"] for each in made]}

    def _mig_destroy_compute(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        one = next(each for each in gpu["instances"] if each["id"] == arguments["instance"])
        place = (one["id"], arguments["compute"])
        if any((each.get("instance"), each.get("compute")) == place for each in gpu["processes"]):
            self._refuse("mig.destroy_compute", "in_use", "In use by another client")
        one["compute_instances"] = [each for each in one["compute_instances"] if each["id"] != arguments["compute"]]
        return {}

    def _mig_destroy(self, gpu: dict[str, Any], arguments: Mapping[str, Any]) -> JsonObject:
        one = next(each for each in gpu["instances"] if each["id"] == arguments["instance"])
        if any(each.get("instance") == one["id"] for each in gpu["processes"]):
            self._refuse("mig.destroy", "in_use", "In use by another client")
        if "mig.destroy" not in self.deaf:
            gpu["instances"].remove(one)
        return {}

    def _refuse(self, operation: str, code: str, text: str) -> None:
        raise Refused(self.node, operation, code, text)

    def remember(self, facts: Facts) -> None:
        """Keep it for the test, in order with what was done."""
        self.noted.extend(facts)

    def say(self, text: str) -> None:
        """Keep it for the test."""
        self.said.append(text)

    def missing(self, digests: Sequence[str]) -> Mapping[str, int]:
        raise NotImplementedError("the GPU kind brings no content")

    def progress(self, text: str, done: int, total: int) -> None:
        raise NotImplementedError("the GPU kind brings no content")

    def send(self, contents: Sequence[Content], arrived: Arrived) -> None:
        raise NotImplementedError("the GPU kind brings no content")

    def source(self, path: str) -> AbstractContextManager[BinaryIO]:
        raise NotImplementedError("the GPU kind has no sources")

    def docker(self) -> Any:
        raise NotImplementedError("the GPU kind makes no containers")

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        raise NotImplementedError("the GPU kind talks to no server")

    def secret(self, reference: str) -> str:
        raise NotImplementedError("the GPU kind has no secrets")

    def seal(self, *texts: str) -> str:
        raise NotImplementedError("the GPU kind has no secrets")


def _instance(board: Board, id_: int, stated: Mapping[str, Any]) -> dict[str, Any]:
    profile = board.profile(stated["profile"])
    assert profile is not None, stated["profile"]
    start = stated["start"]
    size = next(size for first, size in profile.placements if first == start)
    stated_ones = stated.get("compute", [{"slices": profile.slices, "mig": stated.get("mig", f"MIG-{id_}")}])
    compute = [
        {"id": each.get("id", number), "profile_id": 0, "slices": each["slices"], "uuid": each["mig"]}
        for number, each in enumerate(checked(one, COMPUTE_KEYS) for one in stated_ones)
    ]
    return {
        "id": id_, "profile_id": profile.id, "profile": profile.name, "start": start, "size": size,
        "compute_instances": [] if stated.get("bare") else compute,
    }  # fmt: skip


def _slices(board: Board, instance: Mapping[str, Any]) -> int:
    profile = board.profile(instance["profile"])
    assert profile is not None
    return profile.slices


def _process(stated: Mapping[str, Any]) -> JsonObject:
    checked(stated, {"pid", "name", "instance", "compute", "container", "service"})
    return {
        "pid": stated.get("pid", 4242), "name": stated.get("name", "python"), "used_memory": None,
        "gpu_instance": stated.get("instance"), "compute_instance": stated.get("compute"),
        "container": stated.get("container"), "service": stated.get("service"),
    }  # fmt: skip


def _inspect(stated: Mapping[str, Any]) -> JsonObject:
    owner = {"gpuplan.plan": stated["plan"], "gpuplan.name": stated["name"]} if "plan" in stated else None
    request = {"Driver": "nvidia", "Count": -1 if stated.get("every") else 0, "DeviceIDs": stated.get("devices")}
    return {
        "Id": stated["id"],
        "Name": f"/{stated['name']}",
        "State": {"Running": stated.get("running", True)},
        "Config": {"Labels": owner},
        "HostConfig": {"DeviceRequests": [request] if "devices" in stated or "every" in stated else None},
    }
