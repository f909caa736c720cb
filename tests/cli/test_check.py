"""`gpuplan check`: any repository on disk, with what is told of its server; exit codes and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.triton.lint.case import IO, PYTHON
from tests.triton.lint.tree import write

DOCS = Path(__file__).parents[2] / "docs" / "json.md"
GROUPS = "instance_group [ { kind: KIND_GPU gpus: [ 6 ] } ]"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Two models: one that is right everywhere, one that wants a seventh GPU."""
    files = {"fine/config.pbtxt": f'backend: "python" {IO}', "fine/1/model.py": PYTHON}
    config = f'backend: "onnxruntime" max_batch_size: 1 {IO}\n{GROUPS}\n'
    wants = {"wants/config.pbtxt": config, "wants/1/model.onnx": "x"}
    write(tmp_path / "models", files | wants)
    return tmp_path / "models"


def test_a_repository_without_faults(command: Command, models: Path) -> None:
    ran = command("check", str(models))
    assert (ran.code, ran.out, ran.err) == (0, "2 models: nothing found.\n", "")


def test_what_is_told_of_the_server_is_held_against_the_models(command: Command, models: Path) -> None:
    ran = command("check", str(models), "--gpu", "A30", "--gpu", "A30", "--image", "24.10")
    assert ran.code == 1
    assert ran.out == "2 models: 1 error, 0 warnings.\n"
    assert "An instance group uses a GPU that does not exist  [instance-group-gpu]" in ran.err
    assert f"{models}/wants/config.pbtxt:2:" in "".join(ran.err.replace("│ ", "").split("\n"))
    assert GROUPS in ran.err
    assert "0 → A30, 1 → A30: only 0..1 are valid" in " ".join(ran.err.replace("│", "").split())


def test_one_model_is_checked_in_sight_of_its_siblings(command: Command, models: Path) -> None:
    step = 'input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }'
    scheduling = f'ensemble_scheduling {{ step [ {{ model_name: "%s" model_version: -1 {step} }} ] }}'
    config = f'platform: "ensemble" max_batch_size: 4 {IO} '
    write(models, {"e/1/": "", "e/config.pbtxt": config + scheduling % "fine"})
    assert command("check", str(models / "e")).out == "1 model: nothing found.\n"
    write(models, {"fine/config.pbtxt": f'backend: "python" max_batch_size: 2 {IO}'})
    ran = command("check", str(models / "e"))
    assert (ran.code, ran.out) == (1, "1 model: 1 error, 0 warnings.\n")
    assert "ensemble-batch-size" in ran.err
    write(models, {"e/config.pbtxt": config + scheduling % "elsewhere"})
    assert command("check", str(models / "e")).code == 0
    assert command("check", str(models)).code == 1


def test_warnings_stop_nothing_and_a_silenced_check_is_counted(command: Command, models: Path) -> None:
    write(models, {"fine/config.pbtxt": f'backend: "python" {IO} response_cache {{ enable: true }}'})
    ran = command("check", str(models), "--flag", "none")
    assert (ran.code, ran.out) == (0, "2 models: 0 errors, 1 warning.\n")
    ran = command("check", str(models), "--flag", "none", "--ignore", "response-cache-off")
    assert (ran.code, ran.out, ran.err) == (0, "2 models: nothing found; 1 finding silenced.\n", "")


def test_flags_and_shared_memory_of_the_server_are_checked(command: Command, models: Path) -> None:
    ran = command(
        "check", str(models), "--flag", "rate-limiter=execution_count", "--image", "23.06", "--shm-size", "1MiB"
    )
    assert ran.code == 1
    assert "server-flag" in ran.err
    assert "Use --rate-limit." in ran.err
    assert "shared-memory" in ran.err


