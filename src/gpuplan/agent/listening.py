"""Ports of the node on which somebody listens, and who, as /proc tells of them."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from .processes import open_files

TABLES = (("tcp", "tcp"), ("tcp6", "tcp"), ("udp", "udp"), ("udp6", "udp"))
"""File below /proc/net, and the protocol as Docker names it."""
LISTENS = {"tcp": "0A", "udp": "07"}
"""State of a socket that takes what comes: TCP_LISTEN, and for UDP TCP_CLOSE, as the kernel writes it."""
SOCKET = re.compile(r"socket:\[(\d+)\]\Z")
KERNEL = frozenset("0")
"""The inode of a socket of the kernel's own, such as NFS has: no process has it, so that none is looked for."""
MOST = 4096
"""So many ports are told at most."""


def listening(process: Callable[[int], dict[str, Any]], proc: str = "/proc") -> list[dict[str, object]]:
    """Each address and port with the process that has it; without one where this user may not see whose it is.

    A UDP socket that is connected belongs to a client, and is not told.
    """
    sockets = [found for table, protocol in TABLES for found in _table(os.path.join(proc, "net", table), protocol)]
    owners = _owners({inode for inode, _ in sockets} - KERNEL, proc)
    told: dict[tuple[object, ...], dict[str, object]] = {}
    for inode, found in sockets:
        pid = owners.get(inode)
        about = process(pid) if pid is not None else {}
        key = (found["protocol"], found["port"], found["address"])
        told.setdefault(
            key, {**found, "pid": pid, "name": about.get("name") or None, "container": about.get("container")}
        )
    return [told[key] for key in sorted(told, key=str)][:MOST]


def _table(path: str, protocol: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Inode → address, port and protocol, of each socket that listens (proc(5), /proc/net/tcp)."""
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()[1:]
    except OSError:  # a kernel without IPv6
        return
    for line in lines:
        words = line.split()
        local, remote, state, inode = words[1], words[2], words[3], words[9]
        if state != LISTENS[protocol] or not remote.endswith(":0000"):
            continue
        address, _, port = local.partition(":")
        yield inode, {"protocol": protocol, "address": _address(address), "port": int(port, 16)}


def _address(text: str) -> str:
    """Each 32-bit word stands in the order of the machine's own bytes, which is little-endian."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _owners(inodes: set[str], proc: str) -> dict[str, int]:
    """Inode of a socket → the first process that has it open."""
    found: dict[str, int] = {}
    for name in sorted((each for each in os.listdir(proc) if each.isdigit()), key=int):
        if len(found) == len(inodes):
            break
        for match in open_files(os.path.join(proc, name, "fd"), SOCKET):
            if match.group(1) in inodes:
                found.setdefault(match.group(1), int(name))
    return found
