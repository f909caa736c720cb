"""Smoke tests after a load and on request, simulated and real: a model that fails them is rolled back."""

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
from tests.resources.model.apply.test_load import ENSEMBLE
from tests.resources.model.triton_node import PLAN, SERVER, TritonNode

RAISES = 'raise ValueError("no such token")'
BREAKS = """
import os

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        {first}
"""


def breaks(triton: TritonNode, name: str, first: str) -> None:
    """The source of a model that loads and fails at each request."""
    triton.write_model(name)
    triton.write(f"{name}/1/model.py", BREAKS.format(first=first))


def failure(triton: TritonNode, desired: Sequence[Desired]) -> Diagnostic:
    with pytest.raises(Problem) as caught:
        triton.apply(desired)
    (issue,) = caught.value.diagnostics
    return issue


def target(triton: TritonNode) -> SmokeTarget:
    value: Any = triton.session.ask(Question(PLAN, ("triton",))).probe("triton").value
    (server,) = value["servers"]
    return SmokeTarget(triton.apply_context, server["container"], SERVER, server["address"])


def test_a_model_that_answers_stays_and_a_changed_smoke_section_changes_nothing(triton: TritonNode) -> None:
    triton.write_model("a", answer=0)
    triton.apply(triton.plan(a={"smoke": {"outputs": {"OUT": 0}}}))
    assert triton.states() == {"a": "READY"}
    assert any(line.startswith("a version 1 answered in ") for line in triton.progress)
    changed = triton.plan(a={"smoke": {"outputs": {"OUT": 7}, "timeout": "1s"}})
    assert triton.compare(changed) == ()
    assert {each.address: each.digest for each in changed} == {
        address: recorded.digest for address, recorded in triton.record.resources.items()
    }
    assert triton.compare(triton.plan(a={})) == ()


def test_a_model_that_does_not_answer_is_unloaded(triton: TritonNode) -> None:
    breaks(triton, "a", RAISES)
    issue = failure(triton, triton.plan(a={"smoke": True}))
    assert issue.summary == "Smoke test failed"
    assert issue.detail.startswith(
        "a version 1 on triton, asked with IN FP32 [1, 1]: Failed to process the request(s) for model 'a_0_0', "
        "message: ValueError: no such token At: /gpuplan/models/a/1/model.py"
    )
    assert issue.detail.endswith("It was unloaded again.")
    assert triton.states() == {"a": "UNAVAILABLE"}


def test_the_previous_model_is_restored(triton: TritonNode) -> None:
    triton.write_model("a", answer=0)
    triton.apply(triton.plan(a={"smoke": True}))
    breaks(triton, "a", "os._exit(3)")
    issue = failure(triton, triton.plan(a={"smoke": True}))
    assert "Stub process 'a_0_0' is not healthy" in issue.detail
    assert issue.detail.endswith("served again (version 1).")
    assert triton.states() == {"a": "READY"}
    assert triton.infer("a") == 0.0


def test_an_ensemble_is_tested_if_a_part_of_it_changes(triton: TritonNode) -> None:
    models: dict[str, Any] = {"ens": {"smoke": True}, "b": {}, "a": {}}
    triton.write_model("a", answer=0)
    triton.write_model("b", answer=0)
    triton.write("ens/config.pbtxt", ENSEMBLE)
    triton.write("ens/1/.gitkeep", "")
    triton.apply(triton.plan(**models))
    breaks(triton, "b", RAISES)
    issue = failure(triton, triton.plan(**models))
    assert issue.address == f"{triton.session.node}/model/{SERVER}/ens"
    assert "in ensemble 'ens', Failed to process the request(s) for model 'b_0_0'" in issue.detail
    assert issue.detail.endswith("served again (version 1).")
    assert triton.states() == {"a": "READY", "b": "READY", "ens": "READY"}


def test_a_section_that_does_not_fit_the_loaded_model_is_reported(triton: TritonNode) -> None:
    triton.write_model("a", answer=0)
    triton.apply(triton.plan(a={}))
    with pytest.raises(Problem) as caught:
        run_smoke(
            target(triton),
            Address("n", "model", f"{SERVER}/a"),
            (1,),
            SmokeSpec(inputs={"X": 1}, batch=9),
            RequestLoad(),
        )
    assert [issue.summary for issue in caught.value.diagnostics] == ["The smoke section does not fit the model"] * 2
    with pytest.raises(Problem, match="Request for unknown model: 'b' is not found"):
        run_smoke(target(triton), Address("n", "model", f"{SERVER}/b"), (1,), SmokeSpec(), RequestLoad())


def test_many_in_flight_through_system_shared_memory(triton: TritonNode) -> None:
    triton.write_model("a", answer=0, versions=(1, 2))
    triton.apply(triton.plan(a={"versions": "all"}))
    asked = SmokeSpec(shared_memory="system", batch=1, outputs={"OUT": 0.0})
    one, two = run_smoke(target(triton), Address("n", "model", f"{SERVER}/a"), (1, 2), asked, RequestLoad(20, 4))
    assert [(each.version, each.requests, len(each.latencies), each.diagnostics) for each in (one, two)] == [
        (1, 20, 20, ()),
        (2, 20, 20, ()),
    ]
    assert list(one.latencies) == sorted(one.latencies)
    wrong = SmokeSpec(shared_memory="system", outputs={"OUT": 7})
    (result,) = run_smoke(target(triton), Address("n", "model", f"{SERVER}/a"), (1,), wrong, RequestLoad())
    assert "[0, 0] is 0.0, expected 7.0" in result.diagnostics[0].detail
    engine = triton.session.docker()
    listed = engine.exec_create(SERVER, ["ls", "/dev/shm"])["Id"]
    assert b"gpuplan-smoke" not in engine.exec_start(listed)


def test_cuda_shared_memory_without_a_gpu_is_reported(triton: TritonNode) -> None:
    triton.write_model("a", answer=0)
    triton.apply(triton.plan(a={}))
    with pytest.raises(Problem) as caught:
        run_smoke(
            target(triton), Address("n", "model", f"{SERVER}/a"), (1,), SmokeSpec(shared_memory="cuda"), RequestLoad()
        )
    (issue,) = caught.value.diagnostics
    assert issue.summary == "Cannot use CUDA shared memory"
    assert "libcuda.so.1" in issue.detail


def test_after_a_timeout_no_further_requests_are_sent(triton: TritonNode) -> None:
    breaks(triton, "a", "__import__('time').sleep(4)")
    triton.apply(triton.plan(a={}))
    if isinstance(triton.session, SimulatedSession):
        triton.session.faults.infer["a"] = None
    (result,) = run_smoke(
        target(triton), Address("n", "model", f"{SERVER}/a"), (1,), SmokeSpec(timeout=0.5), RequestLoad(50, 2)
    )
    assert result.requests == 2
    assert "no response within 0.5 s (2 of 2 requests)" in result.diagnostics[0].detail
