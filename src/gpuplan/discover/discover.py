"""Discover: from what the nodes said to the sections of a plan file, each tried out before it is written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from gpuplan.core.plan.compare import compare
from gpuplan.core.plan.desired import desired_state
from gpuplan.discover.entries import DiscoveredNode, Discovery, PlanEntry, PlanSection, merge_entries, section_keys
from gpuplan.discover.nodes import add_containers, add_gpus, without_models
from gpuplan.planfile.load import load_plan
from gpuplan.resources.container.read import read
from gpuplan.resources.snapshot.devices import environment
from gpuplan.types.change import Change, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Secret

# Prove: whether a plan of some sections would find their node as it is; what would differ is not written.

_FIELDS = 3
"""How many differing fields are listed for one resource."""


@dataclass(frozen=True)
class RoundTrip:
    """Tries sections out against the snapshot that they were described from."""

    plan: str
    host: Host
    node: DiscoveredNode
    secrets: Mapping[str, Secret]

    def objections(self, entries: Sequence[PlanEntry], *kinds: str) -> tuple[str, ...]:
        """Why a plan file of these sections would not leave the node's things of these kinds as they are."""
        try:
            made = self._compared(entries)
        except Problem as problem:
            return tuple(_told(each) for each in _errors(problem.diagnostics))
        changes = (change for change in made.changes if change.address.kind in kinds)
        unknown = (each.diagnostic for each in made.unknown if each.address.kind in kinds)
        changed = {str(change.address) for change in made.changes}
        errors = (each for each in _errors(made.diagnostics) if each.address not in changed)
        wrong = (each for each in errors if any(f"/{kind}/" in each.address for kind in kinds))
        return (*map(_change, changes), *map(_told, (*unknown, *wrong)))

    def _compared(self, entries: Sequence[PlanEntry]) -> NodeChanges:
        document: dict[str, object] = {"version": 1, "name": self.plan}
        for kind in ("gpus", "containers", "models"):
            place = {} if kind == "models" else {"nodes": self.node.name}
            part = {each.name: {**place, **each.section} for each in entries if each.kind == kind}
            document |= {kind: part} if part else {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.yaml"
            path.touch(0o600)
            path.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
            plan = load_plan(str(path), environ={})
            wish = desired_state(plan, [self.host])[self.host.name]
        return compare(wish.desired, self.node.snapshot, self.plan, self.secrets)


def _errors(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    return (each for each in diagnostics if each.severity is Severity.ERROR)


def _told(diagnostic: Diagnostic) -> str:
    return diagnostic.detail.rstrip(".") or diagnostic.summary


def _change(change: Change) -> str:
    paths = [field.path for field in change.fields]
    more = f" and {len(paths) - _FIELDS} more" if len(paths) > _FIELDS else ""
    return f"a plan file cannot express {', '.join(paths[:_FIELDS])}{more} as it is"


def discover_plan_file(name: str, changed: Sequence[tuple[Host, Snapshot]]) -> Discovery:
    """Describe nodes in a plan file called `name`, with a list of what had to be left out."""
    nodes = [DiscoveredNode(host.name, snapshot) for host, snapshot in changed]
    devices = {node.name: add_gpus(node) for node in nodes}
    hosts = {host.name: host for host, _ in changed}
    for node in nodes:
        _keep_proven_gpus(RoundTrip(name, hosts[node.name], node, {}))
    keys = section_keys([each for node in nodes for each in node.entries])
    for node in nodes:
        node.entries = [replace(each, name=keys[node.name, each.name]) for each in node.entries]
        names = {
            uuid: "/".join(filter(None, (keys[node.name, gpu], part)))
            for uuid, (gpu, part) in devices[node.name].items()
        }
        add_containers(node, names)
        _keep_proven_containers(RoundTrip(name, hosts[node.name], node, _secrets(node)))
    entries = [each for node in nodes for each in node.entries]
    containers = [each for each in entries if each.kind == "containers"]
    sections = (
        *merge_entries([each for each in entries if each.kind == "gpus"]),
        *merge_entries(containers),
        *_models(nodes, section_keys(containers)),
    )
    return Discovery(name, sections, tuple(each for node in nodes for each in node.left_out))


def _models(nodes: Sequence[DiscoveredNode], keys: Mapping[tuple[str, str], str]) -> Iterator[PlanSection]:
    """Each model, with the keys of the containers whose servers have it loaded."""
    found: dict[str, dict[str, None]] = {}
    for node in nodes:
        for container, models in node.served.items():
            for model in models:
                found.setdefault(model, {})[keys[node.name, container]] = None
    return (PlanSection("models", model, (), {"containers": list(found[model])}) for model in sorted(found))


def _keep_proven_gpus(proof: RoundTrip) -> None:
    """A GPU that a plan file cannot leave as it is only gets a name, so that containers can be given it."""
    node, kept = proof.node, []
    for each in node.entries:
        if objections := proof.objections([each], "gpu"):
            bare = {"select": each.section["select"]}
            kept.append(replace(each, section=bare, omitted=(*each.omitted, *objections)))
        else:
            kept.append(each)
    node.entries = kept


def _keep_proven_containers(proof: RoundTrip) -> None:
    node = proof.node
    gpus = [each for each in node.entries if each.kind == "gpus"]
    kept: list[PlanEntry] = []
    for entry in node.entries:
        each = entry
        if "triton" in each.section:
            loaded = [
                PlanEntry("models", name, node.name, {"containers": [each.name]})
                for name in node.served.get(each.name, ())
            ]
            if proof.objections([*gpus, each, *loaded], "container", "model"):
                each = without_models(node, each)
        objections = proof.objections([*gpus, each], "container") if each.kind == "containers" else ()
        if objections:
            node.leave_out(f"container {each.name}", "; ".join(objections))
            node.served.pop(each.name, None)
        else:
            kept.append(each)
    node.entries = kept


def _secrets(node: DiscoveredNode) -> Mapping[str, Secret]:
    """What the references of the node's containers stand for, as long as it is tried out."""
    referred = {name for each in node.entries for name in each.secrets}
    return {
        f"${{env:{name}}}": Secret(f"env:{name}", value)
        for live in read(node.snapshot).containers
        for name, value in environment(live.config).items()
        if name in referred
    }
