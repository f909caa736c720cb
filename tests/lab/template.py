"""An image store that was loaded once, to be linked into every node instead of loading archives again."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.lab import running
from tests.lab.cache import cached, digest
from tests.lab.place import Node, Place

SEED = Node("seed", "none", 9, (), ())
"""A node that lives only while the template is made."""


def image_template(place: Place, lower: Path, archives: list[Path]) -> Path:
    """The stores `image` and `overlay2` of an engine that holds these archives."""
    key = digest(*(archive.parent.name for archive in archives))

    def make(target: Path) -> None:
        running.furnish(place, SEED, None)
        try:
            running.start(place, SEED, lower)
            running.wait_ready(place, SEED)
            for archive in archives:
                running.engine(place, SEED).load(archive)
        finally:
            running.stop(place, SEED)
        for name in ("image", "overlay2"):
            shutil.move(place.node(SEED) / "docker" / name, target / name)
        shutil.rmtree(place.node(SEED))

    return cached(place, "template", key, make)
