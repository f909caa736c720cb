"""Plan files and what becomes of them as files of mig-parted (exports.yaml, golden/)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuplan.convert.mig_parted.export_config import Exported, as_text, export_configs
from gpuplan.convert.mig_parted.file import read_mig_parted
from gpuplan.nvidia.boards import find_board
from gpuplan.planfile.load import load_plan
from gpuplan.types.diagnostic import Problem, Severity
from gpuplan.types.inventory import Host

CASES = yaml.safe_load((Path(__file__).parent / "exports.yaml").read_text("utf-8"))
KEYS = {"about", "plan", "inventory", "board", "warnings", "faults"}
HEAD = "# one\n# two\nversion: 1\nname: test\n"


def export(case: dict[str, object], folder: Path) -> Exported:
    assert set(case) <= KEYS
    file = folder / "plan.yaml"
    file.write_text(HEAD + str(case["plan"]), "utf-8")
    hosts = None
    if isinstance(inventory := case.get("inventory"), dict):
        hosts = [Host(name, groups=("all", *groups)) for name, groups in inventory.items()]
    return export_configs(load_plan(str(file), environ={}), hosts, find_board(str(case.get("board"))))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "faults" not in case])
def test_the_text_and_what_gets_lost(name: str, golden: Callable[[str, str], None], tmp_path: Path) -> None:
    found = export(CASES[name], tmp_path)
    text = as_text("test", found.configs, found.hosts)
    golden(name, text)
    assert sorted({each.summary for each in found.warnings}) == sorted(CASES[name]["warnings"])
    assert all(each.severity is Severity.WARNING for each in found.warnings)
    (tmp_path / "config.yaml").write_text(text, "utf-8")
    assert read_mig_parted(str(tmp_path / "config.yaml")).mig_configs == found.configs


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "faults" in case])
def test_what_cannot_be_exported(name: str, tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        export(CASES[name], tmp_path)
    told = [
        f"{f'{each.where.line}:{each.where.column}' if each.where else '?'} {each.detail}"
        for each in caught.value.diagnostics
    ]
    assert told == CASES[name]["faults"]
