"""Asking registries what tags mean now, through the node's engine, since only the node need reach them."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuplan.transport.session import Session
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.snapshot import Probe, ProbeError
from gpuplan.types.value import Json

# The operator's own docker credentials for a registry, as `docker login` left them; none of it stays on a node.

LOGIN = "Log in on this machine:\n    docker login {registry}"


@dataclass(frozen=True)
class Credentials:
    """What is known here for one registry."""

    registry: str
    """``nvcr.io``, or ``docker.io``."""
    source: str
    """The file that was looked at, with the helper that it names; empty where there is none."""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As the SDK takes them for X-Registry-Auth; empty = the registry is asked without."""


def credentials_for(image: str) -> Credentials:
    """What $DOCKER_CONFIG or ~/.docker/config.json says of an image's registry: auths, credHelpers or credsStore.

    Raises:
        Problem: the file is damaged, or the helper that it names failed; never with a word of what it said.
    """
    from docker import auth, errors
    from docker.utils.config import find_config_file

    try:
        registry = auth.resolve_repository_name(image)[0]
    except errors.DockerException:
        return Credentials("", "")
    found_file = find_config_file()
    if found_file is None:
        return Credentials(registry, "")
    source = os.fsdecode(found_file) if not isinstance(found_file, int) else str(found_file)
    try:
        known = auth.load_config()
    except (errors.DockerException, ValueError, TypeError, AttributeError) as error:
        why = "not a docker configuration file"
        raise Problem(_unusable(registry, source, why, "Correct the file, or run docker login again.")) from error
    helper = known.get_credential_store(registry)
    place = f"{source} (docker-credential-{helper})" if helper else source
    if helper and shutil.which(f"docker-credential-{helper}") is None:
        raise Problem(
            _unusable(
                registry, place, f"docker-credential-{helper} is not installed", f"Install docker-credential-{helper}."
            )
        )
    try:
        found = known.resolve_authconfig(registry)
    except (errors.DockerException, OSError, ValueError, KeyError) as error:
        fix = f"Run docker-credential-{helper} list to see why."
        raise Problem(_unusable(registry, place, f"docker-credential-{helper} failed", fix)) from error.with_traceback(
            None
        )
    return Credentials(registry, place, dict(found or {}))


def refused(given: Credentials) -> tuple[str, str]:
    """What to say, and to do, where a registry refused: the place that was looked at, and never what stood there."""
    fix = LOGIN.format(registry="" if given.registry == "docker.io" else given.registry).rstrip()
    if not given.source:
        return f"This machine has no docker credentials for {given.registry} (~/.docker/config.json).", fix
    if not given.config:
        return f"{given.source} has no credentials for {given.registry}.", fix
    return f"The credentials for {given.registry} in {given.source} were sent.", fix


def _unusable(registry: str, source: str, why: str, fix: str) -> Diagnostic:
    detail = f"Cannot read the credentials for {registry} from {source}: {why}."
    return Diagnostic("Cannot read docker credentials", detail, fix)


if TYPE_CHECKING:
    import docker

PATIENCE = 20
"""Seconds that one registry may take."""


def ask_registries(session: Session, images: Iterable[str]) -> Probe:
    """The probe `registry` of docs/snapshot.md: the digest of each image's tag, or why it could not be read.

    A registry that times out once is not asked for its other images.
    """
    started = time.monotonic()
    digests: dict[str, Json] = {}
    timed_out: set[str] = set()
    try:
        with _patience(session.docker()) as engine:
            for image in images:
                registry = _registry(image)
                if registry in timed_out:
                    digests[image] = {"problem": f"{registry} does not answer."}
                    continue
                asked_at = time.monotonic()
                digests[image] = _query(engine, image)
                if time.monotonic() - asked_at >= PATIENCE:
                    timed_out.add(registry)
    except Problem as problem:
        diagnostic = problem.diagnostics[0]
        return Probe(error=ProbeError("docker_error", f"{diagnostic.summary}: {diagnostic.detail}"))
    return Probe({"images": digests}, seconds=round(time.monotonic() - started, 4))


@contextlib.contextmanager
def _patience(engine: docker.APIClient) -> Iterator[docker.APIClient]:
    """The session's client with a short timeout; nothing else uses it while a node is read."""
    usual, engine.timeout = engine.timeout, PATIENCE
    try:
        yield engine
    finally:
        engine.timeout = usual


def _registry(image: str) -> str:
    from docker import auth, errors

    try:
        return str(auth.resolve_repository_name(image)[0])
    except errors.DockerException:
        return image


def _query(engine: docker.APIClient, image: str) -> Mapping[str, Json]:
    """The digest that the registry has for an image's tag, asked by the engine with the operator's credentials."""
    import requests
    from docker import errors

    try:
        credentials = credentials_for(image)
        answer: Any = engine.inspect_distribution(  # type: ignore[no-untyped-call]
            image, auth_config=dict(credentials.config) or None
        )
        return {"digest": str(answer["Descriptor"]["digest"])}
    except errors.APIError as error:
        problem = str(error.explanation or error.status_code)
        if error.status_code in (401, 403) or "unauthorized" in problem or "denied" in problem:
            problem = f"{problem} {refused(credentials)[0]}"
    except Problem as error:
        problem = error.diagnostics[0].detail
    except (errors.DockerException, requests.RequestException, ValueError, KeyError, TypeError) as error:
        problem = f"Invalid answer from the engine ({type(error).__name__})."
    return {"problem": problem}
