"""Normal: one form for each value that the engine takes in several, the same for what is stated and what is found."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

_TMPFS_DEFAULTS = ("rw", "noexec", "nosuid", "nodev")
"""What the engine lays under the options of every tmpfs (moby, daemon/oci_linux.go)."""
_TMPFS_SIZE = re.compile(r"^(\d+)([kmg]?)$", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_ALL = "rwm"
"""Permissions of a device where none are stated: read, write, make nodes."""
NO_NEW_PRIVILEGES = "no-new-privileges"


def capabilities(names: Iterable[str]) -> list[str]:
    """``CAP_NET_ADMIN`` and ``net_admin`` are one; the order says nothing."""
    return sorted({name.upper().removeprefix("CAP_") for name in names})


def policy(name: str, count: int) -> str:
    """A restart policy with its number of retries, where it has one."""
    return f"{name}:{count}" if name == "on-failure" and count else name or "no"


def user(stated: str) -> str:
    """``root`` is user and group 0 in every image; no other name can be told from outside."""
    return ":".join("0" if part == "root" else part for part in stated.split(":"))


def workdir(stated: str) -> str:
    """The path as the engine cleans it."""
    return posixpath.normpath(stated) if stated else ""


def path(stated: str) -> str:
    """An absolute path without ``.``, ``..``, and slashes that say nothing; two at its beginning are one on Linux."""
    return "/" + posixpath.normpath(stated).lstrip("/")


def network(mode: str) -> str:
    """The network of a container that states none is called bridge."""
    return "bridge" if mode in ("", "default") else mode


def security(options: Iterable[str]) -> list[str]:
    """``name:value`` and ``name=value`` are one, and so are ``no-new-privileges`` and the same with ``true``."""
    found = set()
    for option in options:
        name, _, value = option.replace(":", "=", 1).partition("=") if "=" not in option else option.partition("=")
        if name != NO_NEW_PRIVILEGES:
            found.add(f"{name}={value}" if value else name)
        elif value.lower() in ("", "true", "1", "t"):
            found.add(name)
    return sorted(found)


def tmpfs(options: Iterable[str]) -> str:
    """Options in order, without those that the engine assumes; a size in its largest whole unit."""
    told = {_tmpfs_option(option.strip()) for option in options if option.strip()}
    return ",".join(sorted(told - set(_TMPFS_DEFAULTS)))


def device(on_node: str, permissions: str) -> str:
    """Path on the node, with the permissions where not all are given."""
    given = "".join(letter for letter in _ALL if letter in permissions) if permissions else _ALL
    clean = path(on_node) if on_node else ""
    return clean if given == _ALL else f"{clean}:{given}"


def split_device(text: str) -> tuple[str, str]:
    """Path on the node and permissions of a normal device."""
    on_node, _, permissions = text.partition(":")
    return on_node, permissions or _ALL


def seconds(nanoseconds: int) -> str:
    """A duration as the plan file writes it."""
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    left = f"{rest / 1e9:g}s" if rest or not minutes else ""
    return f"{minutes}m{left}" if minutes else left


def _tmpfs_option(option: str) -> str:
    name, equals, value = option.partition("=")
    if name == "size" and (match := _TMPFS_SIZE.match(value)):
        size = int(match[1]) * _UNITS[match[2].lower()]
        unit = next((unit for unit in ("g", "m", "k") if size and size % _UNITS[unit] == 0), "")
        return f"size={size // _UNITS[unit]}{unit}"
    if name == "mode" and re.fullmatch(r"[0-7]+", value):
        return f"mode={int(value, 8):o}"
    return option if equals else name
