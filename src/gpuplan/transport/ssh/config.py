"""`Include` of an ssh_config, which paramiko does not read: the files are put in place of the line."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import paramiko

from gpuplan.types.diagnostic import Diagnostic, Exit, Problem
from gpuplan.types.inventory import Host

DEEPEST = 16
"""As ssh_config(5) has it."""
WORD = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*?)\s*$")


def expand(path: Path, folder: Path, depth: int = 0) -> list[str]:
    """The lines of a file with those of the files that it includes; relative names are in `folder`.

    Raises:
        ValueError: includes go too deep, or one that holds Host or Match stands inside a Host block, where only the
            combination of both would decide.
    """
    if depth > DEEPEST:
        raise ValueError(f"{path} is included more than {DEEPEST} levels deep")
    lines: list[str] = []
    block = "Host *"
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, value = _words(line)
        if key in ("host", "match"):
            block = line.strip()
        if key != "include":
            lines.append(line)
            continue
        for included in _files(value, folder):
            inside = expand(included, folder, depth + 1)
            if block != "Host *" and any(_words(each)[0] in ("host", "match") for each in inside):
                raise ValueError(f"{path}: Include of {included}, which has Host blocks, inside {block!r}")
            lines += [*inside, block]
    return lines


def _words(line: str) -> tuple[str, str]:
    found = WORD.match(line)
    return (found.group(1).lower(), found.group(2)) if found else ("", "")


def _files(value: str, folder: Path) -> Iterator[Path]:
    """The files that an Include names, which may be patterns."""
    for word in shlex.split(value):
        pattern = folder / Path(word).expanduser()
        yield from sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))


# `ansible_ssh_common_args`: the few arguments of ssh that make sense here; any other is refused by name.

SUPPORTED = "-o UserKnownHostsFile=…, -o ProxyJump=… (or -J), -o ConnectTimeout=… and -F FILE"


@dataclass(frozen=True)
class SshArguments:
    """What the arguments said."""

    known_hosts: tuple[str, ...] = ()
    jump: str = ""
    connect_timeout: float = 0.0
    config: Path | None = None


def parse_arguments(host: Host) -> SshArguments:
    """Read a node's arguments.

    Raises:
        Problem: one or more are not understood; names each of them.
    """
    found = SshArguments()
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


def _apply(found: SshArguments, flag: str, value: str) -> SshArguments | None:
    """The arguments with one more; None where it is not understood."""
    if not value:
        return None
    if flag == "-J":
        return replace(found, jump=value)
    if flag == "-F":
        return replace(found, config=Path(value).expanduser())
    return _option(found, *_key_and_value(value)) if flag == "-o" else None


def _option(found: SshArguments, key: str, value: str) -> SshArguments | None:
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
    detail = f"ansible_ssh_common_args has {what}."
    fix = f"Supported: {SUPPORTED}. Put other settings into ~/.ssh/config."
    if "stricthostkeychecking" in what.lower():
        fix = "Remove it: host keys are always checked. Add the key of a new node to known_hosts (ssh-keyscan)."
    return Diagnostic("Unsupported SSH argument", detail, fix, where=host.where, address=host.name)


# Resolving the route.

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
CONNECT_TIMEOUT = 10.0
REFUSED = {
    "proxycommand": "Use ProxyJump instead.",
    "knownhostscommand": "Add the host key to a known_hosts file.",
    "pkcs11provider": "Load the key into an ssh-agent.",
    "securitykeyprovider": "Load the key into an ssh-agent.",
    "identityagent": "Set SSH_AUTH_SOCK to the agent's socket.",
    "bindaddress": "Remove it, and use a routing rule instead.",
    "bindinterface": "Remove it, and use a routing rule instead.",
}
"""Unsupported ssh_config keys that would change where `ssh` connects → what to do."""


@dataclass(frozen=True)
class SshRoute:
    """How one SSH server is reached, all settings resolved."""

    node: str
    """The node that it is for, in messages."""
    address: str
    port: int
    user: str
    private_key: str = ""
    """From the inventory: this key and no other."""
    keys: tuple[str, ...] = ()
    """IdentityFile of the ssh_config."""
    identities_only: bool = False
    known_hosts: tuple[str, ...] = ()
    """UserKnownHostsFile; empty = the usual places."""
    alias: str = ""
    """HostKeyAlias: the name under which the key is known."""
    connect_timeout: float = CONNECT_TIMEOUT
    jumps: tuple[str, ...] = ()
    """Hops, nearest first, as `[user@]host[:port]`."""
    config: Path | None = None
    """The file that stands in place of the operator's and the system's ssh_config (-F)."""

    @property
    def known_as(self) -> str:
        """The name under which known_hosts files hold the key."""
        name = self.alias or self.address
        return name if self.alias or self.port == 22 else f"[{name}]:{self.port}"


def route(host: Host) -> SshRoute:
    """The route to a node of the inventory.

    Raises:
        Problem: an argument or a key of the ssh_config is not understood; names it.
    """
    arguments = parse_arguments(host)
    address = host.address or host.name
    found = _lookup(host.name, address, arguments.config)
    jump = arguments.jump or str(found.get("proxyjump", "none"))
    return _route(
        host.name,
        found,
        user=host.user,
        port=host.port,
        private_key=host.private_key,
        arguments=arguments,
        jumps=() if jump.lower() == "none" else tuple(hop.strip() for hop in jump.split(",")),
    )


def hop_route(to: SshRoute, hop: str) -> SshRoute:
    """The route to a hop, `[user@]host[:port]` or `ssh://…`; its ssh_config counts, except for further hops."""
    user, _, place = hop.removeprefix("ssh://").rpartition("@")
    name, port = _split_port(place)
    if not name or not (port == "" or port.isdigit()):
        raise Problem(
            Diagnostic(
                "Invalid jump host",
                f"ProxyJump has the jump host {hop!r}; expected [user@]host[:port].",
                "Correct ProxyJump in ~/.ssh/config or ansible_ssh_common_args.",
                address=to.node,
            ),
            Exit.UNREAD,
        )
    found = _lookup(to.node, name, to.config)
    return _route(to.node, found, user=user, port=int(port or 0), arguments=SshArguments(config=to.config))


def _split_port(place: str) -> tuple[str, str]:
    if place.startswith("["):
        name, _, port = place[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = place.partition(":")
    return name, port


def _route(
    node: str,
    found: Mapping[str, str | list[str]],
    *,
    user: str,
    port: int,
    arguments: SshArguments,
    private_key: str = "",
    jumps: tuple[str, ...] = (),
) -> SshRoute:
    files = arguments.known_hosts or tuple(str(found.get("userknownhostsfile", "")).split())
    keys = found.get("identityfile", ())
    return SshRoute(
        node=node,
        address=str(found["hostname"]),
        port=port or _number(node, "Port", found.get("port", "22")),
        user=user or str(found.get("user") or getpass.getuser()),
        private_key=_expanded(private_key),
        keys=tuple(_expanded(key) for key in keys),
        identities_only=str(found.get("identitiesonly", "no")).lower() == "yes",
        known_hosts=tuple(_expanded(file) for file in files),
        alias=str(found.get("hostkeyalias", "")),
        connect_timeout=arguments.connect_timeout
        or _number(node, "ConnectTimeout", found.get("connecttimeout", int(CONNECT_TIMEOUT))),
        jumps=jumps,
        config=arguments.config,
    )


def _lookup(node: str, name: str, config: Path | None) -> Mapping[str, str | list[str]]:
    """Every setting for a name; a file given with -F stands in place of the operator's and the system's."""
    ours = Path.home() / ".ssh"
    files = {config: ours} if config else {ours / "config": ours, SYSTEM_CONFIG: SYSTEM_CONFIG.parent}
    settings = paramiko.SSHConfig()
    try:
        for file, folder in files.items():
            if config or file.is_file():
                settings.parse(expand(file, folder))
        found: Mapping[str, str | list[str]] = settings.lookup(name)
    except (OSError, ValueError, ImportError, paramiko.SSHException) as error:
        where = " and ".join(map(str, files))
        raise Problem(
            Diagnostic("Cannot read ssh_config", f"{where}: {error}.", "Correct the file.", address=node),
            Exit.UNREAD,
        ) from error
    refused = [key for key in REFUSED if found.get(key) not in (None, "none", "SSH_AUTH_SOCK")]
    if refused:
        raise Problem([_refusal_sshconfig(node, name, key, str(found[key])) for key in refused], Exit.UNREAD)
    return found


def _refusal_sshconfig(node: str, name: str, key: str, value: str) -> Diagnostic:
    detail = f"ssh_config sets {key} {value!r} for {name}."
    return Diagnostic("Unsupported ssh_config setting", detail, REFUSED[key], address=node)


def _number(node: str, key: str, value: object) -> int:
    text = str(value)
    if not text.isdigit():
        raise Problem(
            Diagnostic(
                "Cannot read ssh_config",
                f"{key} is {text!r}, not a number.",
                "Correct it in ~/.ssh/config.",
                address=node,
            ),
            Exit.UNREAD,
        )
    return int(text)


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path else ""
