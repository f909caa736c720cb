"""The last line agrees with what stands above it."""

from __future__ import annotations

from dataclasses import replace

from gpuplan.output.summary import outcome_summary, plan_summary
from gpuplan.types.change import NodeChanges
from gpuplan.types.outcome import NodeOutcome
from tests.output import examples
from tests.output.examples import change_set_of


def test_it_counts_by_action_and_node() -> None:
    two = change_set_of(
        replace(examples.NODE, unknown=()),
        NodeChanges("gpu-h1", changes=(replace(examples.SLICES, interrupts=("x",)),)),
    )
    assert plan_summary(two) == (
        "Plan: 1 to create, 2 to update, 1 to replace, 1 to delete on 2 nodes. 3 interrupt serving."
    )


def test_no_changes_is_said_only_of_nodes_that_were_read() -> None:
    assert plan_summary(change_set_of(examples.QUIET)) == "No changes. 1 node matches the plan file."
    assert plan_summary(change_set_of(examples.UNREAD_NODE)) == "No changes found. 1 node could not be read."
    assert plan_summary(change_set_of(examples.FAULTY)) == "No changes found. 1 node with errors."


def test_a_warning_does_not_make_a_node_doubtful() -> None:
    warned = replace(examples.QUIET, diagnostics=(examples.WARNING,))
    assert plan_summary(change_set_of(warned)) == "No changes. 1 node matches the plan file."


def test_where_nothing_was_begun_no_steps_are_counted() -> None:
    refused = [NodeOutcome(f"n{number}", exit_code=7) for number in range(200)]
    assert outcome_summary(refused[:1]) == "Not applied on n0. No step was started."
    assert outcome_summary(refused[:4]) == "Not applied on n0, n1, n2 and n3. No step was started."
    assert outcome_summary(refused) == "Not applied on n0, n1, n2 and 197 more. No step was started."
