"""Tags: whether a container runs the image that its name means, and what is said where that name has moved on.

A container keeps the id of the image that it was made of. A tag that names another image since, on the node or in its
registry, is told and replaces nothing; a digest, an id or an archive with another content does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuplan.resources.container.images import canonical_name, find_image, is_pinned, short_digest
from gpuplan.resources.container.read import ObservedContainers, ObservedImage
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.container.steps import DesiredContainer
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.change import FieldChange
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import Desired

ARCHIVE_CHANGED = "the archive holds another image than the one that the container was made of"
_REPLACE = "To have it run that image:\n    gpuplan apply PLAN -i INVENTORY --replace {address}"


@dataclass(frozen=True)
class MovedTag:
    """A tag that names another image now than the one that a container runs."""

    where: str
    """On the node, or in its registry."""
    before: str
    after: str


def images_to_look_up(desired: Sequence[Desired]) -> tuple[str, ...]:
    """Images with `pull: always`: their registries are asked at each plan whether the tag has moved."""
    images = [str(each.spec.get("image")) for each in desired if each.spec.get("pull") == "always"]
    return tuple(name for name in dict.fromkeys(images) if not is_pinned(name))


def image_differs(
    spec: ContainerSpec, live: Live, observed: ObservedContainers
) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference between the image that a container runs and the one that it is to run, where that is a change."""
    if spec.image == live.image_id:
        return None, ()
    if ids := archive_ids(spec, observed):
        if live.image_id in ids:
            return None, ()
        sides = (
            f"{canonical_name(live.image)} ({short_digest(live.image_id)})",
            f"{spec.image} ({short_digest(ids[0])})",
        )
        return FieldChange("image", *sides), (ARCHIVE_CHANGED,)
    if canonical_name(live.image) == canonical_name(spec.image):
        return None, ()
    wanted = find_image(spec.image, observed.images)
    if wanted is not None and wanted.id == live.image_id:
        return None, ()
    return FieldChange("image", live.image, spec.image), ()


def moved_tag(spec: ContainerSpec, live: Live, observed: ObservedContainers) -> MovedTag | None:
    """Where the tag of a container has moved on; None for one that is named by digest, by id or by archive."""
    if is_pinned(spec.image) or archive_ids(spec, observed) or canonical_name(live.image) != canonical_name(spec.image):
        return None
    here = find_image(spec.image, observed.images)
    if here is not None and here.id != live.image_id:
        return MovedTag(f"on {observed.node}", short_digest(live.image_id), short_digest(here.id))
    said = observed.registry.get(spec.image)
    has = _digests(spec.image, observed.image(live.image_id))
    if said is None or not said.digest or not has or said.digest in has:
        return None
    return MovedTag("in its registry", short_digest(sorted(has)[0]), short_digest(said.digest))


def tag_moved(wanted: DesiredContainer, live: Live, observed: ObservedContainers) -> Iterator[Diagnostic]:
    """The finding: the tag moved, and the container goes on with the image that it was made of."""
    found = moved_tag(wanted.spec, live, observed)
    if found is not None:
        yield Diagnostic(
            "A tag has moved",
            f"{wanted.address.name} runs {wanted.spec.image} as it was ({found.before}); {found.where} that tag now "
            f"names {found.after}.",
            _REPLACE.format(address=wanted.address),
            where=wanted.desired.where,
            address=str(wanted.address),
            severity=Severity.WARNING,
        )


def registry_silent(wanted: DesiredContainer, observed: ObservedContainers) -> Iterator[Diagnostic]:
    """The registry was asked for the tag, and what it said is not a digest."""
    said = observed.registry.get(wanted.spec.image)
    if said is not None and said.problem:
        yield Diagnostic(
            "A registry did not say what a tag means",
            f"{wanted.spec.image}, asked from {observed.node}: {said.problem}",
            "Whether the tag has moved is not known. Look at the registry, or leave pull: always out.",
            where=wanted.desired.where,
            address=str(wanted.address),
            severity=Severity.WARNING,
        )


def image_impossible(wanted: DesiredContainer, observed: ObservedContainers) -> Iterator[Diagnostic]:
    """Why a container cannot be made of its image here: nothing can bring it, or it is for another platform."""
    spec, node = wanted.spec, observed.node
    image = find_image(spec.image, observed.images)
    architecture = spec.platform.partition("/")[2].partition("/")[0] or observed.engine.architecture
    if image is None and not spec.archive and (spec.pull == "never" or spec.image.startswith("sha256:")):
        why = "the plan file says pull: never" if spec.pull == "never" else "no registry gives an image by its id"
        yield _refused(
            wanted,
            "An image is not on the node",
            f"{spec.image} is not on {node}, and {why}.",
            f"Bring it there (docker load, docker pull), or name it by tag or digest for {wanted.address.name}.",
        )
    stands = (
        image is not None and spec.pull != "always" and (not spec.archive or image.id in archive_ids(spec, observed))
    )
    has = image.architecture if image and stands else spec.archived.platform.partition("/")[2].partition("/")[0]
    if has and architecture and has != architecture:
        needs = f"{spec.platform} is wanted" if spec.platform else f"the node is linux/{architecture}"
        yield _refused(
            wanted,
            "An image is for another platform",
            f"{spec.archive or spec.image} holds linux/{has}, and {needs}.",
            "Name an image of that platform; where the node emulates the other one, state platform.",
        )


def archive_ids(spec: ContainerSpec, observed: ObservedContainers) -> tuple[str, ...]:
    """Ids under which the engine may know what the archive holds.

    An engine that keeps images in containerd's store calls them by their manifest, which only an archive in the OCI
    layout has; without one, nothing can be said.
    """
    return spec.archived.manifests if observed.engine.containerd_store else spec.archived.configs


def _digests(name: str, image: ObservedImage | None) -> frozenset[str]:
    """The digests that an image has from the repository of a name."""
    if image is None:
        return frozenset()
    repository = canonical_name(name).rpartition(":")[0]
    known = (canonical_name(each).partition("@") for each in image.digests)
    return frozenset(digest for place, _, digest in known if place == repository)


def _refused(wanted: DesiredContainer, summary: str, detail: str, fix: str) -> Diagnostic:
    return Diagnostic(summary, detail, fix, where=wanted.desired.where, address=str(wanted.address))
