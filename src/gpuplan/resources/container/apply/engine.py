"""The Docker engine of one node: calls on the containers of one address, and what to do about the engine's errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuplan.resources.container.read import is_leftover
from gpuplan.resources.container.replacement import EXIT_TIMEOUT, KILL_MARGIN
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.containers import NAME, PLAN, TRITON, EngineContainer, is_copy, parse_container
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import Json, JsonObject, mapping

if TYPE_CHECKING:
    import docker

ENGINE_STOP_TIMEOUT = 10
"""Seconds between stop signal and kill if a container does not state them (Docker's own default)."""
TRITON_STOP_TIMEOUT = EXIT_TIMEOUT + KILL_MARGIN
"""The same for a model server, which waits for requests in flight."""


class EngineApi(Protocol):
    """Methods of `docker.APIClient` that its stubs do not type."""

    def inspect_image(self, image: str) -> Mapping[str, Json]:
        """GET /images/NAME/json."""
        ...

    def load_image(self, data: Iterable[bytes]) -> Iterator[Mapping[str, object]]:
        """POST /images/load; yields the engine's events as they arrive."""
        ...

    def create_container_from_config(self, config: Mapping[str, Json], name: str) -> Mapping[str, Json]:
        """POST /containers/create with the given body."""
        ...


@dataclass(frozen=True, kw_only=True)
class EngineContext:
    """The engine as the steps of one container use it: every engine error becomes a Problem at the address."""

    address: Address
    apply: ApplyContext
    adopts: str = ""
    """Id of the unmanaged container that this one replaces; it counts as its own."""

    @property
    def name(self) -> str:
        """The container's name on the node."""
        return self.address.name

    @property
    def docker(self) -> docker.APIClient:
        """The engine's API."""
        return self.apply.docker()

    def say(self, text: str) -> None:
        """Report progress."""
        self.apply.say(text)

    def explain_errors(self, doing: str) -> AbstractContextManager[None]:
        """Turn engine errors into Problems; `doing` says what failed: “stopping web”."""
        return explain_engine_errors(str(self.address), doing)

    def find(self, name: str) -> EngineContainer | None:
        """The container with that name or id, managed or not."""
        from docker.errors import NotFound

        with self.explain_errors(f"looking for {name}"):
            try:
                return parse_container(mapping(self.docker.inspect_container(name)))
            except NotFound:
                return None

    def own_containers(self) -> tuple[EngineContainer, ...]:
        """All containers of this address, leftovers of replacements and the adopted one included."""
        filters = {"label": [f"{PLAN}={self.apply.plan}", f"{NAME}={self.name}"]}
        with self.explain_errors("listing containers"):
            listed = self.docker.containers(all=True, filters=filters)
            labelled = [parse_container(mapping(self.docker.inspect_container(entry["Id"]))) for entry in listed]
        own = tuple(container for container in labelled if not self._is_copy(container))
        adopted = self.find(self.adopts) if self.adopts else None
        return (*own, adopted) if adopted is not None and not adopted.plan else own

    def stop(self, container: EngineContainer) -> None:
        """Stop a container within its own stop timeout; a paused one is unpaused first."""
        if not container.busy:
            return
        if container.status == "paused":
            self.unpause(container)
        stated = container.config.get("StopTimeout")
        default = TRITON_STOP_TIMEOUT if TRITON in container.labels else ENGINE_STOP_TIMEOUT
        with self.explain_errors(f"stopping {container.name}"):
            self.docker.stop(container.id, timeout=stated if isinstance(stated, int) else default)
        self.say(f"stopped {container.name}")

    def unpause(self, container: EngineContainer) -> None:
        """Unpause a paused container."""
        with self.explain_errors(f"unpausing {container.name}"):
            self.docker.unpause(container.id)
        self.say(f"unpaused {container.name}")

    def remove(self, container: EngineContainer) -> None:
        """Stop a container and remove it with its anonymous volumes."""
        self.stop(container)
        with self.explain_errors(f"removing {container.name}"):
            self.docker.remove_container(container.id, v=True, force=True)
        self.say(f"removed {container.name}")

    def rename(self, container: EngineContainer, name: str) -> None:
        """Give a container another name."""
        with self.explain_errors(f"renaming {container.name} to {name}"):
            self.docker.rename(container.id, name)

    def _is_copy(self, container: EngineContainer) -> bool:
        """True if the container has its gpuplan labels from an image that was committed from one of ours."""
        from docker.errors import ImageNotFound

        if container.name == self.name or is_leftover(container):
            return False
        with self.explain_errors(f"inspecting the image of {container.name}"):
            engine: EngineApi = self.docker
            try:
                image = mapping(engine.inspect_image(container.image_id)["Config"])
            except ImageNotFound:
                return False
        return is_copy(container.name, container.labels, mapping(image.get("Labels")))


def post_update(engine: docker.APIClient, container: str, body: JsonObject) -> bool:
    """POST /containers/ID/update (the SDK's method lacks NanoCpus). False if the engine has no such call.

    Raises:
        docker.errors.APIError: the engine refused.
    """
    from docker.errors import create_api_error_from_http_exception
    from requests import HTTPError

    url = f"{engine.base_url}/v{engine.api_version}/containers/{container}/update"
    answer = engine.post(url, json=body, timeout=engine.timeout)
    if answer.status_code in (404, 405) and answer.text.strip() in ("Not Found", "Method Not Allowed"):
        return False  # Podman before 5 answers like this; Docker's own 404 is JSON
    try:
        answer.raise_for_status()
    except HTTPError as error:
        create_api_error_from_http_exception(error)
    return True


@contextmanager
def explain_engine_errors(address: str, doing: str) -> Iterator[None]:
    """Turn the errors of the SDK and of the connection to the engine into Problems with a fix.

    Raises:
        Problem: in place of the SDK's errors.
    """
    import requests
    import urllib3
    from docker.errors import APIError, DockerException

    try:
        yield
    except APIError as error:
        raise Problem(explain(address, doing, str(error.explanation or error))) from error
    except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        line = " ".join(str(error).split())
        fix = "Check that the engine runs (systemctl status docker) and that the user may use it (group docker)."
        raise Problem(Diagnostic("The Docker engine did not answer", f"{doing}: {line}", fix, address=address)) from (
            error
        )


def explain(address: str, doing: str, message: str) -> Diagnostic:
    """An error message of the engine as a diagnostic with the fix for it."""
    line = " ".join(message.split())
    for pattern, summary, fix in _RULES:
        if re.search(pattern, line, re.IGNORECASE):
            return Diagnostic(summary, f"{doing}: {line}", fix, address=address)
    return Diagnostic(
        "The Docker engine refused",
        f"{doing}: {line}",
        "Correct the plan file if the message names a setting; otherwise see journalctl -u docker on the node.",
        address=address,
    )


_PRIVATE, _REFUSED = "The image does not exist or is private", "The registry denied access to the image"
CREDENTIAL_ERRORS = (_PRIVATE, _REFUSED)
"""Summaries of errors that missing or wrong credentials may cause."""
_RULES = (
    (
        r"bind source path does not exist",
        "A directory is not on the node",
        "Create the directory, or mount the file system that holds it (mount, /etc/fstab). gpuplan does not create it: "
        "an empty directory would hide that the data is missing.",
    ),
    (
        r"exec: .*(executable file not found|no such file or directory|permission denied)|exec format error",
        "Cannot run the container's command",
        "Correct command: or entrypoint: in the plan file, or use an image for this platform that has the program.",
    ),
    (
        r"container name .* is already in use",
        "Container name already in use",
        "Rename or remove the container that has the name, or choose another name in the plan file.",
    ),
    (
        r"port is already allocated|address already in use",
        "Host port already in use",
        "Find what listens on it (docker ps; ss -ltnp on the node), or publish another port.",
    ),
    (
        r"pull access denied",
        _PRIVATE,
        "Check the name of the image. If it is private, log in on the machine that runs gpuplan: docker login.",
    ),
    (
        r"manifest.* (unknown|not found)|not found: manifest|no such image|repository .* not found|does not exist",
        "Image not found",
        "Check the image's name and tag, and that the node can reach its registry.",
    ),
    (
        r"(^|[^n] )denied\b|unauthorized|authentication required|no basic auth",
        _REFUSED,
        "Log in to the registry on the machine that runs gpuplan (docker login), and check the image's name.",
    ),
    (
        r"could not select device driver",
        "The engine cannot give GPUs to containers",
        "Install nvidia-container-toolkit on the node, then restart Docker: systemctl restart docker.",
    ),
    (
        r"unknown runtime|unknown or invalid runtime",
        "Unknown container runtime",
        "Run nvidia-ctk runtime configure --runtime=docker on the node, then restart Docker.",
    ),
    (
        r"unknown device|device error|no such device",
        "A GPU or slice of the container is not on the node",
        "It was removed in the meantime. Run gpuplan plan again.",
    ),
    (
        r"no space left on device|disk quota",
        "The node's disk is full",
        "Free space in Docker's data directory; docker system df shows what uses it.",
    ),
    (
        r"network .* not found",
        "The container's network does not exist",
        "Create it on the node: docker network create NAME.",
    ),
    (
        r"dial tcp|no such host|i/o timeout|connection refused|tls|x509",
        "Cannot reach the registry",
        "Check on the node that the registry answers, and check the proxy settings and the registry's certificate.",
    ),
    (
        r"permission denied.*docker|docker.*permission denied",
        "No permission to use the Docker engine",
        "Add the user to the group docker, or set ansible_become: true in the inventory.",
    ),
)
"""Pattern of an engine's error message, summary, fix; the first that matches counts."""
