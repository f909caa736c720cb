"""Bad plan files as data: each case of cases/*.yaml names every sentence that must be told, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuplan.planfile.load import load_plan
from gpuplan.types.diagnostic import Diagnostic, Problem

CASES = Path(__file__).parent / "cases"
KEYS = {"about", "plan", "told", "folders", "files", "variables", "environ"}


def _cases() -> list[object]:
    found = []
    for file in sorted(CASES.glob("*.yaml")):
        for case in yaml.safe_load(file.read_text("utf-8")):
            assert set(case) <= KEYS, f"{file}: unknown keys {set(case) - KEYS}"
            found.append(pytest.param(case, id=f"{file.stem}: {case['about']}"))
    return found


def told(diagnostic: Diagnostic, file: str) -> str:
    where = str(diagnostic.where).removeprefix(file).removeprefix(":") if diagnostic.where else ""
    fix = f" | {diagnostic.fix}" if diagnostic.fix else ""
    return f"{where} {diagnostic.summary}: {diagnostic.detail}{fix}".replace(file, "plan.yaml").strip()


@pytest.mark.parametrize("case", _cases())
def test_every_fault_is_told_once_and_in_its_place(case: dict[str, object], tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(str(case["plan"]), "utf-8")
    for folder in case.get("folders", ()):  # type: ignore[attr-defined]
        (tmp_path / folder).mkdir(parents=True)
    for name, content in case.get("files", {}).items():  # type: ignore[attr-defined]
        (tmp_path / name).write_text(content, "utf-8")
    variables, environ = case.get("variables", {}), case.get("environ", {})
    with pytest.raises(Problem) as caught:
        load_plan(str(plan), variables=variables, environ=environ)  # type: ignore[arg-type]
    assert [told(one, str(plan)) for one in caught.value.diagnostics] == case["told"]
