"""Change sets as files: private, whole, and told from plan files by what is in them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpuplan.cli import saved_file
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from tests.cli.command import Command
from tests.output import examples
from tests.output.examples import change_set_of

MADE = change_set_of(examples.NODE, examples.QUIET)


def test_what_is_saved_is_read_back() -> None:
    saved_file.write_change_set("c.bin", MADE, "inv.yaml")
    assert saved_file.read_change_set("c.bin") == (MADE, str(Path("inv.yaml").absolute()))


def test_only_its_owner_may_read_it() -> None:
    saved_file.write_change_set("c", MADE, "")
    assert Path("c").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in Path().iterdir()] == ["c"]


def test_it_is_known_by_its_content() -> None:
    saved_file.write_change_set("looks-like-a-plan.yaml", MADE, "")
    Path("plan").write_text("version: 1\nname: gpuplan change set\n")
    Path("flow").write_text("{version: 1, name: x}")
    assert saved_file.is_change_set("looks-like-a-plan.yaml")
    assert not saved_file.is_change_set("plan")
    assert not saved_file.is_change_set("flow")
    assert not saved_file.is_change_set("absent")
    assert not saved_file.is_change_set(".")


def test_a_former_change_set_is_replaced_and_nothing_else() -> None:
    saved_file.write_change_set("c", MADE, "")
    saved_file.refuse_to_overwrite("c")
    saved_file.refuse_to_overwrite("new")
    Path("precious").write_text("text")
    Path("dangling").symlink_to("nowhere")
    for path in ("precious", "dangling", ".", "no/such/folder"):
        with pytest.raises(Problem) as raised:
            saved_file.refuse_to_overwrite(path)
        assert raised.value.diagnostics[0].fix


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text[: len(text) // 2], "damaged"),
        (lambda text: text.replace('"format": 1', '"format": 99'), "its format is 99"),
        (lambda text: text.replace('"run"', '"ran"'), "was modified"),
        (lambda text: text.replace("turn MIG mode on", "turn MIG mode off"), "was modified"),
        (lambda text: text.replace("inv.yaml", "other.yaml"), "was modified"),
        (lambda text: re.sub(r',\n  "digest": "[0-9a-f]*"', "", text), "was modified"),
    ],
)
def test_a_damaged_one_is_refused_with_a_reason(command: Command, damage, says: str) -> None:
    saved_file.write_change_set("c", MADE, "inv.yaml")
    Path("c").write_text(damage(Path("c").read_text()))
    for argv in (["show", "c"], ["apply", "c", "--auto-approve"]):
        ran = command(*argv)
        assert ran.code == 1
        assert says in ran.err
        assert "Traceback" not in ran.err


def test_its_layout_and_what_lies_beyond_ascii_do_not_matter(command: Command) -> None:
    odd = replace(examples.QUIET, diagnostics=(Diagnostic("ü\udc80\u2028 日本", "1.0", severity=Severity.WARNING),))
    saved_file.write_change_set("c", change_set_of(examples.NODE, odd), "inv.yaml")
    Path("c").write_text(json.dumps(json.loads(Path("c").read_text()), sort_keys=True, ensure_ascii=True))
    assert command("show", "c").code == 0


def test_show_draws_it_with_its_steps(command: Command) -> None:
    saved_file.write_change_set("c", MADE, "inv.yaml")
    ran = command("show", "c")
    assert ran.code == 0
    assert "1. turn MIG mode on" in ran.out
    assert "2 interrupt serving." in ran.out


def test_show_as_json_is_the_file_in_an_envelope(command: Command) -> None:
    saved_file.write_change_set("c", MADE, "inv.yaml")
    answer = json.loads(command("show", "c", "--json").out)
    told = answer.pop("diagnostics")
    assert answer.pop("exit_code") == 0
    saved = json.loads(Path("c").read_text())
    assert len(saved.pop("digest")) == 64
    assert answer == saved
    assert [each["summary"] for each in told] == ["A server does not answer"]


def test_show_of_something_else(command: Command) -> None:
    Path("plan.yaml").write_text("version: 1\n")
    Path("other.json").write_text('{"version": 1}')
    Path("flow.yaml").write_text("{version: 1, name: a}")
    for path in ("plan.yaml", "other.json", "flow.yaml"):
        ran = command("show", path)
        assert ran.code == 64
        assert "Error: Not a saved change set" in ran.err
        assert "damaged" not in ran.err
    assert command("show", "absent").code == 1


@pytest.mark.parametrize("verb", ["validate", "plan", "destroy", "drift-check"])
def test_one_where_a_plan_file_is_wanted(command: Command, verb: str) -> None:
    saved_file.write_change_set("c", MADE, "inv.yaml")
    options = [] if verb == "validate" else ["-i", "inv.yaml"]
    ran = command(verb, "c", *options, *(["--auto-approve"] if verb == "destroy" else []))
    assert ran.code == 64
    assert "Error: Not a plan file" in ran.err
    assert "gpuplan show c or gpuplan apply c" in ran.err


@pytest.mark.parametrize("argv", [["validate"], ["plan", "-i", "x"], ["show"]])
def test_an_empty_path(command: Command, argv: list[str]) -> None:
    ran = command(argv[0], "", *argv[1:])
    assert ran.code == 64
    assert "Error: Empty path" in ran.err
