"""SHA-256 of the operator's files, each content read once: large files are remembered between runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path

LARGE = 16 * 1024 * 1024
"""Bytes from which on a hash is worth a file in the user's cache directory."""
KEPT = 4096
"""How many hashes the cache directory holds; the oldest go."""
SETTLED = 2.0
"""Seconds since its last change after which a file's time stamps can be trusted to tell of the next one."""


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
    key = hashlib.sha256(f"{path}\0{state}".encode(errors="surrogateescape")).hexdigest()
    kept = _directory() / key
    with contextlib.suppress(OSError):
        found = kept.read_text("ascii").strip()
        if len(found) == 64:
            return found
    found = _read(Path(path))
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        _keep(kept, found)
    return found


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _directory() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("gpuplan") / "sha256"


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text, "ascii")
    fresh.replace(path)
    kept = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)
    for old in kept[:-KEPT]:
        old.unlink(missing_ok=True)
