"""Inferences: the simulated server takes, refuses and counts requests as release 24.10 does, and computes zeros."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

from gpuplan.resources.model.smoke.shared_memory import run_in_container
from tests.contract.models import ensemble
from tests.contract.node import FLAGS, Node, failed

CODE = """
import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        {first}
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros((len(one), 1), dtype=np.float32))])
            for one in (pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests)
        ]
"""
CONFIG = """backend: "python"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
SEQUENCE = 'sequence_batching { control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START \
fp32_false_true: [ 0, 1 ] } ] } ] }\n'
MODELS = {
    "a": {"1/model.py": CODE.format(first="pass"), "config.pbtxt": CONFIG},
    "raises": {"1/model.py": CODE.format(first='raise ValueError("no such token")'), "config.pbtxt": CONFIG},
    "dead": {"1/model.py": CODE.format(first="os._exit(3)"), "config.pbtxt": CONFIG},
    "seq": {"1/model.py": CODE.format(first="pass"), "config.pbtxt": CONFIG + SEQUENCE},
    "stream": {
        "1/model.py": CODE.format(first="pass"),
        "config.pbtxt": CONFIG.replace("max_batch_size: 4", "model_transaction_policy { decoupled: true }"),
    },
    "both": ensemble("a", "a"),
    "part": ensemble("a", "raises"),
}


@pytest.fixture
def client(node: Node) -> Iterator[InferenceServerClient]:
    node.start_triton(flags=(*FLAGS, "--disable-auto-complete-config"))
    with node.triton() as found:
        yield found


def load(node: Node, client: InferenceServerClient, *models: str) -> None:
    for model in models:
        node.write_model(model, MODELS[model])
    for model in models:
        client.load_model(model)


def given(name: str = "IN", kind: str = "FP32", shape: tuple[int, ...] = (1, 1)) -> list[InferInput]:
    tensor = InferInput(name, list(shape), kind)
    tensor.set_data_from_numpy(np.ones(shape, dtype={"FP32": np.float32, "INT32": np.int32}[kind]))
    return [tensor]


def test_answers(node: Node, client: InferenceServerClient) -> None:
    load(node, client, "a", "both")
    for model, batch in (("a", 1), ("a", 3), ("both", 2)):
        result = client.infer(model, given(shape=(batch, 1)), "1")
        assert result.get_output("OUT") == {
            "name": "OUT",
            "datatype": "FP32",
            "shape": [batch, 1],
            "parameters": {"binary_data_size": 4 * batch},
        }
        assert result.as_numpy("OUT").tolist() == [[0.0]] * batch
    plain = client.infer("a", given(), outputs=[InferRequestedOutput("OUT", binary_data=False)])
    assert plain.get_response()["outputs"] == [{"name": "OUT", "datatype": "FP32", "shape": [1, 1], "data": [0.0]}]


def test_what_is_refused(node: Node, client: InferenceServerClient) -> None:
    load(node, client, "a", "seq", "stream")
    wrong: list[tuple[Any, ...]] = [
        ("nosuch", given(), ""),
        ("a", given(), "9"),
        ("a", given("X"), ""),
        ("a", [], ""),
        ("a", given(kind="INT32"), ""),
        ("a", given(shape=(1, 2)), ""),
        ("a", given(shape=(5, 1)), ""),
        ("seq", given(), ""),
        ("stream", given(shape=(1,)), ""),
    ]
    said = [failed(lambda ask=ask: client.infer(*ask)) for ask in wrong]
    output = failed(lambda: client.infer("a", given(), outputs=[InferRequestedOutput("Q")]))
    nobody = "[request id: <id_unknown>] "
    assert [*said, output] == [
        ("404", "Request for unknown model: 'nosuch' is not found"),
        ("404", "Request for unknown model: 'a' version 9 is not found"),
        ("400", "unexpected inference input 'X' for model 'a'"),
        (
            "400",
            f"{nobody}expected 1 inputs but got 0 inputs for model 'a'. Got input(s) [], but missing required input(s) "
            "['IN']. Please provide all required input(s).",
        ),
        ("400", f"{nobody}inference input 'IN' data-type is 'INT32', but model 'a' expects 'FP32'"),
        (
            "400",
            f"{nobody}unexpected shape for input 'IN' for model 'a'. Expected [-1,1], got [1,2]. NOTE: Setting a "
            "non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input "
            "shape. If you want to specify the full shape including the batch dim in your input dims config, try "
            "setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.",
        ),
        ("400", f"{nobody}inference request batch-size must be <= 4 for 'a'"),
        ("400", "inference request to model 'seq' must specify a non-zero or non-empty correlation ID"),
        ("501", "HTTP end point doesn't support models with decoupled transaction policy"),
        ("400", "unexpected inference output 'Q' for model 'a'"),
    ]
    assert client.infer("seq", given(), sequence_id=7, sequence_start=True, sequence_end=True).as_numpy("OUT") == [[0]]


