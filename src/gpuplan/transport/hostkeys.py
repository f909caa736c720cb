"""Host keys: checked against known_hosts, never added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko

from gpuplan.transport.sshconfig import Route
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

SYSTEM_FILES = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


class KnownHosts:
    """What the known_hosts files say of one SSH server."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._file = Path(route.known_hosts[0]) if route.known_hosts else Path.home() / ".ssh" / "known_hosts"
        self._keys: list[paramiko.PKey] = []
        self._without_port: list[paramiko.PKey] = []
        self._revoked: list[str] = []
        for line in _lines(_files(route)):
            self._read(line)

    @property
    def types(self) -> Sequence[str]:
        """Types of the keys that are known, so that the server is asked for one of these first."""
        return [key.get_name() for key in self._keys or self._without_port]

    def check(self, key: paramiko.PKey) -> None:
        """Raises Problem unless the server's key is known."""
        if key.get_base64() in self._revoked:
            raise self._problem("The node's host key is revoked", f"Its key is {_shown(key)}.", "Do not connect to it.")
        if key in self._keys or key in self._without_port:
            return
        if self._keys:
            raise self._changed(key)
        raise self._unknown(key)

    def _read(self, line: str) -> None:
        marker, _, rest = line.partition(" ")
        if marker == "@revoked":
            self._revoked.append(rest.split()[-1] if len(rest.split()) == 3 else " ".join(rest.split()[2:3]))
        elif not marker.startswith("@"):
            self._keys += _keys(line, self._route.known_as)
            self._without_port += _keys(line, self._route.address)

    def _changed(self, key: paramiko.PKey) -> Problem:
        known = ", ".join(_shown(each) for each in self._keys)
        detail = (
            f"The SSH server of {self._route.known_as} shows {_shown(key)}, but known is {known}. "
            "The node was installed anew, or somebody stands in between."
        )
        fix = f"If the node is new, run\n    ssh-keygen -R '{self._route.known_as}' -f {self._file}\n{self._adding()}"
        return self._problem("The node's host key has changed", detail, fix)

    def _unknown(self, key: paramiko.PKey) -> Problem:
        detail = f"{self._route.known_as} shows {_shown(key)}, and no known_hosts file holds a key of it."
        return self._problem("The node's host key is unknown", detail, f"Compare the fingerprint.\n{self._adding()}")

    def _adding(self) -> str:
        if self._route.jumps:
            return f"Then connect once by hand:\n    ssh -J {','.join(self._route.jumps)} {self._route.address}"
        return f"Then run\n    ssh-keyscan -p {self._route.port} {self._route.address} >> {self._file}"

    def _problem(self, summary: str, detail: str, fix: str) -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._route.node), Exit.UNREAD)


def _shown(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"


def _files(route: Route) -> Sequence[Path]:
    ours = Path.home() / ".ssh"
    users = [Path(file) for file in route.known_hosts] or [ours / "known_hosts", ours / "known_hosts2"]
    return [*users, *SYSTEM_FILES]


def _lines(files: Sequence[Path]) -> Iterator[str]:
    for file in files:
        if file.is_file():
            yield from (line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines())


def _keys(line: str, name: str) -> list[paramiko.PKey]:
    """The key of a line that is of this name; hashed names included."""
    if not line or line.startswith("#"):
        return []
    try:
        entry = paramiko.hostkeys.HostKeyEntry.from_line(line)
    except (paramiko.SSHException, ValueError):
        return []  # a line that nobody can read says nothing of this server
    if entry is None or entry.key is None:
        return []
    known = paramiko.HostKeys()
    for each in entry.hostnames:
        known.add(each, entry.key.get_name(), entry.key)
    return [entry.key] if known.check(name, entry.key) else []
