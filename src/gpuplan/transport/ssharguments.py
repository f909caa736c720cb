"""`ansible_ssh_common_args`: the few arguments of ssh that make sense here; any other is refused by name."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from gpuplan.types.diagnostic import Diagnostic, Exit, Problem
from gpuplan.types.inventory import Host

UNDERSTOOD = "-o UserKnownHostsFile=…, -o ProxyJump=… (or -J), -o ConnectTimeout=… and -F FILE"


@dataclass(frozen=True)
class Arguments:
    """What the arguments said."""

    known_hosts: tuple[str, ...] = ()
    jump: str = ""
    connect_timeout: float = 0.0
    config: Path | None = None


def parse_arguments(host: Host) -> Arguments:
    """Read a node's arguments.

    Raises:
        Problem: one or more are not understood; names each of them.
    """
    found = Arguments()
    refused: list[str] = []
    try:
        words = shlex.split(host.ssh_arguments)
    except ValueError as error:
        raise Problem(_refusal(host, f"{host.ssh_arguments!r}: {error}"), Exit.UNREAD) from error
    while words:
        word = words.pop(0)
        flag, value = word[:2], word[2:]
        if flag in ("-o", "-J", "-F") and not value and words:
            value = words.pop(0)
        understood = _apply(found, flag, value)
        if understood is None:
            refused.append(f"{flag} {value}" if flag in ("-o", "-J", "-F") else word)
        else:
            found = understood
    if refused:
        raise Problem([_refusal(host, each) for each in refused], Exit.UNREAD)
    return found


def _apply(found: Arguments, flag: str, value: str) -> Arguments | None:
    """The arguments with one more; None where it is not understood."""
    if not value:
        return None
    if flag == "-J":
        return replace(found, jump=value)
    if flag == "-F":
        return replace(found, config=Path(value).expanduser())
    return _option(found, *_key_and_value(value)) if flag == "-o" else None


def _option(found: Arguments, key: str, value: str) -> Arguments | None:
    if key == "userknownhostsfile" and value:
        return replace(found, known_hosts=tuple(value.split()))
    if key == "proxyjump" and value:
        return replace(found, jump=value)
    if key == "connecttimeout" and value.isdigit():
        return replace(found, connect_timeout=float(value))
    if key == "stricthostkeychecking" and value == "yes":
        return found  # it always is
    return None


def _key_and_value(option: str) -> tuple[str, str]:
    """`Key=value` or `Key value`."""
    key, _, value = option.replace("=", " ", 1).partition(" ") if "=" in option else option.partition(" ")
    return key.strip().lower(), value.strip()


def _refusal(host: Host, what: str) -> Diagnostic:
    detail = f"ansible_ssh_common_args holds {what}."
    fix = f"Understood are {UNDERSTOOD}; put anything else into ~/.ssh/config."
    if "stricthostkeychecking" in what.lower():
        fix = "Leave it out: host keys are always checked, and a new node's key is added by hand (ssh-keyscan)."
    return Diagnostic("An SSH argument is not supported", detail, fix, where=host.where, address=host.name)
