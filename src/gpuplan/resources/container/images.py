"""Images: names, the image that a container states, which ones to fetch and remove, and tags that have moved.

A container keeps the image that it was created from. If its tag names another image since, on the node or in its
registry, that is a warning; another digest, id or archive content replaces the container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuplan.planfile.schema import ContainerSection
from gpuplan.planfile.sources.archive import ArchivedImage, read_archive
from gpuplan.resources.container.fields.field import Report
from gpuplan.resources.container.read import ObservedContainers, ObservedImage
from gpuplan.resources.container.resolve import DesiredContainer, NodeDiff
from gpuplan.resources.container.spec import Archived, ContainerSpec
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Verb
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject

IMAGE_KIND = "image"
"""Kind of an image's address. Images are no resource of the plan file, so they are neither recorded nor drift; the
container kind fetches them for its containers and remembers which ones it fetched."""
FETCHED: JsonObject = {"fetched": True}
"""What is remembered of an image that was not on the node before."""
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PATH}(?:/{_PATH})*(?::\w[\w.-]{{0,127}})?(?:@[a-z0-9]+:[A-Za-z0-9]+)?", re.ASCII
)
"""An image reference (distribution reference grammar); a host may have upper case."""


@dataclass(frozen=True)
class ImageRequest:
    """An image as containers need it."""

    name: str
    archive: str = ""
    pull: str = "missing"
    platform: str = ""
    ids: tuple[str, ...] = ()
    """Ids that the engine may give the archive's image; empty if they are not known."""


@dataclass(frozen=True)
class MovedTag:
    """A tag that now names another image than the one that a container runs."""

    where: str
    """On the node, or in its registry."""
    before: str
    after: str


@lru_cache(maxsize=1 << 14)
def canonical_name(name: str) -> str:
    """The familiar form with its tag: ``docker.io/library/ubuntu`` is ``ubuntu:latest``.

    A digest makes a tag next to it meaningless (distribution reference grammar), so the tag is dropped.
    """
    named, _, digest = name.partition("@")
    for prefix in ("index.docker.io/", "docker.io/", "library/"):
        named = named.removeprefix(prefix)
    path, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:
        path, tag = named, "latest"
    return f"{path}@{digest}" if digest else f"{path}:{tag}"


def is_pinned(name: str) -> bool:
    """True for a name that can never mean another image: a digest or an id."""
    return "@" in name or name.startswith("sha256:")


def short_digest(digest: str) -> str:
    """An id or digest as it is shown."""
    return digest.removeprefix("sha256:")[:12]


def image_address(node: str, name: str) -> Address:
    """An image's address, by its canonical name."""
    return Address(node, IMAGE_KIND, canonical_name(name))


def find_image(name: str, images: Iterable[ObservedImage]) -> ObservedImage | None:
    """The image that a name means on the node; None if there is none.

    In containerd's store the id of an image is the digest of its manifest or index.
    """
    canonical = canonical_name(name)
    for image in images:
        if image.id == name or canonical in _names(image) or canonical.endswith(f"@{image.id}"):
            return image
    return None


def images_of(containers: Iterable[EngineContainer], observed: ObservedContainers) -> tuple[Address, ...]:
    """The images of containers, under every name that they have on the node."""
    addresses: dict[Address, None] = {}
    for live in containers:
        image = observed.image(live.image_id)
        for name in (live.image, *(_names(image) if image else ())):
            addresses[image_address(observed.node, name)] = None
    return tuple(addresses)


def stated_image(stated: ContainerSection, plan_file: str, fault: Report) -> str:
    """The name of the image, as stated or as the archive has it; empty, and a fault, if there is none."""
    if stated.image:
        if not _REFERENCE.fullmatch(stated.image):
            detail = f"{stated.image!r} is not an image reference such as NAME:TAG or HOST:PORT/NAME@DIGEST."
            fault("image", "Invalid image reference", detail, "Correct image:.")
        return stated.image
    if not stated.archive:
        fault("", "Container without an image", "It states neither image nor archive.", "Add image: NAME:TAG.")
        return ""
    images = _archive_images(stated.archive, plan_file, fault)
    if images is None:
        return ""
    tags = [tag for image in images for tag in image.tags]
    if len(tags) != 1:
        detail = f"{stated.archive} holds {len(tags)} tagged images; without image: it must hold exactly one."
        fault("archive", "Cannot use the image archive", detail, "Add image: NAME:TAG.")
        return ""
    return tags[0]


def archived_image(stated: ContainerSection, image: str, plan_file: str, fault: Report) -> Archived:
    """What the archive holds under the image's name."""
    archive = stated.archive
    images = _archive_images(archive, plan_file, fault) if archive and image else None
    if images is None:
        return Archived()
    for held in images:
        if canonical_name(image) in map(canonical_name, held.tags):
            return Archived(held.configs, held.manifests, held.platform)
    names = ", ".join(tag for held in images for tag in held.tags) or "no tagged image"
    detail = f"{archive} does not hold {image}; it holds {names}."
    fault("archive", "Cannot use the image archive", detail, "Correct image:, or state another archive.")
    return Archived()


