"""The inventory: which nodes there are and how each is reached."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.value import JsonObject


class Connection(enum.Enum):
    """How a node is reached (`ansible_connection`)."""

    SSH = "ssh"
    LOCAL = "local"
    SIMULATED = "simulated"


@dataclass(frozen=True)
class Host:
    """One node of the inventory, with Ansible's connection variables under our names."""

    name: str
    connection: Connection = Connection.SSH
    address: str = ""
    """`ansible_host`; the name where the inventory says nothing."""
    user: str = ""
    """`ansible_user`; empty = the operator's ssh_config or login name decides."""
    port: int = 0
    """`ansible_port`; 0 = ssh_config or 22."""
    private_key: str = ""
    """`ansible_ssh_private_key_file`; when set, no other key is offered."""
    ssh_arguments: str = ""
    """`ansible_ssh_common_args`."""
    python: str = "python3"
    """`ansible_python_interpreter` on the node."""
    become: bool = False
    """`ansible_become`: run the agent through `sudo -n`."""
    docker_socket: str = ""
    """`gpuplan_docker_socket`: where the engine listens on the node; empty = /var/run/docker.sock."""
    groups: tuple[str, ...] = ()
    simulated: JsonObject = field(default_factory=dict)
    """`gpuplan_simulated`: the hardware of a simulated node."""
    where: Location | None = None
    skipped_probes: frozenset[str] = frozenset()
    """Probes that this node is spared, such as the engine's while the node boots."""


@dataclass(frozen=True)
class Inventory:
    """All nodes, in the order of the inventory."""

    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Group name → names of its hosts, children's included; holds `all`."""
    warnings: tuple[Diagnostic, ...] = ()
    """What the inventory says and gpuplan does not heed; to be shown once."""
