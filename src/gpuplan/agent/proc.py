"""What /proc reports: processes with a GPU open, listening ports, and the GPU device files of containers."""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .failure import Failure, explain

GPU_DEVICE = re.compile(r"/dev/nvidia(\d+)\Z")
"""The device file of one GPU, by its minor number; nvidiactl and nvidia-uvm are of no GPU in particular."""
SERVICE = re.compile(r"/system\.slice/(?:[^/\n]+\.slice/)*([^/\n]+\.service)(?:/|$)", re.MULTILINE)
"""The service in /proc/PID/cgroup; a service of a user's own session is not one of the system."""


def device_holders(proc: str = "/proc") -> dict[int, list[int]]:
    """Minor number of a GPU → who has it open, by process id, without this process. Only root sees everybody's."""
    found: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if name.isdigit() and int(name) != os.getpid():
            for minor in sorted(
                {int(match.group(1)) for match in open_files(os.path.join(proc, name, "fd"), GPU_DEVICE)}
            ):
                found.setdefault(minor, []).append(int(name))
    return {minor: sorted(pids) for minor, pids in found.items()}


def service_of(cgroup: str) -> str | None:
    """The system's service that a process belongs to, by the text of its /proc/PID/cgroup."""
    found = SERVICE.search(cgroup)
    return found.group(1) if found else None