def test_one_json_document(command: Command, models: Path) -> None:
    ran = command("check", str(models), "--gpu", "none", "--json")
    told = json.loads(ran.out)
    assert (ran.code, ran.err) == (1, "")
    assert (told["kind"], told["format"], told["exit_code"]) == ("gpuplan check", 1, 1)
    assert (told["models"], told["silenced"]) == (["fine", "wants"], 0)
    (found,) = told["diagnostics"]
    assert (found["check"], found["severity"]) == ("instance-group-gpu", "error")
    assert found["where"] == {"file": f"{models}/wants/config.pbtxt", "line": 2, "column": 35}
    named = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]*)`", DOCS.read_text()))))
    assert {*told, *found} - named == set()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ignore", "instance-group-gpus"], "did you mean instance-group-gpu?"),
        (["--ignore", "config-syntax"], "config-syntax cannot be silenced"),
        (["--shm-size", "much"], "--shm-size was given “much”"),
        (["--image", "tritonserver:latest"], "Cannot tell the release of the image"),
    ],
)
def test_wrong_usage(command: Command, models: Path, options: list[str], words: str) -> None:
    ran = command("check", str(models), *options)
    assert ran.code == 64
    assert words in " ".join(ran.err.replace("│", "").split())


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_what_is_no_repository(command: Command, tmp_path: Path, name: str) -> None:
    write(tmp_path, {"empty/": "", "file": "x"})
    ran = command("check", str(tmp_path / name))
    assert ran.code == 1
    assert "repository" in ran.err


def test_the_directory_may_be_the_current_one(command: Command, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    assert command("check", ".").out == "2 models: nothing found.\n"
    monkeypatch.chdir(models / "fine")
    assert command("check", ".").out == "1 model: nothing found.\n"


PLAN = """
version: 1
name: p
containers:
  triton: { nodes: n, image: x/tritonserver:24.10-py3, triton: {} }
models:
  wants: { source: models/wants, containers: [triton]%s }
  fine: { source: models/fine, containers: [triton], config: { response_cache: { enable: true } } }
"""
SILENCE = ", ignore_checks: [{ id: instance-group-gpu, reason: the GPU is coming }]"


@pytest.mark.parametrize("inventory", [False, True])
def test_validate_tells_warnings_and_how_much_is_silenced(command: Command, models: Path, inventory: bool) -> None:
    folder = models.parent
    write(folder, {"plan.yaml": PLAN % "", "inventory.yaml": "all: { hosts: { n: {} } }"})
    argv = ["validate", str(folder / "plan.yaml"), *(["-i", str(folder / "inventory.yaml")] if inventory else [])]
    ran = command(*argv)
    assert ran.code == 1
    assert "[instance-group-gpu]" in ran.err
    write(folder, {"plan.yaml": PLAN % SILENCE})
    ran = command(*argv)
    assert ran.code == 0
    assert ran.out.startswith("Valid")
    assert "; 1 finding silenced." in " ".join(ran.out.split())
    assert "[response-cache-off]" in ran.err
    assert "instance-group-gpu" not in ran.err


def test_what_is_no_text_says_where(command: Command, models: Path) -> None:
    (models / "fine/config.pbtxt").write_bytes(b'backend: "python"\n# caf\xe9\n')
    ran = command("check", str(models / "fine"))
    assert ran.code == 1
    said = " ".join(ran.err.replace("│", "").split())
    assert "line 2 holds the byte 0xe9, which is not valid UTF-8. → Save the file as UTF-8." in said


def test_a_directory_in_the_place_of_a_config_is_an_error(command: Command, models: Path) -> None:
    (models / "fine/config.pbtxt").unlink()
    (models / "fine/config.pbtxt").mkdir()
    ran = command("check", str(models))
    assert (ran.code, ran.out) == (1, "2 models: 1 error, 0 warnings.\n")
    said = " ".join(ran.err.replace("│", "").split())
    assert "it is a directory, and Triton exits if it reads it." in said


def test_a_link_is_followed_as_the_server_does(command: Command, models: Path) -> None:
    code = models / "fine/1/model.py"
    code.rename(models.parent / "model.py")
    code.symlink_to(models.parent / "model.py")
    assert command("check", str(models / "fine")).out == "1 model: nothing found.\n"
    (models.parent / "model.py").unlink()
    assert "[model-file]" in command("check", str(models / "fine")).err
