"""Options: what the plan file says of the engine's own options, in normal form, and what the engine would not take."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Protocol

from gpuplan.planfile.engineoptions import EngineOptions
from gpuplan.resources.container import normal
from gpuplan.resources.container.shape import Healthcheck, Logging

_DEVICE = re.compile(r"^(/[^:]+)(?::(/[^:]+))?(?::([rwm]{1,3}))?$")
_OF_A_GPU = re.compile(r"^(/|/dev|/dev/char|/dev/nvidia[^:]*|/proc(/[^:]*)?|/sys(/[^:]*)?)$")
"""A device file of a GPU, or a directory: the engine gives every device below it, and so the GPUs'."""
_EACH_BY_ITSELF = "Use gpus: instead, and name other devices one by one."
_SECURITY = ("apparmor", "label", "seccomp", normal.NO_NEW_PRIVILEGES)
"""What the engine takes; its command line knows more, and sends it in other ways (moby, daemon/daemon_unix.go)."""
_LEAST_MEMORY = 6 << 20
"""The engine refuses less (moby, daemon/daemon_unix.go)."""
_SHORTEST = 0.001
"""The shortest duration of a health check that the engine takes, in seconds."""


class Fault(Protocol):
    """Tells a fault of the container at a key."""

    def __call__(self, key: str, summary: str, detail: str, fix: str = "") -> None:
        """`key` is dotted."""


def host_devices(stated: EngineOptions, fault: Fault) -> Mapping[str, str]:
    """``/dev/fuse:/dev/fuse:rwm`` → {``/dev/fuse``: ``/dev/fuse``}."""
    found: dict[str, str] = {}
    for form in stated.devices:
        match = _DEVICE.match(form)
        on_node = normal.path(match[1]) if match else ""
        if "=" in form or _OF_A_GPU.match(on_node):
            detail = f"{form} would give the container a GPU that gpuplan does not know of."
            fault("devices", "GPUs are not given as devices", detail, _EACH_BY_ITSELF)
        elif match:
            found[normal.path(match[2] or on_node)] = normal.device(on_node, match[3] or "")
        else:
            fault("devices", "A device is not understood", f"{form!r} is not PATH[:PATH][:rwm].", "Correct it.")
    return found


def tmpfs(stated: EngineOptions, mounted: Mapping[str, str], fault: Fault) -> Mapping[str, str]:
    """``/run:size=64m`` → {``/run``: ``size=64m``}."""
    found: dict[str, str] = {}
    for form in stated.tmpfs:
        path, _, options = form.partition(":")
        target = posixpath.normpath(path) if path else ""
        if not target.startswith("/") or target == "/":
            fault(
                "tmpfs", "A tmpfs is not understood", f"{form!r} is not PATH or PATH:OPTIONS.", 'Write "/run:size=64m".'
            )
        elif target in found or target in mounted:
            fault("tmpfs", "Two mounts at one path", f"{target} is mounted twice.", "Remove one of them.")
        else:
            found[target] = normal.tmpfs(options.split(","))
    return found


def security_opt(stated: EngineOptions, fault: Fault) -> tuple[str, ...]:
    """Security options; a profile that lies in a file cannot be given."""
    found = normal.security(stated.security_opt)
    for option in found:
        name, _, value = option.partition("=")
        if name not in _SECURITY:
            detail = f"{option} is none of {', '.join(_SECURITY)}, which are those that the engine takes."
            fault("security_opt", "A security option is not known", detail, "Correct it.")
        elif name == "seccomp" and value not in ("unconfined", "builtin"):
            detail = f"{option} names a profile in a file, which gpuplan does not bring to the node."
            fault("security_opt", "A seccomp profile in a file", detail, "Write seccomp=unconfined, or leave it out.")
    return tuple(found)


def privileged(stated: EngineOptions, fault: Fault) -> bool:
    """A privileged container has every device of the node, so it must be said that the GPUs are meant, too."""
    if stated.privileged is True:
        detail = "A privileged container sees every GPU and slice of the node, also those that belong to others."
        fix = "State cap_add and devices instead, or write privileged: with-every-gpu where that is meant."
        fault("privileged", "A privileged container sees every GPU", detail, fix)
    return bool(stated.privileged)


