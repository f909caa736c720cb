"""Images: their names in one form, and the changes that bring one to the node or take away what gpuplan brought."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuplan.planfile.schema import ContainerSection
from gpuplan.planfile.sources.archive import ArchivedImage, read_archive
from gpuplan.resources.container.fields.field import Report
from gpuplan.resources.container.read import ObservedContainers, ObservedImage
from gpuplan.resources.container.resolve import DesiredContainer
from gpuplan.resources.container.spec import Archived, ContainerSpec
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Verb
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject

IMAGE_KIND = "image"
"""Images are in nobody's wishes, so they are neither recorded nor a finding of a drift check; the room brings them
along for its containers and remembers which of them it brought."""
FETCHED: JsonObject = {"brought": True}
"""What is remembered of an image that was not on the node before."""


@dataclass(frozen=True)
class ImageRequest:
    """An image as containers need it."""

    name: str
    archive: str = ""
    pull: str = "missing"
    platform: str = ""
    ids: tuple[str, ...] = ()
    """Ids under which the engine may know what the archive holds; empty where nothing can be said."""


@lru_cache(maxsize=1 << 14)
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


def is_pinned(name: str) -> bool:
    """True for a name that can never mean another image: a digest, or an id."""
    return "@" in name or name.startswith("sha256:")


def short_digest(digest: str) -> str:
    """An id or a digest as people read it."""
    return digest.removeprefix("sha256:")[:12]


def image_address(node: str, name: str) -> Address:
    """An image's address, by its canonical name."""
    return Address(node, IMAGE_KIND, canonical_name(name))


def find_image(name: str, images: Iterable[ObservedImage]) -> ObservedImage | None:
    """The image of the node that a name means now; None where it is not there.

    In containerd's store the id of an image is the digest of its manifest or index.
    """
    wanted = canonical_name(name)
    for image in images:
        if image.id == name or wanted in _names(image) or wanted.endswith(f"@{image.id}"):
            return image
    return None


def images_of(containers: Iterable[Live], observed: ObservedContainers) -> tuple[Address, ...]:
    """The images of containers, under every name that they have on the node."""
    found: dict[Address, None] = {}
    for live in containers:
        image = observed.image(live.image_id)
        for name in (live.image, *(_names(image) if image else ())):
            found[image_address(observed.node, name)] = None
    return tuple(found)


def images_to_fetch(making: Iterable[ContainerSpec], observed: ObservedContainers) -> Iterator[Change]:
    """One change for each image that the containers to be made need and that has to be fetched first."""
    wishes: dict[str, ImageRequest] = {}
    for spec in making:
        image = find_image(spec.image, observed.images)
        ids = spec.archived.manifests if observed.engine.containerd_store else spec.archived.configs
        here = image is not None and (not ids or image.id in ids)
        if (spec.pull == "always" and not is_pinned(spec.image)) or (
            not here and (spec.archive or spec.pull != "never")
        ):
            wish = wishes.get(canonical_name(spec.image), ImageRequest(spec.image))
            wish = replace(wish, archive=wish.archive or spec.archive, ids=wish.ids or ids)
            wish = replace(wish, platform=wish.platform or spec.platform)
            wishes[canonical_name(spec.image)] = replace(wish, pull="always") if spec.pull == "always" else wish
    for wish in wishes.values():
        yield _bring(wish, image_address(observed.node, wish.name), observed)


def images_to_remove(
    wanted: Set[str], staying: Iterable[Live], record: Record, observed: ObservedContainers
) -> Iterator[Change]:
    """One change for each image that gpuplan brought and that nothing needs any more.

    `wanted` are canonical names, `staying` the containers, whoever made them, that this change set leaves on the node.
    An image that one of them was made from stays as long as it has no other tag: the engine would not let it go (moby,
    daemon/images/image_delete.go). One that is gone is forgotten: somebody else might bring it one day, and it would
    count as ours.
    """
    used = {live.image_id for live in staying}
    for address, fact in sorted(record.remembered.items()):
        if address.kind != IMAGE_KIND or fact != FETCHED or address.name in wanted:
            continue
        image = find_image(address.name, observed.images)
        if image is None or image.id not in used or _tags(image) - {address.name}:
            yield _take_away(address, image)


@lru_cache(maxsize=1 << 12)
def _all_names(tags: tuple[str, ...], digests: tuple[str, ...]) -> frozenset[str]:
    """Kept, since each container of a node is looked up among all of its images."""
    return frozenset(map(canonical_name, (*tags, *digests)))


def _names(image: ObservedImage) -> frozenset[str]:
    return _all_names(image.tags, image.digests)


def _tags(image: ObservedImage) -> frozenset[str]:
    return frozenset(map(canonical_name, image.tags))


def _bring(wish: ImageRequest, address: Address, observed: ObservedContainers) -> Change:
    here = find_image(wish.name, observed.images)
    other = here is not None and bool(wish.ids) and here.id not in wish.ids
    why = "the archive holds another image under this name" if other else "the plan file says pull: always"
    title = f"load image {wish.name} from {wish.archive}" if wish.archive else f"pull image {wish.name}"
    arguments = {
        "image": wish.name,
        "archive": wish.archive,
        "pull": wish.pull,
        "platform": wish.platform,
        "ids": list(wish.ids),
    }
    return Change(
        address,
        Action.UPDATE if here else Action.CREATE,
        (FieldChange("archive", None, wish.archive),) if wish.archive else (),
        reasons=(why,) if here else (),
        steps=(
            Step("bring", address, Verb.UPDATE if here else Verb.CREATE, title, arguments, makes=(address,)),
        ),
    )  # fmt: skip


def _take_away(address: Address, image: ObservedImage | None) -> Change:
    title = f"remove image {address.name}" if image else f"forget that image {address.name} was brought"
    step = Step("take-away", address, Verb.DELETE, title, {"image": address.name}, frees=(address,))
    return Change(
        address,
        Action.DELETE,
        (FieldChange("id", image.id, None),) if image else (),
        reasons=("gpuplan brought it, and no container needs it any more" if image else "it is gone from the node",),
        steps=(step,),
    )


_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PATH}(?:/{_PATH})*(?::\w[\w.-]{{0,127}})?(?:@[a-z0-9]+:[A-Za-z0-9]+)?", re.ASCII
)
"""Every image reference, and little else (distribution reference grammar): names are in lower case, a host need not."""
_HOW_TO_SAVE = "Write it with docker save -o FILE NAME:TAG."


def image_of(stated: ContainerSection, plan_file: str, fault: Report) -> str:
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


def archived_image(stated: ContainerSection, image: str, plan_file: str, fault: Report) -> Archived:
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


def _held(archive: str, plan_file: str, fault: Report) -> Sequence[ArchivedImage] | None:
    """What an archive holds; None, and a fault, where it cannot be used."""
    try:
        return read_archive(plan_file, archive)
    except (OSError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else wrong
        detail = f"{archive}: {why}."
        fault("archive", "An image archive cannot be used", detail, _HOW_TO_SAVE)
        return None


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
