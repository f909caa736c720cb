"""Docker's own text forms for ports and volumes, read into the canonical form of a spec."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address

_VOLUME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]+$")
_PROPAGATION = {"shared", "rshared", "slave", "rslave", "private", "rprivate"}
_OPTIONS = {"ro", "rw", "z", "Z", "nocopy", "cached", "delegated", "consistent"} | _PROPAGATION
ANYWHERE = ("", "0.0.0.0")  # noqa: S104 - read from a node or a plan file, where both mean all addresses


def ports_of(forms: Iterable[str | int]) -> Mapping[str, tuple[str, ...]]:
    """``127.0.0.1:8080:80/udp`` → {``80/udp``: (``127.0.0.1:8080``,)}; a form may be a range.

    Raises:
        ValueError: a form is none of Docker's.
    """
    from docker.utils.ports import build_port_bindings

    found: dict[str, tuple[str, ...]] = {}
    for inside, sides in build_port_bindings([str(form) for form in forms]).items():
        port, _, protocol = inside.partition("/")
        key = f"{_checked(port)}/{protocol or 'tcp'}"
        found[key] = tuple(sorted({*found.get(key, ()), *(_side(side) for side in sides)}))
    return found


def host_side(address: str, port: str) -> str:
    """The canonical text of one host side; ``0.0.0.0`` is what Docker takes where nothing is said."""
    shown = "" if port in ("", "0") else port
    with suppress(ValueError):
        address, shown = str(ip_address(address)) if address else "", str(int(shown)) if shown else ""
    if address in ANYWHERE:
        return shown
    return f"[{address}]:{shown}" if ":" in address else f"{address}:{shown}"


def split_side(side: str) -> tuple[str, str]:
    """Address and port of a canonical host side; an empty text where it says nothing."""
    address, _, port = side.rpartition(":")
    return address.strip("[]"), port


def host_ports(ports: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """``8000/tcp``, or ``127.0.0.1:8000/tcp``, for each host side with a port of its own."""
    for inside, sides in ports.items():
        for side in sides:
            if split_side(side)[1]:
                yield f"{side}/{inside.partition('/')[2]}"


def clashes(one: str, other: str) -> bool:
    """True where two host ports cannot both be taken: the same port and protocol, on overlapping addresses."""
    (side, _, protocol), (other_side, _, other_protocol) = one.partition("/"), other.partition("/")
    (address, port), (other_address, other_port) = split_side(side), split_side(other_side)
    if (port, protocol) != (other_port, other_protocol):
        return False
    return not address or not other_address or address == other_address or "::" in (address, other_address)


def mounts_of(forms: Iterable[str]) -> Mapping[str, str]:
    """``/srv/cache:/models/cache:ro`` → {``/models/cache``: ``/srv/cache:ro``}.

    Raises:
        ValueError: a form is not SOURCE:TARGET[:OPTIONS], or two have the same target.
    """
    found: dict[str, str] = {}
    for form in forms:
        target, source = _mount(form)
        if target in found:
            raise ValueError(f"two volumes are mounted at {target}")
        found[target] = source
    return found


def mount_text(source: str, options: Iterable[str]) -> str:
    """The canonical text of a mount's source: read-write and the propagation of binds are what Docker assumes."""
    path = posixpath.normpath(source) if source.startswith("/") else source
    told = sorted({option for option in options if option and option not in ("rw", "rprivate")})
    return ":".join([path, *([",".join(told)] if told else [])])


def _side(side: object) -> str:
    if side is None:
        return ""
    if isinstance(side, tuple):
        address, port = side
        return host_side(str(ip_address(address)), _checked(port) if port else "")
    return host_side("", _checked(str(side)))


def _checked(port: str) -> str:
    if not 1 <= int(port) <= 65535:
        raise ValueError(f"{port} is not a port")
    return str(int(port))


def _mount(form: str) -> tuple[str, str]:
    parts = form.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f"{form!r} is not SOURCE:TARGET or SOURCE:TARGET:OPTIONS")
    source, target = parts[0], parts[1]
    options = parts[2].split(",") if len(parts) == 3 else []
    if not (source.startswith("/") or _VOLUME.match(source)):
        raise ValueError(f"{source!r} is neither an absolute path on the node nor the name of a volume")
    if not target.startswith("/"):
        raise ValueError(f"{target!r} is not an absolute path in the container")
    if unknown := sorted(set(options) - _OPTIONS):
        raise ValueError(f"{', '.join(unknown)} is not an option of a volume")
    return posixpath.normpath(target), mount_text(source, options)