def test_models_that_fail(node: Node, client: InferenceServerClient) -> None:
    load(node, client, "raises", "dead", "a", "part")
    status, words = failed(lambda: client.infer("raises", given()))
    assert status == "500"
    assert words.startswith(
        "Failed to process the request(s) for model 'raises_0_0', message: ValueError: no such token\n\nAt:\n  "
        "/gpuplan/models/raises/1/model.py(10): execute\n"
    )
    assert failed(lambda: client.infer("dead", given())) == ("500", "Stub process 'dead_0_0' is not healthy.")
    status, whole = failed(lambda: client.infer("part", given()))
    assert (status, whole) == ("500", f"in ensemble 'part', {words}")


def test_statistics_count(node: Node, client: InferenceServerClient) -> None:
    load(node, client, "a", "both")
    client.infer("a", given(shape=(3, 1)))
    client.infer("both", given())
    expected = {"a": (5, 3), "both": (1, 1)}
    counted_soon = Retrying(
        stop=stop_after_delay(5), wait=wait_fixed(0.05), retry=retry_if_exception_type(AssertionError), reraise=True
    )
    for attempt in counted_soon:  # the server counts a request just after it has answered it
        with attempt:
            found = {model["name"]: model for model in client.get_inference_statistics()["model_stats"]}
            counts = {name: (model["inference_count"], model["execution_count"]) for name, model in found.items()}
            assert counts == expected
    assert found["a"]["inference_stats"]["success"]["count"] == 3
    assert found["a"]["last_inference"] > 0


def test_system_shared_memory(node: Node, client: InferenceServerClient) -> None:
    load(node, client, "a")
    engine, content = node.session.docker(), os.urandom(1) * 300_000 + np.ones(1, np.float32).tobytes() + b"\1\1\1\1"
    size = ["bs=65536", f"count={len(content)}", "iflag=fullblock,count_bytes", "status=none"]
    assert run_in_container(engine, "triton", ["dd", "of=/dev/shm/one", *size], content).code == 0
    assert run_in_container(engine, "triton", ["head", "-c", "400000", "/dev/shm/one"]).output == content
    client.register_system_shared_memory("r", "/one", len(content))
    assert client.get_system_shared_memory_status() == [
        {"name": "r", "key": "/one", "offset": 0, "byte_size": len(content)}
    ]
    (tensor,), output = given(), InferRequestedOutput("OUT")
    tensor.set_shared_memory("r", 4, 300_000)
    output.set_shared_memory("r", 4, 300_004)
    result = client.infer("a", [tensor], outputs=[output])
    assert result.get_output("OUT")["shape"] == [1, 1]
    assert run_in_container(engine, "triton", ["head", "-c", "400000", "/dev/shm/one"]).output == content[:-4] + bytes(
        4
    )
    client.unregister_system_shared_memory("r")
    assert failed(lambda: client.infer("a", [tensor]))[1] == "Unable to find shared memory region: 'r'"
    assert run_in_container(engine, "triton", ["rm", "-f", "/dev/shm/one"]).code == 0
    gone = failed(lambda: client.register_system_shared_memory("r", "/one", 8))
    assert gone[1].startswith("Unable to open shared memory region: '/one'")
    assert run_in_container(engine, "triton", ["head", "-c", "4", "/dev/shm/one"]).error.endswith(
        "No such file or directory"
    )
    assert json.dumps(client.get_cuda_shared_memory_status()) == "[]"
