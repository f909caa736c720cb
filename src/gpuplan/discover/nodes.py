"""The GPUs and containers of a node as entries of a plan file, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuplan.discover.entries import DiscoveredNode, PlanEntry
from gpuplan.planfile.sources.repositories import OWN
from gpuplan.resources.container.describe import describe as describe_container
from gpuplan.resources.container.read import ObservedContainers, is_leftover
from gpuplan.resources.container.read import read as read_containers
from gpuplan.resources.container.resolve import devices_are_known
from gpuplan.resources.container.server import is_managed
from gpuplan.resources.gpu.describe import describe as describe_gpu
from gpuplan.resources.gpu.read import read as read_gpus
from gpuplan.resources.model.read import ModelServer
from gpuplan.resources.model.read import read as read_models
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.secrets.detect import exposed_secret, looks_secret
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import texts

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,62}\Z")
"""A container name that a plan file accepts."""


def add_gpus(node: DiscoveredNode) -> Mapping[str, tuple[str, str]]:
    """Add an entry for each GPU. UUID of each device → the name of its GPU's entry, and of the slice within it."""
    observed = read_gpus(node.snapshot)
    if observed.error is not None:
        node.leave_out("GPUs", f"could not be read: {observed.error.text}")
    for unreadable in observed.unreadable:
        node.leave_out(f"GPU {unreadable.index}", f"could not be read: {unreadable.error.text}")
    devices: dict[str, tuple[str, str]] = {}
    for gpu in observed.gpus:
        described = describe_gpu(gpu)
        node.entries.append(PlanEntry("gpus", described.name, node.name, described.section, described.omitted))
        devices |= {uuid: (described.name, part) for uuid, part in described.devices.items()}
    return devices


def add_containers(node: DiscoveredNode, devices: Mapping[str, str]) -> None:
    """Add an entry for each running container that no plan file made. `devices` are names by UUID."""
    observed, servers = read_containers(node.snapshot), read_models(node.snapshot).servers
    if observed.error is not None:
        node.leave_out("containers", f"could not be read: {observed.error.text}")
    for live in observed.containers:
        if why := _reason_to_leave_out(live, observed):
            node.leave_out(f"container {live.name}", why)
            continue
        described = describe_container(live, observed, devices, looks_secret)
        if what := exposed_secret(described.section):
            node.leave_out(
                f"container {live.name}", f"{what} looks like a secret, which a plan file allows only under env"
            )
            continue
        entry = PlanEntry("containers", live.name, node.name, described.section, described.unsaid, described.secrets)
        server = None if isinstance(servers, ProbeError) else servers.get(live.id)
        if isinstance(server, ProbeError):
            entry = replace(
                entry, omitted=(*entry.omitted, f"the models of its server, which could not be read ({server.text})")
            )
        elif server is not None:
            entry = _serving(
                node, entry, server, (*texts(live.config.get("Entrypoint")), *texts(live.config.get("Cmd")))
            )
        node.entries.append(entry)


def without_models(node: DiscoveredNode, entry: PlanEntry) -> PlanEntry:
    """A model server as an ordinary container, with a note of the models that it has loaded."""
    loaded = node.served.pop(entry.name, ())
    section = {key: value for key, value in entry.section.items() if key != "triton"}
    note = (
        f"the models loaded in its server: {', '.join(loaded)}" if loaded else "its model server, which has no models"
    )
    return replace(entry, section=section, omitted=(*entry.omitted, note))


def _serving(node: DiscoveredNode, entry: PlanEntry, server: ModelServer, words: Sequence[str]) -> PlanEntry:
    """A server with its loaded models, if it uses explicit model control."""
    node.served[entry.name] = tuple(name for name in sorted(server.index) if server.ready(name))
    if is_managed(words):
        return replace(entry, section={**entry.section, "triton": {"repository": OWN}})
    return without_models(node, entry)


def _reason_to_leave_out(live: EngineContainer, observed: ObservedContainers) -> str:
    if live.plan or is_leftover(live):
        return f"managed by the plan file {live.plan or '?'}"
    if not NAME.match(live.name):
        return "a plan file does not accept its name"
    if live.status != "running":
        return f"not running ({live.status}); containers of a plan file are always running"
    if live.host_config.get("AutoRemove") is True:
        return "started with --rm, so Docker removes it when it stops"
    if not devices_are_known(live, observed):
        return "its GPUs are unknown, because the node's GPUs could not be read"
    return ""