def archive_ids(spec: ContainerSpec, observed: ObservedContainers) -> tuple[str, ...]:
    """Ids that the engine may give the archive's image.

    With containerd's store an image's id is its manifest, which only an archive in the OCI layout has; without one
    nothing is known.
    """
    return spec.archived.manifests if observed.engine.containerd_store else spec.archived.configs


def images_to_fetch(specs: Iterable[ContainerSpec], observed: ObservedContainers) -> Iterator[Change]:
    """One change for each image that the containers to be created need and that has to be pulled or loaded."""
    requests: dict[str, ImageRequest] = {}
    for spec in specs:
        image, ids = find_image(spec.image, observed.images), archive_ids(spec, observed)
        on_node = image is not None and (not ids or image.id in ids)
        always = spec.pull == "always" and not is_pinned(spec.image)
        if always or (not on_node and (spec.archive or spec.pull != "never")):
            name = canonical_name(spec.image)
            request = requests.get(name, ImageRequest(spec.image))
            requests[name] = replace(
                request,
                archive=request.archive or spec.archive,
                ids=request.ids or ids,
                platform=request.platform or spec.platform,
                pull="always" if spec.pull == "always" else request.pull,
            )
    for request in requests.values():
        yield _fetch(request, observed)


def images_to_remove(desired: Set[str], staying: Iterable[EngineContainer], node: NodeDiff) -> Iterator[Change]:
    """One change for each image that gpuplan fetched and that is no longer needed.

    `desired` are canonical names; `staying` are the containers, managed or not, that the change set leaves. The image
    of one of them stays unless it has another tag: the engine would refuse to remove it (moby,
    daemon/images/image_delete.go). An image that is already gone is dropped from the node's record: if it were pulled
    by hand one day, it would count as fetched by gpuplan.
    """
    used = {live.image_id for live in staying}
    for address, entry in sorted(node.context.record.remembered.items()):
        if address.kind != IMAGE_KIND or entry != FETCHED or address.name in desired:
            continue
        image = find_image(address.name, node.observed.images)
        if image is None or image.id not in used or _tags(image) - {address.name}:
            yield _remove(address, image)


def images_to_look_up(desired: Sequence[Desired]) -> tuple[str, ...]:
    """Images with `pull: always`: each plan asks their registries whether the tag has moved."""
    images = [str(resource.spec.get("image")) for resource in desired if resource.spec.get("pull") == "always"]
    return tuple(name for name in dict.fromkeys(images) if not is_pinned(name))


