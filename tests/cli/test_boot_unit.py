"""Printing and installing the boot units."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command

PROGRAM = ("--program", "/opt/gpuplan/bin/gpuplan")


def test_it_prints_the_unit_that_comes_before_the_engine(command: Command) -> None:
    ran = command("boot-unit", *PROGRAM)
    assert (ran.code, ran.err) == (0, "")
    assert "\nExecStart=/opt/gpuplan/bin/gpuplan apply --local --only gpu --auto-approve\n" in ran.out
    assert command("boot-unit", "containers", *PROGRAM).out != ran.out


def test_it_installs_the_unit_and_keeps_what_else_is_set(command: Command, tmp_path: Path) -> None:
    environment = tmp_path / "etc/default/gpuplan"
    environment.parent.mkdir(parents=True)
    environment.write_text("NGC_API_KEY=secret\nGPUPLAN_ROOT=/old\n")
    environment.chmod(0o600)
    where = ("--install", "--root", str(tmp_path), "--set", "GPUPLAN_ROOT=/srv/gpuplan")
    ran = command("boot-unit", *PROGRAM, *where)
    assert ran.code == 0
    assert "systemctl enable gpuplan-gpus.service" in ran.out
    unit = tmp_path / "etc/systemd/system/gpuplan-gpus.service"
    assert unit.read_text() == command("boot-unit", *PROGRAM).out
    assert unit.stat().st_mode & 0o777 == 0o644
    assert environment.read_text() == "NGC_API_KEY=secret\nGPUPLAN_ROOT=/srv/gpuplan\n"
    assert environment.stat().st_mode & 0o777 == 0o600
    assert "secret" not in ran.out + ran.err
    assert command("boot-unit", *PROGRAM, *where).code == 0


@pytest.mark.parametrize("kind", ["foreign", "masked"])
def test_a_unit_of_somebody_else_is_left_alone(command: Command, tmp_path: Path, kind: str) -> None:
    unit = tmp_path / "etc/systemd/system/gpuplan-gpus.service"
    unit.parent.mkdir(parents=True)
    if kind == "masked":
        unit.symlink_to("/dev/null")
    else:
        unit.write_text("[Unit]\nDescription=mine\n")
    ran = command("boot-unit", *PROGRAM, "--install", "--root", str(tmp_path))
    assert ran.code == 1
    assert "Refusing to overwrite a unit" in ran.err
    assert unit.is_symlink() or unit.read_text() == "[Unit]\nDescription=mine\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["disks"], "gpus or containers"),
        (["--program", "bin/gpuplan"], "absolute path"),
        (["--set", "A=1"], "--install"),
    ],
)
def test_wrong_usage(command: Command, argv: list[str], says: str) -> None:
    ran = command("boot-unit", *argv)
    assert (ran.code, ran.out) == (64, "")
    assert says in ran.err
