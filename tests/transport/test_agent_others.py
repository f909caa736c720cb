"""The others probe: what can be taken from other plan files, and which of their records are damaged."""

from pathlib import Path

import pytest

from gpuplan.agent import record
from tests.transport.conftest import Asking

SLICE = {"gpu": "GPU-1", "profile": "3g.40gb", "start": 4, "size": 4}
RESOURCE = {"digest": "d", "spec": {"large": "x" * 100}, "needs": []}


def applied(asking: Asking, plan: str, **changes: object) -> None:
    kinds = ("gpu/a100-0", "container/triton", "repository/triton", "model/triton/m")
    whole = {
        "format": 1,
        "plan": plan,
        "resources": {f"n/{kind}": RESOURCE for kind in kinds},
        "remembered": {"n/gpu/a100-0/cls-a": SLICE, "n/model/triton/m": {"x": 1}},
    }
    asking.ok("record.write", plan=plan, record={**whole, **changes})


def test_other_plans_are_told_by_what_can_be_taken_from_them(asking: Asking) -> None:
    assert asking.value("others") == {}
    applied(asking, "prod")
    assert asking.value("others") == {}
    applied(asking, "batch")
    expected = {"resources": ["n/container/triton", "n/gpu/a100-0"], "remembered": {"n/gpu/a100-0/cls-a": SLICE}}
    assert asking.value("others") == {"batch": expected}
    assert asking.value("others", "") == {"batch": expected, "prod": expected}
    assert asking.value("record")["plan"] == "prod"


def test_a_plan_without_a_record_made_nothing(asking: Asking) -> None:
    asking.ok("journal.append", plan="batch", entries=[{}])
    assert asking.value("others") == {}
    applied(asking, "batch")
    asking.ok("record.remove", plan="batch")
    assert asking.value("others") == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "\udcff",
        "[" * 100_000,
        '{"format": 2, "plan": "damaged", "resources": {}, "remembered": {}}',
        '{"format": 1, "plan": "damaged", "resources": [], "remembered": {}}',
        '{"format": 1, "plan": "damaged", "resources": {}}',
        pytest.param('{"format": 1, "plan": "prod", "resources": {}, "remembered": {}}', id="a-copy"),
    ],
)
def test_a_damaged_record_is_told_by_name_and_spoils_no_other(asking: Asking, text: str) -> None:
    for plan in ("prod", "batch", "damaged"):
        applied(asking, plan)
    Path(asking.node.root, "plans/damaged/record.json").write_text(text, errors="surrogateescape")
    told = asking.value("others")
    assert sorted(told) == ["batch", "damaged"]
    assert told["damaged"]["error"]["code"] == "bad_record"
    assert told["batch"]["resources"]
    assert asking.value("record")["plan"] == "prod"


def test_odd_addresses_and_odd_names_are_no_concern(asking: Asking) -> None:
    applied(asking, "batch", resources={"": {}, "gpu": {}, "/gpu/": {}, "n/gpus/x": {}, "n/gpu/x/y": {}}, remembered={})
    Path(asking.node.root, "plans/.hidden").mkdir()
    Path(asking.node.root, "plans/a file").write_text("x")
    assert asking.value("others") == {"batch": {"resources": ["/gpu/", "n/gpu/x/y"], "remembered": {}}}


def test_what_is_too_large_is_not_read(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    for plan in ("a", "b", "c"):
        applied(asking, plan)
    monkeypatch.setattr(record, "LARGEST", 100)
    assert asking.value("others", "a")["b"]["error"]["code"] == "too_large"
    assert asking.probe("record", "a")["error"]["code"] == "too_large"
    assert asking.refused("record.write", plan="a", record={"x": "y" * 100}) == "too_large"
    monkeypatch.setattr(record, "MOST", 2)
    assert asking.probe("others", "d")["error"]["code"] == "too_large"
    assert sorted(asking.value("others", "a")) == ["b", "c"]