def open_files(directory: str, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The matches of what the descriptors in /proc/PID/fd lead to; what went away meanwhile is not there."""
    try:
        descriptors = os.listdir(directory)
    except OSError:  # the process ended, or belongs to another user
        return
    for descriptor in descriptors:
        try:
            match = form.match(os.readlink(os.path.join(directory, descriptor)))
        except OSError:
            continue
        if match:
            yield match


# Listening ports and their processes.

TABLES = (("tcp", "tcp"), ("tcp6", "tcp"), ("udp", "udp"), ("udp6", "udp"))
"""File below /proc/net, and the protocol as Docker names it."""
LISTENS = {"tcp": "0A", "udp": "07"}
"""State of a socket that takes what comes: TCP_LISTEN, and for UDP TCP_CLOSE, as the kernel writes it."""
SOCKET = re.compile(r"socket:\[(\d+)\]\Z")
KERNEL = frozenset("0")
"""The inode of a socket of the kernel's own, such as NFS has: no process has it, so that none is looked for."""
MOST_PORTS = 4096
"""At most so many ports are reported."""


def listening(process: Callable[[int], dict[str, Any]], proc: str = "/proc") -> list[dict[str, object]]:
    """Each address and port with the process that has it; without one if this user may not see whose it is.

    A UDP socket that is connected belongs to a client, and is not reported.
    """
    sockets = [found for table, protocol in TABLES for found in _table(os.path.join(proc, "net", table), protocol)]
    owners = _owners({inode for inode, _ in sockets} - KERNEL, proc)
    ports: dict[tuple[object, ...], dict[str, object]] = {}
    for inode, found in sockets:
        pid = owners.get(inode)
        about = process(pid) if pid is not None else {}
        key = (found["protocol"], found["port"], found["address"])
        ports.setdefault(
            key, {**found, "pid": pid, "name": about.get("name") or None, "container": about.get("container")}
        )
    return [ports[key] for key in sorted(ports, key=str)][:MOST_PORTS]


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


# Which GPU device files a container has, and which of them its control group lets its processes open. When systemd
# rewrites the device rules of a container, as at `systemctl daemon-reload`, it drops what NVIDIA's hook had added, and
# neither the engine nor the driver notices (NVIDIA/nvidia-container-toolkit#48).

CONTAINER_DEVICE = re.compile(r"(?:nvidia(?:\d+|ctl|-uvm)|nvidia-cap\d+)\Z")
CAPABILITIES = "nvidia-caps"
"""The directory of MIG's device files below /dev."""
MOST_DEVICES = 4096
"""Entries of one directory of a container that are looked at."""
PATIENCE = 4.0
"""Seconds for the question to the control groups of version 2."""

ENTER = """\
import json, os, sys
results = []
for group, files in json.loads(sys.argv[1]):
    if not all(os.access(path, mode) for path, mode in files):
        results.append(None)
        continue
    try:
        with open(group, "w") as procs:
            procs.write(str(os.getpid()))
        results.append({path: os.access(path, mode) for path, mode in files})
    except OSError as error:
        results.append(str(error))
    finally:
        with open(sys.argv[2], "w") as home:
            home.write(str(os.getpid()))
print(json.dumps(results))
"""
"""Enters one control group after the other and asks the kernel, by access(2), which checks the rules for devices
(fs/namei.c, inode_permission) and calls no driver. None: the node itself may not open a file, so nothing is said."""


class DeviceNode(NamedTuple):
    """One device file of a container."""

    name: str
    path: str
    major: int
    minor: int

    @property
    def access(self) -> str:
        """What a process needs of it: MIG's capabilities are only read."""
        return "r" if self.name.startswith("nvidia-cap") else "rw"


class ControlGroup(NamedTuple):
    """The control group that decides on devices."""

    version: int
    path: str


def device_access(pids: Mapping[str, int], proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> dict[str, object]:
    """For each container, by the number of its first process: `{"nodes": [..], "denied": [..]}`, or an error.

    Raises Failure `no_permission`: only root sees into other namespaces.
    """
    if os.geteuid() != 0:
        raise Failure("no_permission", "only root can see the device files of containers")
    found: dict[str, object] = {}
    entered: dict[str, tuple[list[DeviceNode], str]] = {}
    for name, pid in pids.items():
        try:
            nodes, group = device_nodes(pid, proc), control_group_of(pid, proc, groups)
            if group.version == 1:
                rules = _read(os.path.join(group.path, "devices.list"))
                found[name] = _told(nodes, {node.name: rules_allow(rules, node) for node in nodes})
            else:
                entered[name] = (nodes, os.path.join(group.path, "cgroup.procs"))
        except (OSError, Failure) as error:
            found[name] = {"error": explain(error).to_json()}
    found.update(
        _within(entered, os.path.join(control_group_of("self", proc, groups).path, "cgroup.procs")) if entered else {}
    )
    return found


def device_nodes(pid: int, proc: str = "/proc") -> list[DeviceNode]:
    """The NVIDIA device files below /dev of a container, as its first process sees them."""
    dev = os.path.join(proc, str(pid), "root/dev")
    return sorted(node for directory in (dev, os.path.join(dev, CAPABILITIES)) for node in _nodes(directory))


def control_group_of(pid: int | str, proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> ControlGroup:
    """The group of a process that has the rules for devices: of version 1 where that hierarchy is mounted."""
    lines = [line.split(":", 2) for line in _read(os.path.join(proc, str(pid), "cgroup")).splitlines()]
    by_controller = {name: path for _, names, path in lines for name in names.split(",")}
    if "devices" in by_controller:
        return ControlGroup(1, os.path.join(groups, "devices", by_controller["devices"].lstrip("/")))
    if "" not in by_controller:
        raise Failure("not_supported", "no control group with device rules")
    return ControlGroup(2, os.path.join(groups, by_controller[""].lstrip("/")))


def rules_allow(rules: str, node: DeviceNode) -> bool:
    """True if one line of a `devices.list` gives all that is needed of a file (kernel, device_cgroup.c)."""
    for line in rules.splitlines():
        kind, _, rest = line.partition(" ")
        numbers, _, access = rest.partition(" ")
        major, _, minor = numbers.partition(":")
        meant = kind in ("a", "c") and major in ("*", str(node.major)) and minor in ("*", str(node.minor))
        if meant and set(node.access) <= set(access):
            return True
    return False


def check_access(jobs: Sequence[tuple[str, Sequence[DeviceNode]]], home: str) -> list[object]:
    """For each `cgroup.procs` and its files: whether each may be opened; None or the error if that is unknown."""
    asked = [[group, [[node.path, _mode(node)] for node in nodes]] for group, nodes in jobs]
    argv = [sys.executable, "-I", "-S", "-c", ENTER, json.dumps(asked), home]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
        results = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise Failure("unexpected", "cannot test access in the control groups: {}".format(error)) from error
    return list(results)


def _within(entered: Mapping[str, tuple[list[DeviceNode], str]], home: str) -> Iterator[tuple[str, object]]:
    try:
        answers = check_access([(group, nodes) for nodes, group in entered.values()], home)
    except Failure as failure:
        yield from ((name, {"error": failure.to_json()}) for name in entered)
        return
    for number, (name, (nodes, _)) in enumerate(entered.items()):
        answer = answers[number]
        if isinstance(answer, dict):
            yield name, _told(nodes, {node.name: answer.get(node.path) for node in nodes})
        else:
            text = answer or "the node itself cannot open the device files"
            yield name, {"error": Failure("no_permission", str(text)).to_json()}


def _told(nodes: Sequence[DeviceNode], allowed: Mapping[str, object]) -> dict[str, object]:
    names = [node.name for node in nodes]
    return {"nodes": names, "denied": [name for name in names if not allowed[name]]}


def _mode(node: DeviceNode) -> int:
    return os.R_OK if node.access == "r" else os.R_OK | os.W_OK


def _nodes(directory: str) -> Iterator[DeviceNode]:
    try:
        with os.scandir(directory) as entries:
            for entry in itertools.islice(entries, MOST_DEVICES):
                if CONTAINER_DEVICE.match(entry.name):
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISCHR(state.st_mode):
                        yield DeviceNode(entry.name, entry.path, os.major(state.st_rdev), os.minor(state.st_rdev))
    except (FileNotFoundError, NotADirectoryError):
        return


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
