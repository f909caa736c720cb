"""Models that load at a time: one that fails hinders none of the others, and is told by its own lines of the log."""

from __future__ import annotations

from gpuplan.core.plan.desired import as_recorded
from gpuplan.types.outcome import Status
from tests.resources.model.bench import SERVER, Bench
from tests.resources.model.test_apply import ensemble


def test_a_part_that_fails_does_not_hold_up_the_other_part_of_an_ensemble(bench: Bench) -> None:
    bench.apply(ensemble(bench))
    bench.python("a", answer=2, first='raise RuntimeError("weights not found")')
    bench.python("b", answer=5)
    wanted = bench.want(ens={}, b={}, a={})
    outcomes = bench.apply_side_by_side(wanted)
    assert {name: outcomes[name].status for name in ("a", "b")} == {"a": Status.FAILED, "b": Status.DONE}
    assert bench.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    assert [change.address.name.rpartition("/")[2] for change in bench.compare(wanted)] == [SERVER, "a"]


def test_what_went_back_is_pending_and_no_drift(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.python(name)
    bench.apply(bench.want(a={}, b={}))
    bench.python("a", answer=2, first='raise RuntimeError("weights not found")')
    bench.python("b", answer=2)
    wanted = bench.want(a={}, b={})
    bench.apply_side_by_side(wanted)
    node = bench.session.node
    assert bench.compare(as_recorded(bench.record)) == ()
    digests = {each.address: each.digest for each in wanted}
    pending = [each for each, entry in bench.record.resources.items() if entry.digest != digests[each]]
    assert sorted(map(str, pending)) == [f"{node}/model/{SERVER}/a", f"{node}/repository/{SERVER}"]


def test_several_load_at_a_time_and_two_of_them_fail(bench: Bench) -> None:
    names = [f"m{number}" for number in range(6)]
    for name in names:
        bench.python(name)
    bench.python("m1", first='raise RuntimeError("weights not found")')
    silenced = [{"id": "batch-size", "reason": "the server's own words are wanted"}]
    bad = {"m4": {"config": {"max_batch_size": -1}, "ignore_checks": silenced}}
    wanted = bench.want(**{name: bad.get(name, {}) for name in names})
    outcomes = bench.apply_side_by_side(wanted)
    status = {name: outcomes[name].status for name in names}
    assert [name for name in names if status[name] is not Status.DONE] == ["m1", "m4"]
    (first,), (second,) = (outcomes[name].diagnostics for name in ("m1", "m4"))
    assert "RuntimeError: weights not found" in first.detail
    assert "'max_batch_size' must be non-negative value for m4" in second.detail
    assert "m1" not in second.detail
    states = bench.states()
    assert [name for name in names if states.get(name) == "READY"] == ["m0", "m2", "m3", "m5"]
    listed = (bench.on_node / "load-models").read_text().split()
    assert listed == [f"--load-model={name}" for name in ("m0", "m2", "m3", "m5")]
