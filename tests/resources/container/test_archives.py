"""Image archives: what one holds is known before it is sent, and an archive with another content is noticed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.sources import archive
from gpuplan.planfile.sources.archive import read_archive
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.spec import from_json
from gpuplan.types.change import Comparison
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired, DiffContext
from tests.resources.container.node import snapshot

CONFIG = {"os": "linux", "architecture": "amd64", "config": {"Cmd": ["/pause"]}}
CONTAINERD = {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]], "Architecture": "x86_64"}


def config_of(tag: str, **more: object) -> bytes:
    return json.dumps({**CONFIG, "of": tag, **more}).encode()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def write(path: Path, files: Mapping[str, bytes], compress: bool = False) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as opened:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            opened.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(packed.getvalue()) if compress else packed.getvalue())


def saved(*tags: str, index: Sequence[Any] | None = None, **more: object) -> dict[str, bytes]:
    """The files of an archive as docker save writes it, manifest.json last."""
    configs = {f"{number}.json": config_of(tag, **more) for number, tag in enumerate(tags)}
    manifest = [
        {"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]} for name, tag in zip(configs, tags, strict=True)
    ]
    oci = {"index.json": json.dumps({"manifests": index}).encode()} if index is not None else {}
    return {**configs, "layer.tar": b"x" * 5000, **oci, "manifest.json": json.dumps(manifest).encode()}


def wish(folder: Path, **stated: object) -> tuple[Sequence[Desired], Sequence[Diagnostic]]:
    plan = PlanFile(version=1, name="prod", containers={"web": {"nodes": "all", "archive": "app.tar", **stated}})
    plan._path = str(folder / "plan.yaml")
    return CONTAINER.desired(plan, Host("n"))


def compared(desired: Sequence[Desired], running: str, info: Mapping[str, object]) -> Comparison:
    """The comparison with a node where app:1 and the container are of the image with that id."""
    look = snapshot(
        [{"name": "web", "plan": "prod", "image": "app:1", "env": {"NVIDIA_VISIBLE_DEVICES": "void"}}],
        [{"tags": ["app:1"]}],
        told={"info": info},
    )
    raw: Any = look.probe("docker").value
    raw["images"][0]["Id"] = raw["containers"][0]["Image"] = running
    return CONTAINER.compare(desired, look, DiffContext("n", "prod", Record("prod")))


@pytest.mark.parametrize("compress", [False, True])
def test_an_archive_says_what_it_holds(tmp_path: Path, compress: bool) -> None:
    write(tmp_path / "app.tar", saved("app:7"), compress)
    desired, found = wish(tmp_path)
    spec = from_json(desired[0].spec)
    assert (list(found), spec.image, spec.archived.platform) == ([], "app:7", "linux/amd64")
    assert spec.archived.configs == (digest_of(config_of("app:7")),)


def test_of_several_images_the_one_that_is_named_counts(tmp_path: Path) -> None:
    write(tmp_path / "app.tar", saved("one:1", "docker.io/library/two:2"))
    desired, _ = wish(tmp_path, image="two:2")
    assert from_json(desired[0].spec).archived.configs == (digest_of(config_of("docker.io/library/two:2")),)
    assert [each.detail for each in wish(tmp_path)[1]] == [
        "app.tar holds 2 tagged images; without image: it must hold exactly one."
    ]
    assert [each.detail for each in wish(tmp_path, image="three:3")[1]] == [
        "app.tar does not hold three:3; it holds one:1, docker.io/library/two:2."
    ]


def test_the_manifests_of_an_oci_layout_are_known_by_their_names(tmp_path: Path) -> None:
    index = [
        {"digest": "sha256:1", "annotations": {"io.containerd.image.name": "docker.io/library/one:1"}},
        {"digest": "sha256:2", "annotations": {"io.containerd.image.name": "two:2"}},
    ]
    write(tmp_path / "app.tar", saved("one:1", "two:2", index=index))
    assert [held.manifests for held in read_archive(str(tmp_path / "plan.yaml"), "app.tar")] == [(), ("sha256:2",)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"not a tar file", "it is damaged, or no archive"),
        (b"\x28\xb5\x2f\xfd....", "zstd -d"),
        (b"\x1f\x8b\x08\x00cut", "it is damaged, or no archive"),
        ({"oci-layout": b"{}", "index.json": b"{}"}, "skopeo copy"),
        ({"manifest.json": b"[1]"}, "as docker save writes it"),
        ({"manifest.json": b'{"RepoTags": 1}'}, "as docker save writes it"),
        ({"manifest.json": b'[{"RepoTags": ["a:1"]}]'}, "as docker save writes it"),
        ({"manifest.json": b'[{"RepoTags": ["a:1"], "Config": "../../etc/passwd"}]'}, "as docker save writes it"),
        ({"manifest.json": b"[" * 100000}, "as docker save writes it"),
        ({"manifest.json": b"[" + b" " * (1 << 22) + b"]"}, "as docker save writes it"),
        ({"layer.tar": b"x"}, "as docker save writes it"),
    ],
)
def test_what_is_no_archive_is_told(tmp_path: Path, content: bytes | dict[str, bytes], why: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / "app.tar").write_bytes(content)
    else:
        write(tmp_path / "app.tar", content)
    (told,) = wish(tmp_path)[1]
    assert (told.summary, why in told.detail) == ("Cannot use the image archive", True), told.detail


def test_an_archive_that_was_cut_off_is_told(tmp_path: Path) -> None:
    write(tmp_path / "whole.tar", saved("app:1"))
    (tmp_path / "app.tar").write_bytes((tmp_path / "whole.tar").read_bytes()[:3000])
    (told,) = wish(tmp_path)[1]
    assert "it is damaged" in told.detail


def test_an_archive_is_opened_once_until_it_changes(tmp_path: Path) -> None:
    plan, path = str(tmp_path / "plan.yaml"), tmp_path / "app.tar"
    write(path, saved("app:1"))
    before = archive._held.cache_info().misses
    assert {read_archive(plan, "app.tar")[0].tags for _ in range(3)} == {("app:1",)}
    assert archive._held.cache_info().misses == before + 1
    write(path, saved("app:2"))
    os.utime(path, (1, 1))
    assert read_archive(plan, "app.tar")[0].tags == ("app:2",)


def test_the_same_name_with_another_content_is_a_change(tmp_path: Path) -> None:
    write(tmp_path / "app.tar", saved("app:1"))
    desired, _ = wish(tmp_path)
    assert compared(desired, digest_of(config_of("app:1")), {}).changes == ()
    image, container = compared(desired, "sha256:0123456789abcdef", {}).changes
    assert image.reasons == ("the archive holds another image with this name",)
    assert container.reasons == ("the archive holds another image than the one that the container was created from",)
    short = digest_of(config_of("app:1"))[7:19]
    assert [(field.before, field.after) for field in container.fields] == [("app:1 (0123456789ab)", f"app:1 ({short})")]


def test_in_the_store_of_containerd_an_image_is_compared_by_its_manifest_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "app.tar", saved("app:1"))
    assert compared(wish(tmp_path)[0], "sha256:0123456789abcdef", CONTAINERD).changes == ()
    write(tmp_path / "app.tar", saved("app:1", index=[{"digest": "sha256:aa"}]))
    assert compared(wish(tmp_path)[0], "sha256:aa", CONTAINERD).changes == ()
    assert len(compared(wish(tmp_path)[0], "sha256:bb", CONTAINERD).changes) == 2


def test_an_archive_of_another_platform_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "app.tar", saved("app:1", architecture="arm64", variant="v8"))
    told = compared(wish(tmp_path)[0], "sha256:0123456789abcdef", {"Architecture": "x86_64"}).diagnostics
    assert [each.detail for each in told] == ["app.tar is for linux/arm64, but the node is linux/amd64."]
    stated = wish(tmp_path, platform="linux/arm64")[0]
    assert not compared(stated, "sha256:0123456789abcdef", {"Architecture": "x86_64"}).diagnostics
