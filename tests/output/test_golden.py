"""The exact text of every view, at the width of a pipe and without colour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuplan.output.change_set import render_change_set
from gpuplan.output.diagnostics import render_diagnostics
from gpuplan.output.drift import render_drift_report
from gpuplan.output.outcomes import render_outcomes
from gpuplan.output.smoke import render_smoke as smoke
from gpuplan.types.change import NodeChanges
from gpuplan.types.diagnostic import Location
from tests.output import examples
from tests.output.examples import change_set_of, drawn

PAGES = {
    "change-set": lambda: render_change_set(change_set_of(examples.NODE, examples.QUIET)),
    "change-set-steps": lambda: render_change_set(change_set_of(examples.NODE), steps=True),
    "change-set-doubts": lambda: render_change_set(
        change_set_of(examples.QUIET, examples.UNREAD_NODE, examples.FAULTY)
    ),
    "no-changes": lambda: render_change_set(change_set_of(examples.QUIET, NodeChanges("gpu-t3"))),
    "nothing-to-destroy": lambda: render_change_set(change_set_of(examples.QUIET, destroy=True)),
    "smoke": lambda: smoke(examples.PROOFS),
    "smoke-once": lambda: smoke(examples.PROVED_ONCE),
    "outcomes": lambda: render_outcomes(examples.OUTCOMES),
    "outcomes-done": lambda: render_outcomes(examples.OUTCOMES[1:2]),
    "outcomes-brief": lambda: render_outcomes(examples.OUTCOMES, brief=True),
    "not-converged": lambda: render_outcomes(examples.NOT_CONVERGED),
    "change-set-many": lambda: render_change_set(change_set_of(*examples.MANY)),
    "interrupted": lambda: render_outcomes(examples.INTERRUPTED),
    "interrupted-brief": lambda: render_outcomes(examples.INTERRUPTED, brief=True),
    "drift": lambda: render_drift_report(examples.REPORT),
    "drift-verbose": lambda: render_drift_report(examples.REPORT, verbose=True),
    "in-sync-verbose": lambda: render_drift_report(examples.IN_SYNC, verbose=True),
    "diagnostics": lambda: render_diagnostics(
        [examples.UNKNOWN_KEY, examples.WARNING, examples.UNREACHABLE], source_line
    ),
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
    assert drawn(render_drift_report(examples.IN_SYNC)) == ""


def test_the_same_problem_is_told_once() -> None:
    assert drawn(render_diagnostics([examples.UNREACHABLE] * 3)) == drawn(render_diagnostics([examples.UNREACHABLE]))


def test_one_problem_of_several_resources_is_told_once_with_all_of_them() -> None:
    told = [replace(examples.UNREACHABLE, address=address) for address in ("gpu-a1", "gpu-a2", "gpu-a1")]
    text = drawn(render_diagnostics(told))
    assert text.count("The node cannot be reached") == 1
    assert "gpu-a1, gpu-a2\n" in text


def test_of_very_many_problems_the_first_are_told_and_the_rest_counted() -> None:
    warnings = [replace(examples.WARNING, detail=f"Rule {number}.") for number in range(30)]
    errors = [replace(examples.UNKNOWN_KEY, detail=f"Key {number}.") for number in range(40)]
    text = drawn(render_diagnostics(warnings + errors))
    assert text.count("Error:") == 40
    assert text.count("Warning:") == 10
    assert text.endswith("\n20 more not shown; use --json for all of them.\n")
    assert "more" not in drawn(render_diagnostics(errors))


def test_a_problem_of_very_many_nodes_names_some_of_them() -> None:
    text = drawn(
        render_diagnostics([replace(examples.UNREACHABLE, address=f"n{number}") for number in range(200)]), 140
    )
    assert ", n19, and 180 more\n" in text


def test_every_node_is_shown_where_they_are_few_or_it_is_wanted() -> None:
    quiet = [NodeChanges(f"n{number}", resources=7) for number in range(6)]
    assert drawn(render_change_set(change_set_of(*quiet[:5]))).count("No changes. 7 resources compared.") == 5
    assert drawn(render_change_set(change_set_of(*quiet), verbose=True)).count("No changes. 7 resources compared.") == 6
    assert drawn(render_change_set(change_set_of(*quiet))) == (
        "n0, n1, n2 and 3 more\n  No changes. 42 resources compared on 6 nodes.\n\n"
        "No changes. 6 nodes match the plan file.\n"
    )
