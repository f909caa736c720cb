"""Memory that does not come back: the restart of a container, and what is told of a load for which it is not enough."""

from __future__ import annotations

import pytest

from gpuplan.resources.model import MODEL
from gpuplan.resources.model.apply.failure import failed
from gpuplan.resources.model.read import ModelServer, ModelVersion
from gpuplan.resources.model.restart import restart_server
from gpuplan.resources.model.spec import ModelSpec
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.diagnostic import Problem
from tests.resources.model.bench import SERVER, Bench

NO_MEMORY = [
    "Internal: onnx runtime error 6: CUDA failure 2: out of memory",
    "Internal: failed to allocate CUDA memory",
    "Internal: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate",
    "ResourceExhausted: OOM when allocating tensor",
]


def restart(bench: Bench) -> Step:
    node = bench.session.node
    return restart_server(Address(node, "model", SERVER), Address(node, "container", SERVER))


def test_a_restarted_container_has_its_models_again(bench: Bench) -> None:
    bench.python("a")
    wanted = bench.want(a={})
    bench.apply(wanted)
    MODEL.apply(restart(bench), bench.apply_context)
    assert bench.said[-1] == "triton is back, with a READY"
    assert bench.states() == {"a": "READY"}
    assert bench.compare(wanted) == ()


def test_one_that_does_not_run_is_not_started(simulated: Bench) -> None:
    simulated.session.docker().stop(SERVER)
    with pytest.raises(Problem, match="its container does not run"):
        MODEL.apply(restart(simulated), simulated.apply_context)


@pytest.mark.parametrize("reason", NO_MEMORY)
def test_a_load_without_memory_after_an_unload_names_the_restart(reason: str) -> None:
    wanted = ModelSpec(SERVER, "a", "c1", (1,), 60.0)
    found = ModelServer("127.0.0.1:8000", {"a": [ModelVersion(1, "UNAVAILABLE", reason)]}, {}, {})
    address = Address("n", "model", f"{SERVER}/a")
    plain = failed(Step("load", address, Verb.CREATE, "", wanted.json()), wanted, found, "", ())
    after = failed(
        Step("load", address, Verb.CREATE, "", {**wanted.json(), "unloaded": ["b", "c"]}), wanted, found, "", ()
    )
    assert "docker restart" not in plain.fix
    assert "memory:" in plain.fix
    assert "b, c had just been unloaded from it" in after.detail
    assert f"docker restart {SERVER}" in after.fix


def test_another_failure_after_an_unload_is_not_one_of_memory() -> None:
    wanted = ModelSpec(SERVER, "a", "c1", (1,), 60.0)
    found = ModelServer(
        "127.0.0.1:8000", {"a": [ModelVersion(1, "UNAVAILABLE", "Internal: weights not found")]}, {}, {}
    )
    step = Step("load", Address("n", "model", f"{SERVER}/a"), Verb.CREATE, "", {**wanted.json(), "unloaded": ["b"]})
    assert "restart" not in failed(step, wanted, found, "", ()).fix
