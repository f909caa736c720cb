"""A simulated node never reads what is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.simulator.state import SimulatedContainer
from gpuplan.simulator.store import Machine


def container(*mounts: tuple[str, str]) -> SimulatedContainer:
    made = [{"Source": source, "Destination": destination} for source, destination in mounts]
    return SimulatedContainer("id", "name", 0.0, "image", {}, {}, mounts=made)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    root = tmp_path / "root"
    (root / "models/a").mkdir(parents=True)
    (root / "models/a/config.pbtxt").write_text("x")
    (root / "models/out").symlink_to("/etc")
    (root / "models/in").symlink_to("a")
    return Machine("node", root)


def test_mounts_lead_into_the_root(machine: Machine) -> None:
    mounted = container((f"{machine.root}/models", "/gpuplan/models"), (str(machine.root), "/gpuplan"))
    assert machine.inside(mounted, "/gpuplan/models/a/config.pbtxt") == machine.root / "models/a/config.pbtxt"
    assert machine.inside(mounted, "/gpuplan/models/in/config.pbtxt") == machine.root / "models/a/config.pbtxt"
    assert machine.inside(mounted, "/gpuplan") == machine.root
    assert machine.inside(mounted, "/gpuplanet") is None
    assert machine.inside(mounted, "/else") is None


def test_what_lies_elsewhere_is_on_a_disk_of_its_own(machine: Machine) -> None:
    mounted = container(("/mnt/models", "/repository"))
    assert machine.inside(mounted, "/repository/a") == machine.root / "disk/mnt/models/a"
    assert machine.file("/etc/passwd") == machine.root / "disk/etc/passwd"


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("s3://models/prod", "s3/models/prod"),
        ("s3://https://host:9000/models/prod", "s3/models/prod"),
        ("gs://models", "gs/models"),
        ("as://account/box/prod", "as/account/box/prod"),
    ],
)
def test_a_bucket_is_a_directory_of_its_own(machine: Machine, address: str, path: str) -> None:
    assert machine.inside(container(), address) == machine.root / "buckets" / path
    assert machine.inside(container(), f"{address}/{'../' * 9}out") is None


@pytest.mark.parametrize("path", ["/there/out/passwd", "/there/../../../etc/passwd"])
def test_nothing_outside_is_read(machine: Machine, path: str) -> None:
    mounted = container(("/etc", "/etc"), (f"{machine.root}/models", "/there"))
    assert machine.inside(mounted, path) is None
