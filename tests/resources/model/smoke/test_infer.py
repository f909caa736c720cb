"""gRPC against the real server, since the simulator has none: single responses, streams, and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.cli import main
from gpuplan.resources.model import desired
from gpuplan.resources.model.smoke import run
from gpuplan.resources.model.smoke.run import RequestLoad, run_smoke
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Problem
from tests.resources.model.smoke.test_run import target
from tests.resources.model.triton_node import CONFIG, SERVER, TritonNode

STREAM = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in {answers}:
                answer = pb_utils.Tensor("OUT", np.array([number], dtype=np.float32))
                sender.send(pb_utils.InferenceResponse([answer]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
DECOUPLED = CONFIG.replace("max_batch_size: 4", "model_transaction_policy { decoupled: true }")


def stream(triton: TritonNode, name: str, answers: str) -> None:
    triton.write(f"{name}/1/model.py", STREAM.format(answers=answers))
    triton.write(f"{name}/config.pbtxt", DECOUPLED)


def address(name: str) -> Address:
    return Address("n", "model", f"{SERVER}/{name}")


@pytest.mark.lab
def test_single_answers_streams_and_shared_memory(real: TritonNode) -> None:
    real.write_model("a", answer=3)
    stream(real, "s", "range(3)")
    stream(real, "bad", "(1, float('nan'))")
    real.apply(real.plan(a={"smoke": {"protocol": "grpc", "outputs": {"OUT": 3}}}, s={"smoke": True}, bad={}))
    asked = SmokeSpec(protocol="grpc", shared_memory="system", outputs={"OUT": 3})
    (result,) = run_smoke(target(real), address("a"), (1,), asked, RequestLoad(10, 2))
    assert (result.protocol, len(result.latencies), result.diagnostics) == ("grpc", 10, ())
    (result,) = run_smoke(target(real), address("s"), (1,), SmokeSpec(), RequestLoad(6, 3))
    assert (result.protocol, len(result.latencies)) == ("grpc", 6)
    (result,) = run_smoke(
        target(real), address("bad"), (1,), SmokeSpec(outputs={"OUT": {"finite": True}}), RequestLoad()
    )
    assert "NaN or infinite" in result.diagnostics[0].detail
    (result,) = run_smoke(target(real), address("a"), (9,), SmokeSpec(protocol="grpc"), RequestLoad())
    assert (
        "asked with IN FP32 [1, 1] over gRPC: Request for unknown model: 'a' version 9" in result.diagnostics[0].detail
    )


@pytest.mark.lab
def test_an_answer_that_does_not_come(real: TritonNode) -> None:
    stream(real, "s", "(__import__('time').sleep(3),)")
    real.write_model("a")
    real.write("a/1/model.py", STREAM.format(answers="(__import__('time').sleep(3),)"))
    real.apply(real.plan(s={}, a={}))
    for name in ("s", "a"):
        (result,) = run_smoke(target(real), address(name), (1,), SmokeSpec(protocol="grpc", timeout=0.5), RequestLoad())
        assert "within 0.5 s" in result.diagnostics[0].detail


def test_without_the_library_it_says_what_to_install(
    simulated: TritonNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (run, desired):
        monkeypatch.setattr(module, "has_grpc", lambda: False)
    simulated.write_model("a")
    simulated.apply(simulated.plan(a={}))
    with pytest.raises(Problem, match="its library is not installed") as caught:
        run_smoke(target(simulated), address("a"), (1,), SmokeSpec(protocol="grpc"), RequestLoad())
    assert caught.value.diagnostics[0].fix == "Install it on this machine: pip install 'gpuplan[grpc]'"
    plan: dict[str, Any] = yaml.safe_load(Path(simulated.base / "plan.yaml").read_text())
    plan["models"]["a"]["smoke"] = {"protocol": "grpc"}
    (simulated.base / "plan.yaml").write_text(yaml.safe_dump(plan))
    assert main(["validate", str(simulated.base / "plan.yaml")]) == 1
    assert "The smoke test of a uses gRPC (protocol is grpc)" in " ".join(capsys.readouterr().err.split())
