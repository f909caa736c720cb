"""Image archives (`docker save`) beside the plan file: which image one holds, each file opened once."""

from __future__ import annotations

import json
import tarfile
from functools import lru_cache
from pathlib import Path

_MANIFEST_LIMIT = 1 << 20


def tag_in_archive(plan_file: str, archive: str) -> str:
    """The one tag that an archive's manifest.json names (Docker image specification v1.2).

    A file is opened again only when its size or the times of its last change differ.

    Raises:
        ValueError: it is not such an archive, or does not hold exactly one tagged image.
        OSError: it cannot be read.
    """
    path = (Path(plan_file).parent / archive).absolute()
    stat = path.stat()
    found = _tags(str(path), (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    if found is None:
        raise ValueError("it is not an image archive as docker save writes it")
    if len(found) != 1:
        raise ValueError(f"it holds {len(found)} tagged images, where one is needed")
    return found[0]


@lru_cache(maxsize=64)
def _tags(path: str, state: tuple[int, int, int, int]) -> tuple[str, ...] | None:
    """The tags in an archive; None where it is none. The state of the file is there for the cache alone."""
    del state
    try:
        with tarfile.open(path) as opened:
            manifest = opened.extractfile("manifest.json")
            images = json.loads(manifest.read(_MANIFEST_LIMIT)) if manifest else []
        return tuple(str(tag) for image in images for tag in image.get("RepoTags") or ())
    except (tarfile.TarError, KeyError, EOFError, AttributeError, TypeError, ValueError):
        return None
