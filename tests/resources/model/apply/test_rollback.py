"""If a changed model does not load, its previous files are served again, in memory and on disk."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from gpuplan.simulator.triton.protocol import as_error
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit
from gpuplan.types.resource import Desired
from tests.resources.model.apply.test_load import ensemble, failure
from tests.resources.model.triton_node import CONFIG, SERVER, TritonNode

BROKEN = 'raise RuntimeError("weights not found")'


def content_on_disk(triton: TritonNode, model: str) -> str:
    """What a server would load at startup."""
    return (triton.on_node / "models" / model / "1" / "model.py").read_text()


def broken(triton: TritonNode, model: str, **models: Any) -> Diagnostic:
    triton.write_model(model, answer=2, first=BROKEN)
    return failure(triton, triton.plan(**models))


def test_the_previous_files_are_restored(triton: TritonNode) -> None:
    triton.write_model("a")
    before = triton.plan(a={})
    triton.apply(before)
    issue = broken(triton, "a", a={})
    assert "RuntimeError: weights not found" in issue.detail
    assert issue.detail.endswith("Rolled back: its previous files are restored and served again (version 1).")
    assert BROKEN not in content_on_disk(triton, "a")
    assert triton.compare(before) == ()
    triton.session.docker().restart(SERVER, timeout=5)
    triton.wait_until_live()
    assert triton.compare(before) == ()


def test_the_next_plan_still_shows_the_difference(triton: TritonNode) -> None:
    triton.write_model("a")
    triton.apply(triton.plan(a={}))
    broken(triton, "a", a={})
    assert [change.address.kind for change in triton.compare(triton.plan(a={}))] == ["repository", "model"]
    triton.write_model("a", answer=3)
    mended = triton.plan(a={})
    triton.apply(mended)
    assert triton.compare(mended) == ()
    assert not list((triton.on_node / "previous").iterdir())


def test_a_first_load_that_fails_leaves_nothing(triton: TritonNode) -> None:
    issue = broken(triton, "a", a={})
    assert "previous" not in issue.detail
    assert (triton.on_node / "load-models").read_text() == ""


def test_a_part_that_fails_leaves_its_ensemble_unchanged(triton: TritonNode) -> None:
    before = ensemble(triton)
    triton.apply(before)
    issue = broken(triton, "b", ens={}, b={}, a={})
    assert "served again (version 1)" in issue.detail
    assert triton.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    triton.write_model("b", answer=2)
    assert triton.compare(triton.plan(ens={}, b={}, a={})) == ()


def test_a_part_that_breaks_its_ensemble_fails(triton: TritonNode) -> None:
    """The part itself loads, but not its ensemble, so both are rolled back."""
    before = ensemble(triton)
    triton.apply(before)
    config = (triton.base / "b/config.pbtxt").read_text()
    triton.write("b/config.pbtxt", config.replace("TYPE_FP32", "TYPE_INT32"))
    silenced = [{"id": name, "reason": "the server's words are wanted"} for name in ("ensemble-type",)]
    issue = failure(triton, triton.plan(ens={"ignore_checks": silenced}, b={}, a={}))
    assert issue.address == f"{triton.session.node}/model/{SERVER}/b"
    assert "ens did not load" in issue.detail
    assert triton.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    triton.write("b/config.pbtxt", config)
    assert triton.compare(triton.plan(ens={}, b={}, a={})) == ()


def test_a_load_in_progress_is_waited_for_and_not_requested_again(simulated: TritonNode) -> None:
    simulated.write("a/1/weights.bin", "x")
    simulated.write("a/config.pbtxt", CONFIG)
    desired = simulated.plan(
        a={"load_timeout": 0.5, "ignore_checks": [{"id": "model-file", "reason": "it is to hang"}]}
    )
    assert failure(simulated, desired).summary == "The model load timed out"
    asked: list[str] = []
    session: Any = simulated.session
    reached = session.reached

    def counting(host: str, port: int, method: str, path: str, *more: Any) -> Any:
        asked.append(path.rpartition("/")[2])
        return reached(host, port, method, path, *more)

    session.reached = counting
    assert failure(simulated, desired).summary == "The model load timed out"
    assert "index" in asked
    assert "load" not in asked


@pytest.mark.lab
def test_requests_are_answered_during_reloads_and_rollbacks(real: TritonNode) -> None:
    """A reload, a failed reload and its rollback lose no request."""
    real.apply(ensemble(real))
    with real.sending_requests("ens", "b") as sent:
        real.write_model("b", answer=5)
        real.apply(real.plan(ens={}, b={}, a={}))
        broken(real, "b", ens={}, b={}, a={})
    assert sent.failed == []
    assert {2.0, 5.0} <= set(sent.answers["ens"])
    assert real.infer("ens") == 5


def test_a_new_model_that_fails_its_smoke_test_is_unloaded(simulated: TritonNode) -> None:
    session: Any = simulated.session
    session.faults.infer["a"] = "no kernel image is available"
    simulated.write_model("a")
    desired = simulated.plan(a={"smoke": True})
    assert failure(simulated, desired).detail.endswith("It was unloaded again.")
    assert simulated.states() == {"a": "UNAVAILABLE"}
    assert (simulated.on_node / "load-models").read_text() == ""
    session.faults.infer.clear()
    simulated.apply(desired)
    assert simulated.compare(desired) == ()


def test_a_changed_model_that_fails_its_smoke_test_is_rolled_back(simulated: TritonNode) -> None:
    session: Any = simulated.session
    simulated.write_model("a")
    before = simulated.plan(a={"smoke": True})
    simulated.apply(before)
    session.faults.infer["a"] = "no kernel image is available"
    simulated.write_model("a", answer=2)
    issue = failure(simulated, simulated.plan(a={"smoke": True}))
    assert "no kernel image is available" in issue.detail
    assert issue.detail.endswith("Rolled back: its previous files are restored and served again (version 1).")
    assert "[[1]]" in content_on_disk(simulated, "a")
    simulated.write_model("a")
    assert simulated.compare(before) == ()


APPLY = import_module("gpuplan.resources.model.apply")


def _lose_connection(*_: object) -> None:
    raise ConnectionLost(Diagnostic("The connection to the node was lost", ""), Exit.UNREAD)


def interrupt_before_check(triton: TritonNode, monkeypatch: pytest.MonkeyPatch, **models: Any) -> tuple[Desired, ...]:
    """Interrupt an apply when the new files are loaded, before they are verified."""
    desired = triton.plan(**models)
    with monkeypatch.context() as patched:
        patched.setattr(APPLY, "_smoke", _lose_connection)
        with pytest.raises(ConnectionLost):
            triton.apply(desired)
    return desired


def test_an_interrupted_load_is_verified_by_the_next_apply(
    simulated: TritonNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated.write_model("a")
    simulated.apply(simulated.plan(a={}))
    simulated.write_model("a", answer=2)
    desired = interrupt_before_check(simulated, monkeypatch, a={})
    (change,) = simulated.compare(desired)
    assert [(field.path, field.before, field.after) for field in change.fields] == [("verified", False, True)]
    assert not change.interrupts
    simulated.apply(desired)
    assert "a is already loaded" in simulated.progress
    assert simulated.compare(desired) == ()
    simulated.write_model("a", answer=3, first=BROKEN)
    failure(simulated, simulated.plan(a={}))
    assert "[[2]]" in content_on_disk(simulated, "a")  # the files that were served last, not those before


def test_an_interrupted_load_that_fails_verification_is_rolled_back(
    simulated: TritonNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated.write_model("a")
    simulated.apply(simulated.plan(a={"smoke": True}))
    simulated.write_model("a", answer=2)
    desired = interrupt_before_check(simulated, monkeypatch, a={"smoke": True})
    session: Any = simulated.session
    session.faults.infer["a"] = "no kernel image is available"
    issue = failure(simulated, desired)
    assert "no kernel image is available" in issue.detail
    assert issue.detail.endswith("Rolled back: its previous files are restored and served again (version 1).")
    assert "[[1]]" in content_on_disk(simulated, "a")


def test_an_interrupted_first_load_is_completed(simulated: TritonNode, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated.write_model("a")
    desired = interrupt_before_check(simulated, monkeypatch, a={})
    (change,) = simulated.compare(desired)
    assert [field.path for field in change.fields] == ["at_start"]
    simulated.apply(desired)
    assert simulated.compare(desired) == ()


def test_a_model_that_was_verified_once_stays_listed(simulated: TritonNode) -> None:
    """A load that fails now says nothing against files that were verified once."""
    simulated.write_model("a")
    desired = simulated.plan(a={})
    simulated.apply(desired)
    simulated.call_manually("unload", "a")
    session: Any = simulated.session
    reached = session.reached

    def refusing(host: str, port: int, method: str, path: str, *more: Any) -> Any:
        return as_error(400, "out of memory") if path.endswith("/load") else reached(host, port, method, path, *more)

    session.reached = refusing
    assert "out of memory" in failure(simulated, desired).detail
    assert (simulated.on_node / "load-models").read_text() == "--load-model=a\n"
