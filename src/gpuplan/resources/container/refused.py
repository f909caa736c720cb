"""Refused: values that every engine turns down, told with the plan file instead of after the old container stopped."""

from __future__ import annotations

import re
from ipaddress import ip_address

from gpuplan.planfile.engineoptions import EngineOptions, Ulimit
from gpuplan.resources.container import normal
from gpuplan.resources.container.options import Fault

_IPC = ("none", "private", "shareable", "host")
_NAMES = (
    "ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH "
    "FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN "
    "NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT "
    "SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM"
)
_CAPABILITIES = frozenset(_NAMES.split())
"""Those of Linux 6.12 (include/uapi/linux/capability.h), and the engine's word for all."""
_LIMITS = (
    *("as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss"),
    *("rtprio", "rttime", "sigpending", "stack"),
)
"""Those of getrlimit(2)."""
_ENDLESS = -1
_SYSCTL = re.compile(
    r"net\.\S+|fs\.mqueue\.\S+|kernel\.(domainname|msgmax|msgmnb|msgmni|sem|shmall|shmmax|shmmni|shm_rmid_forced)"
)
"""Those that a container has for itself (runc, libcontainer/configs/validate)."""
_GATEWAY = "host-gateway"


def refused(stated: EngineOptions, fault: Fault) -> None:
    """Tell everything of the options that no engine takes."""
    _namespaces(stated, fault)
    _capabilities(stated, fault)
    _ulimits(stated, fault)
    _sysctls(stated, fault)
    _hosts(stated, fault)


def _namespaces(stated: EngineOptions, fault: Fault) -> None:
    tied = "ties it to one container, and breaks when that is replaced"
    for key, valid in {"network": (), "ipc": _IPC, "pid": ("host",)}.items():
        value = str(getattr(stated, key) or "")
        fix = f"Write one of {', '.join(valid)}, or leave it out." if valid else "Use a named network, or host."
        if value.startswith("container:"):
            fault(key, "A namespace of another container", f"{key}: {value} {tied}.", fix)
        elif value and valid and value not in valid:
            fault(key, "A namespace is not known", f"{key}: {value} is nothing that the engine takes.", fix)


def _capabilities(stated: EngineOptions, fault: Fault) -> None:
    for key in ("cap_add", "cap_drop"):
        for name in normal.capabilities(getattr(stated, key)):
            if name not in _CAPABILITIES:
                fault(key, "A capability is not known", f"Linux has none called {name}.", "See capabilities(7).")


def _ulimits(stated: EngineOptions, fault: Fault) -> None:
    for name, limit in stated.ulimits.items():
        soft, hard = (limit.soft, limit.hard) if isinstance(limit, Ulimit) else (limit, limit)
        if name not in _LIMITS:
            valid = f"Valid here: {', '.join(_LIMITS)}."
            fault(f"ulimits.{name}", "A limit is not known", f"Linux has no limit called {name}.", valid)
        elif min(soft, hard) < _ENDLESS:
            detail = f"{name} is {soft}:{hard}; {_ENDLESS} means no limit, and less means nothing."
            fault(f"ulimits.{name}", "A limit is below nothing", detail, "Write -1 or more.")
        elif hard != _ENDLESS and (soft > hard or soft == _ENDLESS):
            detail = f"The soft limit of {name} is {soft}, and its hard limit {hard}, which no process can pass."
            fault(f"ulimits.{name}", "A soft limit above the hard one", detail, "Raise hard:, or lower soft:.")


def _sysctls(stated: EngineOptions, fault: Fault) -> None:
    for name in stated.sysctls:
        if not _SYSCTL.fullmatch(name):
            detail = f"{name} holds for the whole node, so that no container can have its own."
            fix = "Set it on the node; a container may have net.*, fs.mqueue.* and the kernel.msg*, sem and shm* ones."
            fault(f"sysctls.{name}", "A setting of the whole node", detail, fix)
        elif name.startswith("net.") and stated.network == "host":
            detail = f"With network: host {name} is the node's own."
            fault(f"sysctls.{name}", "A setting of the whole node", detail, "Set it on the node, or use a network.")


def _hosts(stated: EngineOptions, fault: Fault) -> None:
    for name, address in stated.extra_hosts.items():
        if re.search(r"[\s:=]", name):
            detail = f"{name!r} is no host name."
            fault(f"extra_hosts.{name}", "A host name is not valid", detail, "Write NAME: ADDRESS.")
        if address != _GATEWAY and not _is_address(address):
            detail, fix = f"{address!r} of {name} is no IP address.", f"Write its address, or {_GATEWAY}."
            fault(f"extra_hosts.{name}", "A host's address is not valid", detail, fix)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
