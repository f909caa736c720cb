"""Root file systems out of the Debian packages that are installed on this machine: in seconds, without a download."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.lab.commands import LabError, call

FORMAT = "${db:Status-Status}\t${Package}\t${Version}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
MERGED = ("bin", "sbin", "lib", "lib64")
"""Directories that are links into /usr."""

LEFT_OUT = re.compile(
    r"/usr/share/(man|doc|locale|info|bash-completion|zsh|fish|zoneinfo|lintian|i18n|pixmaps|menu|bug|games)(/|$)"
    r"|/usr/share/(common-licenses|perl|dpkg|debconf)(/|$)|/usr/lib/[^/]+/(gconv|perl)(/|$)"
    r"|/usr/lib/python3[^/]*/(test|idlelib|tkinter|ensurepip|lib2to3|pydoc_data)(/|$)|/usr/lib/python3/.*/tests/"
    r"|/usr/bin/(ctr|dnet|containerd-stress|containerd-shim|containerd-shim-runc-v1|perl.*)$|/usr/sbin/ovrouter$"
    r"|/etc/(passwd|group|shadow|gshadow|hostname|hosts|resolv\.conf|ssh/ssh_host.*|ssh/sshd_config)$"
    r"|/(dev|proc|sys|tmp|run|boot|media|mnt|srv|var/run|var/lock)(/|$)"
)
"""Documentation, translations, tests, what nobody starts here, and what is this machine's own."""


@dataclass(frozen=True)
class Package:
    """One installed package; `needs` holds the alternatives of each dependency."""

    name: str
    version: str
    provides: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]


def closure(seeds: tuple[str, ...]) -> dict[str, Package]:
    """The named packages with all they depend on; LabError names those that are not installed."""
    known = _installed()
    absent = [name for name in seeds if name not in known]
    if absent:
        raise LabError(f"Debian packages are missing: {' '.join(absent)}. Run ./scripts/setup as root.")
    found: dict[str, Package] = {}
    waiting = list(seeds)
    while waiting:
        package = known[waiting.pop()]
        if package.name not in found:
            found[package.name] = package
            waiting += (name for need in package.needs for name in [n for n in need if n in known][:1])
    return found


def versions(packages: dict[str, Package]) -> str:
    """What a root file system of these packages depends on, as text."""
    return "\n".join(sorted(f"{package.name} {package.version}" for package in packages.values()))


def copy_packages(packages: dict[str, Package], target: Path) -> None:
    """Copy the packages' files from this machine, with owners, modes and links."""
    paths = sorted(_files(packages))
    for name in MERGED:
        (target / "usr" / name).mkdir(parents=True, exist_ok=True)
        (target / name).symlink_to(f"usr/{name}")
    names = "\0".join(path.lstrip("/") for path in paths).encode()
    read = ["tar", "-C", "/", "--no-recursion", "--null", "-cf", "-", "-T", "-"]
    write = ["tar", "-C", str(target), "--keep-directory-symlink", "-xf", "-"]
    with subprocess.Popen(read, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reading:
        assert reading.stdin
        with subprocess.Popen(write, stdin=reading.stdout) as writing:
            reading.stdin.write(names)
            reading.stdin.close()
    if reading.returncode or writing.returncode:
        raise LabError(f"copying packages to {target} failed")


@cache
def _installed() -> dict[str, Package]:
    """By name and by each name that a package provides; a real name wins."""
    real, provided = {}, {}
    for line in call("dpkg-query", "-W", "-f", FORMAT).splitlines():
        status, name, version, provides, needs = line.split("\t")
        if status == "installed":
            package = Package(name, version, _names(provides, ","), tuple(_names(n, "|") for n in needs.split(",")))
            real[name] = package
            provided.update(dict.fromkeys(package.provides, package))
    return provided | real


def _names(text: str, separator: str) -> tuple[str, ...]:
    return tuple(part.split()[0].split(":")[0] for part in text.split(separator) if part.strip())


def _files(packages: dict[str, Package]) -> set[str]:
    listed = set(call("dpkg-query", "-L", *packages).splitlines())
    paths = {_merged(path) for path in listed if path.startswith("/") and not LEFT_OUT.match(path)}
    compiled = {cached for path in paths if path.endswith(".py") for cached in _bytecode(path)}
    return {path for path in paths | compiled if path not in {"", "/."} and os.path.lexists(path)}


def _merged(path: str) -> str:
    """A path as it is with /bin, /lib and so on linked into /usr; empty for these links themselves."""
    first, _, rest = path.lstrip("/").partition("/")
    if first not in MERGED:
        return path
    return f"/usr/{first}/{rest}" if rest else ""


def _bytecode(path: str) -> list[str]:
    source = Path(path)
    return [str(found) for found in source.parent.glob(f"__pycache__/{source.stem}.cpython-*.pyc")]
