"""Logging in: which keys are offered, in which order, and what is said when none was right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko

from gpuplan.transport.ssh.config import SshRoute
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


class Unusable(Exception):
    """A key file that cannot be used; says why and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = fix


def authenticate(transport: paramiko.Transport, route: SshRoute) -> None:
    """Log in with a public key; never asks for anything.

    Raises:
        Problem: the named key file cannot be used, or the server took none of the keys.
    """
    tried: list[str] = []
    refused = ""
    for title, key in _candidates(route, tried):
        tried.append(title)
        try:
            missing = transport.auth_publickey(route.user, key)
        except paramiko.BadAuthenticationType as error:
            raise _failed(route, tried, f" The server accepts only: {', '.join(error.allowed_types)}.") from error
        except paramiko.AuthenticationException as error:
            refused = str(error)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise _failed(route, tried, f" The server then closed the connection ({error}).") from error
        else:
            if not missing:
                return
            raise _failed(route, tried, f" The server also requires: {', '.join(missing)}.")
    raise _failed(route, tried, " The server did not answer in time." if "timeout" in refused.lower() else "")


def load_key(path: Path) -> paramiko.PKey:
    """A private key from a file.

    Raises:
        Unusable: it is missing, not readable, encrypted, or no private key.
    """
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError as error:
        raise Unusable(f"{path} does not exist", "Correct ansible_ssh_private_key_file, or create the key.") from error
    except OSError as error:
        raise Unusable(
            f"{path} cannot be read ({error.strerror})", f"Make it readable for your user: chmod 600 {path}"
        ) from error
    except (paramiko.PasswordRequiredException, TypeError) as error:
        fix = f"Load it into an ssh-agent (ssh-add {path}) and remove ansible_ssh_private_key_file; gpuplan never asks."
        raise Unusable(f"{path} is encrypted with a passphrase", fix) from error
    except (paramiko.SSHException, ValueError) as error:
        raise Unusable(f"{path} is not a supported private key", "Use an Ed25519, ECDSA or RSA key.") from error
    except Exception as error:  # the key parsers below paramiko raise types of their own
        raise Unusable(
            f"{path} cannot be used ({type(error).__name__})", "Use an Ed25519, ECDSA or RSA key."
        ) from error


def _candidates(route: SshRoute, tried: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    """The inventory's key alone; otherwise the agent's, those of the ssh_config, then the usual ones."""
    if route.private_key:
        yield _named_key(route)
        return
    if not (route.identities_only and route.keys):
        for key in paramiko.Agent().get_keys():
            yield f"agent: {key.fingerprint}", key
    usual = [str(Path.home() / ".ssh" / name) for name in DEFAULT_KEYS]
    for path in map(Path, route.keys or usual):
        try:
            yield str(path), load_key(path)
        except Unusable as error:
            if path.is_file():
                tried.append(f"{error.why}, so it was not offered")


def _named_key(route: SshRoute) -> tuple[str, paramiko.PKey]:
    try:
        return route.private_key, load_key(Path(route.private_key))
    except Unusable as error:
        detail = f"{error.why}."
        raise Problem(
            Diagnostic("Cannot use the private key", detail, error.fix, address=route.node), Exit.UNREAD
        ) from error


def _failed(route: SshRoute, tried: list[str], more: str) -> Problem:
    keys = "; ".join(tried) or "none (no ssh-agent with keys, and no key file in ~/.ssh)"
    detail = f"{route.address} rejected the login of {route.user}. Keys tried: {keys}.{more}"
    fix = (
        f"Add your public key to ~{route.user}/.ssh/authorized_keys on the node, "
        "or correct ansible_user or ansible_ssh_private_key_file."
    )
    return Problem(Diagnostic("SSH authentication failed", detail, fix, address=route.node), Exit.UNREAD)


# Host keys: checked against known_hosts, never added.

SYSTEM_FILES = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


class KnownHosts:
    """What the known_hosts files say of one SSH server."""

    def __init__(self, route: SshRoute) -> None:
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
            raise self._problem(
                "The node's host key is revoked",
                f"A known_hosts file marks {_shown(key)} as @revoked.",
                "Do not connect. Find out why the key was revoked, and give the node a new host key.",
            )
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
            f"The SSH server of {self._route.known_as} presents {_shown(key)}, but known_hosts has {known}. "
            "Either the node was reinstalled, or the connection is being intercepted."
        )
        remove = f"ssh-keygen -R '{self._route.known_as}' -f {self._file}"
        fix = f"If the node was reinstalled, run\n    {remove}\n{self._adding()}"
        return self._problem("The node's host key has changed", detail, fix)

    def _unknown(self, key: paramiko.PKey) -> Problem:
        detail = f"{self._route.known_as} presents {_shown(key)}, and no known_hosts file has a key for it."
        return self._problem(
            "The node's host key is unknown", detail, f"Compare the fingerprint with the node's own.\n{self._adding()}"
        )

    def _adding(self) -> str:
        if self._route.jumps:
            return (
                f"Then connect once with ssh to add it:\n    ssh -J {','.join(self._route.jumps)} {self._route.address}"
            )
        return f"Then run\n    ssh-keyscan -p {self._route.port} {self._route.address} >> {self._file}"

    def _problem(self, summary: str, detail: str, fix: str) -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._route.node), Exit.UNREAD)


def _shown(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"


def _files(route: SshRoute) -> Sequence[Path]:
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
        return []  # an invalid line is ignored, as ssh does
    if entry is None or entry.key is None:
        return []
    known = paramiko.HostKeys()
    for each in entry.hostnames:
        known.add(each, entry.key.get_name(), entry.key)
    return [entry.key] if known.check(name, entry.key) else []
