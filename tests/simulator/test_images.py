"""The simulated registries and archives."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from docker.errors import APIError, ImageNotFound, NotFound

from tests.simulator.conftest import Open

TRITON = "nvcr.io/nvidia/tritonserver"


def test_a_pull_tells_its_progress(connected: Open) -> None:
    client = connected().docker()
    told = list(client.pull(TRITON, tag="24.10-py3", stream=True, decode=True))
    assert told[0] == {"status": "Pulling from nvidia/tritonserver", "id": "24.10-py3"}
    assert told[-1] == {"status": f"Status: Downloaded newer image for {TRITON}:24.10-py3"}
    downloads = [line["progressDetail"] for line in told if line["status"] == "Downloading"]
    assert {detail["current"] for detail in downloads if detail["current"] == detail["total"]} != set()
    again = list(client.pull(TRITON, tag="24.10-py3", stream=True, decode=True))
    assert again[-1] == {"status": f"Status: Image is up to date for {TRITON}:24.10-py3"}
    assert len(client.images()) == 1


def test_a_triton_image_looks_like_one(connected: Open) -> None:
    client = connected().docker()
    client.pull(TRITON, tag="24.10-py3")
    config = client.inspect_image(f"{TRITON}:24.10-py3")["Config"]
    assert config["Entrypoint"] == ["/opt/nvidia/nvidia_entrypoint.sh"]
    assert {"NVIDIA_VISIBLE_DEVICES=all", "TRITON_SERVER_VERSION=2.51.0"} <= set(config["Env"])
    assert config["Labels"]["com.nvidia.tritonserver.version"] == "2.51.0"


@pytest.mark.parametrize(
    ("name", "tag", "kind", "words"),
    [
        (TRITON, "99.99-py3", NotFound, f"manifest for {TRITON}:99.99-py3 not found: manifest unknown"),
        (TRITON, "24.10", NotFound, "manifest unknown"),
        ("busybox", "0.1", NotFound, "manifest for busybox:0.1 not found: manifest unknown"),
        ("foo/bar", "1", ImageNotFound, "pull access denied for foo/bar, repository does not exist or may require"),
        ("reg.example.com/x", "1", APIError, 'Get "https://reg.example.com/v2/": dial tcp: lookup reg.example.com'),
    ],
)
def test_what_cannot_be_pulled(connected: Open, name: str, tag: str, kind: type[APIError], words: str) -> None:
    client = connected().docker()
    with pytest.raises(kind) as refused:
        client.pull(name, tag=tag)
    assert words in str(refused.value.explanation)
    assert client.images() == []


def test_a_digest_names_the_image_of_a_tag(connected: Open) -> None:
    client = connected().docker()
    client.pull("busybox", tag="1.36")
    image = client.inspect_image("busybox:1.36")
    (digest,) = image["RepoDigests"]
    client.remove_image("busybox:1.36")
    client.pull(digest)
    assert client.inspect_image(digest)["Id"] == image["Id"]
    assert client.inspect_image(digest)["RepoTags"] == []


def test_hub_names_in_all_their_forms(connected: Open) -> None:
    client = connected().docker()
    client.pull("docker.io/library/busybox", tag="latest")
    assert client.inspect_image("busybox")["RepoTags"] == ["busybox:latest"]


def archive(tag: str | None, **config: object) -> bytes:
    """What `docker save` writes."""
    layer, described = b"layer", json.dumps({"config": config, "rootfs": {"diff_ids": ["sha256:1"]}}).encode()
    tags = [tag] if tag else None
    manifest = json.dumps([{"Config": "abc123.json", "RepoTags": tags, "Layers": ["l/layer.tar"]}]).encode()
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, data in (("l/layer.tar", layer), ("abc123.json", described), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return written.getvalue()


def test_an_archive_is_loaded(connected: Open) -> None:
    client = connected().docker()
    data = archive("mine:1", Cmd=["serve"], Env=["A=1"])
    told = list(client.load_image(io.BytesIO(data)))
    assert told == [{"stream": "Loaded image: mine:1\n"}]
    image = client.inspect_image("mine:1")
    assert (image["Id"], image["Config"]["Cmd"], image["Size"]) == ("sha256:abc123", ["serve"], 5)
    assert list(client.load_image(data)) == told
    assert len(client.images()) == 1


def test_an_archive_without_a_name(connected: Open) -> None:
    client = connected().docker()
    assert list(client.load_image(archive(None))) == [{"stream": "Loaded image ID: sha256:abc123\n"}]


@pytest.mark.parametrize("data", [b"nothing", b""])
def test_what_is_no_archive(connected: Open, data: bytes) -> None:
    with pytest.raises(APIError) as refused:
        list(connected().docker().load_image(io.BytesIO(data)))
    assert refused.value.response.status_code == 500
