"""Faults: the engine's calls that its SDK has no types for, and what it says when it refuses, with what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuplan.resources.container.read import is_leftover
from gpuplan.resources.container.replacement import EXIT_TIMEOUT, MARGIN
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.docker import Live, is_copy, live
from gpuplan.resources.snapshot.labels import NAME, PLAN, TRITON
from gpuplan.resources.snapshot.raw import mapping
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    import docker


class EngineApi(Protocol):
    """What `docker.APIClient` does without types in its stubs."""

    def inspect_image(self, image: str) -> Mapping[str, Json]:
        """GET /images/NAME/json."""
        ...

    def load_image(self, data: Iterable[bytes]) -> Iterator[Mapping[str, object]]:
        """POST /images/load, with the engine's words as they come."""
        ...

    def create_container_from_config(self, config: Mapping[str, Json], name: str) -> Mapping[str, Json]:
        """POST /containers/create with a body of our own."""
        ...


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    summary: str
    fix: str


def _rule(pattern: str, summary: str, fix: str) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), summary, fix)


_PRIVATE, _REFUSED = "The image was not found, or it is private", "The registry refused to give the image"
REFUSALS = (_PRIVATE, _REFUSED)
"""Summaries of what may come of missing or wrong credentials."""
_RULES = (
    _rule(
        r"bind source path does not exist",
        "A directory is not on the node",
        "Make it, or mount there what it lies on (mount, /etc/fstab); an empty one would hide that it is missing.",
    ),
    _rule(
        r"exec: .*(executable file not found|no such file or directory|permission denied)|exec format error",
        "The container's command cannot be run",
        "Correct command: or entrypoint: in the plan file, or use an image that has that program, for this platform.",
    ),
    _rule(
        r"container name .* is already in use",
        "The container's name is taken",
        "Rename or remove the container that has it, or choose another name in the plan file.",
    ),
    _rule(
        r"port is already allocated|address already in use",
        "A host port is taken",
        "Find who listens there (docker ps; ss -ltnp on the node), or publish another port.",
    ),
    _rule(
        r"pull access denied",
        _PRIVATE,
        "Check the name of the image; if it is private, log in where gpuplan runs: docker login.",
    ),
    _rule(
        r"manifest.* (unknown|not found)|not found: manifest|no such image|repository .* not found|does not exist",
        "The image was not found",
        "Check the name and the tag of the image, and that the node reaches its registry.",
    ),
    _rule(
        r"(^|[^n] )denied\b|unauthorized|authentication required|no basic auth",
        _REFUSED,
        "Log in to the registry where gpuplan runs (docker login), and check the name of the image.",
    ),
    _rule(
        r"could not select device driver",
        "The engine cannot give GPUs to containers",
        "Install nvidia-container-toolkit on the node, then restart Docker: systemctl restart docker.",
    ),
    _rule(
        r"unknown runtime|unknown or invalid runtime",
        "The engine does not have that runtime",
        "Run nvidia-ctk runtime configure --runtime=docker on the node, then restart Docker.",
    ),
    _rule(
        r"unknown device|device error|no such device",
        "A GPU or slice of the container is not on the node",
        "It went away in the meantime; run gpuplan plan again.",
    ),
    _rule(
        r"no space left on device|disk quota",
        "The node's disk is full",
        "Make room where Docker keeps its images: docker system df tells what takes it.",
    ),
    _rule(
        r"network .* not found",
        "The container's network does not exist",
        "Create it on the node: docker network create NAME.",
    ),
    _rule(
        r"dial tcp|no such host|i/o timeout|connection refused|tls|x509",
        "The registry was not reached",
        "Check from the node that the registry answers, its proxy settings, and its certificate.",
    ),
    _rule(
        r"permission denied.*docker|docker.*permission denied",
        "The engine may not be used",
        "Put the user into the group docker, or set ansible_become: true in the inventory.",
    ),
)


def post_update(engine: docker.APIClient, container: str, body: JsonObject) -> bool:
    """POST /containers/ID/update; the SDK's own method knows no NanoCpus. False where the engine has no such call.

    Raises:
        docker.errors.APIError: the engine refused.
    """
    from docker.errors import create_api_error_from_http_exception
    from requests import HTTPError

    url = f"{engine.base_url}/v{engine.api_version}/containers/{container}/update"
    answer = engine.post(url, json=body, timeout=engine.timeout)
    if answer.status_code in (404, 405) and answer.text.strip() in ("Not Found", "Method Not Allowed"):
        return False  # Podman before 5 answers so; Docker's own 404 is JSON
    try:
        answer.raise_for_status()
    except HTTPError as fault:
        create_api_error_from_http_exception(fault)
    return True


