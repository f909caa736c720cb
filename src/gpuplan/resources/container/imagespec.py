"""Image spec: the image that a container states, and what the archive beside the plan file holds of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuplan.planfile.schema import Container
from gpuplan.planfile.sources.archive import Held, look_into
from gpuplan.resources.container.images import canonical_name
from gpuplan.resources.container.options import Fault
from gpuplan.resources.container.shape import Archived

_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PATH}(?:/{_PATH})*(?::\w[\w.-]{{0,127}})?(?:@[a-z0-9]+:[A-Za-z0-9]+)?", re.ASCII
)
"""Every image reference, and little else (distribution reference grammar): names are in lower case, a host need not."""
_HOW_TO_SAVE = "Write it with docker save -o FILE NAME:TAG."


def image_of(stated: Container, plan_file: str, fault: Fault) -> str:
    """The image by its name, as it is stated or as the archive has it; empty, and a fault, where there is none."""
    if stated.image:
        if not _IMAGE.fullmatch(stated.image):
            detail, fix = (
                f"{stated.image!r} is not a reference such as NAME:TAG or HOST:PORT/NAME@DIGEST.",
                "Correct it.",
            )
            fault("image", "An image's name is not understood", detail, fix)
        return stated.image
    if not stated.archive:
        fault("", "A container without an image", "Neither image nor archive is stated.", "Add image: NAME:TAG.")
        return ""
    held = _held(stated.archive, plan_file, fault)
    if held is None:
        return ""
    tags = [tag for image in held for tag in image.tags]
    if len(tags) != 1:
        detail = f"{stated.archive}: it holds {len(tags)} tagged images, where one is needed."
        fault("archive", "An image archive cannot be used", detail, "Add image: NAME:TAG.")
        return ""
    return tags[0]


def archived_image(stated: Container, image: str, plan_file: str, fault: Fault) -> Archived:
    """What the archive holds under the image's name."""
    archive = stated.archive
    held = _held(archive, plan_file, fault) if archive and image else None
    if held is None:
        return Archived()
    for each in held:
        if canonical_name(image) in map(canonical_name, each.tags):
            return Archived(each.configs, each.manifests, each.platform)
    names = ", ".join(tag for each in held for tag in each.tags) or "no tagged image"
    detail = f"{archive}: it does not hold {image}, but {names}."
    fault("archive", "An image archive cannot be used", detail, "Name one of them, or another archive.")
    return Archived()


def _held(archive: str, plan_file: str, fault: Fault) -> Sequence[Held] | None:
    """What an archive holds; None, and a fault, where it cannot be used."""
    try:
        return look_into(plan_file, archive)
    except (OSError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else wrong
        detail = f"{archive}: {why}."
        fault("archive", "An image archive cannot be used", detail, _HOW_TO_SAVE)
        return None
