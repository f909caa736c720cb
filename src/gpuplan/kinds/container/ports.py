"""Host ports: which a container takes, and which two cannot be taken together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.kinds.container.forms import split_side


def host_ports(ports: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """``8000/tcp``, or ``127.0.0.1:8000/tcp``, for each host side with a port of its own."""
    for inside, sides in ports.items():
        for side in sides:
            if split_side(side)[1]:
                yield f"{side}/{inside.partition('/')[2]}"


def clashes(one: str, other: str) -> bool:
    """True where two host ports cannot both be taken: the same port and protocol, on overlapping addresses."""
    (side, protocol), (other_side, other_protocol) = one.split("/"), other.split("/")
    (address, port), (other_address, other_port) = split_side(side), split_side(other_side)
    if (port, protocol) != (other_port, other_protocol):
        return False
    return not address or not other_address or address == other_address or "::" in (address, other_address)
