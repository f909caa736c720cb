"""Nodes: the GPUs and containers of each node as entries, and what has none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuplan.discover.entry import Entry, Node
from gpuplan.kinds.container.describe import describe as describe_container
from gpuplan.kinds.container.read import Observed, leftover
from gpuplan.kinds.container.read import read as read_containers
from gpuplan.kinds.gpu.describe import describe as describe_gpu
from gpuplan.kinds.gpu.read import read as read_gpus
from gpuplan.kinds.ground.docker import Live
from gpuplan.kinds.model.read import Server
from gpuplan.kinds.model.read import read as read_models
from gpuplan.model.snapshot import ProbeError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,62}\Z")
"""What a plan file takes for the name of a container."""
PRIVATE = re.compile(
    r"pass(w|phrase|code|$|_)|pwd|secret|token|credential|bearer|auth|salt|private|(^|_)key(s|$|_)|api_?key|dsn$|_url$",
    re.IGNORECASE,
)
"""Names of variables whose values are not written into a file: rather too many than too few."""


def gpus_of(node: Node) -> Mapping[str, tuple[str, str]]:
    """Add an entry for each GPU. UUID of what a container can be given → the entry's name, and its own below that."""
    observed = read_gpus(node.snapshot)
    if observed.error is not None:
        node.leave_out("the GPUs", f"they could not be read: {observed.error.text}")
    for lost in observed.lost:
        node.leave_out(f"GPU {lost.index}", f"it could not be read: {lost.error.text}")
    devices: dict[str, tuple[str, str]] = {}
    for gpu in observed.gpus:
        found = describe_gpu(gpu)
        node.entries.append(Entry("gpus", found.name, node.name, found.section, found.unsaid))
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
        found = describe_container(live, observed, devices, PRIVATE)
        unsaid = (*found.unsaid, *_models(live, servers))
        node.entries.append(Entry("containers", live.name, node.name, found.section, unsaid, found.secrets))


def _models(live: Live, servers: Mapping[str, Server | ProbeError] | ProbeError) -> Iterator[str]:
    """What a model server has loaded, which its own command decides, or whoever asked it."""
    server = None if isinstance(servers, ProbeError) else servers.get(live.id)
    if isinstance(server, ProbeError):
        yield f"the models of its server, which could not be read ({server.text})"
    elif server:
        loaded = {name: server.ready(name) for name in sorted(server.index) if server.ready(name)}
        told = ", ".join(f"{name} ({', '.join(map(str, versions))})" for name, versions in loaded.items())
        yield f"what its model server has loaded: {told}" if told else "its model server, which has nothing loaded"


def _no_section(live: Live, observed: Observed) -> str:
    if live.plan or leftover(live):
        return f"the plan file {live.plan or '?'} made it"
    if not NAME.match(live.name):
        return "a plan file cannot have its name"
    if live.status != "running":
        return f"it does not run ({live.status}), and what a plan file names is to run"
    if live.host_config.get("AutoRemove") is True:
        return "it was started with --rm, so that it goes as soon as it stops"
    if not observed.gpus.known:
        return "the node's GPUs could not be read, so nobody knows which of them it has"
    return ""
