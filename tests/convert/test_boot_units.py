"""The boot units: bounded, visible when they fail, in nobody's way; and valid for systemd where it is here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from configparser import RawConfigParser
from pathlib import Path

import pytest
import yaml

from gpuplan.convert.boot_units import UNITS, BootUnit, with_variables

PROGRAM = ["/opt/gpuplan/bin/gpuplan"]


def parsed(unit: BootUnit) -> RawConfigParser:
    read = RawConfigParser(strict=True, delimiters=["="], comment_prefixes=["#"])
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string(unit.text(PROGRAM))
    return read


@pytest.mark.parametrize("what", UNITS)
def test_the_text_is_exactly_so(what: str, golden: Callable[[str, str], None]) -> None:
    golden(UNITS[what].name, UNITS[what].text(PROGRAM))


@pytest.mark.parametrize("what", UNITS)
def test_it_is_bounded_fails_visibly_and_requires_nothing(what: str) -> None:
    unit = parsed(UNITS[what])
    service = unit["Service"]
    assert (service["Type"], service["RemainAfterExit"]) == ("oneshot", "yes")
    assert service["TimeoutStartSec"].endswith("min")
    assert service["ExecStart"].startswith("/")
    assert set(unit["Unit"]) <= {"Description", "After", "Before"}
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_slices_come_before_the_engine_and_containers_after_it() -> None:
    gpus, containers = parsed(UNITS["gpus"]), parsed(UNITS["containers"])
    assert gpus["Unit"]["Before"].split() == ["docker.service"]
    assert "docker.service" in containers["Unit"]["After"].split()
    assert UNITS["gpus"].name in containers["Unit"]["After"].split()
    assert not set(gpus["Unit"]["After"].split()) & {"docker.service", "docker.socket", UNITS["containers"].name}
    assert "--only gpu" in gpus["Service"]["ExecStart"]


@pytest.mark.parametrize(
    "program", [[], ["gpuplan"], ["/opt/my tools/gpuplan"], ["/opt/%h/gpuplan"], ["/bin/sh\nUser=x"], ["/x", "$HOME"]]
)
def test_a_program_that_would_need_quotes_is_refused(program: list[str]) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        UNITS["gpus"].text(program)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_systemd_itself_finds_nothing_wrong(tmp_path: Path) -> None:
    files = []
    for unit in UNITS.values():
        files.append(tmp_path / unit.name)
        files[-1].write_text(unit.text(["/usr/bin/env"]))
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    files[0].write_text(files[0].read_text().replace("Type=oneshot", "Type=onshot"))
    wrong = subprocess.run(["systemd-analyze", "verify", files[0]], capture_output=True, text=True, check=False)
    assert "onshot" in wrong.stderr


# Environment files as data (env_files.yaml).

CASES = yaml.safe_load((Path(__file__).parent / "env_files.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_one_variable_changes_and_nothing_else(case: dict[str, object]) -> None:
    after = with_variables(str(case["before"]), case["set"])  # type: ignore[arg-type]
    assert after == case["after"]
    assert with_variables(after, case["set"]) == after  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"1A": "x"}, {"A B": "x"}, {"": "x"}, {"Ä": "x"}, {"A": "x\ny"}, {"A": "x\0"}])
def test_what_no_such_file_can_hold_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="environment"):
        with_variables("", changes)
