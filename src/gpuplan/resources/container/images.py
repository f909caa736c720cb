"""Images: their names in one form, and the changes that bring one to the node or take away what gpuplan brought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuplan.resources.container.read import ObservedContainers, ObservedImage
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Verb
from gpuplan.types.record import Record
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
