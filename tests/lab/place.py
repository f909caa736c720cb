"""Which nodes the lab has, and where everything of it lies: names and addresses follow from the lab's own path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TRITON = "lab/tritonserver:24.10-py3"
PAUSE = "lab/pause:1"


@dataclass(frozen=True)
class Node:
    """One node: its hardware by catalog name, its inventory group, and the images its engine starts with."""

    name: str
    group: str
    number: int
    """Last part of its address."""
    boards: tuple[str, ...]
    images: tuple[str, ...]


NODES = (
    Node("gpu-a1", "a100", 11, ("A100-SXM4-80GB", "A100-SXM4-80GB"), (TRITON, PAUSE)),
    Node("gpu-h1", "h100", 12, ("H100-SXM5-80GB",), (TRITON, PAUSE)),
    Node("gpu-t1", "a30", 13, ("A30",), (PAUSE,)),
)


@dataclass(frozen=True)
class Place:
    """The directory of one lab. Two checkouts have two labs, which share no name, address or file."""

    root: Path

    @cached_property
    def mark(self) -> str:
        """Six hexadecimal digits that tell this lab from others on the machine."""
        return sha256(str(self.root).encode()).hexdigest()[:6]

    @property
    def cache(self) -> Path:
        """What was expensive to make; survives `down`."""
        return self.root / "cache"

    @property
    def keys(self) -> Path:
        """SSH keys of the operator and of the nodes; survive `down`."""
        return self.root / "keys"

    @property
    def private_key(self) -> Path:
        """The key that opens ops and guest on every node."""
        return self.keys / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The host keys of all nodes."""
        return self.root / "known_hosts"

    @property
    def inventory(self) -> Path:
        """The nodes in Ansible's format."""
        return self.root / "inventory.yaml"

    @property
    def images(self) -> Path:
        """Archives as `docker load` takes them: triton.tar, pause.tar."""
        return self.root / "images"

    @property
    def stamp(self) -> Path:
        """What the running lab was made from; absent while it is not wholly up."""
        return self.root / "up"

    def node(self, node: Node) -> Path:
        """The directory of one running node."""
        return self.root / "nodes" / node.name

    @property
    def bridge(self) -> str:
        """Name of the bridge; at most 15 characters, as the kernel wants."""
        return f"gplab-{self.mark}"

    def veth(self, node: Node) -> str:
        """The node's cable, seen from this machine."""
        return f"gp{self.mark}-{node.number}"

    def namespace(self, node: Node) -> str:
        """The node's network namespace."""
        return f"gplab-{self.mark}-{node.name}"

    @property
    def subnet(self) -> str:
        """A /24 out of 198.18.0.0/15, which RFC 2544 sets aside for test benches, without its last part."""
        number = int(self.mark, 16) % 512
        return f"198.{18 + number // 256}.{number % 256}"

    def mac(self, number: int) -> str:
        """A hardware address that stays over reboots, so that nobody's ARP table goes stale; 1 is the bridge."""
        pairs = [self.mark[i : i + 2] for i in (0, 2, 4)]
        return ":".join(("02", "67", *pairs, f"{number:02x}"))

    def address(self, node: Node) -> str:
        """The node's IPv4 address."""
        return f"{self.subnet}.{node.number}"


def find_place() -> Place:
    """The lab of this checkout: `.lab` in it, or the directory that $GPUPLAN_LAB names."""
    stated = os.environ.get("GPUPLAN_LAB")
    return Place(Path(stated).resolve() if stated else REPOSITORY / ".lab")


def find_node(name: str) -> Node:
    """A node by name; KeyError where the lab has none of that name."""
    return {node.name: node for node in NODES}[name]
