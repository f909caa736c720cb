"""Nodes that were set up by hand: their plan file has no changes, touches nothing, and takes over what is asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gpuplan.cli import main
from tests.e2e.by_hand import identities, loaded, set_up
from tests.lab.fixtures import Lab

MODELS = Path(__file__).parents[2] / "plans" / "models"
ADOPTED = {("gpu-a1", "worker-0"), ("gpu-a1", "odd"), ("gpu-h1", "every")}
Run = Callable[..., tuple[int, str]]
pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


@pytest.fixture
def by_hand(lab: Lab) -> Iterator[None]:
    for node in lab.hosts:
        lab.wipe(node)
    shutil.copytree(MODELS, lab.root("gpu-h1") / "srv" / "models", dirs_exist_ok=True)
    set_up(lab)
    yield
    for node in lab.hosts:
        lab.wipe(node)


@pytest.fixture
def gpuplan(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """`gpuplan("plan", "plan.yaml")` → exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    told: list[str] = []

    def run(*argv: str) -> tuple[int, str]:
        code = main([*argv, "-i", str(lab.inventory)])
        printed = capsys.readouterr()
        told.append(f"$ gpuplan {' '.join(argv)} → {code}\n{printed.out}{printed.err}")
        return code, printed.out

    yield run
    print("\n".join(told))


@pytest.mark.usefixtures("by_hand")
def test_what_was_set_up_by_hand_is_described_and_left_alone(lab: Lab, gpuplan: Run) -> None:
    before = identities(lab)
    code, text = gpuplan("discover")
    assert code == 0
    assert "hunter2" not in text
    Path("plan.yaml").write_text(text)
    described = {
        (node, section.get("container_name", key))
        for key, section in yaml.safe_load(text)["containers"].items()
        for node in ([section["nodes"]] if isinstance(section["nodes"], str) else section["nodes"])
    }
    idle = {("gpu-a1", "paused"), ("gpu-t1", "ended"), ("gpu-t1", "passing")}
    assert described == {(node, name) for node, names in before.items() for name in names} - idle
    assert gpuplan("plan", "plan.yaml", "--detailed-exitcode")[0] == 0
    assert gpuplan("apply", "plan.yaml", "--auto-approve")[0] == 0
    assert gpuplan("drift-check", "plan.yaml") == (0, "")
    assert identities(lab) == before

    sections = yaml.safe_load(text)
    assert sections["models"] == {name: {"containers": ["triton"]} for name in loaded(lab, 8000)}
    assert "the models loaded in its server: classifier, postprocessor, sentiment, tokenizer" in text.replace(
        "\n  #", ""
    )
    for name in ("worker-0", "odd", "every"):
        sections["containers"][name]["adopt"] = True
    Path("adopting.yaml").write_text(yaml.safe_dump(sections, sort_keys=False))
    assert gpuplan("apply", "adopting.yaml", "--auto-approve")[0] == 0
    assert gpuplan("plan", "adopting.yaml", "--detailed-exitcode")[0] == 0
    after = identities(lab)
    moved = {(node, name) for node in after for name in after[node] if after[node][name] != before[node].get(name)}
    assert moved == ADOPTED
    assert {node: names.keys() for node, names in after.items()} == {
        node: names.keys() for node, names in before.items()
    }

    serving = loaded(lab, 8000)
    assert gpuplan("destroy", "adopting.yaml", "--auto-approve")[0] == 0
    left = {(node, name) for node, names in identities(lab).items() for name in names}
    assert left == {(node, name) for node in before for name in before[node]} - ADOPTED
    assert loaded(lab, 8000) == serving
    assert len(lab.run("gpu-a1", ["nvidia-smi", "-L"]).stdout.split("MIG-")) == 4
