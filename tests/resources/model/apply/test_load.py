"""Loads and unloads against a Triton, simulated and real: what is reported, and what is served afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest

from gpuplan.core.plan.desired import as_recorded
from gpuplan.resources.model import MODEL
from gpuplan.resources.model.apply.failure import ServerLog
from gpuplan.types.change import Action, Change
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.outcome import Status
from gpuplan.types.resource import Desired
from tests.resources.model.triton_node import CONFIG, SERVER, TritonNode

ENSEMBLE = """
platform: "ensemble"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling {
  step [
    { model_name: "a" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "mid" } },
    { model_name: "b" model_version: -1 input_map { key: "IN" value: "mid" } output_map { key: "OUT" value: "OUT" } }
  ]
}
"""


def ensemble(triton: TritonNode) -> tuple[Desired, ...]:
    triton.write_model("a")
    triton.write_model("b", answer=2)
    triton.write("ens/config.pbtxt", ENSEMBLE)
    triton.write("ens/1/.gitkeep", "")
    return triton.plan(ens={}, b={}, a={})


def described(changes: Sequence[Change]) -> Mapping[str, Any]:
    return {
        str(change.address).partition("/")[2]: (
            change.action,
            {field.path: (field.before, field.after) for field in change.fields},
            str(change.cause).partition("/")[2] if change.cause else None,
        )
        for change in changes
    }


def failure(triton: TritonNode, desired: Sequence[Desired]) -> Diagnostic:
    """The one diagnostic of an apply that fails."""
    with pytest.raises(Problem) as caught:
        triton.apply(desired)
    (issue,) = caught.value.diagnostics
    return issue


def test_an_ensemble_from_nothing_to_nothing(triton: TritonNode) -> None:
    desired = ensemble(triton)
    triton.apply(desired)
    assert triton.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    assert triton.compare(desired) == ()
    triton.apply(())
    assert not triton.on_node.exists()
    assert triton.compare(()) == ()


def test_a_part_that_was_unloaded_manually_takes_its_ensemble_with_it(triton: TritonNode) -> None:
    desired = ensemble(triton)
    triton.apply(desired)
    triton.call_manually("unload", "a")
    gone = {"state": ("UNAVAILABLE", "READY")}
    assert described(triton.compare(desired)) == {
        f"model/{SERVER}/a": (Action.CREATE, gone, None),
        f"model/{SERVER}/ens": (Action.CREATE, gone, f"model/{SERVER}/a"),
    }
    triton.apply(desired)
    assert triton.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    assert triton.compare(desired) == ()


OTHER = json.dumps(
    {
        "backend": "python",
        "max_batch_size": 2,
        "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
        "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
    }
)


def test_a_manually_loaded_config_is_replaced_by_that_of_the_files(triton: TritonNode) -> None:
    triton.write_model("a")
    desired = triton.plan(a={})
    triton.apply(desired)
    triton.call_manually("load", "a", OTHER)
    (change,) = triton.apply(desired)
    assert change.interrupts == (f"model a on {SERVER} stops serving until it is loaded again",)
    assert triton.compare(desired) == ()


def test_new_files_replace_a_manually_loaded_config_without_downtime(triton: TritonNode) -> None:
    triton.write_model("a")
    triton.apply(triton.plan(a={}))
    triton.call_manually("load", "a", OTHER)
    triton.write_model("a", answer=2)
    desired = triton.plan(a={})
    assert [change.interrupts for change in triton.apply(desired)] == [(), ()]
    assert triton.compare(desired) == ()


def test_a_dropped_ensemble_keeps_parts_that_are_desired(triton: TritonNode) -> None:
    ensemble(triton)
    triton.apply(triton.plan(ens={}, b={}, a={}))
    kept = triton.plan(a={})
    triton.apply(kept)
    assert triton.states() == {"a": "READY"}
    assert sorted(path.name for path in (triton.on_node / "models").iterdir()) == ["a"]
    assert triton.compare(kept) == ()


def test_a_restarted_server_comes_back_with_its_models(triton: TritonNode) -> None:
    desired = ensemble(triton)
    triton.apply(desired)
    triton.session.docker().restart(SERVER, timeout=5)
    triton.wait_until_live()
    assert triton.compare(desired) == ()


def test_a_model_that_breaks_still_serves_its_previous_content(triton: TritonNode) -> None:
    triton.write_model("a")
    triton.apply(triton.plan(a={}))
    triton.write_model("a", answer=2, first='raise RuntimeError("weights not found")')
    broken = triton.plan(a={})
    first, second = failure(triton, broken), failure(triton, broken)
    assert "RuntimeError: weights not found" in first.detail
    for issue in (first, second):  # a server may answer the second load with success
        assert issue.summary == "The model did not load"
        assert "The previous content is still served (version 1)." in issue.detail
    assert triton.states() == {"a": "READY"}
    assert described(triton.compare(broken))[f"model/{SERVER}/a"][1].keys() == {"content"}
    triton.write_model("a", answer=3)
    mended = triton.plan(a={})
    triton.apply(mended)
    assert triton.compare(mended) == ()


def test_a_model_that_never_loaded_is_not_loaded_at_startup(triton: TritonNode) -> None:
    triton.write_model("a", first='raise RuntimeError("weights not found")')
    desired = triton.plan(a={})
    for _ in range(2):
        assert "weights not found" in failure(triton, desired).detail
    assert (triton.on_node / "load-models").read_text() == ""
    (change,) = triton.compare(desired)
    assert change.reasons == (f"the server reports for version 1: {change.reasons[0].partition('1: ')[2]}",)
    assert "weights not found" in change.reasons[0]


def test_an_error_that_hides_its_cause_is_explained_by_the_log(triton: TritonNode) -> None:
    triton.write_model("a")
    silenced = [{"id": "batch-size", "reason": "the server's own error is wanted"}]
    issue = failure(triton, triton.plan(a={"config": {"max_batch_size": -1}, "ignore_checks": silenced}))
    assert issue.summary == "The model did not load"
    assert "'max_batch_size' must be non-negative value for a" in issue.detail


def test_a_load_that_never_answers_times_out(triton: TritonNode, monkeypatch: pytest.MonkeyPatch) -> None:
    triton.write("a/1/weights.bin", "x")
    triton.write("a/config.pbtxt", CONFIG)
    silenced = [{"id": "model-file", "reason": "it is to hang"}]
    desired = triton.plan(a={"load_timeout": 1.5, "ignore_checks": silenced})
    issue = failure(triton, desired)
    assert issue.summary == "The model load timed out"
    assert "still loading on triton after 1.5 s" in issue.detail
    assert "Python model file not found in '/gpuplan/models/a/1/model.py'" in issue.detail
    assert triton.states() == {"a": "LOADING"}
    assert failure(triton, desired).summary == "The model load timed out"
    monkeypatch.setattr(import_module("gpuplan.resources.model.apply.load"), "LOADING_TIMEOUT", 0.5)
    stuck = failure(triton, ())
    assert stuck.summary == "The model did not unload"
    assert stuck.detail.startswith("a is still loading on triton, and the server does not unload it before that ends")
    assert stuck.address.endswith("/model/triton/a")


def test_versions_are_those_of_the_plan_file(triton: TritonNode) -> None:
    triton.write_model("a", versions=(1, 2, 3))
    for versions, ready in (([1, 3], [1, 3]), ("latest 2", [2, 3]), ("all", [1, 2, 3]), (None, [3])):
        desired = triton.plan(a={"versions": versions} if versions else {})
        triton.apply(desired)
        assert desired[-1].spec["versions"] == ready
        assert triton.compare(desired) == ()


def test_edited_files_are_restored_and_loaded_again(triton: TritonNode) -> None:
    triton.write_model("a")
    desired = triton.plan(a={})
    triton.apply(desired)
    triton.edit("a", "1/model.py", "[[1]]", "[[7]]")
    triton.call_manually("load", "a")
    changes = described(triton.compare(desired))
    assert list(changes[f"repository/{SERVER}"][1]) == ["models.a.files[1/model.py]"]
    assert changes[f"model/{SERVER}/a"] == (Action.UPDATE, {}, f"repository/{SERVER}")
    triton.apply(desired)
    assert triton.compare(desired) == ()


def test_back_to_an_earlier_content(triton: TritonNode) -> None:
    """The old files are older than what is loaded; the server must take them all the same."""
    for answer in (1, 2, 1):
        triton.write_model("a", answer=answer)
        desired = triton.plan(a={})
        triton.apply(desired)
        assert triton.compare(desired) == ()


@pytest.mark.lab
def test_the_real_server_answers_from_the_files_of_the_plan(real: TritonNode) -> None:
    desired = ensemble(real)
    real.apply(desired)
    assert real.infer("ens") == 2
    real.edit("b", "1/model.py", "[[2]]", "[[7]]")
    real.call_manually("load", "b")
    assert real.infer("ens") == 7
    real.apply(desired)
    assert real.infer("ens") == 2
    real.write_model("b", answer=5)
    real.apply(real.plan(ens={}, b={}, a={}))
    assert real.infer("ens") == 5


def test_a_load_without_effect_fails(simulated: TritonNode) -> None:
    simulated.write_model("a")
    simulated.apply(simulated.plan(a={}))
    session: Any = simulated.session
    session.faults.without_effect.add("triton.load")
    simulated.write_model("a", answer=2)
    issue = failure(simulated, simulated.plan(a={}))
    assert "reports success, but still has the previous content" in issue.detail
    simulated.write_model("b")
    issue = failure(simulated, simulated.plan(a={}, b={}))
    assert issue.summary == "The model did not load"


def test_an_unload_without_effect_fails(simulated: TritonNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("gpuplan.resources.model.apply.load"), "UNLOAD_TIMEOUT", 0.5)
    simulated.write_model("a")
    simulated.apply(simulated.plan(a={}))
    session: Any = simulated.session
    session.faults.without_effect.add("triton.unload")
    issue = failure(simulated, ())
    assert (issue.summary, issue.detail) == (
        "The model did not unload",
        "a: it is still READY; it may have requests in flight.",
    )


def test_a_stopped_server_has_nothing_to_unload(simulated: TritonNode) -> None:
    simulated.write_model("a")
    simulated.apply(simulated.plan(a={}))
    (change,) = [each for each in simulated.compare(()) if each.address.kind == "model"]
    simulated.session.docker().stop(SERVER)
    (step,) = change.steps
    MODEL.apply(step, simulated.apply_context)
    assert simulated.progress[-1] == "triton is not running, so nothing is loaded"
    assert (simulated.on_node / "load-models").read_text() == ""


def test_a_server_that_stopped_since_the_plan_is_reported(simulated: TritonNode) -> None:
    simulated.write_model("a")
    (step,) = [step for each in simulated.compare(simulated.plan(a={})) for step in each.steps if step.name == "load"]
    simulated.session.docker().stop(SERVER)
    with pytest.raises(Problem) as caught:
        MODEL.apply(step, simulated.apply_context)
    assert caught.value.diagnostics[0].detail == "Cannot reach the server in triton: its container is not running."


def test_a_restarting_server_is_waited_for(triton: TritonNode) -> None:
    for name in ("a", "b"):
        triton.write_model(name)
    triton.apply(triton.plan(a={}))
    desired = triton.plan(b={})
    changes = triton.compare(desired)
    triton.session.docker().restart(SERVER, timeout=5)
    triton.run_steps(changes)
    assert triton.compare(desired) == ()


def test_a_log_that_lags_behind_the_answer_is_read_again(
    simulated: TritonNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine reads the output of a server through a pipe, and is late on a busy node."""
    asked: list[str] = []
    real = ServerLog.errors

    def late(log: ServerLog, model: str, others: Sequence[str]) -> tuple[str, ...]:
        asked.append(model)
        return real(log, model, others) if len(asked) > 1 else ()

    monkeypatch.setattr(ServerLog, "errors", late)
    simulated.write_model("a")
    silenced = [{"id": "batch-size", "reason": "the server's own error is wanted"}]
    issue = failure(simulated, simulated.plan(a={"config": {"max_batch_size": -1}, "ignore_checks": silenced}))
    assert "'max_batch_size' must be non-negative value for a" in issue.detail
    assert len(asked) == 2


