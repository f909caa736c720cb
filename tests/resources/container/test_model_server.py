"""A real Triton that is replaced: its models come first, its requests in flight are waited for."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.apply.triton import drain
from gpuplan.resources.container.server import command_line
from gpuplan.resources.container.spec import ContainerSpec, Readiness
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Problem
from tests.lab.fixtures import Lab
from tests.resources.container.bench import PLAN, Bench

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]
IMAGE = "lab/tritonserver:24.10-py3"
CONFIG = """
backend: "python"
input [{ name: "IN", data_type: TYPE_FP32, dims: [1] }]
output [{ name: "OUT", data_type: TYPE_FP32, dims: [1] }]
instance_group [{ count: 1, kind: KIND_CPU }]
"""
MODEL = """
import time
import triton_python_backend_utils as u
class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.7)
        out = u.Tensor("OUT", u.get_input_tensor_by_name(requests[0], "IN").as_numpy())
        return [u.InferenceResponse([out]) for _ in requests]
"""


@pytest.fixture
def model(real: Bench, lab: Lab) -> Path:
    """The file of a model that takes its time, on the node, for a server called triton."""
    path = str(real.session.agent("repository.prepare", plan=PLAN, container="triton")["path"])
    here = lab.root(real.node) / path.lstrip("/") / "models" / "slow"
    (here / "1").mkdir(parents=True)
    (here / "config.pbtxt").write_text(CONFIG)
    (here / "1" / "model.py").write_text(MODEL)
    real.session.agent("repository.load_at_start", plan=PLAN, container="triton", model="slow", wanted=True)
    return here / "1" / "model.py"


def wish(real: Bench, generation: str) -> Any:
    return real.want(
        "triton",
        ContainerSpec(
            image=IMAGE,
            command=command_line({}, None, None),
            triton=True,
            start_first=True,
            labels={"generation": generation},
            ready=Readiness(60.0),
        ),
    )


@contextmanager
def served(real: Bench) -> Iterator[Callable[[], int]]:
    """Asks the server for one inference: the status of its answer."""
    address = real.engine.inspect_container("triton")["NetworkSettings"]["IPAddress"]
    body = json.dumps({"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1.0]}]}).encode()
    with real.session.forward(8000, address) as local:

        def infer() -> int:
            request = urllib.request.Request(f"http://{local}/v2/models/slow/infer", body)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)

        yield infer


def test_a_server_takes_over_with_its_models_or_not_at_all(real: Bench, model: Path) -> None:
    real.apply(wish(real, "1"))
    assert "1 of 1 models are READY" in real.said
    assert real.engine.inspect_container("triton")["Config"]["StopTimeout"] == 35
    real.apply(wish(real, "2"))
    with served(real) as infer:
        assert infer() == 200
    model.write_text("raise RuntimeError('weights are missing')\n")
    with pytest.raises(Problem) as raised:
        real.apply(wish(real, "3"))
    told = raised.value.diagnostics[0]
    assert told.summary == "A model failed to load in the new container"
    assert "Its models:\n  slow  UNAVAILABLE  Internal: RuntimeError: weights are missing" in told.detail
    assert "Its last log lines:\n" in told.detail
    with served(real) as infer:
        assert infer() == 200
    assert real.engine.inspect_container("triton")["Config"]["Labels"]["generation"] == "2"


def test_requests_that_wait_are_waited_for(real: Bench, model: Path) -> None:
    assert model.exists()
    real.apply(wish(real, "1"))
    engine = EngineContext(address=Address(real.node, "container", "triton"), apply=real.apply_context)
    server = engine.find("triton")
    assert server is not None
    began = time.monotonic()
    drain(server, 30.0, engine)
    idle = time.monotonic() - began
    assert real.said[-1] == "triton has no request in flight"
    with served(real) as infer, ThreadPoolExecutor(3) as clients:
        answers = [clients.submit(infer) for _ in range(3)]
        while not any(answer.done() for answer in answers):
            time.sleep(0.05)
        drain(server, 30.0, engine)
        assert all(answer.done() for answer in answers)
    assert [answer.result() for answer in answers] == [200, 200, 200]
    assert idle < 15
