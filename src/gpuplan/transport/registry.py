"""Asking registries what tags mean now, through the node's engine, since only the node need reach them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gpuplan.transport.credentials import credentials_for, refused
from gpuplan.transport.session import Session
from gpuplan.types.diagnostic import Problem
from gpuplan.types.snapshot import Probe, ProbeError
from gpuplan.types.value import Json

if TYPE_CHECKING:
    import docker

PATIENCE = 20.0
"""Seconds that one registry may take."""


def ask_registries(session: Session, images: Iterable[str]) -> Probe:
    """The probe `registry` of docs/snapshot.md: the digest of each image's tag, or why it is not known.

    A registry that lets its time pass is not asked for its other images.
    """
    began = time.monotonic()
    found: dict[str, Json] = {}
    silent: set[str] = set()
    try:
        engine = session.docker()
        for image in images:
            registry = _registry(image)
            asked_at = time.monotonic()
            found[image] = {"problem": f"{registry} does not answer."} if registry in silent else _asked(engine, image)
            if time.monotonic() - asked_at >= PATIENCE:
                silent.add(registry)
    except Problem as problem:
        said = problem.diagnostics[0]
        return Probe(error=ProbeError("docker_error", f"{said.summary}: {said.detail}"))
    return Probe({"images": found}, seconds=round(time.monotonic() - began, 4))


def _registry(image: str) -> str:
    from docker import auth, errors

    try:
        return str(auth.resolve_repository_name(image)[0])
    except errors.DockerException:
        return image


def _asked(engine: docker.APIClient, image: str) -> Mapping[str, Json]:
    """GET /distribution/NAME/json, with the operator's credentials in a header."""
    import requests
    from docker import auth

    try:
        given = credentials_for(image)
        header = {"X-Registry-Auth": auth.encode_header(dict(given.config)).decode()} if given.config else {}
        url = f"{engine.base_url}/v{engine.api_version}/distribution/{image}/json"
        answer = engine.get(url, headers=header, timeout=PATIENCE)
        said = answer.json()
        if answer.ok:
            return {"digest": str(said["Descriptor"]["digest"])}
        problem = str(said.get("message") or answer.status_code)
        if answer.status_code in (401, 403) or "unauthorized" in problem or "denied" in problem:
            problem = f"{problem} {refused(given)[0]}"
    except Problem as error:
        problem = error.diagnostics[0].detail
    except (requests.RequestException, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"the engine's answer is not understood ({type(error).__name__})"
    return {"problem": problem}
