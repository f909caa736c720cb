"""A simulated node never reads what is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.simulation.machine import Machine
from gpuplan.simulation.state import Container


def container(*mounts: tuple[str, str]) -> Container:
    made = [{"Source": source, "Destination": destination} for source, destination in mounts]
    return Container("id", "name", 0.0, "image", {}, {}, mounts=made)


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


@pytest.mark.parametrize("path", ["/etc/passwd", "/there/out/passwd", "/there/../../../etc/passwd"])
def test_nothing_outside_is_read(machine: Machine, path: str) -> None:
    mounted = container(("/etc", "/etc"), (f"{machine.root}/models", "/there"))
    assert machine.inside(mounted, path) is None
