"""What the checks say of the models of a plan file: the place is that of the layer that states a field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.planfile.load import load_plan
from gpuplan.planfile.sources import silenced_count, sources_on
from gpuplan.planfile.sources.source import lint_models
from gpuplan.types.diagnostic import Problem, Severity
from gpuplan.types.inventory import Host
from tests.resources.told import checked
from tests.triton.lint.case import IO, PYTHON, told
from tests.triton.lint.tree import write

CASES = yaml.safe_load((Path(__file__).parent / "plans.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_models_of_a_plan_are_told_as_the_case_expects(case: dict[str, Any], tmp_path: Path) -> None:
    checked(case, "about files plan found silenced")
    files = {path: _text(content) for path, content in case["files"].items()}
    write(tmp_path, {**files, "plan.yaml": case["plan"]})
    plan = load_plan(str(tmp_path / "plan.yaml"), environ={})
    found, held = lint_models(plan)
    assert sorted(told(each, tmp_path) for each in found) == sorted(case.get("found", []))
    assert held == case.get("silenced", 0)
    by_server = {name: sources_on(plan, Host("n"), name) for name in plan.containers}
    assert {each for _, faults in by_server.values() for each in faults} == set(found)
    assert silenced_count(plan) == held
    faultless = not any(each.severity is Severity.ERROR and each.check != "shared-memory" for each in found)
    assert all(sources for sources, _ in by_server.values()) or not faultless


def _text(content: Any) -> Any:
    return content.replace("@io", IO).replace("@python", PYTHON) if isinstance(content, str) else content


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("instance-group-gpus", "No check has the id instance-group-gpus. Did you mean instance-group-gpu?"),
        ("xyz", "No check has the id xyz. docs/checks.md lists all checks."),
        ("config-syntax", "config-syntax reports a model that cannot work at all; it cannot be silenced."),
        ("silence-idle", "silence-idle reports on ignore_checks itself; it cannot be silenced."),
    ],
)
def test_only_checks_that_there_are_can_be_silenced(name: str, words: str, tmp_path: Path) -> None:
    plan = {
        "version": 1,
        "name": "p",
        "containers": {"t": {"nodes": "n", "image": "x/tritonserver:24.10-py3", "triton": {}}},
        "models": {"m": {"source": "m", "containers": ["t"], "ignore_checks": [{"id": name, "reason": "r"}]}},
    }
    write(tmp_path, {"m/1/model.onnx": "x", "plan.yaml": yaml.safe_dump(plan, sort_keys=False)})
    with pytest.raises(Problem) as caught:
        load_plan(str(tmp_path / "plan.yaml"), environ={})
    (fault,) = caught.value.diagnostics
    assert f"{fault.detail} {fault.fix}".startswith(words)
    assert fault.where
    assert fault.where.line == 14


def test_a_reason_must_be_said(tmp_path: Path) -> None:
    text = "version: 1\nname: p\nmodels:\n  m: { source: m, containers: [t], ignore_checks: [{ id: cpu-failover }] }\n"
    write(tmp_path, {"m/1/model.onnx": "x", "plan.yaml": text})
    with pytest.raises(Problem) as caught:
        load_plan(str(tmp_path / "plan.yaml"), environ={})
    assert "reason" in str(caught.value)
