"""A load with a smoke inference, simulated and real: what answers stays, what does not is taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpuplan.resources.model.smoke.run import RequestLoad, SmokeTarget, run_smoke
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.simulator.session import SimulatedSession
from gpuplan.transport.session import Question
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.resource import Desired
from tests.resources.model.bench import SERVER, Bench
from tests.resources.model.test_apply import ENSEMBLE

RAISES = 'raise ValueError("no such token")'
BREAKS = """
import os

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        {first}
"""


def breaks(bench: Bench, name: str, first: str) -> None:
    """The source of a model that loads and fails at each request."""
    bench.python(name)
    bench.write(f"{name}/1/model.py", BREAKS.format(first=first))


def failure(bench: Bench, desired: Sequence[Desired]) -> Diagnostic:
    with pytest.raises(Problem) as caught:
        bench.apply(desired)
    (found,) = caught.value.diagnostics
    return found


def place(bench: Bench) -> SmokeTarget:
    value: Any = bench.session.ask(Question("bench", ("triton",))).probe("triton").value
    (server,) = value["servers"]
    return SmokeTarget(bench.apply_context, server["container"], SERVER, server["address"])


def test_a_model_that_answers_stays_and_another_smoke_changes_nothing(bench: Bench) -> None:
    bench.python("a", answer=0)
    bench.apply(bench.want(a={"smoke": {"outputs": {"OUT": 0}}}))
    assert bench.states() == {"a": "READY"}
    assert any(said.startswith("version 1 of a answers in ") for said in bench.said)
    changed = bench.want(a={"smoke": {"outputs": {"OUT": 7}, "timeout": "1s"}})
    assert bench.compare(changed) == ()
    assert {each.address: each.digest for each in changed} == {
        address: recorded.digest for address, recorded in bench.record.resources.items()
    }
    assert bench.compare(bench.want(a={})) == ()


def test_a_model_that_does_not_answer_is_not_left_loaded(bench: Bench) -> None:
    breaks(bench, "a", RAISES)
    found = failure(bench, bench.want(a={"smoke": True}))
    assert found.summary == "A model does not answer as it should"
    assert found.detail.startswith(
        "Version 1 of a on triton was asked with IN FP32 [1, 1]: Failed to process the request(s) for model 'a_0_0', "
        "message: ValueError: no such token At: /gpuplan/models/a/1/model.py"
    )
    assert found.detail.endswith("It was unloaded again.")
    assert bench.states() == {"a": "UNAVAILABLE"}


def test_what_served_before_comes_back(bench: Bench) -> None:
    bench.python("a", answer=0)
    bench.apply(bench.want(a={"smoke": True}))
    breaks(bench, "a", "os._exit(3)")
    found = failure(bench, bench.want(a={"smoke": True}))
    assert "Stub process 'a_0_0' is not healthy" in found.detail
    assert found.detail.endswith("serve again (version 1).")
    assert bench.states() == {"a": "READY"}
    assert bench.infer("a") == 0.0


def test_an_ensemble_is_asked_again_when_a_part_of_it_changes(bench: Bench) -> None:
    models: dict[str, Any] = {"ens": {"smoke": True}, "b": {}, "a": {}}
    bench.python("a", answer=0)
    bench.python("b", answer=0)
    bench.write("ens/config.pbtxt", ENSEMBLE)
    bench.write("ens/1/.gitkeep", "")
    bench.apply(bench.want(**models))
    breaks(bench, "b", RAISES)
    found = failure(bench, bench.want(**models))
    assert found.address == f"{bench.session.node}/model/{SERVER}/ens"
    assert "in ensemble 'ens', Failed to process the request(s) for model 'b_0_0'" in found.detail
    assert found.detail.endswith("serve again (version 1).")
    assert bench.states() == {"a": "READY", "b": "READY", "ens": "READY"}


def test_what_does_not_fit_the_model_that_the_server_has_is_told(bench: Bench) -> None:
    bench.python("a", answer=0)
    bench.apply(bench.want(a={}))
    with pytest.raises(Problem) as caught:
        run_smoke(
            place(bench), Address("n", "model", f"{SERVER}/a"), (1,), SmokeSpec(inputs={"X": 1}, batch=9), RequestLoad()
        )
    assert [each.summary for each in caught.value.diagnostics] == ["A smoke inference does not fit its model"] * 2
    with pytest.raises(Problem, match="Request for unknown model: 'b' is not found"):
        run_smoke(place(bench), Address("n", "model", f"{SERVER}/b"), (1,), SmokeSpec(), RequestLoad())


def test_many_in_flight_through_system_shared_memory(bench: Bench) -> None:
    bench.python("a", answer=0, versions=(1, 2))
    bench.apply(bench.want(a={"versions": "all"}))
    asked = SmokeSpec(shared_memory="system", batch=1, outputs={"OUT": 0.0})
    one, two = run_smoke(place(bench), Address("n", "model", f"{SERVER}/a"), (1, 2), asked, RequestLoad(20, 4))
    assert [(each.version, each.requests, len(each.latencies), each.diagnostics) for each in (one, two)] == [
        (1, 20, 20, ()),
        (2, 20, 20, ()),
    ]
    assert list(one.latencies) == sorted(one.latencies)
    wrong = SmokeSpec(shared_memory="system", outputs={"OUT": 7})
    (proof,) = run_smoke(place(bench), Address("n", "model", f"{SERVER}/a"), (1,), wrong, RequestLoad())
    assert "[0, 0] is 0.0, expected was 7.0" in proof.diagnostics[0].detail
    engine = bench.session.docker()
    listed = engine.exec_create(SERVER, ["ls", "/dev/shm"])["Id"]
    assert b"gpuplan-smoke" not in engine.exec_start(listed)


def test_cuda_shared_memory_without_a_gpu_says_what_is_missing(bench: Bench) -> None:
    bench.python("a", answer=0)
    bench.apply(bench.want(a={}))
    with pytest.raises(Problem) as caught:
        run_smoke(
            place(bench), Address("n", "model", f"{SERVER}/a"), (1,), SmokeSpec(shared_memory="cuda"), RequestLoad()
        )
    (found,) = caught.value.diagnostics
    assert found.summary == "CUDA shared memory could not be used"
    assert "libcuda.so.1" in found.detail


def test_one_that_never_answers_is_not_waited_for_twice(bench: Bench) -> None:
    breaks(bench, "a", "__import__('time').sleep(4)")
    bench.apply(bench.want(a={}))
    if isinstance(bench.session, SimulatedSession):
        bench.session.faults.infer["a"] = None
    (proof,) = run_smoke(
        place(bench), Address("n", "model", f"{SERVER}/a"), (1,), SmokeSpec(timeout=0.5), RequestLoad(50, 2)
    )
    assert proof.requests == 2
    assert "no answer within 0.5 s (2 of 2 requests)" in proof.diagnostics[0].detail