def image_differs(
    spec: ContainerSpec, live: EngineContainer, observed: ObservedContainers
) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference between the image that a container runs and the one that it should run."""
    if spec.image == live.image_id:
        return None, ()
    if ids := archive_ids(spec, observed):
        if live.image_id in ids:
            return None, ()
        before = f"{canonical_name(live.image)} ({short_digest(live.image_id)})"
        reason = "the archive holds another image than the one that the container was created from"
        return FieldChange("image", before, f"{spec.image} ({short_digest(ids[0])})"), (reason,)
    if canonical_name(live.image) == canonical_name(spec.image):
        return None, ()
    image = find_image(spec.image, observed.images)
    if image is not None and image.id == live.image_id:
        return None, ()
    return FieldChange("image", live.image, spec.image), ()


def moved_tag(spec: ContainerSpec, live: EngineContainer, observed: ObservedContainers) -> MovedTag | None:
    """How the tag of a container has moved; None for an image that is named by digest, id or archive."""
    if is_pinned(spec.image) or archive_ids(spec, observed) or canonical_name(live.image) != canonical_name(spec.image):
        return None
    image = find_image(spec.image, observed.images)
    if image is not None and image.id != live.image_id:
        return MovedTag(f"on {observed.node}", short_digest(live.image_id), short_digest(image.id))
    answer = observed.registry.get(spec.image)
    running = _digests(spec.image, observed.image(live.image_id))
    if answer is None or not answer.digest or not running or answer.digest in running:
        return None
    return MovedTag("in its registry", short_digest(sorted(running)[0]), short_digest(answer.digest))


def tag_moved(desired: DesiredContainer, live: EngineContainer, observed: ObservedContainers) -> Iterator[Diagnostic]:
    """The tag moved, and the container keeps the image that it was created from."""
    tag = moved_tag(desired.spec, live, observed)
    if tag is not None:
        yield desired.issue(
            "Image tag has moved",
            f"{desired.address.name} still runs {tag.before} of {desired.spec.image}; {tag.where} that tag now names "
            f"{tag.after}.",
            f"To run the new image:\n    gpuplan apply PLAN -i INVENTORY --replace {desired.address}",
            Severity.WARNING,
        )


def registry_errors(desired: DesiredContainer, observed: ObservedContainers) -> Iterator[Diagnostic]:
    """The registry could not be asked for the tag."""
    answer = observed.registry.get(desired.spec.image)
    if answer is not None and answer.problem:
        yield desired.issue(
            "Cannot look up an image tag",
            f"{desired.spec.image}, looked up for {observed.node}: {answer.problem}. Whether the tag has moved is not "
            "known.",
            "Check the registry, or remove pull: always.",
            Severity.WARNING,
        )


def image_unusable(desired: DesiredContainer, observed: ObservedContainers) -> Iterator[Diagnostic]:
    """The container's image cannot be fetched, or is for another platform than the node's."""
    spec, node = desired.spec, observed.node
    image = find_image(spec.image, observed.images)
    if image is None and not spec.archive and (spec.pull == "never" or spec.image.startswith("sha256:")):
        why = "the plan file states pull: never" if spec.pull == "never" else "a registry cannot serve an image by id"
        yield desired.issue(
            "Image is not on the node",
            f"{spec.image} is not on {node}, and {why}.",
            f"Load or pull it on the node (docker load, docker pull), or state a tag or digest for "
            f"{desired.address.name}.",
        )
    architecture = _architecture(spec.platform) or observed.engine.architecture
    stays = (
        image is not None and spec.pull != "always" and (not spec.archive or image.id in archive_ids(spec, observed))
    )
    actual = image.architecture if image and stays else _architecture(spec.archived.platform)
    if actual and architecture and actual != architecture:
        needs = f"the plan file states {spec.platform}" if spec.platform else f"the node is linux/{architecture}"
        yield desired.issue(
            "Image is for another platform",
            f"{spec.archive or spec.image} is for linux/{actual}, but {needs}.",
            "Use an image for that platform. If the node emulates the other one, state platform:.",
        )


def _architecture(platform: str) -> str:
    return platform.partition("/")[2].partition("/")[0]


def _archive_images(archive: str, plan_file: str, fault: Report) -> Sequence[ArchivedImage] | None:
    """The images of an archive; None, and a fault, if it cannot be read."""
    try:
        return read_archive(plan_file, archive)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        fix = "Create it with docker save -o FILE NAME:TAG."
        fault("archive", "Cannot use the image archive", f"{archive}: {why}.", fix)
        return None


def _digests(name: str, image: ObservedImage | None) -> frozenset[str]:
    """The digests that an image has from the repository of a name."""
    if image is None:
        return frozenset()
    repository = canonical_name(name).rpartition(":")[0]
    known = (canonical_name(reference).partition("@") for reference in image.digests)
    return frozenset(digest for path, _, digest in known if path == repository)


@lru_cache(maxsize=1 << 12)
def _all_names(tags: tuple[str, ...], digests: tuple[str, ...]) -> frozenset[str]:
    """Cached, because each container of a node is looked up among all its images."""
    return frozenset(map(canonical_name, (*tags, *digests)))


def _names(image: ObservedImage) -> frozenset[str]:
    return _all_names(image.tags, image.digests)


def _tags(image: ObservedImage) -> frozenset[str]:
    return frozenset(map(canonical_name, image.tags))


def _fetch(request: ImageRequest, observed: ObservedContainers) -> Change:
    address, image = image_address(observed.node, request.name), find_image(request.name, observed.images)
    differs = image is not None and bool(request.ids) and image.id not in request.ids
    why = "the archive holds another image with this name" if differs else "the plan file states pull: always"
    from_archive = f"load image {request.name} from {request.archive}"
    arguments: JsonObject = {
        "image": request.name,
        "archive": request.archive,
        "pull": request.pull,
        "platform": request.platform,
        "ids": list(request.ids),
    }
    step = Step(
        "fetch",
        address,
        Verb.UPDATE if image else Verb.CREATE,
        from_archive if request.archive else f"pull image {request.name}",
        arguments,
        makes=(address,),
    )
    return Change(
        address,
        Action.UPDATE if image else Action.CREATE,
        (FieldChange("archive", None, request.archive),) if request.archive else (),
        reasons=(why,) if image else (),
        steps=(step,),
    )


def _remove(address: Address, image: ObservedImage | None) -> Change:
    title = f"remove image {address.name}" if image else f"remove image {address.name} from the node's record"
    step = Step("remove-image", address, Verb.DELETE, title, {"image": address.name}, frees=(address,))
    why = "gpuplan fetched it, and no container needs it any more" if image else "it is no longer on the node"
    return Change(
        address,
        Action.DELETE,
        (FieldChange("id", image.id, None),) if image else (),
        reasons=(why,),
        steps=(step,),
    )
