"""The operator's own docker credentials for a registry, as `docker login` left them; none of it stays on a node."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.types.diagnostic import Diagnostic, Problem

LOGIN = "Log in where gpuplan runs:\n    docker login {registry}"


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
        why = "it is not a docker configuration"
        raise Problem(_unusable(registry, source, why, "Correct it, or log in anew.")) from error
    helper = known.get_credential_store(registry)
    told = f"{source} (docker-credential-{helper})" if helper else source
    if helper and shutil.which(f"docker-credential-{helper}") is None:
        raise Problem(_unusable(registry, told, "the helper is not installed", f"Install docker-credential-{helper}."))
    try:
        found = known.resolve_authconfig(registry)
    except (errors.DockerException, OSError, ValueError, KeyError) as error:
        fix = f"See that the helper runs: docker-credential-{helper} get"
        raise Problem(_unusable(registry, told, "the helper failed", fix)) from error.with_traceback(None)
    return Credentials(registry, told, dict(found or {}))


def refused(given: Credentials) -> tuple[str, str]:
    """What to say, and to do, where a registry refused: the place that was looked at, and never what stood there."""
    fix = LOGIN.format(registry="" if given.registry == "docker.io" else given.registry).rstrip()
    if not given.source:
        return f"There are no docker credentials here (~/.docker/config.json) for {given.registry}.", fix
    if not given.config:
        return f"{given.source} has no credentials for {given.registry}.", fix
    return f"It was given what {given.source} has for {given.registry}.", fix


def _unusable(registry: str, source: str, why: str, fix: str) -> Diagnostic:
    detail = f"Credentials for {registry} were looked for in {source}: {why}."
    return Diagnostic("Docker credentials cannot be used", detail, fix)
