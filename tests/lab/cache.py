"""Directories that are made once and kept for as long as what they are made from stays the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from tests.lab.place import Place

UNFINISHED = "making-"


def digest(*parts: str | bytes) -> str:
    """One short digest of many parts."""
    whole = sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        whole.update(len(raw).to_bytes(8, "big") + raw)
    return whole.hexdigest()[:16]


def digest_files(paths: Iterable[Path]) -> str:
    """One short digest of files by content."""
    return digest(*(part for path in sorted(paths) for part in (path.name, path.read_bytes())))


def cached(place: Place, name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The directory NAME-KEY of the cache, made by `make` where it is not there; older ones of that name go.

    It appears whole or not at all: a run that was killed while making it leaves nothing that counts.
    """
    target = place.cache / f"{name}-{key}"
    if target.exists():
        return target
    place.cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(mkdtemp(prefix=f"{UNFINISHED}{name}-", dir=place.cache))
    scratch.chmod(0o755)
    print(f"  making {name} …", flush=True)
    make(scratch)
    for old in place.cache.glob(f"{name}-*"):
        shutil.rmtree(old)
    scratch.rename(target)
    return target


def discard_unfinished(place: Place) -> None:
    """Remove what killed runs left half made; a program that such a run had called may still be writing there."""
    for left in place.cache.glob(f"{UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)
