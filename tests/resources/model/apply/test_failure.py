"""The errors of a server's log that belong to a failed load, and the diagnostics of loads without memory."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.resources.model.apply.failure import LOG_LINES, ServerLog, not_loaded
from gpuplan.resources.model.read import ModelServer, ModelVersion
from gpuplan.resources.model.spec import ModelSpec
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.diagnostic import Diagnostic, Problem
from tests.resources.model.triton_node import SERVER

LINES = (
    'I0101 10:00:01.000000 1 model_lifecycle.cc:472] "loading: a:1"',
    '[libprotobuf ERROR text_format.cc:337] Error parsing text-format inference.ModelConfig: 2:9: Expected ":".',
    "E0101 10:00:01.100000 1 m.cc:1460] \"Poll failed for model directory 'a': failed to read text proto\"",
    'E0101 10:00:01.200000 1 pb_stub.cc:340] "Failed to process the batch for b, due to: no"',
    "E0101 10:00:01.300000 1 lifecycle.cc:654] \"failed to load 'b' version 1: Internal: b broke\"",
    'E0101 10:00:01.400000 1 lifecycle.cc:654] "instance ab_0 of ab is slow"',
    "E0101 10:00:01.500000 1 stub.cc:2105] Python model file not found in '/gpuplan/models/c/1/model.py'",
    'E0101 10:00:01.600000 1 memory.cc:1] "out of memory"',
)


class Engine:
    """An engine whose container wrote LINES, and then much else."""

    def __init__(self, chatter: int) -> None:
        noise = [f"I0101 10:00:02.000000 1 http_server.cc:1] request {number}" for number in range(chatter)]
        self.lines = [*LINES, *noise]

    def logs(self, container: str, *, tail: int, since: int | None) -> bytes:
        assert (container, since) == ("id", 1767261600)
        return "\n".join(self.lines[-tail:]).encode()


def errors(model: str, chatter: int = 0) -> tuple[str, ...]:
    engine: Any = Engine(chatter)
    log = ServerLog(lambda: engine, "id", "2026-01-01T10:00:00Z")
    return log.errors(model, [name for name in ("a", "b", "ab", "c") if name != model])


def test_a_model_gets_the_errors_that_name_it_and_those_before() -> None:
    first, second, last = errors("a")
    assert first.startswith("Error parsing text-format")
    assert second.startswith("Poll failed for model directory 'a'")
    assert last == "out of memory"  # it names no model, so it may belong to this one


def test_errors_that_name_another_model_are_left_out() -> None:
    assert [each for each in errors("b") if "b" not in each] == ["out of memory"]
    assert [each for each in errors("ab") if "broke" in each] == []
    assert "not found in '/gpuplan/models/c/1/model.py'" in errors("c")[0]


def test_a_verbose_server_hides_no_error() -> None:
    assert errors("a", chatter=LOG_LINES - len(LINES)) == errors("a")


def test_an_unreadable_log_hides_no_failure() -> None:
    def absent() -> Any:
        raise Problem(Diagnostic("there is no engine"))

    assert ServerLog(absent, "id", "2026-01-01T10:00:00Z").errors("a", []) == ()


NO_MEMORY = [
    "Internal: onnx runtime error 6: CUDA failure 2: out of memory",
    "Internal: failed to allocate CUDA memory",
    "Internal: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate",
    "ResourceExhausted: OOM when allocating tensor",
]


SPEC = ModelSpec(SERVER, "a", "c1", (1,), 60.0)
STEP = Step("load", Address("n", "model", f"{SERVER}/a"), Verb.CREATE, "")


def unavailable(reason: str) -> ModelServer:
    return ModelServer("127.0.0.1:8000", {"a": [ModelVersion(1, "UNAVAILABLE", reason)]}, {}, {})


@pytest.mark.parametrize("reason", NO_MEMORY)
def test_a_load_without_memory_after_an_unload_suggests_a_restart(reason: str) -> None:
    plain = not_loaded(STEP, SPEC, unavailable(reason), "", ())
    after_unload = not_loaded(STEP, SPEC, unavailable(reason), "", (), ["b", "c"])
    assert "docker restart" not in plain.fix
    assert "memory:" in plain.fix
    assert "b, c had just been unloaded" in after_unload.detail
    assert f"docker restart {SERVER}" in after_unload.fix


def test_another_failure_after_an_unload_does_not_suggest_a_restart() -> None:
    failure = not_loaded(STEP, SPEC, unavailable("Internal: weights not found"), "", (), ["b"])
    assert "restart" not in failure.fix