def networks(stated: EngineOptions, fault: Fault) -> Mapping[str, tuple[str, ...]]:
    """Each network with the container's further names on it."""
    if not stated.networks:
        return {}
    if stated.network is not None:
        fault("networks", "Both network and networks", "One of network and networks is meant.", "Keep one of them.")
    if isinstance(stated.networks, tuple):
        found: Mapping[str, tuple[str, ...]] = dict.fromkeys(stated.networks, ())
    else:
        found = {name: tuple(sorted(set(each.aliases))) for name, each in stated.networks.items()}
    for special in {"host", "none", "default"} & found.keys():
        detail = f"{special} is no network that a container could be attached to."
        fault("networks", "Not a network", detail, f"Write network: {special} instead.")
    if found.get("bridge"):
        detail = "The engine gives further names only on networks that were made by somebody."
        fault("networks", "Names on the network bridge", detail, "Remove the aliases, or use another network.")
    return found


def dns(stated: EngineOptions, fault: Fault) -> tuple[str, ...]:
    """Addresses of name servers."""
    found: list[str] = []
    for text in stated.dns:
        try:
            found.append(str(ip_address(text)))
        except ValueError:
            fault("dns", "A name server is not an address", f"{text!r} is no IP address.", "Write its address.")
    return tuple(found)


def healthcheck(stated: EngineOptions, fault: Fault) -> Healthcheck:
    """The health check; what is 0 comes from the image, as the engine has it."""
    check = stated.healthcheck
    if check is None:
        return Healthcheck()
    if check.disable:
        return Healthcheck(("NONE",))
    for key in ("interval", "timeout", "start_period"):
        if 0 < (getattr(check, key) or 0) < _SHORTEST:
            fault(f"healthcheck.{key}", "A duration is too short", "The engine takes 1ms and more.", "Make it longer.")
    test: tuple[str, ...] | None = ("CMD-SHELL", check.test) if isinstance(check.test, str) else check.test
    if test is not None and (not test or test[0] not in ("NONE", "CMD", "CMD-SHELL")):
        detail = f"{shlex.join(test)!r} does not begin with CMD, CMD-SHELL or NONE."
        fault("healthcheck.test", "A health check is not understood", detail, "Write [CMD, PROGRAM, ARGUMENT, …].")
    return Healthcheck(
        test, check.interval or None, check.timeout or None, check.start_period or None, check.retries or None
    )


def logging(stated: EngineOptions) -> Logging:
    """Driver and options of the container's output."""
    if stated.logging is None:
        return Logging()
    return Logging(stated.logging.driver or None, texts(stated.logging.options))


def texts(values: Mapping[str, str | int | float | bool]) -> Mapping[str, str]:
    """Values as texts, booleans as the engine writes them."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def memory(stated: EngineOptions, fault: Fault) -> int | None:
    """Bytes; 0 is no limit."""
    if 0 < (stated.memory or 0) < _LEAST_MEMORY:
        fault("memory", "Too little memory", "The engine gives a container no less than 6MiB.", "Give it more.")
    return stated.memory


def shm_size(stated: EngineOptions, fault: Fault) -> int | None:
    """Bytes; more than 0."""
    if stated.shm_size == 0:
        fault("shm_size", "No shared memory", "The engine takes 0 for its default.", "Leave it out, or give a size.")
    return stated.shm_size


def cpus(stated: EngineOptions, fault: Fault) -> float | None:
    """How many; the engine counts in billionths and takes a hundredth and more."""
    if stated.cpus is not None and stated.cpus < 0.01:
        fault("cpus", "Too few CPUs", "The engine gives a container no less than 0.01 CPU.", "Give it more.")
    return None if stated.cpus is None else round(stated.cpus * 1e9) / 1e9


def workdir(stated: EngineOptions, fault: Fault) -> str | None:
    """An absolute path."""
    if not stated.workdir:
        return None
    if not stated.workdir.startswith("/"):
        detail = f"{stated.workdir!r} is not an absolute path in the container."
        fault("workdir", "A working directory is not absolute", detail, "Begin it with /.")
    return normal.workdir(stated.workdir)
