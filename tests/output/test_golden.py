"""The exact text of every view, at the width of a pipe and without colour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuplan.output.changes import change_set
from gpuplan.output.diagnostics import diagnostics
from gpuplan.output.findings import report
from gpuplan.output.outcomes import outcomes
from gpuplan.output.smoke import page as smoke
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.diagnostic import Location
from tests.output import values
from tests.output.values import change_set_of, drawn

PAGES = {
    "change-set": lambda: change_set(change_set_of(values.NODE, values.QUIET)),
    "change-set-steps": lambda: change_set(change_set_of(values.NODE), steps=True),
    "change-set-doubts": lambda: change_set(change_set_of(values.QUIET, values.UNREAD_NODE, values.FAULTY)),
    "no-changes": lambda: change_set(change_set_of(values.QUIET, NodeChanges("gpu-t3"))),
    "nothing-to-destroy": lambda: change_set(change_set_of(values.QUIET, destroy=True)),
    "smoke": lambda: smoke(values.PROOFS),
    "smoke-once": lambda: smoke(values.PROVED_ONCE),
    "outcomes": lambda: outcomes(values.OUTCOMES),
    "outcomes-done": lambda: outcomes(values.OUTCOMES[1:2]),
    "outcomes-brief": lambda: outcomes(values.OUTCOMES, brief=True),
    "not-converged": lambda: outcomes(values.NOT_CONVERGED),
    "change-set-many": lambda: change_set(change_set_of(*values.MANY)),
    "interrupted": lambda: outcomes(values.INTERRUPTED),
    "interrupted-brief": lambda: outcomes(values.INTERRUPTED, brief=True),
    "drift": lambda: report(values.REPORT),
    "drift-verbose": lambda: report(values.REPORT, verbose=True),
    "in-sync-verbose": lambda: report(values.IN_SYNC, verbose=True),
    "diagnostics": lambda: diagnostics([values.UNKNOWN_KEY, values.WARNING, values.UNREACHABLE], source_line),
}


def source_line(where: Location) -> str | None:
    return "      cls-a: {profil: 3g.40gb}" if where.line == 12 else None


@pytest.mark.parametrize("name", PAGES)
def test_a_view_is_exactly_so(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, drawn(PAGES[name]()))


@pytest.mark.parametrize("name", ["change-set", "change-set-many", "drift", "diagnostics"])
def test_a_view_at_eighty_columns_is_exactly_so(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}-80", drawn(PAGES[name](), 80))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_no_row_is_wider_than_the_screen(name: str, width: int) -> None:
    assert max(len(row) for row in drawn(PAGES[name](), width).splitlines()) <= width


def test_a_drift_check_says_nothing_when_all_is_well() -> None:
    assert drawn(report(values.IN_SYNC)) == ""


def test_the_same_problem_is_told_once() -> None:
    assert drawn(diagnostics([values.UNREACHABLE] * 3)) == drawn(diagnostics([values.UNREACHABLE]))


def test_one_problem_of_several_resources_is_told_once_with_all_of_them() -> None:
    told = [replace(values.UNREACHABLE, address=address) for address in ("gpu-a1", "gpu-a2", "gpu-a1")]
    text = drawn(diagnostics(told))
    assert text.count("The node cannot be reached") == 1
    assert "gpu-a1, gpu-a2\n" in text


def test_of_very_many_problems_the_first_are_told_and_the_rest_counted() -> None:
    warnings = [replace(values.WARNING, detail=f"Rule {number}.") for number in range(30)]
    errors = [replace(values.UNKNOWN_KEY, detail=f"Key {number}.") for number in range(40)]
    text = drawn(diagnostics(warnings + errors))
    assert text.count("Error:") == 40
    assert text.count("Warning:") == 10
    assert text.endswith("\nand 20 more; --json tells all of them.\n")
    assert "more" not in drawn(diagnostics(errors))


def test_a_problem_of_very_many_nodes_names_some_of_them() -> None:
    text = drawn(diagnostics([replace(values.UNREACHABLE, address=f"n{number}") for number in range(200)]), 140)
    assert ", n19, and 180 more\n" in text


def test_every_node_is_shown_where_they_are_few_or_it_is_wanted() -> None:
    quiet = [NodeChanges(f"n{number}", resources=7) for number in range(6)]
    assert drawn(change_set(change_set_of(*quiet[:5]))).count("No changes. 7 resources compared.") == 5
    assert drawn(change_set(change_set_of(*quiet), verbose=True)).count("No changes. 7 resources compared.") == 6
    assert drawn(change_set(change_set_of(*quiet))) == (
        "n0, n1, n2 and 3 more\n  No changes. 42 resources compared on 6 nodes.\n\n"
        "No changes. 6 nodes are as the plan file says.\n"
    )
