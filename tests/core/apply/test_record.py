"""The ledger, when steps that run side by side have it grow."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gpuplan.core.apply import record as module
from gpuplan.core.apply.record import RecordKeeper
from gpuplan.types.resource import Record


class Node:
    """A session that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    def agent(self, operation: str, **arguments: Any) -> dict[str, Any]:
        assert operation == "record.write"
        self.written.append(arguments["record"])
        return {}


def test_two_steps_that_seal_at_once_have_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter(["a" * 64, "b" * 64])

    def slow(_: int) -> str:
        time.sleep(0.05)  # the other thread comes to the same place meanwhile
        return next(keys)

    monkeypatch.setattr(module.random, "token_hex", slow)
    node: Any = Node()
    ledger = RecordKeeper(node, Record("prod"), "r1", "ops@here")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ledger.seal, ["secret"] * 2)
    assert first == second
    assert [each["key"] for each in node.written] == ["a" * 64]
