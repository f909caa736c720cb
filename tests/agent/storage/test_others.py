"""The others probe: what can be taken from other plan files, and which of their records are damaged."""

from pathlib import Path

import pytest

from gpuplan.agent.storage import record
from tests.agent.support import AgentCaller

SLICE = {"gpu": "GPU-1", "profile": "3g.40gb", "start": 4, "size": 4}
RESOURCE = {"digest": "d", "spec": {"large": "x" * 100}, "needs": []}


def applied(agent: AgentCaller, plan: str, **changes: object) -> None:
    kinds = ("gpu/a100-0", "container/triton", "repository/triton", "model/triton/m")
    whole = {
        "format": 1,
        "plan": plan,
        "resources": {f"n/{kind}": RESOURCE for kind in kinds},
        "remembered": {"n/gpu/a100-0/cls-a": SLICE, "n/model/triton/m": {"x": 1}},
    }
    agent.ok("record.write", plan=plan, record={**whole, **changes})


def test_other_plans_are_told_by_what_can_be_taken_from_them(agent: AgentCaller) -> None:
    assert agent.value("others") == {}
    applied(agent, "prod")
    assert agent.value("others") == {}
    applied(agent, "batch")
    expected = {"resources": ["n/container/triton", "n/gpu/a100-0"], "remembered": {"n/gpu/a100-0/cls-a": SLICE}}
    assert agent.value("others") == {"batch": expected}
    assert agent.value("others", "") == {"batch": expected, "prod": expected}
    assert agent.value("record")["plan"] == "prod"


def test_a_plan_without_a_record_made_nothing(agent: AgentCaller) -> None:
    agent.ok("journal.append", plan="batch", entries=[{}])
    assert agent.value("others") == {}
    applied(agent, "batch")
    agent.ok("record.remove", plan="batch")
    assert agent.value("others") == {}


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
def test_a_damaged_record_is_told_by_name_and_spoils_no_other(agent: AgentCaller, text: str) -> None:
    for plan in ("prod", "batch", "damaged"):
        applied(agent, plan)
    Path(agent.node.root, "plans/damaged/record.json").write_text(text, errors="surrogateescape")
    told = agent.value("others")
    assert sorted(told) == ["batch", "damaged"]
    assert told["damaged"]["error"]["code"] == "bad_record"
    assert told["batch"]["resources"]
    assert agent.value("record")["plan"] == "prod"


def test_odd_addresses_and_odd_names_are_no_concern(agent: AgentCaller) -> None:
    applied(agent, "batch", resources={"": {}, "gpu": {}, "/gpu/": {}, "n/gpus/x": {}, "n/gpu/x/y": {}}, remembered={})
    Path(agent.node.root, "plans/.hidden").mkdir()
    Path(agent.node.root, "plans/a file").write_text("x")
    assert agent.value("others") == {"batch": {"resources": ["/gpu/", "n/gpu/x/y"], "remembered": {}}}


def test_what_is_too_large_is_not_read(agent: AgentCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    for plan in ("a", "b", "c"):
        applied(agent, plan)
    monkeypatch.setattr(record, "LARGEST", 100)
    assert agent.value("others", "a")["b"]["error"]["code"] == "too_large"
    assert agent.probe("record", "a")["error"]["code"] == "too_large"
    assert agent.refused("record.write", plan="a", record={"x": "y" * 100}) == "too_large"
    monkeypatch.setattr(record, "MOST", 2)
    assert agent.probe("others", "d")["error"]["code"] == "too_large"
    assert sorted(agent.value("others", "a")) == ["b", "c"]
