"""Images: their names in one form, and which image of the node a name means."""

from __future__ import annotations

from collections.abc import Iterable

from gpuplan.kinds.container.read import Image


def canonical_name(name: str) -> str:
    """The familiar form with its tag: ``docker.io/library/ubuntu`` is ``ubuntu:latest``.

    A digest makes a tag beside it meaningless (distribution reference grammar), so it goes.
    """
    named, _, digest = name.partition("@")
    for prefix in ("index.docker.io/", "docker.io/", "library/"):
        named = named.removeprefix(prefix)
    path, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:
        path, tag = named, "latest"
    return f"{path}@{digest}" if digest else f"{path}:{tag}"


def find(name: str, images: Iterable[Image]) -> Image | None:
    """The image of the node that a name means now; None where it is not there."""
    wanted = canonical_name(name)
    for image in images:
        names = image.digests if "@" in wanted else image.tags
        if image.id == name or any(canonical_name(each) == wanted for each in names):
            return image
    return None
