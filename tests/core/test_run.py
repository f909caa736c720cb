"""Exit codes: which of several reasons wins."""

import pytest

from gpuplan.core.run import apply_exit_code, drift_exit_code, plan_exit_code
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, ChangeSet, NodeChanges, Unreadable
from gpuplan.types.diagnostic import Diagnostic, Exit, Severity
from gpuplan.types.outcome import NodeOutcome
from gpuplan.types.report import Drift, NodeFindings, Report

ADDRESS = Address("n", "gpu", "g")
CHANGE = Change(ADDRESS, Action.UPDATE)
UNREAD = NodeFindings("a", unknown=(Unreadable(ADDRESS, Diagnostic("x")),))
BUSY = NodeFindings("b", busy="somebody")
DRIFTED = NodeFindings("c", drift=(Drift(CHANGE),))
PENDING = NodeFindings("d", pending=(ADDRESS,))
ERROR = NodeFindings("e", diagnostics=(Diagnostic("x"),))
WARNED = NodeFindings("f", diagnostics=(Diagnostic("x", severity=Severity.WARNING),))


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([], Exit.DONE),
        ([WARNED], Exit.DONE),
        ([PENDING], Exit.PENDING),
        ([PENDING, DRIFTED], Exit.CHANGES),
        ([PENDING, DRIFTED, BUSY], Exit.BUSY),
        ([DRIFTED, BUSY, UNREAD], Exit.UNREAD),
        ([UNREAD, ERROR, DRIFTED], Exit.ERROR),
    ],
)
def test_a_drift_check_answers_with_the_first_that_holds(nodes: list[NodeFindings], code: Exit) -> None:
    assert drift_exit_code(Report("p", "", 0.0, nodes)) is code


@pytest.mark.parametrize(
    ("node", "detailed", "code"),
    [
        (NodeChanges("n"), True, Exit.DONE),
        (NodeChanges("n", changes=(CHANGE,)), False, Exit.DONE),
        (NodeChanges("n", changes=(CHANGE,)), True, Exit.CHANGES),
        (NodeChanges("n", changes=(CHANGE,), unknown=UNREAD.unknown), True, Exit.UNREAD),
        (NodeChanges("n", unknown=UNREAD.unknown, diagnostics=(Diagnostic("x"),)), True, Exit.ERROR),
    ],
)
def test_a_plan_says_changes_only_when_asked_and_all_was_read(node: NodeChanges, detailed: bool, code: Exit) -> None:
    assert plan_exit_code(ChangeSet("p", "", "", "", (node,)), detailed) is code


def test_an_apply_answers_with_the_worst_node() -> None:
    outcomes = [NodeOutcome("a"), NodeOutcome("b", exit_code=Exit.UNREAD), NodeOutcome("c", exit_code=Exit.STALE)]
    assert apply_exit_code(outcomes) is Exit.STALE
    assert apply_exit_code(outcomes[:1]) is Exit.DONE
