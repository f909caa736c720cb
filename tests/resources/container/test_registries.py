"""Registries for real: credentials of the operator's, a tag that moves, and one that falls silent."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplan.resources.container.apply import images
from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.apply.images import fetch_image
from gpuplan.resources.container.images import ImageRequest, image_address
from gpuplan.transport.registry import ask_registries, credentials_for
from gpuplan.types.diagnostic import Problem
from tests.lab.fixtures import Lab
from tests.resources.container.bench import Bench

PORT = 5017
IMAGE = f"127.0.0.1:{PORT}/app:1"
PASSWORD = "canary-Passw0rd"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's docker configuration."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    (tmp_path / "docker").mkdir()
    return tmp_path / "docker" / "config.json"


def log_in(config: Path, password: str) -> None:
    auth = base64.b64encode(f"ops:{password}".encode()).decode()
    config.write_text(json.dumps({"auths": {f"127.0.0.1:{PORT}": {"auth": auth}}}))


@pytest.fixture
def registry(real: Bench, lab: Lab) -> Iterator[Path]:
    """A registry on the node, where the engine needs no TLS; the file in which the tag's meaning stands."""
    place = lab.root("gpu-a1") / "root"
    (place / "registry.py").write_text(Path(__file__).with_name("registry.py").read_text())
    (place / "tag").write_text("old")
    line = f"setsid python3 /root/registry.py {PORT} ops:{PASSWORD} >/dev/null 2>&1 & echo $!"
    pid = lab.run("gpu-a1", ["sh", "-c", line]).stdout.strip()
    probe = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 1)"
    until = time.monotonic() + 10
    while lab.run("gpu-a1", ["python3", "-c", probe], check=False).returncode and time.monotonic() < until:
        time.sleep(0.05)
    yield place / "tag"
    lab.run("gpu-a1", ["kill", pid], check=False)
    for each in real.engine.images():
        if any(str(PORT) in name for name in (*(each["RepoTags"] or ()), *(each["RepoDigests"] or ()))):
            real.engine.remove_image(each["Id"], force=True)


@pytest.mark.lab
def test_credentials_and_a_tag_that_moves(real: Bench, registry: Path, config: Path, lab: Lab) -> None:
    image = ImageRequest(IMAGE)
    engine = EngineContext(address=image_address(real.node, IMAGE), apply=real.apply_context)
    for password in ("", "wrong-Passw0rd"):
        if password:
            log_in(config, password)
        with pytest.raises(Problem) as refused:
            fetch_image(image, engine)
        told = str(refused.value.diagnostics)
        assert "The registry denied access to the image" in told
        assert (str(config) if password else "This machine has no docker credentials for") in told
        assert "Passw0rd" not in told
    log_in(config, PASSWORD)
    assert list(fetch_image(image, engine))
    (before,) = real.engine.inspect_image(IMAGE)["RepoDigests"]
    said = ask_registries(real.session, [IMAGE]).value
    assert said == {"images": {IMAGE: {"digest": before.partition("@")[2]}}}
    registry.write_text("new")
    assert ask_registries(real.session, [IMAGE]).value != said
    found = lab.run("gpu-a1", ["grep", "-rl", PASSWORD, "/root/.docker", "/home", "/var/lib/gpuplan"], check=False)
    assert found.stdout == ""


@pytest.mark.lab
def test_a_registry_that_falls_silent(real: Bench, lab: Lab, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "PULL_SILENCE", 1.0)
    here = f"{lab.hosts['gpu-a1'].address.rpartition('.')[0]}.1"
    with socket.create_server((here, 0)) as silent:  # takes connections, and never says a word
        image = f"{here}:{silent.getsockname()[1]}/app:1"
        began = time.monotonic()
        with pytest.raises(Problem, match="has reported nothing for 1 s"):
            fetch_image(
                ImageRequest(image), EngineContext(address=image_address(real.node, image), apply=real.apply_context)
            )
        assert time.monotonic() - began < 10
    assert real.engine.version()["Version"]  # the session goes on


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            '{"credHelpers": {"r.io": "nope"}}',
            r"config\.json \(docker-credential-nope\): docker-credential-nope is not installed",
        ),
        ('{"credsStore": "fails"}', r"config\.json \(docker-credential-fails\): docker-credential-fails failed"),
        ('{"auths": {"r.io": "canary"}}', "not a docker configuration file"),
    ],
)
def test_credentials_that_cannot_be_used(
    config: Path, content: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-fails"
    helper.write_text("#!/bin/sh\necho canary; echo canary >&2; exit 1\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    config.write_text(content)
    with pytest.raises(Problem, match=told) as caught:
        credentials_for("r.io/app:1")
    assert "canary" not in str(caught.value)


def test_credentials_are_found_by_registry_and_never_shown(config: Path) -> None:
    log_in(config, PASSWORD)
    found = credentials_for(IMAGE)
    assert (found.registry, found.source, found.config["username"]) == (f"127.0.0.1:{PORT}", str(config), "ops")
    assert PASSWORD not in repr(found) + str(found)
    assert credentials_for("busybox").config == {}