def test_a_part_that_fails_does_not_block_another_part(triton: TritonNode) -> None:
    triton.apply(ensemble(triton))
    triton.write_model("a", answer=2, first='raise RuntimeError("weights not found")')
    triton.write_model("b", answer=5)
    desired = triton.plan(ens={}, b={}, a={})
    outcomes = triton.apply_in_parallel(desired)
    assert {name: outcomes[name].status for name in ("a", "b")} == {"a": Status.FAILED, "b": Status.DONE}
    assert triton.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    assert [change.address.name.rpartition("/")[2] for change in triton.compare(desired)] == [SERVER, "a"]


def test_a_rolled_back_model_is_pending_and_no_drift(triton: TritonNode) -> None:
    for name in ("a", "b"):
        triton.write_model(name)
    triton.apply(triton.plan(a={}, b={}))
    triton.write_model("a", answer=2, first='raise RuntimeError("weights not found")')
    triton.write_model("b", answer=2)
    desired = triton.plan(a={}, b={})
    triton.apply_in_parallel(desired)
    node = triton.session.node
    assert triton.compare(as_recorded(triton.record)) == ()
    digests = {each.address: each.digest for each in desired}
    pending = [each for each, entry in triton.record.resources.items() if entry.digest != digests[each]]
    assert sorted(map(str, pending)) == [f"{node}/model/{SERVER}/a", f"{node}/repository/{SERVER}"]


def test_models_load_in_parallel_and_two_of_them_fail(triton: TritonNode) -> None:
    names = [f"m{number}" for number in range(6)]
    for name in names:
        triton.write_model(name)
    triton.write_model("m1", first='raise RuntimeError("weights not found")')
    silenced = [{"id": "batch-size", "reason": "the server's own error is wanted"}]
    bad = {"m4": {"config": {"max_batch_size": -1}, "ignore_checks": silenced}}
    desired = triton.plan(**{name: bad.get(name, {}) for name in names})
    outcomes = triton.apply_in_parallel(desired)
    status = {name: outcomes[name].status for name in names}
    assert [name for name in names if status[name] is not Status.DONE] == ["m1", "m4"]
    (first,), (second,) = (outcomes[name].diagnostics for name in ("m1", "m4"))
    assert "RuntimeError: weights not found" in first.detail
    assert "'max_batch_size' must be non-negative value for m4" in second.detail
    assert "m1" not in second.detail
    states = triton.states()
    assert [name for name in names if states.get(name) == "READY"] == ["m0", "m2", "m3", "m5"]
    listed = (triton.on_node / "load-models").read_text().split()
    assert listed == [f"--load-model={name}" for name in ("m0", "m2", "m3", "m5")]
