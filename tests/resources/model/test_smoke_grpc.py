"""gRPC against the real server, which the simulation does not speak: single answers, streams, and what is missing."""

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
from tests.resources.model.bench import CONFIG, SERVER, Bench
from tests.resources.model.test_smoke import place

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


def stream(bench: Bench, name: str, answers: str) -> None:
    bench.write(f"{name}/1/model.py", STREAM.format(answers=answers))
    bench.write(f"{name}/config.pbtxt", DECOUPLED)


def address(name: str) -> Address:
    return Address("n", "model", f"{SERVER}/{name}")


@pytest.mark.lab
def test_single_answers_streams_and_shared_memory(real: Bench) -> None:
    real.python("a", answer=3)
    stream(real, "s", "range(3)")
    stream(real, "bad", "(1, float('nan'))")
    real.apply(real.want(a={"smoke": {"protocol": "grpc", "outputs": {"OUT": 3}}}, s={"smoke": True}, bad={}))
    asked = SmokeSpec(protocol="grpc", shared_memory="system", outputs={"OUT": 3})
    (proof,) = run_smoke(place(real), address("a"), (1,), asked, RequestLoad(10, 2))
    assert (proof.protocol, len(proof.latencies), proof.diagnostics) == ("grpc", 10, ())
    (proof,) = run_smoke(place(real), address("s"), (1,), SmokeSpec(), RequestLoad(6, 3))
    assert (proof.protocol, len(proof.latencies)) == ("grpc", 6)
    (proof,) = run_smoke(place(real), address("bad"), (1,), SmokeSpec(outputs={"OUT": {"finite": True}}), RequestLoad())
    assert "not finite" in proof.diagnostics[0].detail
    (proof,) = run_smoke(place(real), address("a"), (9,), SmokeSpec(protocol="grpc"), RequestLoad())
    assert "over gRPC with IN FP32 [1, 1]: Request for unknown model: 'a' version 9" in proof.diagnostics[0].detail


@pytest.mark.lab
def test_an_answer_that_does_not_come(real: Bench) -> None:
    stream(real, "s", "(__import__('time').sleep(3),)")
    real.python("a")
    real.write("a/1/model.py", STREAM.format(answers="(__import__('time').sleep(3),)"))
    real.apply(real.want(s={}, a={}))
    for name in ("s", "a"):
        (proof,) = run_smoke(place(real), address(name), (1,), SmokeSpec(protocol="grpc", timeout=0.5), RequestLoad())
        assert "within 0.5 s" in proof.diagnostics[0].detail


def test_without_the_library_it_says_what_to_install(
    simulated: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (run, desired):
        monkeypatch.setattr(module, "has_grpc", lambda: False)
    simulated.python("a")
    simulated.apply(simulated.want(a={}))
    with pytest.raises(Problem, match="the library for that is not here") as caught:
        run_smoke(place(simulated), address("a"), (1,), SmokeSpec(protocol="grpc"), RequestLoad())
    assert caught.value.diagnostics[0].fix == "Install it here: pip install 'gpuplan[grpc]'"
    plan: dict[str, Any] = yaml.safe_load(Path(simulated.base / "plan.yaml").read_text())
    plan["models"]["a"]["smoke"] = {"protocol": "grpc"}
    (simulated.base / "plan.yaml").write_text(yaml.safe_dump(plan))
    assert main(["validate", str(simulated.base / "plan.yaml")]) == 1
    assert "a is asked over gRPC, since protocol says so" in " ".join(capsys.readouterr().err.split())
