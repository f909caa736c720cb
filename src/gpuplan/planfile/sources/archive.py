"""Image archives (`docker save`) next to the plan file: which images one holds, each file opened once."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LARGEST = 1 << 22
"""Bytes of one document in an archive: the engine bears no larger config or manifest (distribution, 4 MiB)."""
MOST = 1 << 26
"""Bytes of all documents together."""
MEMBERS = 65536
"""Entries of an archive."""
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_NOT_SAVED = "it is not an image archive as docker save writes it"
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
"""Annotations under which an index names its images (containerd; OCI image layout 1.0)."""


@dataclass(frozen=True)
class ArchivedImage:
    """One image of an archive."""

    tags: tuple[str, ...]
    configs: tuple[str, ...] = ()
    """Digest of its config, by which an engine calls it in its own store."""
    manifests: tuple[str, ...] = ()
    """Digests of its manifests and of the index that names it, where the archive is an OCI layout as well."""
    platform: str = ""
    """``linux/amd64``; empty where it does not say."""


def read_archive(plan_file: str, archive: str) -> tuple[ArchivedImage, ...]:
    """The images that an archive's manifest.json names (Docker image specification v1.2).

    A file is opened again only when its size or the times of its last change differ.

    Raises:
        ValueError: it is not such an archive, or is damaged.
        OSError: it cannot be read.
    """
    path = (Path(plan_file).parent / archive).absolute()
    stat = path.stat()
    found = _held(str(path), (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    if isinstance(found, str):
        raise ValueError(found)
    return found


@lru_cache(maxsize=64)
def _held(path: str, state: tuple[int, int, int, int]) -> tuple[ArchivedImage, ...] | str:
    """The images in an archive, or why it cannot be used. The state of the file is there for the cache alone."""
    del state
    with Path(path).open("rb") as file:
        if file.read(4) == _ZSTANDARD:
            return "it is compressed with zstd, which not every Docker engine can load; unpack it with zstd -d"
    try:
        documents = _documents(path)
        if "manifest.json" in documents:
            return tuple(_images(documents))
        return _without_manifest(documents)
    except (tarfile.TarError, EOFError, OSError, OverflowError) as fault:
        return f"it is damaged, or no archive ({fault})"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _NOT_SAVED


def _documents(path: str) -> Mapping[str, bytes]:
    """What may be JSON in an archive, by name, read once from front to back: a compressed one cannot be read otherwise.

    Raises:
        ValueError: there is more of it than any image needs.
    """
    found: dict[str, bytes] = {}
    size = 0
    with tarfile.open(path) as opened:
        for number, member in enumerate(opened):
            if number >= MEMBERS:
                raise ValueError("too many entries")
            if not member.isfile() or member.size > LARGEST:
                continue
            content = opened.extractfile(member)
            head = content.read(1) if content else b""
            if content and head in (b"{", b"["):
                found[member.name.removeprefix("./")] = head + content.read()
                size += member.size
            if size > MOST:
                raise ValueError("too many documents")
    return found


def _images(documents: Mapping[str, bytes]) -> Iterator[ArchivedImage]:
    index = json.loads(documents.get("index.json", b"{}")).get("manifests") or ()
    images = json.loads(documents["manifest.json"])
    for image in images:
        config = documents[image["Config"]]
        said = json.loads(config)
        tags = tuple(str(tag) for tag in image.get("RepoTags") or ())
        digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
        own = [entry for entry in index if len(images) == 1 or _names(entry) & set(tags)]
        parts = [said.get("os") or "linux", said.get("architecture"), said.get("variant")]
        platform = "/".join(str(part) for part in parts if part) if said.get("architecture") else ""
        yield ArchivedImage(tags, (digest,), tuple(str(entry["digest"]) for entry in own), platform)


def _names(entry: Mapping[str, Mapping[str, str]]) -> set[str]:
    annotations = entry.get("annotations") or {}
    return {annotations[name] for name in _NAMES if name in annotations}


def _without_manifest(documents: Mapping[str, bytes]) -> str:
    if "oci-layout" in documents:
        return (
            "it is an OCI layout alone, which not every Docker engine can load; convert it with "
            "skopeo copy oci-archive:FILE docker-archive:NEW:NAME:TAG"
        )
    return _NOT_SAVED
