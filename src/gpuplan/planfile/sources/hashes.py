"""SHA-256 of the operator's files, each content read once: what is not tiny is remembered between runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

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

    A cache that cannot be had costs time, nothing else; one that is damaged is begun anew.
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
