"""Images: list, inspect, pull, load, tag, remove."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Iterator
from typing import BinaryIO

from gpuplan.simulator.engine.http import (
    Daemon,
    EngineError,
    EngineRequest,
    EngineResponse,
    Route,
    answer,
    changing,
    nothing,
    reading,
    release_of,
    route,
    stream,
)
from gpuplan.simulator.engine.lookup import find_image
from gpuplan.simulator.engine.lookup import images as filtered
from gpuplan.simulator.engine.registry import familiar, pulled
from gpuplan.simulator.state import Document, NodeState, SimulatedImage, items, mapping, text, texts

_GRAPH = "/var/lib/docker/overlay2"
_LARGEST_JSON = 4 * 1024 * 1024
_GONE = {"Container": (1, 45), "ContainerConfig": (1, 45), "VirtualSize": (1, 44)}
"""Fields that an image does not have any more, by the API version that was the first without them."""
_EMPTY: Document = {
    "Hostname": "", "Domainname": "", "User": "", "AttachStdin": False, "AttachStdout": False, "AttachStderr": False,
    "Tty": False, "OpenStdin": False, "StdinOnce": False, "Env": None, "Cmd": None, "Image": "", "Volumes": None,
    "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": None,
}  # fmt: skip


def inspect(image: SimulatedImage, api: tuple[int, int]) -> Document:
    """`GET /images/NAME/json`, in that version of the API."""
    whole = _inspected(image)
    for name, first in _GONE.items():
        if api >= first:
            del whole[name]
    return whole


def _inspected(image: SimulatedImage) -> Document:
    return {
        "Id": image.id,
        "RepoTags": image.tags,
        "RepoDigests": image.digests,
        "Parent": "",
        "Comment": "",
        "Created": image.created,
        "Container": "",
        "ContainerConfig": _EMPTY,
        "DockerVersion": "",
        "Author": "",
        "Config": {**_EMPTY, **image.config},
        "Architecture": "amd64",
        "Os": "linux",
        "Size": image.size,
        "VirtualSize": image.size,
        "GraphDriver": {
            "Data": {
                "MergedDir": f"{_GRAPH}/{image.id[7:]}/merged",
                "UpperDir": f"{_GRAPH}/{image.id[7:]}/diff",
                "WorkDir": f"{_GRAPH}/{image.id[7:]}/work",
            },
            "Name": "overlay2",
        },
        "RootFS": {"Type": "layers", "Layers": image.layers},
        "Metadata": {"LastTagTime": "0001-01-01T00:00:00Z"},
    }


def listed(image: SimulatedImage) -> Document:
    """One entry of `GET /images/json`."""
    return {
        "Containers": -1,
        "Created": int(time.mktime(time.strptime(image.created[:19], "%Y-%m-%dT%H:%M:%S"))),
        "Id": image.id,
        "Labels": image.config.get("Labels"),
        "ParentId": "",
        "RepoDigests": image.digests or None,
        "RepoTags": image.tags or None,
        "SharedSize": -1,
        "Size": image.size,
        "VirtualSize": image.size,
    }


def need(state: NodeState, reference: str) -> SimulatedImage:
    """The image; 404 in the engine's words where there is none."""
    image = find_image(state, reference)
    if image is None:
        raise EngineError(404, f"no such image: {reference}: No such image: {familiar(reference)}")
    return image


def pull(state: NodeState, reference: str) -> list[Document]:
    """Pull it; returns the progress messages."""
    image = pulled(reference)
    name = familiar(reference)
    known = any(one.id == image.id for one in state.images)
    if known:
        image = next(one for one in state.images if one.id == image.id)
    _tag(state, image, name)
    return list(_progress(image, name, known))


def load(state: NodeState, archive: bytes | BinaryIO) -> list[Document]:
    """Load a `docker save` archive: its manifest names the configs, a config's digest is the image's id."""
    documents, sizes = _read(archive)
    if "manifest.json" not in documents:
        raise EngineError(500, "open /var/lib/docker/tmp/docker-import/repositories: no such file or directory")
    messages: list[Document] = []
    for entry in map(mapping, items(json.loads(documents["manifest.json"]))):
        path = text(entry.get("Config"))
        described = mapping(json.loads(documents.get(path, b"{}")))
        layers = texts(mapping(described.get("rootfs")).get("diff_ids"))
        image = SimulatedImage(
            id=f"sha256:{path.rpartition('/')[2].removesuffix('.json')}",
            tags=[],
            digests=[],
            created=text(described.get("created")) or "0001-01-01T00:00:00Z",
            size=sum(sizes.get(layer, 0) for layer in texts(entry.get("Layers"))),
            config=mapping(described.get("config")),
            layers=layers,
        )
        image = find_image(state, image.id) or image
        names = [familiar(tag) for tag in texts(entry.get("RepoTags"))]
        for name in names:
            _tag(state, image, name)
            messages.append({"stream": f"Loaded image: {name}\n"})
        if not names:
            _keep(state, image)
            messages.append({"stream": f"Loaded image ID: {image.id}\n"})
    return messages


