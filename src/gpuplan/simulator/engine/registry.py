"""The simulated registries: which images can be pulled, and what is in them."""

from __future__ import annotations

import hashlib

from gpuplan.simulator.engine.http import EngineError
from gpuplan.simulator.state import Document, SimulatedImage
from gpuplan.triton.releases import release_of

TRITON = "nvcr.io/nvidia/tritonserver"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELL = ["sh", "true", "false", "sleep", "cat", "echo", "env", "ls", "tail"]
_PLAIN: dict[str, tuple[tuple[str, ...], Document, list[str]]] = {
    "busybox": (("latest", "1.36", "1.37"), {"Env": [_PATH], "Cmd": ["sh"]}, _SHELL),
    "ubuntu": (("latest", "22.04", "24.04"), {"Env": [_PATH], "Cmd": ["/bin/bash"]}, [*_SHELL, "bash"]),
    "python": (
        ("latest", "3.11", "3.12", "3.12-slim"),
        {"Env": [f"PATH=/usr/local/bin:{_PATH[5:]}", "LANG=C.UTF-8"], "Cmd": ["python3"]},
        [*_SHELL, "bash", "python3", "python"],
    ),
    "nginx": (
        ("latest", "1.27", "1.27-alpine", "stable"),
        {
            "Env": [_PATH, "NGINX_VERSION=1.27.2"],
            "Entrypoint": ["/docker-entrypoint.sh"],
            "Cmd": ["nginx", "-g", "daemon off;"],
            "ExposedPorts": {"80/tcp": {}},
            "StopSignal": "SIGQUIT",
            "Labels": {"maintainer": "NGINX Docker Maintainers <docker-maint@nginx.com>"},
        },
        [*_SHELL, "nginx", "docker-entrypoint.sh"],
    ),
}
"""Docker Hub: repository → its tags, the image's config, and the programs in it."""


def familiar(reference: str) -> str:
    """A reference as the engine shows it: without docker.io/library/, with a tag where no digest is named."""
    short = reference.removeprefix("docker.io/").removeprefix("index.docker.io/").removeprefix("library/")
    if "@" in short or ":" in short.rpartition("/")[2]:
        return short
    return f"{short}:latest"


def image_of(reference: str) -> SimulatedImage | None:
    """The image that a registry has under this reference, or None."""
    name = familiar(reference)
    if "@" in name:
        return _by_digest(name)
    repository, _, tag = name.rpartition(":")
    if repository == TRITON:
        config = _triton_config(tag)
        return _image(name, repository, config, 14_800_000_000, None) if config else None
    if repository in _PLAIN and tag in _PLAIN[repository][0]:
        _, config, programs = _PLAIN[repository]
        return _image(name, repository, config, 120_000_000, programs)
    return None


def pulled(reference: str) -> SimulatedImage:
    """The image of a pull.

    Raises:
        EngineError: in the words of Docker Engine 20.10, no such registry, repository or tag.
    """
    if image := image_of(reference):
        return image
    name = familiar(reference)
    repository = name.partition("@")[0].rpartition(":")[0] or name.partition("@")[0]
    host = repository.partition("/")[0]
    if ("." in host or ":" in host) and host != "nvcr.io":
        raise EngineError(500, f'Get "https://{host}/v2/": dial tcp: lookup {host}: no such host')
    if repository == TRITON or repository in _PLAIN:
        raise EngineError(404, f"manifest for {name} not found: manifest unknown: manifest unknown")
    raise EngineError(
        404,
        f"pull access denied for {repository}, repository does not exist or may require 'docker login': "
        "denied: requested access to the resource is denied",
    )


def _by_digest(name: str) -> SimulatedImage | None:
    repository, _, digest = name.partition("@")
    repository = repository if ":" not in repository.rpartition("/")[2] else repository.rpartition(":")[0]
    for tag in _PLAIN[repository][0] if repository in _PLAIN else ():
        image = image_of(f"{repository}:{tag}")
        if image and f"{repository}@{digest}" in image.digests:
            image.tags = []
            return image
    return None


def _image(name: str, repository: str, config: Document, size: int, programs: list[str] | None) -> SimulatedImage:
    identity = hashlib.sha256(f"image {name}".encode()).hexdigest()
    digest = hashlib.sha256(f"manifest {name}".encode()).hexdigest()
    return SimulatedImage(
        id=f"sha256:{identity}",
        tags=[name],
        digests=[f"{repository}@sha256:{digest}"],
        created="2024-10-29T22:41:31.273446251Z",
        size=size,
        config=dict(config),
        layers=[f"sha256:{hashlib.sha256(f'{name} {n}'.encode()).hexdigest()}" for n in range(4)],
        programs=programs,
    )


def _triton_config(tag: str) -> Document | None:
    release = release_of(f"{TRITON}:{tag}")
    if release is None or not release.version or tag != f"{release.name}-py3":
        return None
    return {
        "Env": [
            "PATH=/opt/tritonserver/bin:/usr/local/mpi/bin:/usr/local/nvidia/bin:/usr/local/cuda/bin:" + _PATH[5:],
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
            "LD_LIBRARY_PATH=/usr/local/cuda/compat/lib:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
            f"TRITON_SERVER_VERSION={release.version}",
            f"NVIDIA_TRITON_SERVER_VERSION={release.name}",
            "NVIDIA_PRODUCT_NAME=Triton Server",
            "TRITON_SERVER_USER=triton-server",
            "TF_ADJUST_HUE_FUSED=1",
            "TCMALLOC_RELEASE_RATE=200",
            "DCGM_VERSION=3.2.6",
        ],
        "Entrypoint": ["/opt/nvidia/nvidia_entrypoint.sh"],
        "WorkingDir": "/opt/tritonserver",
        "Labels": {
            "com.amazonaws.sagemaker.capabilities.accept-bind-to-port": "true",
            "com.amazonaws.sagemaker.capabilities.multi-models": "true",
            "com.nvidia.tritonserver.version": release.version,
            "org.opencontainers.image.ref.name": "ubuntu",
            "org.opencontainers.image.version": "22.04",
        },
    }
