"""Where SSH goes for a node: the inventory, `ansible_ssh_common_args` and the operator's ssh_config, in that order.

What is honoured: HostName, User, Port, IdentityFile, IdentitiesOnly, UserKnownHostsFile, HostKeyAlias, ConnectTimeout,
ProxyJump, Host, Match and Include. What would change the way to a node and is not honoured is refused by name.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import paramiko

from gpuplan.transport.ssharguments import Arguments, parse_arguments
from gpuplan.transport.sshinclude import expand
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem
from gpuplan.types.inventory import Host

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
CONNECT_TIMEOUT = 10.0
REFUSED = {
    "proxycommand": "Use ProxyJump; gpuplan opens the hop itself.",
    "knownhostscommand": "Write the host's key to a known_hosts file.",
    "pkcs11provider": "Load the key into an ssh-agent.",
    "securitykeyprovider": "Load the key into an ssh-agent.",
    "identityagent": "Set SSH_AUTH_SOCK to the agent's socket.",
    "bindaddress": "Route the traffic outside of SSH.",
    "bindinterface": "Route the traffic outside of SSH.",
}
"""ssh_config keys without which the connection would be another one than `ssh` makes → what to do."""


@dataclass(frozen=True)
class Route:
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


def route(host: Host) -> Route:
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


def hop_route(to: Route, hop: str) -> Route:
    """The route to a hop, `[user@]host[:port]` or `ssh://…`; its ssh_config counts, except for further hops."""
    user, _, place = hop.removeprefix("ssh://").rpartition("@")
    name, port = _split_port(place)
    if not name or not (port == "" or port.isdigit()):
        raise Problem(
            Diagnostic("A jump host is not understood", f"ProxyJump names {hop!r}.", address=to.node), Exit.UNREAD
        )
    found = _lookup(to.node, name, to.config)
    return _route(to.node, found, user=user, port=int(port or 0), arguments=Arguments(config=to.config))


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
    arguments: Arguments,
    private_key: str = "",
    jumps: tuple[str, ...] = (),
) -> Route:
    files = arguments.known_hosts or tuple(str(found.get("userknownhostsfile", "")).split())
    keys = found.get("identityfile", ())
    return Route(
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
        for file, beside in files.items():
            if config or file.is_file():
                settings.parse(expand(file, beside))
        found: Mapping[str, str | list[str]] = settings.lookup(name)
    except (OSError, ValueError, ImportError, paramiko.SSHException) as error:
        where = " and ".join(map(str, files))
        raise Problem(
            Diagnostic("The ssh_config cannot be read", f"{where}: {error}.", "Correct the file.", address=node),
            Exit.UNREAD,
        ) from error
    refused = [key for key in REFUSED if found.get(key) not in (None, "none", "SSH_AUTH_SOCK")]
    if refused:
        raise Problem([_refusal(node, name, key, str(found[key])) for key in refused], Exit.UNREAD)
    return found


def _refusal(node: str, name: str, key: str, value: str) -> Diagnostic:
    detail = f"The ssh_config says {key} {value!r} for {name}."
    return Diagnostic("An ssh_config setting is not supported", detail, REFUSED[key], address=node)


def _number(node: str, key: str, value: object) -> int:
    text = str(value)
    if not text.isdigit():
        raise Problem(
            Diagnostic("The ssh_config cannot be read", f"{key} is {text!r}, which is not a number.", address=node),
            Exit.UNREAD,
        )
    return int(text)


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path else ""
