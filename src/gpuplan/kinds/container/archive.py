"""Image archives (`docker save`) beside the plan file: which image one holds."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

_MANIFEST_LIMIT = 1 << 20


def tag_in_archive(plan_file: str, archive: str) -> str:
    """The one tag that an archive's manifest.json names (Docker image specification v1.2).

    Raises:
        ValueError: it is not such an archive, or does not hold exactly one tagged image.
        OSError: it cannot be read.
    """
    try:
        with tarfile.open(Path(plan_file).parent / archive) as opened:
            manifest = opened.extractfile("manifest.json")
            images = json.loads(manifest.read(_MANIFEST_LIMIT)) if manifest else []
        tags = [tag for image in images for tag in image.get("RepoTags") or ()]
    except (tarfile.TarError, KeyError, EOFError, AttributeError, TypeError) as fault:
        raise ValueError("it is not an image archive as docker save writes it") from fault
    if len(tags) != 1:
        raise ValueError(f"it holds {len(tags)} tagged images, where one is needed")
    return str(tags[0])
