"""Logging in: which keys are offered, in which order, and what is said when none was right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import paramiko

from gpuplan.transport.sshconfig import Route
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


class Unusable(Exception):
    """A key file that cannot be used; says why and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = fix


def authenticate(transport: paramiko.Transport, route: Route) -> None:
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
            raise _failed(route, tried, f" It accepts only {', '.join(error.allowed_types)}.") from error
        except paramiko.AuthenticationException as error:
            refused = str(error)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise _failed(route, tried, f" Then it ended the connection ({error}).") from error
        else:
            if not missing:
                return
            raise _failed(route, tried, f" It wants more than a key: {', '.join(missing)}.")
    raise _failed(route, tried, " No answer in time." if "timeout" in refused.lower() else "")


def load_key(path: Path) -> paramiko.PKey:
    """A private key from a file.

    Raises:
        Unusable: it is missing, not readable, encrypted, or no private key.
    """
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError as error:
        raise Unusable(f"{path} is not there", "Correct ansible_ssh_private_key_file, or create the key.") from error
    except OSError as error:
        raise Unusable(f"{path} cannot be read ({error.strerror})", f"Make it yours: chmod 600 {path}") from error
    except (paramiko.PasswordRequiredException, TypeError) as error:
        fix = (
            f"Load it into an ssh-agent (ssh-add {path}) and leave out ansible_ssh_private_key_file: nothing is asked."
        )
        raise Unusable(f"{path} is encrypted with a passphrase", fix) from error
    except (paramiko.SSHException, ValueError) as error:
        raise Unusable(f"{path} holds no private key that is supported", "Use an Ed25519, ECDSA or RSA key.") from error
    except Exception as error:  # the key parsers below paramiko raise types of their own
        raise Unusable(
            f"{path} cannot be used ({type(error).__name__})", "Use an Ed25519, ECDSA or RSA key."
        ) from error


def _candidates(route: Route, tried: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
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


def _named_key(route: Route) -> tuple[str, paramiko.PKey]:
    try:
        return route.private_key, load_key(Path(route.private_key))
    except Unusable as error:
        detail = f"The private key {error.why}."
        raise Problem(
            Diagnostic("The private key cannot be used", detail, error.fix, address=route.node), Exit.UNREAD
        ) from error


def _failed(route: Route, tried: list[str], more: str) -> Problem:
    keys = "; ".join(tried) or "none: there is no ssh-agent with keys and no key file in ~/.ssh"
    detail = f"{route.address} did not let in {route.user}. Keys tried: {keys}.{more}"
    fix = (
        f"Put the public key into ~{route.user}/.ssh/authorized_keys there, "
        "or set ansible_user or ansible_ssh_private_key_file."
    )
    return Problem(Diagnostic("SSH authentication failed", detail, fix, address=route.node), Exit.UNREAD)
