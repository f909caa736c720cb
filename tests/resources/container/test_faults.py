"""The engine's words, as engines and registries say them, and what the operator is told."""

from __future__ import annotations

import pytest
import requests
from docker.errors import DockerException
from urllib3.exceptions import ProtocolError

from gpuplan.resources.container.apply.engine import explain, explain_engine_errors
from gpuplan.types.diagnostic import Problem

NAME = 'Conflict. The container name "/web" is already in use by container "4f6c". You have to remove (or rename) that'
PORT = "driver failed programming external connectivity on endpoint web (65ec): Bind for 0.0.0.0:8000 failed: port is"
HOOK = (
    "failed to create shim task: OCI runtime create failed: error running hook: exit status 1, stdout: , stderr: "
    "Auto-detected mode as 'legacy'\nnvidia-container-cli: device error: MIG-dead: unknown device: unknown"
)


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        (f"{NAME} container to be able to reuse that name.", "Container name already in use"),
        (f"{PORT} already allocated", "Host port already in use"),
        ("listen tcp4 0.0.0.0:8000: bind: address already in use", "Host port already in use"),
        ("manifest for app:9 not found: manifest unknown: manifest unknown", "Image not found"),
        ("No such image: app:9", "Image not found"),
        (
            "pull access denied for app, repository does not exist or may require 'docker login': denied",
            "The image does not exist or is private",
        ),
        ("unauthorized: authentication required", "The registry denied access to the image"),
        (
            'could not select device driver "" with capabilities: [[gpu]]',
            "The engine cannot give GPUs to containers",
        ),
        ("Unknown runtime specified nvidia", "Unknown container runtime"),
        (HOOK, "A GPU or slice of the container is not on the node"),
        ("write /var/lib/docker/tmp/x: no space left on device", "The node's disk is full"),
        ("network front not found", "The container's network does not exist"),
        ('Get "https://r.example/v2/": dial tcp: lookup r.example: no such host', "Cannot reach the registry"),
        ("something that nobody has seen", "The Docker engine refused"),
    ],
)
def test_what_the_engine_says(said: str, summary: str) -> None:
    diagnostic = explain("n/container/web", "starting web", said)
    assert diagnostic.summary == summary
    assert diagnostic.fix
    assert diagnostic.detail == f"starting web: {' '.join(said.split())}"


@pytest.mark.parametrize(
    "fault",
    [
        DockerException("no server"),
        requests.ConnectionError("reset"),
        BrokenPipeError("pipe"),
        ProtocolError("Connection broken: IncompleteRead"),
    ],
)
def test_an_engine_that_does_not_answer(fault: Exception) -> None:
    with pytest.raises(Problem) as raised, explain_engine_errors("n/container/web", "starting web"):
        raise fault
    assert raised.value.diagnostics[0].summary == "The Docker engine did not answer"
