"""What others did on a node beside gpuplan, on the simulation and on a real engine."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from gpuplan.resources.container.spec import ContainerSpec
from tests.resources.container.bench import PLAN, Bench

STAYS = ("sleep", "500")


def spec(bench: Bench, **stated: Any) -> ContainerSpec:
    return ContainerSpec(**{"image": bench.image, "command": STAYS, "stop_timeout": 1, **stated})


def test_what_somebody_made_of_an_image_of_ours_stays(bench: Bench, tmp_path: Path) -> None:
    """`docker commit` keeps the labels, and what is made of such an image has them."""
    owner = {"gpuplan.plan": PLAN, "gpuplan.name": "web", "gpuplan.digest": "d1"}
    committed = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []},
                            "config": {"Labels": owner, "Cmd": ["/none"]}}).encode()  # fmt: skip
    with tarfile.open(tmp_path / "debug.tar", "w") as archive:
        manifest = json.dumps([{"Config": "c.json", "RepoTags": ["debug:1"], "Layers": []}]).encode()
        for name, content in (("c.json", committed), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    list(bench.engine.load_image((tmp_path / "debug.tar").read_bytes()))
    bench.apply(bench.want("web", spec(bench)))
    bench.engine.create_container("debug:1", command=["/none"], name="look")
    assert bench.apply(bench.want("web", spec(bench, labels={"a": "b"}))) == [
        "stop container web",
        "replace container web",
    ]
    assert set(bench.names()) == {"web", "look"}
    bench.apply()
    assert list(bench.names()) == ["look"]


def test_cpus_where_somebody_set_a_quota(bench: Bench) -> None:
    """The engine sets no CPUs over a quota, so that only a new container gets them."""
    bench.apply(bench.want("web", spec(bench)))
    bench.engine.update_container("web", cpu_quota=50000, cpu_period=100000)
    limited = bench.want("web", spec(bench, cpus=1.0))
    bench.apply(limited)
    assert bench.compare(limited).changes == ()
