"""When a changed model does not come up, what served before serves again, in memory and on disk."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.types.diagnostic import Diagnostic
from tests.resources.model.bench import CONFIG, SERVER, Bench
from tests.resources.model.test_apply import ensemble, failure

BROKEN = 'raise RuntimeError("weights not found")'


def content_on_disk(bench: Bench, model: str) -> str:
    """What a server that starts now would load."""
    return (bench.on_node / "models" / model / "1" / "model.py").read_text()


def broken(bench: Bench, model: str, **wanted: Any) -> Diagnostic:
    bench.python(model, answer=2, first=BROKEN)
    return failure(bench, bench.want(**wanted))


def test_the_files_that_served_are_those_of_the_model_again(bench: Bench) -> None:
    bench.python("a")
    before = bench.want(a={})
    bench.apply(before)
    found = broken(bench, "a", a={})
    assert "RuntimeError: weights not found" in found.detail
    assert found.detail.endswith("Its files of before are back on the node and serve again (version 1).")
    assert BROKEN not in content_on_disk(bench, "a")
    assert bench.compare(before) == ()
    bench.session.docker().restart(SERVER, timeout=5)
    bench.await_live()
    assert bench.compare(before) == ()


def test_the_next_plan_shows_the_difference_still(bench: Bench) -> None:
    bench.python("a")
    bench.apply(bench.want(a={}))
    broken(bench, "a", a={})
    assert [change.address.kind for change in bench.compare(bench.want(a={}))] == ["repository", "model"]
    bench.python("a", answer=3)
    mended = bench.want(a={})
    bench.apply(mended)
    assert bench.compare(mended) == ()
    assert not list((bench.on_node / "previous").iterdir())


def test_nothing_is_left_of_a_first_load_that_fails(bench: Bench) -> None:
    found = broken(bench, "a", a={})
    assert "before" not in found.detail
    assert (bench.on_node / "load-models").read_text() == ""


def test_a_part_that_fails_leaves_its_ensemble_as_it_was(bench: Bench) -> None:
    before = ensemble(bench)
    bench.apply(before)
    found = broken(bench, "b", ens={}, b={}, a={})
    assert "serve again (version 1)" in found.detail
    assert bench.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    bench.python("b", answer=2)
    assert bench.compare(bench.want(ens={}, b={}, a={})) == ()


def test_an_ensemble_that_a_part_no_longer_fits_is_that_step_s_failure(bench: Bench) -> None:
    """The part itself loads; what is composed of it does not bear it, and both are as before."""
    before = ensemble(bench)
    bench.apply(before)
    config = (bench.base / "b/config.pbtxt").read_text()
    bench.write("b/config.pbtxt", config.replace("TYPE_FP32", "TYPE_INT32"))
    silenced = [{"id": name, "reason": "the server's words are wanted"} for name in ("ensemble-type",)]
    found = failure(bench, bench.want(ens={"ignore_checks": silenced}, b={}, a={}))
    assert found.address == f"{bench.session.node}/model/{SERVER}/b"
    assert "ens did not load" in found.detail
    assert bench.states() == {"a": "READY", "b": "READY", "ens": "READY"}
    bench.write("b/config.pbtxt", config)
    assert bench.compare(bench.want(ens={}, b={}, a={})) == ()


def test_a_load_that_goes_on_is_waited_for_and_not_asked_for_again(simulated: Bench) -> None:
    simulated.write("a/1/weights.bin", "x")
    simulated.write("a/config.pbtxt", CONFIG)
    wanted = simulated.want(a={"load_timeout": 0.5, "ignore_checks": [{"id": "model-file", "reason": "it is to hang"}]})
    assert failure(simulated, wanted).summary == "A model load did not end"
    asked: list[str] = []
    session: Any = simulated.session
    reached = session.reached

    def counting(host: str, port: int, method: str, path: str, *more: Any) -> Any:
        asked.append(path.rpartition("/")[2])
        return reached(host, port, method, path, *more)

    session.reached = counting
    assert failure(simulated, wanted).summary == "A model load did not end"
    assert "index" in asked
    assert "load" not in asked


@pytest.mark.lab
def test_requests_are_answered_all_the_while(real: Bench) -> None:
    """A reload, a reload that fails and the way back: whoever asks notices none of it."""
    real.apply(ensemble(real))
    with real.asking("ens", "b") as answers:
        real.python("b", answer=5)
        real.apply(real.want(ens={}, b={}, a={}))
        broken(real, "b", ens={}, b={}, a={})
    assert answers.failed == []
    assert {2.0, 5.0} <= set(answers.given["ens"])
    assert real.infer("ens") == 5


def test_a_model_that_does_not_prove_itself_is_not_kept(simulated: Bench) -> None:
    session: Any = simulated.session
    session.faults.infer["a"] = "no kernel image is available"
    simulated.python("a")
    wanted = simulated.want(a={"smoke": True})
    assert failure(simulated, wanted).detail.endswith("It was unloaded again.")
    assert simulated.states() == {"a": "UNAVAILABLE"}
    assert (simulated.on_node / "load-models").read_text() == ""
    session.faults.infer.clear()
    simulated.apply(wanted)
    assert simulated.compare(wanted) == ()


def test_a_changed_model_that_does_not_prove_itself_gives_way_to_the_one_before(simulated: Bench) -> None:
    session: Any = simulated.session
    simulated.python("a")
    before = simulated.want(a={"smoke": True})
    simulated.apply(before)
    session.faults.infer["a"] = "no kernel image is available"
    simulated.python("a", answer=2)
    found = failure(simulated, simulated.want(a={"smoke": True}))
    assert "no kernel image is available" in found.detail
    assert found.detail.endswith("Its files of before are back on the node and serve again (version 1).")
    assert "[[1]]" in content_on_disk(simulated, "a")
    simulated.python("a")
    assert simulated.compare(before) == ()
