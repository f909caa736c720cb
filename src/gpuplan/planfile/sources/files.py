"""The files of a model's source directory: finds them, refuses what a node cannot take, hashes each content once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from gpuplan.types.diagnostic import Diagnostic, Location

CONFIG = "config.pbtxt"
VERSION = re.compile(r"^(0|[1-9][0-9]*)$")
"""Names of version directories; Triton passes over a number with leading zeros."""
_READ_AS = re.compile(r"^ *([+-]?[0-9]+)")
HIGHEST = 2**63 - 1
"""The highest version; a number beyond it ends Triton 2.51.0."""
MOST_FILES = 10_000
LEFT_OUT = re.compile(r"^(\..*|__pycache__|.*\.pyc|.*~|#.*#|.*\.sw[a-p])$")
"""Left behind: hidden files (.git, .gitkeep, .DS_Store), Python's caches, and editors' backup and swap files, which
would make Triton reload a model for nothing."""


@dataclass
class SourceScan:
    """What lies in a source directory, by path relative to it."""

    root: Path
    outside: bool = False
    """True where links are followed wherever they lead, as Triton does in a repository that it serves as it lies."""
    files: dict[str, Path] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    """Directories right below the root."""
    versions: list[int] = field(default_factory=list)
    """Those of them that are versions."""
    faults: list[Diagnostic] = field(default_factory=list)

    def below(self, folder: str) -> bool:
        """True where a file lies at `folder` or under it."""
        return folder in self.files or any(path.startswith(f"{folder}/") for path in self.files)


def read_as(folder: str) -> int | None:
    """The version that Triton takes a directory for; None where it passes over it.

    It reads the number at the start of the name and heeds nothing behind it: 2.bak is version 2, which it then looks
    for in a directory 2 (GetVersions in model_lifecycle.cc of triton-inference-server/core).
    """
    number = _READ_AS.match(folder)
    return None if number is None or (folder[0] == "0" and len(folder) > 1) else int(number[1])


def scan(root: Path, *, outside: bool = False) -> SourceScan:
    """Everything under `root`; links are followed as long as they stay inside it, or wherever they lead."""
    found = SourceScan(root, outside)
    _walk(found, root, "", ())
    found.versions.sort()
    if len(found.files) > MOST_FILES:
        detail = f"{root} holds more than {MOST_FILES} files; a model directory holds versions of one model."
        found.faults.append(_fault("Too many files in model source", detail, root))
    return found


def _walk(found: SourceScan, folder: Path, prefix: str, above: tuple[Path, ...]) -> None:
    try:
        entries = sorted(folder.iterdir())
        here = folder.resolve()
    except OSError as error:
        detail = f"{folder}: {error.strerror or error}."
        found.faults.append(_fault("Cannot read model source", detail, folder, "Make the directory readable."))
        return
    if here in above:
        detail = f"{folder} is a link to one of its own parent directories."
        found.faults.append(_fault("Symbolic link loop", detail, folder))
        return
    for entry in entries:
        if len(found.files) > MOST_FILES:
            return
        if not LEFT_OUT.match(entry.name):
            _take(found, entry, f"{prefix}{entry.name}", (*above, here))


def _take(found: SourceScan, entry: Path, path: str, above: tuple[Path, ...]) -> None:
    refused = next(_refusals(found, entry), None)
    if refused is not None:
        found.faults.append(refused)
    elif entry.is_dir():
        if "/" not in path:
            found.folders.append(path)
            if VERSION.match(path) and int(path) <= HIGHEST:
                found.versions.append(int(path))
        _walk(found, entry, f"{path}/", above)
    else:
        found.files[path] = entry


def _refusals(found: SourceScan, entry: Path) -> Iterator[Diagnostic]:
    root = found.root
    if not entry.name.isprintable() or not _encodable(entry.name):
        yield _fault("Invalid file name", f"{entry!r} has a name that is not printable text.", root)
    if entry.is_symlink() and not (found.outside and entry.exists()) and not _inside(entry, root):
        target = entry.readlink()
        detail = f"{entry} is a link to {target}, which is not in the source directory."
        yield _fault("Link leaves the source directory", detail, entry, "Replace it with a copy or a hard link.")
    elif not _regular(entry):
        yield _fault(
            "Not a regular file",
            f"{entry} is neither a file nor a directory.",
            entry,
            "Remove it from the source directory.",
        )


def _encodable(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _inside(entry: Path, root: Path) -> bool:
    try:
        return entry.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def _regular(entry: Path) -> bool:
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _fault(summary: str, detail: str, path: Path, fix: str = "") -> Diagnostic:
    return Diagnostic(summary, detail, fix, Location(str(path)))


LARGE = 64 * 1024
"""Bytes from which on a hash is worth a row in the user's cache: fewer are read as fast as they are looked up."""
KEPT = 100_000
"""How many hashes the cache holds; the oldest go."""
SETTLED = 2.0
"""Seconds since its last change after which a file's time stamps can be trusted to tell of the next one."""
_TABLE = "CREATE TABLE IF NOT EXISTS hashes (path BLOB PRIMARY KEY, state TEXT NOT NULL, sha256 TEXT NOT NULL)"


def sha256_of(path: Path) -> tuple[str, int]:
    """SHA-256 in hexadecimal and size in bytes of a regular file.

    Raises:
        OSError: the file cannot be read.
    """
    stat = path.stat()
    if time.time() - max(stat.st_mtime, stat.st_ctime) < SETTLED:
        return _read(path), stat.st_size
    state = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    return _remembered(str(path.absolute()), state), stat.st_size


@lru_cache(maxsize=65536)
def _remembered(path: str, state: tuple[int, int, int, int]) -> str:
    if state[0] < LARGE:
        return _read(Path(path))
    key = (os.fsencode(path), " ".join(map(str, state)))
    known = _in_cache(("SELECT sha256 FROM hashes WHERE path = ? AND state = ?", key))
    if known:
        return known
    found = _read(Path(path))
    _in_cache(
        ("INSERT OR REPLACE INTO hashes VALUES (?, ?, ?)", (*key, found)),
        ("DELETE FROM hashes WHERE rowid <= (SELECT max(rowid) FROM hashes) - ?", (KEPT,)),
    )
    return found


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("gpuplan") / "sha256.sqlite"


def _in_cache(*statements: tuple[str, Sequence[object]]) -> str:
    """Run statements in one transaction; the first value that the last one gives, empty where it gives none.

    A cache that cannot be read costs only time; a damaged one is re-created.
    """
    import sqlite3

    file = _file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        with contextlib.closing(sqlite3.connect(file)) as cache, cache:
            cache.execute("PRAGMA synchronous = OFF")
            cache.execute(_TABLE)
            rows = [cache.execute(text, values).fetchone() for text, values in statements]
    except (sqlite3.OperationalError, OSError):
        return ""
    except sqlite3.DatabaseError:
        file.unlink(missing_ok=True)
        return ""
    return str(rows[-1][0]) if rows[-1] else ""
