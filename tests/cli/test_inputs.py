"""What is wrong with the files: every fault at once, each with its place and its line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import Command

FAULTY = """\
version: 1
name: prod
gpus:
  a100-0:
    nodes: a100
    select: { index: 0 }
    mig:
      cls-a: { profil: 3g.40gb }
containers:
  triton:
    nodes: a100
    image: nvcr.io/nvidia/tritonserver:${var.none}
    gpus: [a100-0/cls-z]
    shm_size: 1GiBB
"""
INVENTORY = "a100: { hosts: { gpu-a1: { ansible_port: many } } }\n"


def test_all_faults_are_told_at_once_with_their_places(command: Command) -> None:
    Path("faulty.yaml").write_text(FAULTY)
    ran = command("validate", "faulty.yaml")
    assert (ran.code, ran.out) == (1, "")
    for place in ("faulty.yaml:8:", "faulty.yaml:12:", "faulty.yaml:14:"):
        assert place in ran.err
    assert "     8 │       cls-a: { profil: 3g.40gb }\n│        │                ^" in ran.err
    assert "profile" in ran.err
    assert "Traceback" not in ran.err


def test_the_same_faults_for_scripts(command: Command) -> None:
    Path("faulty.yaml").write_text(FAULTY)
    ran = command("validate", "faulty.yaml", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, ran.err, answer["exit_code"]) == (1, "", 1)
    assert {8, 12, 14} <= {each["where"]["line"] for each in answer["diagnostics"]}


def test_faults_of_plan_file_and_inventory_come_together(command: Command) -> None:
    Path("faulty.yaml").write_text(FAULTY)
    Path("inv.yaml").write_text(INVENTORY)
    for verb in ("validate", "plan", "drift-check"):
        ran = command(verb, "faulty.yaml", "-i", "inv.yaml")
        assert ran.code == 1
        assert "faulty.yaml:8:" in ran.err
        assert "inv.yaml:1:" in ran.err


def test_files_that_are_not_there_are_named(command: Command) -> None:
    ran = command("plan", "absent.yaml", "-i", "nowhere.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert "absent.yaml" in ran.err
    assert "nowhere.yaml" in ran.err


def test_the_inventory_comes_from_the_environment(command: Command, monkeypatch) -> None:
    monkeypatch.setenv("GPUPLAN_INVENTORY", "from-environment.yaml")
    ran = command("plan", "absent.yaml")
    assert ran.code == 1
    assert "from-environment.yaml" in ran.err


def test_a_file_that_is_in_the_way_is_told_before_any_node_is_asked(command: Command) -> None:
    Path("precious").write_text("text")
    ran = command("plan", "absent.yaml", "-i", "absent.yaml", "--out", "precious")
    assert ran.code == 1
    assert "Refusing to overwrite" in ran.err
    assert Path("precious").read_text() == "text"


def test_very_many_faults_are_counted_and_scripts_get_all(command: Command) -> None:
    Path("faulty.yaml").write_text("version: 1\nname: a\n" + "".join(f"x{number}: 1\n" for number in range(4548)))
    ran = command("validate", "faulty.yaml")
    assert ran.err.count("Error:") == 50
    assert "4498 more not shown; use --json for all of them." in ran.err
    assert len(json.loads(command("validate", "faulty.yaml", "--json").out)["diagnostics"]) == 4548
