"""Cases as data: desired models, what the servers have loaded, what is disturbed → the expected comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplan.resources.model.diff import diff
from gpuplan.resources.model.memory import GIB
from gpuplan.resources.model.read import read
from gpuplan.resources.model.spec import InstanceGroup, MemoryBudget, ModelSpec, SliceSize
from gpuplan.resources.typed import encode
from gpuplan.types.address import Address
from gpuplan.types.change import Comparison
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import JsonObject, KnownAfterApply
from tests.resources.told import checked

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
KEYS = "about desired recorded applied servers others repositories gpu errors disturbed expect"
UUID = "GPU-1"
"""The one GPU of a case that states `gpu`; it is a100 in the plan file."""


@dataclass
class Case:
    """One file."""

    about: str
    desired: tuple[Desired, ...]
    snapshot: Snapshot
    record: Record
    disturbed: Mapping[Address, str]
    expect: Mapping[str, Any]
    bindings: Mapping[Address, str | KnownAfterApply]

    def compare(self) -> Comparison:
        """The comparison of the kind."""
        known = DiffContext("n", "prod", self.record, self.bindings, self.disturbed)
        return diff(self.desired, read(self.snapshot), known)


def load(path: Path) -> Case:
    """Read a case; an unknown key is an error."""
    stated = checked(yaml.safe_load(path.read_text("utf-8")), KEYS)
    recorded = desired_models(stated.get("recorded", {}))
    resources = {each.address: Recorded(each.digest, each.spec, each.needs) for each in recorded}
    return Case(
        stated["about"],
        desired_models(stated.get("desired", {})),
        snapshot(
            stated.get("servers", {}), stated.get("repositories", {}), stated.get("errors", {}), stated.get("gpu", {})
        ),
        Record("prod", "r1", when=stated.get("applied", ""), resources=resources),
        {_address(name): why for name, why in stated.get("disturbed", {}).items()},
        stated["expect"],
        bindings(stated.get("gpu", {})),
    )


def desired_models(models_by_container: Mapping[str, Mapping[str, Any]]) -> tuple[Desired, ...]:
    """Desired models by container and name."""
    return tuple(
        _desired(container, name, checked(model or {}, "content versions parts repository overrides budget"))
        for container, models in models_by_container.items()
        for name, model in models.items()
    )


def snapshot(
    servers: Mapping[str, Any],
    repositories: Mapping[str, Any],
    errors: Mapping[str, tuple[str, str]],
    gpu: Mapping[str, Any] | None = None,
) -> Snapshot:
    """A node with these containers, the servers in the running ones, and their repositories."""
    running = {name: server for name, server in servers.items() if not server.get("stopped")}
    probes: dict[str, JsonObject] = {
        "docker": {"containers": [_container(name, server) for name, server in servers.items()]},
        "triton": {"servers": [_server(name, server) for name, server in running.items() if not server.get("foreign")]},
        "repository": {"repositories": {name: _repository(each) for name, each in repositories.items()}},
        "gpu": {"gpus": [_gpu(gpu)] if gpu else []},
    }
    answers = {name: Probe(value) for name, value in probes.items()}
    return Snapshot("n", answers | {name: Probe(error=ProbeError(*error)) for name, error in errors.items()})


def bindings(gpu: Mapping[str, Any]) -> Mapping[Address, str | KnownAfterApply]:
    """The bindings of the gpu kind: the GPU, its slices, and slices that will be created."""
    home = Address("n", "gpu", "a100")
    slices: dict[Address, str | KnownAfterApply] = {home.part(name): f"MIG-{name}" for name in gpu.get("slices", {})}
    later = {home.part(name): KnownAfterApply(f"slice {name}") for name in gpu.get("later", ())}
    return {home: UUID, **slices, **later} if gpu else {}


def _gpu(stated: Mapping[str, Any]) -> JsonObject:
    """Memory in GiB; `processes` are container (or nothing), GiB, and the slice if there are slices."""
    checked(stated, "memory profiles slices later processes")
    sizes = {name: number for number, name in enumerate(stated.get("profiles", {}))}
    slices = list(stated.get("slices", {}))
    return {
        "uuid": UUID,
        "memory": {"total": int(stated.get("memory", 80) * GIB)},
        "mig": {"current": bool(sizes)},
        "profiles": [
            {"id": sizes[name], "name": name, "slices": int(name[0]), "memory_mib": int(gib * 1024)}
            for name, gib in stated.get("profiles", {}).items()
        ],
        "instances": [
            {"id": n, "profile_id": sizes[profile], "compute_instances": [{"id": 0, "uuid": f"MIG-{name}"}]}
            for n, (name, profile) in enumerate(stated.get("slices", {}).items())
        ],
        "processes": [
            {
                "pid": 100 + number,
                "used_memory": None if gib is None else int(gib * GIB),
                "container": f"id-{who}" if who else None,
                "gpu_instance": slices.index(part[0]) if part else None,
            }
            for number, (who, gib, *part) in enumerate(stated.get("processes", ()))
        ],
    }


def _address(name: str) -> Address:
    kind, _, rest = name.partition("/")
    return Address("n", kind, rest)


def _desired(container: str, name: str, model: Mapping[str, Any]) -> Desired:
    external = model.get("repository", "")
    spec = ModelSpec(
        container=container,
        model=name,
        content=model.get("content", "" if external else "c1"),
        versions=tuple(model.get("versions", () if external else (1,))),
        load_timeout=60.0,
        repository=external,
        overrides=tuple(model.get("overrides", ())),
        budget=_budget(model["budget"]) if "budget" in model else None,
    )
    home = Address("n", "model", container)
    files = () if external else (Address("n", "repository", container).part(name),)
    parts = tuple(home.part(part) for part in model.get("parts", ()))
    return Desired(home.part(name), encode(spec), (Address("n", "container", container), *files, *parts))


def _budget(stated: Mapping[str, Any]) -> MemoryBudget:
    checked(stated, "gib groups backend devices slices overcommit")
    return MemoryBudget(
        memory=int(stated["gib"] * GIB),
        instance_groups=tuple(InstanceGroup(count, tuple(gpus)) for count, gpus in stated.get("groups", [[1, []]])),
        backend=stated.get("backend", "onnxruntime"),
        devices=tuple(stated.get("devices", ["a100"])),
        slices={name: SliceSize(**size) for name, size in stated.get("slices", {}).items()},
        overcommit=stated.get("overcommit", False),
    )


def _container(name: str, server: Mapping[str, Any]) -> JsonObject:
    checked(server, "stopped plan index contents ensembles error foreign started folders")
    labels = {"gpuplan.plan": server.get("plan", "prod"), "gpuplan.name": name}
    state = {"Status": "exited" if server.get("stopped") else "running", "StartedAt": server.get("started", "")}
    return {"Id": f"id-{name}", "Name": f"/{name}", "Image": "sha256:a", "Config": {"Labels": labels}, "State": state}


def _server(name: str, server: Mapping[str, Any]) -> JsonObject:
    head: JsonObject = {"container": f"id-{name}", "name": name, "address": "127.0.0.1:8000"}
    if "error" in server:
        code, text = server["error"]
        return {**head, "error": {"code": code, "text": text}}
    index = server.get("index", {})
    contents = server.get("contents", {})
    ensembles = server.get("ensembles", {})
    configs = {model: _config(contents.get(model), ensembles.get(model, ())) for model in {*contents, *ensembles}}
    if "folders" in server:
        head = {**head, "repository": {"path": "/mnt/models", "models": server["folders"]}}
    return {**head, "index": [entry for model in index for entry in _entries(model, index[model])], "configs": configs}


def _entries(model: str, versions: Any) -> list[JsonObject]:
    if versions is None:
        return [{"name": model}]
    return [{"name": model, "version": str(number), **_state(state)} for number, state in versions.items()]


def _state(stated: Any) -> JsonObject:
    state, reason = (stated, "") if isinstance(stated, str) else stated
    return {"state": state, "reason": reason} if reason else {"state": state}


def _config(content: str | None, parts: Any) -> JsonObject:
    config: dict[str, Any] = {"parameters": {"gpuplan_content": {"string_value": content}}} if content else {}
    return config | ({"ensemble_scheduling": {"step": [{"model_name": part} for part in parts]}} if parts else {})


def _repository(stated: Mapping[str, Any]) -> JsonObject:
    checked(stated, "at_start files unverified")
    at_start = stated.get("at_start", [])
    files: dict[str, JsonObject] = {m: {"content": None, "files": {}} for m in stated.get("files", at_start)}
    files |= {model: {**files[model], "previous": "0" * 64} for model in stated.get("unverified", ())}
    return {"load_models": at_start, "models": files}
