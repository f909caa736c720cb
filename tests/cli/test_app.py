"""What is typed wrong: exit code 64, one message, nothing on standard output."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gpuplan import __version__
from gpuplan.cli.app import COMMANDS
from tests.cli.command import Command


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nonsense"], "nonsense"),
        (["plan"], "Missing argument"),
        (["plan", "a.yaml", "b.yaml"], "unexpected extra argument"),
        (["plan", "a.yaml", "--bogus"], "--bogus"),
        (["plan", "a.yaml"], "GPUPLAN_INVENTORY"),
        (["plan", "a.yaml", "-i", "inv.yaml", "--var", "novalue"], "NAME=VALUE"),
        (["apply", "a.yaml", "-i", "inv.yaml"], "--auto-approve"),
        (["apply", "a.yaml", "-i", "inv.yaml", "--auto-approve", "--allow", "everything"], "busy-slice"),
    ],
)
def test_wrong_usage(command: Command, argv: list[str], says: str) -> None:
    ran = command(*argv)
    assert ran.code == 64
    assert says in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_wrong_usage_where_a_script_reads(command: Command) -> None:
    ran = command("apply", "a.yaml", "-i", "inv.yaml", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, ran.err) == (64, "")
    assert (answer["kind"], answer["exit_code"]) == ("gpuplan diagnostics", 64)
    assert "--auto-approve" in answer["diagnostics"][0]["fix"]


@pytest.mark.parametrize("argv", [["plan", "--json"], ["plan", "a", "--jason", "--json"], ["nonsense", "--json"]])
def test_what_the_parser_refuses_is_one_document_too(command: Command, argv: list[str]) -> None:
    ran = command(*argv)
    answer = json.loads(ran.out)
    assert (ran.code, ran.err) == (64, "")
    assert (answer["kind"], answer["exit_code"]) == ("gpuplan diagnostics", 64)
    assert answer["diagnostics"][0]["summary"] == "Wrong usage"
    assert answer["diagnostics"][0]["fix"].endswith("--help.")


def test_no_verb_at_all_shows_the_help_and_is_wrong_usage(command: Command) -> None:
    ran = command()
    assert (ran.code, ran.out) == (64, "")
    assert "drift-check" in ran.err


def test_the_version(command: Command) -> None:
    ran = command("--version")
    assert (ran.code, ran.out) == (0, f"gpuplan {__version__}\n")


@pytest.mark.parametrize("verb", ["", *COMMANDS])
def test_the_help_is_exactly_so(
    command: Command, verb: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    ran = command(*([verb] if verb else []), "--help")
    assert ran.code == 0
    assert ran.out == command(*([verb] if verb else []), "-h").out
    golden(f"help-{verb or 'gpuplan'}", ran.out)


def test_without_a_terminal_nobody_is_asked(command: Command) -> None:
    ran = command("apply", "a.yaml", "-i", "inv.yaml")
    assert ran.code == 64
    assert "stdin is not a terminal" in ran.err
    assert "yes'" not in ran.err
