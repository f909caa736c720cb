"""Discover: from what the nodes said to the sections of a plan file, each tried out before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpuplan.discover.entry import Discovery, Entry, Node, Section
from gpuplan.discover.nodes import containers_of, gpus_of, without_models
from gpuplan.discover.prove import Proof
from gpuplan.discover.together import keyed, together
from gpuplan.resources.container.read import read
from gpuplan.resources.snapshot.devices import environment
from gpuplan.types.inventory import Host
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Secret


def discovered(name: str, told: Sequence[tuple[Host, Snapshot]]) -> Discovery:
    """The plan file of nodes, called `name`; what it cannot say is among what is left out."""
    nodes = [Node(host.name, snapshot) for host, snapshot in told]
    devices = {node.name: gpus_of(node) for node in nodes}
    hosts = {host.name: host for host, _ in told}
    for node in nodes:
        _keep_proven_gpus(Proof(name, hosts[node.name], node, {}))
    keys = keyed([each for node in nodes for each in node.entries])
    for node in nodes:
        node.entries = [replace(each, name=keys[node.name, each.name]) for each in node.entries]
        names = {
            uuid: "/".join(filter(None, (keys[node.name, gpu], part)))
            for uuid, (gpu, part) in devices[node.name].items()
        }
        containers_of(node, names)
        _keep_proven_containers(Proof(name, hosts[node.name], node, _secrets(node)))
    entries = [each for node in nodes for each in node.entries]
    containers = [each for each in entries if each.kind == "containers"]
    sections = (
        *together([each for each in entries if each.kind == "gpus"]),
        *together(containers),
        *_models(nodes, keyed(containers)),
    )
    return Discovery(name, sections, tuple(each for node in nodes for each in node.left_out))


def _models(nodes: Sequence[Node], keys: Mapping[tuple[str, str], str]) -> Iterator[Section]:
    """Each model, with the keys of the containers whose servers have it loaded."""
    found: dict[str, dict[str, None]] = {}
    for node in nodes:
        for container, models in node.served.items():
            for model in models:
                found.setdefault(model, {})[keys[node.name, container]] = None
    return (Section("models", model, (), {"containers": list(found[model])}) for model in sorted(found))


def _keep_proven_gpus(proof: Proof) -> None:
    """A GPU that a plan file cannot leave as it is only gets a name, so that containers can be given it."""
    node, kept = proof.node, []
    for each in node.entries:
        if objections := proof.objections([each], "gpu"):
            bare = {"select": each.section["select"]}
            kept.append(replace(each, section=bare, unsaid=(*each.unsaid, *objections)))
        else:
            kept.append(each)
    node.entries = kept


def _keep_proven_containers(proof: Proof) -> None:
    node = proof.node
    gpus = [each for each in node.entries if each.kind == "gpus"]
    kept: list[Entry] = []
    for entry in node.entries:
        each = entry
        if "triton" in each.section:
            loaded = [
                Entry("models", name, node.name, {"containers": [each.name]}) for name in node.served.get(each.name, ())
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


def _secrets(node: Node) -> Mapping[str, Secret]:
    """What the references of the node's containers stand for, as long as it is tried out."""
    referred = {name for each in node.entries for name in each.secrets}
    return {
        f"${{env:{name}}}": Secret(f"env:{name}", value)
        for live in read(node.snapshot).containers
        for name, value in environment(live.config).items()
        if name in referred
    }
