"""What holds for every set of models and every server, not only for the cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuplan.core.plan.order import in_order
from gpuplan.resources.model.diff import diff
from gpuplan.resources.model.read import read
from gpuplan.types.change import Action, Comparison
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from tests.resources.model.case import CASES, load, snapshot, wishes

NAMES = ["a", "b", "c", "d", "e"]
STATES = ["READY", "LOADING", "UNLOADING", ["UNAVAILABLE", "unloaded"], ["UNAVAILABLE", "Internal: broken"]]


@st.composite
def wanted(draw: st.DrawFn) -> Mapping[str, Any]:
    """Models of one server; parts are among the names before, so there is no circle."""
    models: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        parts = draw(st.lists(st.sampled_from(sorted(models)), unique=True)) if models else []
        versions = draw(st.lists(st.integers(1, 3), unique=True, min_size=1).map(sorted))
        models[name] = {"content": draw(st.sampled_from(["c1", "c2"])), "versions": versions, "parts": parts}
    return {"t": models}


SERVERS = st.fixed_dictionaries(
    {
        "index": st.dictionaries(
            st.sampled_from(NAMES), st.dictionaries(st.integers(1, 3), st.sampled_from(STATES), min_size=1)
        ),
        "contents": st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["c1", "c2"])),
    }
)


def compared(desired: tuple[Desired, ...], seen: Snapshot, recorded: tuple[Desired, ...] = ()) -> Comparison:
    resources = {each.address: Recorded(each.digest, each.spec, each.needs) for each in recorded}
    return diff(desired, read(seen), DiffContext("n", "prod", Record("prod", "r1", resources=resources)))


def as_wanted(models: Mapping[str, Any]) -> Snapshot:
    """A node on which exactly these models are loaded."""
    index = {name: dict.fromkeys(model["versions"], "READY") for name, model in models.items()}
    server = {"index": index, "contents": {name: model["content"] for name, model in models.items()}}
    return snapshot({"t": server}, {"t": {"at_start": list(models)}}, {})


@given(wanted())
def test_what_is_as_wanted_has_no_change(models: Mapping[str, Any]) -> None:
    comparison = compared(wishes(models), as_wanted(models["t"]), wishes(models))
    assert comparison.changes == ()
    assert comparison.unknown == ()
    assert comparison.unmanaged == ()


@given(wanted(), wanted(), SERVERS, st.sampled_from(["docker", "triton", "repository"]))
def test_a_failed_probe_never_gives_a_change(
    models: Mapping[str, Any], before: Mapping[str, Any], server: Mapping[str, Any], failed: str
) -> None:
    seen = snapshot({"t": server}, {"t": {"at_start": []}}, {failed: ("timeout", "no answer")})
    comparison = compared(wishes(models), seen, wishes(before))
    assert comparison.changes == ()
    known = {each.address for each in (*wishes(models), *wishes(before))}
    assert {each.address for each in comparison.unknown} == known


@given(wanted(), wanted(), SERVERS)
def test_every_difference_has_a_step_and_the_steps_have_an_order(
    models: Mapping[str, Any], before: Mapping[str, Any], server: Mapping[str, Any]
) -> None:
    seen = snapshot({"t": server}, {"t": {"at_start": sorted(before["t"])}}, {})
    comparison = compared(wishes(models), seen, wishes(before))
    common = [change for change in comparison.changes if change.address.name == "t"]
    assert all(change.fields for change in comparison.changes)
    assert all(change.steps for change in comparison.changes if change not in common)
    assert all(change.cause == root.address for root in common for change in comparison.changes if change.cause)
    order = in_order(comparison.changes)
    place = {address: number for number, address in enumerate(order)}
    loads = {c.address: place[c.steps[0].id] for c in comparison.changes if c.steps and c.action is not Action.DELETE}
    for desired in wishes(models):
        for part in (need for need in desired.needs if need in loads and desired.address in loads):
            assert loads[part] < loads[desired.address]


@given(wanted())
def test_an_ensemble_is_unloaded_before_its_parts(models: Mapping[str, Any]) -> None:
    comparison = compared((), as_wanted(models["t"]), wishes(models))
    order = in_order(comparison.changes)
    assert len(order) == len(models["t"])
    for desired in wishes(models):
        for part in (need for need in desired.needs if need.kind == "model"):
            assert order.index(f"{desired.address}:unload") < order.index(f"{part}:unload")


def test_causes_are_among_the_changes_or_the_disturbed_of_every_case() -> None:
    for path in CASES:
        case = load(path)
        comparison = case.compare()
        known = {change.address for change in comparison.changes} | set(case.disturbed)
        for change in comparison.changes:
            root = change.cause
            assert root is None or any(root.covers(each) or each.covers(root) for each in known), path.name
