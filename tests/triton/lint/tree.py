"""Small repositories written out of data: path → text, `""` for a path that ends with a slash, or bytes in hex."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write(root: Path, files: Mapping[str, Any]) -> None:
    """Write each file below `root`; a path that ends with a slash is a directory, `{hex: …}` bytes."""
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            place.mkdir(exist_ok=True)
        elif isinstance(content, Mapping):
            place.write_bytes(bytes.fromhex(content["hex"]))
        else:
            place.write_text(content, "utf-8")
