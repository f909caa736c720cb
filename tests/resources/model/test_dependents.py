"""The load of a part sees to what is composed of it or calls it, once no other part of that is on its way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuplan.core.plan.order import in_order, rests_on, waits_for
from gpuplan.types.change import Comparison, Step
from gpuplan.types.value import as_list, as_object
from tests.resources.model.case import load, snapshot, wishes
from tests.resources.model.test_laws import compared

CASE = Path(__file__).parent / "cases/part-changes-under-an-ensemble.yaml"


def loads(comparison: Comparison) -> dict[str, Step]:
    return {step.address.name.partition("/")[2]: step for change in comparison.changes for step in change.steps}


def verified(step: Step) -> list[str]:
    return [str(as_object(each)["model"]) for each in as_list(step.arguments.get("verify") or ())]


def test_the_last_part_waits_for_the_others_and_sees_to_the_ensemble() -> None:
    steps = loads(load(CASE).compare())
    assert (verified(steps["a"]), verified(steps["b"])) == ([], ["ens"])
    assert steps["a"].id in waits_for(tuple(steps.values()))[steps["b"].id]
    assert steps["a"].id not in rests_on(tuple(steps.values()))[steps["b"].id]


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
def test_each_model_above_a_change_is_seen_to_once_after_all_of_them(
    given_: tuple[Mapping[str, Any], list[str]],
) -> None:
    models, names = given_
    server = {
        "index": {name: {1: "READY"} for name in models},
        "contents": {name: "old" if name in names else "c1" for name in models},
    }
    comparison = compared(
        wishes({"t": models}), snapshot({"t": server}, {"t": {"at_start": list(models)}}, {}), wishes({"t": models})
    )
    order = in_order(comparison.changes)
    steps = loads(comparison)
    assert sorted(steps) == sorted(names)
    seen = {model: name for name, step in steps.items() for model in verified(step)}
    assert len(seen) == sum(len(verified(step)) for step in steps.values())
    assert set(seen) == {name for name in models if name not in names and below(models, name) & set(names)}
    for model, by in seen.items():
        parts = below(models, model) & set(names)
        assert by in parts
        assert all(order.index(steps[part].id) <= order.index(steps[by].id) for part in parts)
