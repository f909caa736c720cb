"""Loads and unloads against a model server, simulated and real: what is told, what serves afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest

from gpuplan.resources.model import MODEL
from gpuplan.resources.model.apply.failure import Log
from gpuplan.types.change import Action, Change
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.resource import Desired
from tests.resources.model.bench import CONFIG, SERVER, Bench

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


def ensemble(bench: Bench) -> tuple[Desired, ...]:
    bench.python("a")
    bench.python("b", answer=2)
    bench.write("ens/config.pbtxt", ENSEMBLE)
    bench.write("ens/1/.gitkeep", "")
    return bench.want(ens={}, b={}, a={})


def told(changes: Sequence[Change]) -> Mapping[str, Any]:
    return {
        str(change.address).partition("/")[2]: (
            change.action,
            {field.path: (field.before, field.after) for field in change.fields},
            str(change.cause).partition("/")[2] if change.cause else None,
        )
        for change in changes
    }


def failure(bench: Bench, desired: Sequence[Desired]) -> Diagnostic:
    """The one fault of an apply that fails."""
    with pytest.raises(Problem) as caught:
        bench.apply(desired)
    (found,) = caught.value.diagnostics
    return found


def test_an_ensemble_from_nothing_to_nothing(bench: Bench) -> None:
    wanted = ensemble(bench)
    bench.apply(wanted)
    assert bench.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    assert bench.compare(wanted) == ()
    bench.apply(())
    assert not bench.on_node.exists()
    assert bench.compare(()) == ()


def test_a_part_that_was_unloaded_by_hand_takes_its_ensemble_along(bench: Bench) -> None:
    wanted = ensemble(bench)
    bench.apply(wanted)
    bench.by_hand("unload", "a")
    gone = {"state": ("UNAVAILABLE", "READY")}
    assert told(bench.compare(wanted)) == {
        f"model/{SERVER}/a": (Action.CREATE, gone, None),
        f"model/{SERVER}/ens": (Action.CREATE, gone, f"model/{SERVER}/a"),
    }
    bench.apply(wanted)
    assert bench.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    assert bench.compare(wanted) == ()


OTHER = json.dumps(
    {
        "backend": "python",
        "max_batch_size": 2,
        "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
        "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
    }
)


def test_a_config_that_somebody_loaded_gives_way_to_that_of_the_files(bench: Bench) -> None:
    bench.python("a")
    wanted = bench.want(a={})
    bench.apply(wanted)
    bench.by_hand("load", "a", OTHER)
    (change,) = bench.apply(wanted)
    assert change.interrupts == (f"model a on {SERVER} stops serving until it is loaded again",)
    assert bench.compare(wanted) == ()


def test_a_config_that_somebody_loaded_gives_way_to_new_files_without_a_gap(bench: Bench) -> None:
    bench.python("a")
    bench.apply(bench.want(a={}))
    bench.by_hand("load", "a", OTHER)
    bench.python("a", answer=2)
    wanted = bench.want(a={})
    assert [change.interrupts for change in bench.apply(wanted)] == [(), ()]
    assert bench.compare(wanted) == ()


def test_a_dropped_ensemble_leaves_what_others_want(bench: Bench) -> None:
    ensemble(bench)
    bench.apply(bench.want(ens={}, b={}, a={}))
    kept = bench.want(a={})
    bench.apply(kept)
    assert bench.states() == {"a": "READY"}
    assert sorted(path.name for path in (bench.on_node / "models").iterdir()) == ["a"]
    assert bench.compare(kept) == ()


def test_a_restarted_server_comes_back_with_its_models(bench: Bench) -> None:
    wanted = ensemble(bench)
    bench.apply(wanted)
    bench.session.docker().restart(SERVER, timeout=5)
    bench.await_live()
    assert bench.compare(wanted) == ()


def test_a_model_that_breaks_keeps_serving_what_it_had(bench: Bench) -> None:
    bench.python("a")
    bench.apply(bench.want(a={}))
    bench.python("a", answer=2, first='raise RuntimeError("weights not found")')
    broken = bench.want(a={})
    first, second = failure(bench, broken), failure(bench, broken)
    assert "RuntimeError: weights not found" in first.detail
    for found in (first, second):  # a server may answer the second load with success
        assert found.summary == "A model did not load"
        assert "What was loaded before still serves (version 1)." in found.detail
    assert bench.states() == {"a": "READY"}
    assert told(bench.compare(broken))[f"model/{SERVER}/a"][1].keys() == {"content"}
    bench.python("a", answer=3)
    mended = bench.want(a={})
    bench.apply(mended)
    assert bench.compare(mended) == ()


def test_a_model_that_never_worked_is_not_listed_for_the_start(bench: Bench) -> None:
    bench.python("a", first='raise RuntimeError("weights not found")')
    wanted = bench.want(a={})
    for _ in range(2):
        assert "weights not found" in failure(bench, wanted).detail
    assert (bench.on_node / "load-models").read_text() == ""
    (change,) = bench.compare(wanted)
    assert change.reasons == (f"the server says of version 1: {change.reasons[0].partition('1: ')[2]}",)
    assert "weights not found" in change.reasons[0]


def test_an_answer_that_hides_the_cause_is_explained_by_the_log(bench: Bench) -> None:
    bench.python("a")
    silenced = [{"id": "batch-size", "reason": "the server's own words are wanted"}]
    found = failure(bench, bench.want(a={"config": {"max_batch_size": -1}, "ignore_checks": silenced}))
    assert found.summary == "A model did not load"
    assert "'max_batch_size' must be non-negative value for a" in found.detail


def test_a_load_that_never_answers_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("a/1/weights.bin", "x")
    bench.write("a/config.pbtxt", CONFIG)
    silenced = [{"id": "model-file", "reason": "it is to hang"}]
    wanted = bench.want(a={"load_timeout": 1.5, "ignore_checks": silenced})
    found = failure(bench, wanted)
    assert found.summary == "A model load did not end"
    assert "still loading on triton after 1.5 s" in found.detail
    assert "Python model file not found in '/gpuplan/models/a/1/model.py'" in found.detail
    assert bench.states() == {"a": "LOADING"}
    assert failure(bench, wanted).summary == "A model load did not end"
    monkeypatch.setattr(import_module("gpuplan.resources.model.apply.load"), "LOADING", 0.5)
    stuck = failure(bench, ())
    assert stuck.summary == "A model did not unload"
    assert stuck.detail.startswith("a is still loading on triton, and as long as that goes on")
    assert stuck.address.endswith("/model/triton/a")


def test_versions_are_what_the_plan_file_chooses(bench: Bench) -> None:
    bench.python("a", versions=(1, 2, 3))
    for versions, ready in (([1, 3], [1, 3]), ("latest 2", [2, 3]), ("all", [1, 2, 3]), (None, [3])):
        wanted = bench.want(a={"versions": versions} if versions else {})
        bench.apply(wanted)
        assert wanted[-1].spec["versions"] == ready
        assert bench.compare(wanted) == ()


def test_edited_files_are_put_back_and_the_model_loaded_from_them(bench: Bench) -> None:
    bench.python("a")
    wanted = bench.want(a={})
    bench.apply(wanted)
    bench.edit("a", "1/model.py", "[[1]]", "[[7]]")
    bench.by_hand("load", "a")
    changes = told(bench.compare(wanted))
    assert list(changes[f"repository/{SERVER}"][1]) == ["models.a.files[1/model.py]"]
    assert changes[f"model/{SERVER}/a"] == (Action.UPDATE, {}, f"repository/{SERVER}")
    bench.apply(wanted)
    assert bench.compare(wanted) == ()


def test_back_to_an_earlier_content(bench: Bench) -> None:
    """The old files are older than what is loaded; the server must take them all the same."""
    for answer in (1, 2, 1):
        bench.python("a", answer=answer)
        wanted = bench.want(a={})
        bench.apply(wanted)
        assert bench.compare(wanted) == ()


@pytest.mark.lab
def test_the_real_server_answers_from_what_was_brought(real: Bench) -> None:
    wanted = ensemble(real)
    real.apply(wanted)
    assert real.infer("ens") == 2
    real.edit("b", "1/model.py", "[[2]]", "[[7]]")
    real.by_hand("load", "b")
    assert real.infer("ens") == 7
    real.apply(wanted)
    assert real.infer("ens") == 2
    real.python("b", answer=5)
    real.apply(real.want(ens={}, b={}, a={}))
    assert real.infer("ens") == 5


def test_a_load_without_effect_is_not_believed(simulated: Bench) -> None:
    simulated.python("a")
    simulated.apply(simulated.want(a={}))
    session: Any = simulated.session
    session.faults.without_effect.add("triton.load")
    simulated.python("a", answer=2)
    found = failure(simulated, simulated.want(a={}))
    assert "reports success and keeps the content that it had" in found.detail
    simulated.python("b")
    found = failure(simulated, simulated.want(a={}, b={}))
    assert found.summary == "A model did not load"


def test_an_unload_without_effect_is_not_believed(simulated: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("gpuplan.resources.model.apply.load"), "UNLOADING", 0.5)
    simulated.python("a")
    simulated.apply(simulated.want(a={}))
    session: Any = simulated.session
    session.faults.without_effect.add("triton.unload")
    found = failure(simulated, ())
    assert (found.summary, found.detail) == (
        "A model did not unload",
        "a: it is still READY; requests may be in flight.",
    )


def test_a_server_that_is_down_has_nothing_to_unload(simulated: Bench) -> None:
    simulated.python("a")
    simulated.apply(simulated.want(a={}))
    (change,) = [each for each in simulated.compare(()) if each.address.kind == "model"]
    simulated.session.docker().stop(SERVER)
    (step,) = change.steps
    MODEL.apply(step, simulated.apply_context)
    assert simulated.said[-1] == "triton does not run, so it has nothing loaded"
    assert (simulated.on_node / "load-models").read_text() == ""


def test_a_server_that_went_away_since_the_plan_is_told(simulated: Bench) -> None:
    simulated.python("a")
    (step,) = [step for each in simulated.compare(simulated.want(a={})) for step in each.steps if step.name == "load"]
    simulated.session.docker().stop(SERVER)
    with pytest.raises(Problem) as caught:
        MODEL.apply(step, simulated.apply_context)
    assert caught.value.diagnostics[0].detail == "The server in triton cannot be asked: its container does not run."


def test_a_server_that_died_meanwhile_is_waited_for(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.python(name)
    bench.apply(bench.want(a={}))
    wanted = bench.want(b={})
    changes = bench.compare(wanted)
    bench.session.docker().restart(SERVER, timeout=5)
    bench.carry_out(changes)
    assert bench.compare(wanted) == ()


def test_a_log_that_lags_behind_the_answer_is_asked_again(simulated: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine reads what a server writes through a pipe, and is late with it where the node has much to do."""
    asked: list[str] = []
    real = Log.errors

    def late(log: Log, model: str, others: Sequence[str]) -> tuple[str, ...]:
        asked.append(model)
        return real(log, model, others) if len(asked) > 1 else ()

    monkeypatch.setattr(Log, "errors", late)
    simulated.python("a")
    silenced = [{"id": "batch-size", "reason": "the server's own words are wanted"}]
    found = failure(simulated, simulated.want(a={"config": {"max_batch_size": -1}, "ignore_checks": silenced}))
    assert "'max_batch_size' must be non-negative value for a" in found.detail
    assert len(asked) == 2