def tag(state: NodeState, reference: str, repository: str, name: str) -> None:
    """Give an image one more name."""
    _tag(state, need(state, reference), familiar(f"{repository}:{name or 'latest'}"))


def remove(state: NodeState, reference: str, force: bool) -> list[Document]:
    """Take a name from an image, and with its last name the image."""
    image = find_image(state, reference)
    if image is None:
        raise EngineError(404, f"No such image: {familiar(reference)}")
    name = familiar(reference)
    by_name = name in image.tags
    users = [one for one in state.containers.values() if one.image == image.id]
    if users and not force and (not by_name or len(image.tags) == 1):
        short, identity = users[0].id[:12], image.id[7:19]
        if by_name:
            raise EngineError(
                409,
                f'conflict: unable to remove repository reference "{reference}" (must force) - '
                f"container {short} is using its referenced image {identity}",
            )
        raise EngineError(
            409,
            f"conflict: unable to delete {identity} (must be forced) - "
            f"image is being used by stopped container {short}",
        )
    gone = [name] if by_name else list(image.tags)
    image.tags = [one for one in image.tags if one not in gone]
    messages: list[Document] = [{"Untagged": one} for one in gone]
    if not image.tags and not users:
        state.images.remove(image)
        messages.extend({"Deleted": one} for one in (image.id, *image.layers))
    return messages


def _keep(state: NodeState, image: SimulatedImage) -> None:
    if image not in state.images:
        state.images.insert(0, image)


def _tag(state: NodeState, image: SimulatedImage, name: str) -> None:
    _keep(state, image)
    if "@" in name:
        return
    for other in state.images:
        if other is not image and name in other.tags:
            other.tags.remove(name)
    if name not in image.tags:
        image.tags.append(name)


def _read(archive: bytes | BinaryIO) -> tuple[dict[str, bytes], dict[str, int]]:
    """Small files and all sizes of the archive, read once from front to back."""
    source = io.BytesIO(archive) if isinstance(archive, bytes) else archive
    documents: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    try:
        with tarfile.open(fileobj=source, mode="r|*") as tar:
            for member in tar:
                sizes[member.name] = member.size
                json_like = member.name.endswith(".json") or "/" not in member.name or member.name.startswith("blobs/")
                if member.isfile() and member.size <= _LARGEST_JSON and json_like:
                    file = tar.extractfile(member)
                    documents[member.name] = file.read() if file else b""
    except tarfile.TarError as error:
        raise EngineError(500, f"Error processing tar file(exit status 1): {error}") from None
    return documents, sizes


def _progress(image: SimulatedImage, name: str, known: bool) -> Iterator[Document]:
    repository, _, tagged = name.partition("@")[0].rpartition(":")
    yield {
        "status": f"Pulling from {(repository or name.partition('@')[0]).removeprefix('nvcr.io/')}",
        "id": tagged or name,
    }
    if not known:
        share = image.size // max(1, len(image.layers))
        for layer in image.layers:
            short = layer[7:19]
            yield {"status": "Pulling fs layer", "progressDetail": {}, "id": short}
            for part in (share // 2, share):
                detail = {"current": part, "total": share}
                yield {"status": "Downloading", "progressDetail": detail, "progress": f"{part}/{share}", "id": short}
            yield {"status": "Download complete", "progressDetail": {}, "id": short}
            yield {"status": "Pull complete", "progressDetail": {}, "id": short}
    yield {"status": f"Digest: {image.digests[0].partition('@')[2]}"}
    newer = "Image is up to date" if known else "Downloaded newer image"
    yield {"status": f"Status: {newer} for {name}"}


# Requests about images.


def _pull(_daemon: Daemon, state: NodeState, request: EngineRequest, _name: str) -> EngineResponse:
    name, wanted = request.query.get("fromImage", ""), request.query.get("tag", "")
    if not name:
        raise EngineError(400, "repository name must have at least one component")
    separator = "@" if wanted.startswith("sha256:") else ":"
    return stream(pull(state, f"{name}{separator}{wanted}" if wanted else name))


def _load(_daemon: Daemon, state: NodeState, request: EngineRequest, _name: str) -> EngineResponse:
    return stream(load(state, request.body))


def _tag_request(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    tag(state, name, request.query.get("repo", ""), request.query.get("tag", ""))
    return nothing(201)


def _remove_image(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    return answer(remove(state, name, request.flag("force")))


def _images(state: NodeState, request: EngineRequest, _name: str) -> object:
    return [listed(one) for one in filtered(state, request)]


def _image(state: NodeState, request: EngineRequest, name: str) -> object:
    return inspect(need(state, name), release_of(state.hardware).asked(request.path))


ROUTES: tuple[Route, ...] = (
    route("GET", "/images/json", reading(_images)),
    route("POST", "/images/create", changing(_pull)),
    route("POST", "/images/load", changing(_load)),
    route("GET", "/images/(.+)/json", reading(_image)),
    route("POST", "/images/(.+)/tag", changing(_tag_request)),
    route("DELETE", "/images/(.+)", changing(_remove_image)),
)
