"""A run that is cut off after a load leaves files that nobody saw prove themselves; the next one sees to them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from gpuplan.simulator.triton.protocol import as_error
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit
from gpuplan.types.resource import Desired
from tests.resources.model.bench import Bench
from tests.resources.model.test_apply import failure
from tests.resources.model.test_way_back import BROKEN, content_on_disk

APPLY = import_module("gpuplan.resources.model.apply.apply")


def _lose(*_: object) -> None:
    raise ConnectionLost(Diagnostic("The connection to the node was lost", ""), Exit.UNREAD)


def cut_off(bench: Bench, monkeypatch: pytest.MonkeyPatch, **wanted: Any) -> tuple[Desired, ...]:
    """An apply that ends when the new files have been loaded, and before they have been asked anything."""
    desired = bench.want(**wanted)
    with monkeypatch.context() as patched:
        patched.setattr(APPLY, "prove_loaded", _lose)
        with pytest.raises(ConnectionLost):
            bench.apply(desired)
    return desired


def test_a_plan_says_so_and_the_next_way_back_leads_to_them(simulated: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated.python("a")
    simulated.apply(simulated.want(a={}))
    simulated.python("a", answer=2)
    desired = cut_off(simulated, monkeypatch, a={})
    (change,) = simulated.compare(desired)
    assert [(field.path, field.before, field.after) for field in change.fields] == [("proven", False, True)]
    assert not change.interrupts
    simulated.apply(desired)
    assert "a is loaded already" in simulated.said
    assert simulated.compare(desired) == ()
    simulated.python("a", answer=3, first=BROKEN)
    failure(simulated, simulated.want(a={}))
    assert "[[2]]" in content_on_disk(simulated, "a")  # what served last, not what had served before that


def test_files_that_do_not_prove_themselves_then_give_way(simulated: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated.python("a")
    simulated.apply(simulated.want(a={"smoke": True}))
    simulated.python("a", answer=2)
    desired = cut_off(simulated, monkeypatch, a={"smoke": True})
    session: Any = simulated.session
    session.faults.infer["a"] = "no kernel image is available"
    found = failure(simulated, desired)
    assert "no kernel image is available" in found.detail
    assert found.detail.endswith("Its files of before are back on the node and serve again (version 1).")
    assert "[[1]]" in content_on_disk(simulated, "a")


def test_a_first_load_that_was_cut_off_is_not_done_either(simulated: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated.python("a")
    desired = cut_off(simulated, monkeypatch, a={})
    (change,) = simulated.compare(desired)
    assert [field.path for field in change.fields] == ["at_start"]
    simulated.apply(desired)
    assert simulated.compare(desired) == ()


def test_what_served_before_a_restart_is_left_on_the_list(simulated: Bench) -> None:
    """A load that fails now, of files that proved themselves once, says nothing against them."""
    simulated.python("a")
    desired = simulated.want(a={})
    simulated.apply(desired)
    simulated.by_hand("unload", "a")
    session: Any = simulated.session
    reached = session.reached

    def refusing(host: str, port: int, method: str, path: str, *more: Any) -> Any:
        return as_error(400, "out of memory") if path.endswith("/load") else reached(host, port, method, path, *more)

    session.reached = refusing
    assert "out of memory" in failure(simulated, desired).detail
    assert (simulated.on_node / "load-models").read_text() == "--load-model=a\n"
