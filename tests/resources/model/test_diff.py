"""The comparison of each case in cases/ (a new case is a new file), and what holds for all models and servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.core.plan.order import order_steps, predecessors, required_predecessors
from gpuplan.resources.model.diff import diff
from gpuplan.resources.model.read import read
from gpuplan.resources.model.steps import LoadModel, payload_of
from gpuplan.types.change import Action, Comparison, Step
from gpuplan.types.resource import Desired, DiffContext, Record, Recorded
from gpuplan.types.snapshot import Snapshot
from tests.resources.model.case import CASES, desired_models, load, snapshot
from tests.resources.told import told


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = load(path)
    assert told(case.compare()) == case.expect, case.about


NAMES = ["a", "b", "c", "d", "e"]
STATES = ["READY", "LOADING", "UNLOADING", ["UNAVAILABLE", "unloaded"], ["UNAVAILABLE", "Internal: broken"]]


@st.composite
def desired(draw: st.DrawFn) -> Mapping[str, Any]:
    """Models of one server; parts are among the names before, so there is no cycle."""
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


def compare(desired: tuple[Desired, ...], seen: Snapshot, recorded: tuple[Desired, ...] = ()) -> Comparison:
    resources = {each.address: Recorded(each.digest, each.spec, each.needs) for each in recorded}
    return diff(desired, read(seen), DiffContext("n", "prod", Record("prod", "r1", resources=resources)))


def as_desired(models: Mapping[str, Any]) -> Snapshot:
    """A node on which exactly these models are loaded."""
    index = {name: dict.fromkeys(model["versions"], "READY") for name, model in models.items()}
    server = {"index": index, "contents": {name: model["content"] for name, model in models.items()}}
    return snapshot({"t": server}, {"t": {"at_start": list(models)}}, {})


@given(desired())
def test_models_as_desired_have_no_change(models: Mapping[str, Any]) -> None:
    comparison = compare(desired_models(models), as_desired(models["t"]), desired_models(models))
    assert comparison.changes == ()
    assert comparison.unknown == ()
    assert comparison.unmanaged == ()


@given(desired(), desired(), SERVERS, st.sampled_from(["docker", "triton", "repository"]))
def test_a_failed_probe_never_gives_a_change(
    models: Mapping[str, Any], before: Mapping[str, Any], server: Mapping[str, Any], failed: str
) -> None:
    seen = snapshot({"t": server}, {"t": {"at_start": []}}, {failed: ("timeout", "no answer")})
    comparison = compare(desired_models(models), seen, desired_models(before))
    assert comparison.changes == ()
    known = {each.address for each in (*desired_models(models), *desired_models(before))}
    assert {each.address for each in comparison.unknown} == known


@given(desired(), desired(), SERVERS)
def test_every_difference_has_a_step_and_the_steps_have_an_order(
    models: Mapping[str, Any], before: Mapping[str, Any], server: Mapping[str, Any]
) -> None:
    seen = snapshot({"t": server}, {"t": {"at_start": sorted(before["t"])}}, {})
    comparison = compare(desired_models(models), seen, desired_models(before))
    common = [change for change in comparison.changes if change.address.name == "t"]
    assert all(change.fields for change in comparison.changes)
    assert all(change.steps for change in comparison.changes if change not in common)
    assert all(change.cause == root.address for root in common for change in comparison.changes if change.cause)
    order = order_steps(comparison.changes)
    place = {address: number for number, address in enumerate(order)}
    loads = {c.address: place[c.steps[0].id] for c in comparison.changes if c.steps and c.action is not Action.DELETE}
    for resource in desired_models(models):
        for part in (need for need in resource.needs if need in loads and resource.address in loads):
            assert loads[part] < loads[resource.address]


@given(desired())
def test_an_ensemble_is_unloaded_before_its_parts(models: Mapping[str, Any]) -> None:
    comparison = compare((), as_desired(models["t"]), desired_models(models))
    order = order_steps(comparison.changes)
    assert len(order) == len(models["t"])
    for resource in desired_models(models):
        for part in (need for need in resource.needs if need.kind == "model"):
            assert order.index(f"{resource.address}:unload") < order.index(f"{part}:unload")


def test_causes_are_among_the_changes_or_the_disturbed_of_every_case() -> None:
    for path in CASES:
        case = load(path)
        comparison = case.compare()
        known = {change.address for change in comparison.changes} | set(case.disturbed)
        for change in comparison.changes:
            root = change.cause
            assert root is None or any(root.covers(each) or each.covers(root) for each in known), path.name


CASE = Path(__file__).parent / "cases/part-changes-under-an-ensemble.yaml"


def loads(comparison: Comparison) -> dict[str, Step]:
    return {step.address.name.partition("/")[2]: step for change in comparison.changes for step in change.steps}


def verified(step: Step) -> list[str]:
    """The dependents that the load of a part verifies."""
    payload = payload_of(step)
    assert isinstance(payload, LoadModel)
    return [dependent.spec.model for dependent in payload.dependents]


def test_the_last_part_waits_for_the_others_and_verifies_the_ensemble() -> None:
    steps = loads(load(CASE).compare())
    assert (verified(steps["a"]), verified(steps["b"])) == ([], ["ens"])
    assert steps["a"].id in predecessors(tuple(steps.values()))[steps["b"].id]
    assert steps["a"].id not in required_predecessors(tuple(steps.values()))[steps["b"].id]


@st.composite
def changed(draw: st.DrawFn) -> tuple[Mapping[str, Any], list[str]]:
    """Models with parts, and which of them change."""
    models: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 6))):
        parts = draw(st.lists(st.sampled_from(sorted(models)), unique=True)) if models else []
        models[f"m{number}"] = {"parts": parts}
    return models, draw(st.lists(st.sampled_from(sorted(models)), unique=True))


def below(models: Mapping[str, Any], name: str) -> set[str]:
    parts = set(models[name]["parts"])
    return parts.union(*(below(models, part) for part in parts))


@given(changed())
def test_each_dependent_is_verified_once_after_all_of_its_parts(
    given_: tuple[Mapping[str, Any], list[str]],
) -> None:
    models, names = given_
    server = {
        "index": {name: {1: "READY"} for name in models},
        "contents": {name: "old" if name in names else "c1" for name in models},
    }
    comparison = compare(
        desired_models({"t": models}),
        snapshot({"t": server}, {"t": {"at_start": list(models)}}, {}),
        desired_models({"t": models}),
    )
    order = order_steps(comparison.changes)
    steps = loads(comparison)
    assert sorted(steps) == sorted(names)
    seen = {model: name for name, step in steps.items() for model in verified(step)}
    assert len(seen) == sum(len(verified(step)) for step in steps.values())
    assert set(seen) == {name for name in models if name not in names and below(models, name) & set(names)}
    for model, by in seen.items():
        parts = below(models, model) & set(names)
        assert by in parts
        assert all(order.index(steps[part].id) <= order.index(steps[by].id) for part in parts)