@contextmanager
def explain_engine_errors(address: str, doing: str) -> Iterator[None]:
    """Within it, whatever the engine or the way to it raises becomes a Problem that says what to do.

    Raises:
        Problem: in place of the SDK's errors.
    """
    import requests
    import urllib3
    from docker.errors import APIError, DockerException

    try:
        yield
    except APIError as fault:
        raise Problem(explain(address, doing, str(fault.explanation or fault))) from fault
    except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as fault:
        raise Problem(_unreachable(address, doing, str(fault))) from fault


def explain(address: str, doing: str, said: str) -> Diagnostic:
    """The engine's words with the next step for them."""
    line = " ".join(said.split())
    for rule in _RULES:
        if rule.pattern.search(line):
            return Diagnostic(rule.summary, f"{doing}: {line}", rule.fix, address=address)
    return Diagnostic(
        "The Docker engine refused",
        f"{doing}: {line}",
        "Correct what it names in the plan file; where it names nothing, look at journalctl -u docker on the node.",
        address=address,
    )


def _unreachable(address: str, doing: str, said: str) -> Diagnostic:
    line = " ".join(said.split())
    fix = "See that the engine runs (systemctl status docker), and that the user may use it (group docker)."
    return Diagnostic("The Docker engine did not answer", f"{doing}: {line}", fix, address=address)


ENGINE_STOPS = 10
"""Seconds between stop signal and kill where a container does not say (Docker's own default)."""
SERVER_STOPS = EXIT_TIMEOUT + MARGIN
"""The same for a model server, which waits for requests in flight."""


def own_containers(address: Address, context: ApplyContext, adopts: str = "") -> tuple[Live, ...]:
    """All containers of this plan file with this name, leftovers included, and the one with the id `adopts`."""
    engine = context.docker()
    filters = {"label": [f"{PLAN}={context.plan}", f"{NAME}={address.name}"]}
    with explain_engine_errors(str(address), "listing containers"):
        listed = engine.containers(all=True, filters=filters)
        found = [live(mapping(engine.inspect_container(each["Id"]))) for each in listed]
    ours = tuple(each for each in found if not _copied(each, address, context))
    other = find_container(adopts, address, context) if adopts else None
    return (*ours, *([other] if other is not None and not other.plan else []))


def find_container(name: str, address: Address, context: ApplyContext) -> Live | None:
    """The container of that name or id, whoever made it."""
    from docker.errors import NotFound

    with explain_engine_errors(str(address), f"looking for {name}"):
        try:
            return live(mapping(context.docker().inspect_container(name)))
        except NotFound:
            return None


def stop_container(container: Live, address: Address, context: ApplyContext) -> None:
    """Stop a container, within its own stop timeout."""
    if not container.busy:
        return
    if container.status == "paused":
        unpause_container(container, address, context)
    timeout = container.config.get("StopTimeout")
    patience = SERVER_STOPS if TRITON in container.labels else ENGINE_STOPS
    with explain_engine_errors(str(address), f"stopping {container.name}"):
        context.docker().stop(container.id, timeout=timeout if isinstance(timeout, int) else patience)
    context.say(f"stopped {container.name}")


def unpause_container(container: Live, address: Address, context: ApplyContext) -> None:
    """Let a paused container go on."""
    with explain_engine_errors(str(address), f"continuing {container.name}"):
        context.docker().unpause(container.id)
    context.say(f"continued {container.name}")


def remove_container(container: Live, address: Address, context: ApplyContext) -> None:
    """Stop and remove a container with its unnamed volumes."""
    stop_container(container, address, context)
    with explain_engine_errors(str(address), f"removing {container.name}"):
        context.docker().remove_container(container.id, v=True, force=True)
    context.say(f"removed {container.name}")


def rename_container(container: Live, name: str, address: Address, context: ApplyContext) -> None:
    """Give a container another name."""
    with explain_engine_errors(str(address), f"renaming {container.name} to {name}"):
        context.docker().rename(container.id, name)


def _copied(found: Live, address: Address, context: ApplyContext) -> bool:
    """True for what somebody made of an image of a container of ours; what has a name of ours is not asked about."""
    from docker.errors import ImageNotFound

    if found.name == address.name or is_leftover(found):
        return False
    with explain_engine_errors(str(address), f"looking at the image of {found.name}"):
        engine: EngineApi = context.docker()
        try:
            image = mapping(engine.inspect_image(found.image_id)["Config"])
            return is_copy(found.name, found.labels, mapping(image.get("Labels")))
        except ImageNotFound:
            return False
