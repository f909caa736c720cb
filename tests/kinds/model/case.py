"""Cases as data: wanted models, what the servers have loaded, what is disturbed → what the room must say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplan.kinds.model.diff import diff
from gpuplan.kinds.model.read import read
from gpuplan.kinds.model.wanted import Wanted
from gpuplan.model.address import Address
from gpuplan.model.change import Comparison
from gpuplan.model.record import Record, Recorded
from gpuplan.model.resource import Circumstances, Desired
from gpuplan.model.snapshot import Probe, ProbeError, Snapshot
from gpuplan.model.value import JsonObject
from tests.kinds.told import checked

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
KEYS = "about wanted recorded servers others repositories errors disturbed expect"


@dataclass
class Case:
    """One file."""

    about: str
    desired: tuple[Desired, ...]
    snapshot: Snapshot
    record: Record
    disturbed: Mapping[Address, str]
    expect: Mapping[str, Any]

    def compare(self) -> Comparison:
        """What the room says now."""
        return diff(self.desired, read(self.snapshot), Circumstances("n", "prod", self.record, {}, self.disturbed))


def load(path: Path) -> Case:
    """Read a case; a key that nobody reads is an error."""
    stated = checked(yaml.safe_load(path.read_text("utf-8")), KEYS)
    recorded = {
        each.address: Recorded(each.digest, each.spec, each.needs) for each in wishes(stated.get("recorded", {}))
    }
    return Case(
        stated["about"],
        wishes(stated.get("wanted", {})),
        snapshot(stated.get("servers", {}), stated.get("repositories", {}), stated.get("errors", {})),
        Record("prod", "r1", resources=recorded),
        {_address(name): why for name, why in stated.get("disturbed", {}).items()},
        stated["expect"],
    )


def wishes(wanted: Mapping[str, Mapping[str, Any]]) -> tuple[Desired, ...]:
    """Desired models by container and name."""
    return tuple(
        _desired(container, name, checked(model or {}, "content versions parts"))
        for container, models in wanted.items()
        for name, model in models.items()
    )


def snapshot(
    servers: Mapping[str, Any], repositories: Mapping[str, Any], errors: Mapping[str, tuple[str, str]]
) -> Snapshot:
    """What the node tells: its containers, the servers in those that run, its repositories."""
    running = {name: server for name, server in servers.items() if not server.get("stopped")}
    probes: dict[str, JsonObject] = {
        "docker": {"containers": [_container(name, server) for name, server in servers.items()]},
        "triton": {"servers": [_server(name, server) for name, server in running.items() if not server.get("foreign")]},
        "repository": {"repositories": {name: _repository(each) for name, each in repositories.items()}},
    }
    answers = {name: Probe(value) for name, value in probes.items()}
    return Snapshot("n", answers | {name: Probe(error=ProbeError(*error)) for name, error in errors.items()})


def _address(name: str) -> Address:
    kind, _, rest = name.partition("/")
    return Address("n", kind, rest)


def _desired(container: str, name: str, model: Mapping[str, Any]) -> Desired:
    wanted = Wanted(container, name, model.get("content", "c1"), tuple(model.get("versions", (1,))), 60.0)
    home = Address("n", "model", container)
    files = Address("n", "repository", container).part(name)
    parts = tuple(home.part(part) for part in model.get("parts", ()))
    return Desired(home.part(name), wanted.json(), (Address("n", "container", container), files, *parts))


def _container(name: str, server: Mapping[str, Any]) -> JsonObject:
    checked(server, "stopped plan index contents ensembles error foreign")
    labels = {"gpuplan.plan": server.get("plan", "prod"), "gpuplan.name": name}
    state = {"Status": "exited" if server.get("stopped") else "running"}
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
    checked(stated, "at_start files")
    at_start = stated.get("at_start", [])
    files: JsonObject = {model: {"content": None, "files": {}} for model in stated.get("files", at_start)}
    return {"load_models": at_start, "models": files}
