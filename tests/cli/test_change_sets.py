"""What apply does with a change set before and after the flow runs it: shows, asks, leaves out, and tells."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuplan.cli import saved_file
from gpuplan.core import run as flow
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Exit
from gpuplan.types.outcome import NodeOutcome, Status, StepOutcome
from tests.cli.command import Command
from tests.output import examples
from tests.output.examples import change_set_of

CLEAN = replace(examples.NODE, unmanaged=(examples.FOREIGN,), unknown=())
SECOND = NodeChanges("gpu-h1", changes=(replace(examples.LOAD, steps=()),), unmanaged=(examples.IN_THE_WAY,))
INVENTORY = "all: { hosts: { gpu-a1: {}, gpu-h1: {}, gpu-t1: {}, gpu-t2: {} } }\n"


class Flow:
    """Stands where the flow is, and remembers what it was given to apply."""

    def __init__(self) -> None:
        self.given: list[ChangeSet] = []
        self.codes: dict[str, Exit] = {}

    def __call__(self, change_set: ChangeSet, inventory: object, **rest: object) -> tuple[NodeOutcome, ...]:
        self.given.append(change_set)
        return tuple(self._outcome(node) for node in change_set.nodes)

    def _outcome(self, node: NodeChanges) -> NodeOutcome:
        code = self.codes.get(node.node, Exit.DONE)
        trouble = (Diagnostic("Trouble", address=node.node),) if code else ()
        steps = (StepOutcome("s", "do it", Status.DONE, 1.0),) if node.changes else ()
        return NodeOutcome(node.node, steps, trouble, code)


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> Flow:
    stand_in = Flow()
    monkeypatch.setattr(flow, "apply", stand_in)
    Path("inv.yaml").write_text(INVENTORY)
    return stand_in


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    return lambda text: monkeypatch.setattr("sys.stdin", Terminal(text))


def saved(*nodes: NodeChanges) -> str:
    saved_file.write_change_set("changes", change_set_of(*nodes), "inv.yaml")
    return "changes"


def test_yes_applies_what_was_shown(command: Command, applied: Flow, answering: Callable[[str], None]) -> None:
    answering("yes\n")
    ran = command("apply", saved(CLEAN))
    assert ran.code == 0
    assert applied.given == [change_set_of(CLEAN)]
    assert ran.out.index("Plan: 1 to create") < ran.out.index("Apply complete: 1 step done on 1 node.")
    assert ran.err == "\nApply these changes? Only 'yes' is accepted: "


@pytest.mark.parametrize("answer", ["no\n", "y\n", "YES\n", "\n", ""])
def test_anything_else_applies_nothing(
    command: Command, applied: Flow, answering: Callable[[str], None], answer: str
) -> None:
    answering(answer)
    ran = command("apply", saved(CLEAN))
    assert ran.code == 1
    assert applied.given == []
    assert "Cancelled" in ran.err


def test_nothing_is_asked_where_nothing_changes(
    command: Command, applied: Flow, answering: Callable[[str], None]
) -> None:
    answering("")
    ran = command("apply", saved(examples.QUIET))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("No changes. 1 node matches the plan file.\n")
    assert applied.given == [change_set_of(examples.QUIET)]


def test_nodes_in_doubt_are_left_out_and_the_rest_goes_on(command: Command, applied: Flow) -> None:
    ran = command("apply", saved(CLEAN, examples.UNREAD_NODE, examples.FAULTY), "--auto-approve")
    assert [node.node for node in applied.given[0].nodes] == ["gpu-a1"]
    assert ran.code == 1
    assert "The node cannot be reached" in ran.err


def test_a_guard_refuses_its_node_alone(command: Command, applied: Flow) -> None:
    ran = command("apply", saved(CLEAN, SECOND), "--auto-approve")
    assert [node.node for node in applied.given[0].nodes] == ["gpu-a1"]
    assert ran.code == 6
    assert "--allow unmanaged-slice" in ran.err


def test_a_guard_is_lifted_by_its_name(command: Command, applied: Flow) -> None:
    ran = command("apply", saved(CLEAN, SECOND), "--auto-approve", "--allow", "unmanaged-slice")
    assert [node.node for node in applied.given[0].nodes] == ["gpu-a1", "gpu-h1"]
    assert ran.code == 0


@pytest.mark.parametrize("code", [Exit.ERROR, Exit.UNREAD, Exit.BUSY, Exit.REFUSED, Exit.STALE])
def test_the_worst_node_gives_the_code(command: Command, applied: Flow, code: Exit) -> None:
    applied.codes["gpu-h1"] = code
    ran = command("apply", saved(CLEAN, replace(SECOND, unmanaged=())), "--auto-approve")
    assert ran.code == code
    assert "Apply incomplete on gpu-h1" in ran.out
    assert "Trouble" in ran.err


def test_outcomes_for_scripts(command: Command, applied: Flow) -> None:
    applied.codes["gpu-h1"] = Exit.BUSY
    ran = command("apply", saved(CLEAN, replace(SECOND, unmanaged=())), "--auto-approve", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, ran.err, answer["exit_code"]) == (5, "", 5)
    assert [(node["node"], node["exit_code"]) for node in answer["nodes"]] == [("gpu-a1", 0), ("gpu-h1", 5)]
    assert [each["summary"] for each in answer["diagnostics"]] == ["Trouble"]


def test_an_inventory_given_by_hand_wins(command: Command, applied: Flow) -> None:
    ran = command("apply", saved(CLEAN), "-i", "absent.yaml", "--auto-approve")
    assert ran.code == 1
    assert "absent.yaml" in ran.err
    assert applied.given == []


@pytest.mark.parametrize("option", ["--target", "--var", "--var-file"])
def test_a_saved_change_set_takes_no_further_wishes(command: Command, applied: Flow, option: str) -> None:
    ran = command("apply", saved(CLEAN), option, "a=b", "--auto-approve")
    assert ran.code == 64
    assert applied.given == []
