"""Which lines of a server's log name the cause, when several models load and others are served."""

from __future__ import annotations

from typing import Any

from gpuplan.resources.model.apply.failure import TAIL, Log
from gpuplan.types.diagnostic import Diagnostic, Problem

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


def told(model: str, chatter: int = 0) -> tuple[str, ...]:
    engine: Any = Engine(chatter)
    log = Log(lambda: engine, "id", "2026-01-01T10:00:00Z")
    return log.errors(model, [name for name in ("a", "b", "ab", "c") if name != model])


def test_a_model_has_its_own_lines_and_those_that_lead_to_them() -> None:
    first, second, last = told("a")
    assert first.startswith("Error parsing text-format")
    assert second.startswith("Poll failed for model directory 'a'")
    assert last == "out of memory"  # it names nobody, so it may be anybody's


def test_what_another_model_is_named_in_is_left_out() -> None:
    assert [each for each in told("b") if "b" not in each] == ["out of memory"]
    assert [each for each in told("ab") if "broke" in each] == []
    assert "not found in '/gpuplan/models/c/1/model.py'" in told("c")[0]


def test_a_server_that_talks_much_drowns_nothing() -> None:
    assert told("a", chatter=TAIL - len(LINES)) == told("a")


def test_a_log_that_cannot_be_read_hides_no_failure() -> None:
    def absent() -> Any:
        raise Problem(Diagnostic("there is no engine"))

    assert Log(absent, "id", "2026-01-01T10:00:00Z").errors("a", []) == ()
