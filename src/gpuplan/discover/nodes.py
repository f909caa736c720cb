"""Nodes: the GPUs and containers of each node as entries, and what has none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuplan.discover.entry import Entry, Node
from gpuplan.planfile.repositories import OWN
from gpuplan.resources.container.describe import describe as describe_container
from gpuplan.resources.container.read import ObservedContainers, is_leftover
from gpuplan.resources.container.read import read as read_containers
from gpuplan.resources.container.resolve import devices_are_known
from gpuplan.resources.container.server import is_managed
from gpuplan.resources.gpu.describe import describe as describe_gpu
from gpuplan.resources.gpu.read import read as read_gpus
from gpuplan.resources.model.read import ModelServer
from gpuplan.resources.model.read import read as read_models
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import texts
from gpuplan.secrets.private import exposed, is_private
from gpuplan.types.snapshot import ProbeError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,62}\Z")
"""What a plan file takes for the name of a container."""


def gpus_of(node: Node) -> Mapping[str, tuple[str, str]]:
    """Add an entry for each GPU. UUID of what a container can be given → the entry's name, and its own below that."""
    observed = read_gpus(node.snapshot)
    if observed.error is not None:
        node.leave_out("the GPUs", f"they could not be read: {observed.error.text}")
    for unreadable in observed.unreadable:
        node.leave_out(f"GPU {unreadable.index}", f"it could not be read: {unreadable.error.text}")
    devices: dict[str, tuple[str, str]] = {}
    for gpu in observed.gpus:
        found = describe_gpu(gpu)
        node.entries.append(Entry("gpus", found.name, node.name, found.section, found.omitted))
        devices |= {uuid: (found.name, part) for uuid, part in found.devices.items()}
    return devices


def containers_of(node: Node, devices: Mapping[str, str]) -> None:
    """Add an entry for each container that runs and that nobody's plan file made. `devices` are names by UUID."""
    observed, servers = read_containers(node.snapshot), read_models(node.snapshot).servers
    if observed.error is not None:
        node.leave_out("the containers", f"they could not be read: {observed.error.text}")
    for live in observed.containers:
        if why := _no_section(live, observed):
            node.leave_out(f"container {live.name}", why)
            continue
        found = describe_container(live, observed, devices, is_private)
        if what := exposed(found.section):
            node.leave_out(
                f"container {live.name}", f"{what} looks like a secret, and a plan file takes those under env:"
            )
            continue
        entry = Entry("containers", live.name, node.name, found.section, found.unsaid, found.secrets)
        server = None if isinstance(servers, ProbeError) else servers.get(live.id)
        if isinstance(server, ProbeError):
            entry = replace(entry, unsaid=(*entry.unsaid, f"its models, which could not be read ({server.text})"))
        elif server is not None:
            entry = _serving(
                node, entry, server, (*texts(live.config.get("Entrypoint")), *texts(live.config.get("Cmd")))
            )
        node.entries.append(entry)


def without_models(node: Node, entry: Entry) -> Entry:
    """A model server as any other container, with a word of what it has loaded."""
    loaded = node.served.pop(entry.name, ())
    section = {key: value for key, value in entry.section.items() if key != "triton"}
    told = f"what its model server has loaded: {', '.join(loaded)}" if loaded else "its model server, without models"
    return replace(entry, section=section, unsaid=(*entry.unsaid, told))


def _serving(node: Node, entry: Entry, server: ModelServer, words: Sequence[str]) -> Entry:
    """A server with what it has loaded; a plan file can say that of one that loads what it is told to."""
    node.served[entry.name] = tuple(name for name in sorted(server.index) if server.ready(name))
    if is_managed(words):
        return replace(entry, section={**entry.section, "triton": {"repository": OWN}})
    return without_models(node, entry)


def _no_section(live: Live, observed: ObservedContainers) -> str:
    if live.plan or is_leftover(live):
        return f"the plan file {live.plan or '?'} made it"
    if not NAME.match(live.name):
        return "a plan file cannot have its name"
    if live.status != "running":
        return f"it does not run ({live.status}), and what a plan file names is to run"
    if live.host_config.get("AutoRemove") is True:
        return "it was started with --rm, so that it goes as soon as it stops"
    if not devices_are_known(live, observed):
        return "the node's GPUs could not be read, so nobody knows which of them it has"
    return ""
