"""Change sets as files: private, whole, and told from plan files by what is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuplan.cli import saved_file
from gpuplan.model.diagnostic import Problem
from tests.cli.run import Command
from tests.views import values
from tests.views.values import change_set_of

MADE = change_set_of(values.NODE, values.QUIET)


def test_what_is_saved_is_read_back() -> None:
    saved_file.write("c.bin", MADE, "inv.yaml")
    assert saved_file.read("c.bin") == (MADE, str(Path("inv.yaml").absolute()))


def test_only_its_owner_may_read_it() -> None:
    saved_file.write("c", MADE, "")
    assert Path("c").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in Path().iterdir()] == ["c"]


def test_it_is_known_by_its_content() -> None:
    saved_file.write("looks-like-a-plan.yaml", MADE, "")
    Path("plan").write_text("version: 1\nname: gpuplan change set\n")
    Path("flow").write_text("{version: 1, name: x}")
    assert saved_file.is_change_set("looks-like-a-plan.yaml")
    assert not saved_file.is_change_set("plan")
    assert not saved_file.is_change_set("flow")
    assert not saved_file.is_change_set("absent")
    assert not saved_file.is_change_set(".")


def test_a_former_change_set_is_replaced_and_nothing_else() -> None:
    saved_file.write("c", MADE, "")
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
        (lambda text: text.replace('"format": 1', '"format": 99'), "format 99"),
        (lambda text: text.replace('"run"', '"ran"'), "damaged"),
    ],
)
def test_a_damaged_one_is_refused_with_a_reason(command: Command, damage, says: str) -> None:
    saved_file.write("c", MADE, "")
    Path("c").write_text(damage(Path("c").read_text()))
    ran = command("show", "c")
    assert ran.code == 1
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_show_draws_it_with_its_steps(command: Command) -> None:
    saved_file.write("c", MADE, "inv.yaml")
    ran = command("show", "c")
    assert ran.code == 0
    assert "1. turn MIG mode on" in ran.out
    assert "2 interrupt serving." in ran.out


def test_show_as_json_is_the_file_in_an_envelope(command: Command) -> None:
    saved_file.write("c", MADE, "inv.yaml")
    answer = json.loads(command("show", "c", "--json").out)
    told = answer.pop("diagnostics")
    assert answer.pop("exit_code") == 0
    assert answer == json.loads(Path("c").read_text())
    assert [each["summary"] for each in told] == ["A server does not answer"]


def test_show_of_something_else(command: Command) -> None:
    Path("plan.yaml").write_text("version: 1\n")
    ran = command("show", "plan.yaml")
    assert ran.code == 1
    assert "cannot be read" in ran.err
    assert command("show", "absent").code == 1
