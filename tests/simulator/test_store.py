"""The state file: atomic, private, and safe between processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.simulator.hardware import open_store
from gpuplan.types.diagnostic import Problem
from tests.simulator.conftest import host

COUNT = """
import sys
from pathlib import Path
from gpuplan.simulator.store import StateStore
store = StateStore(Path(sys.argv[1]))
for _ in range(50):
    with store.write() as state:
        state.count()
"""


def test_the_file_is_private() -> None:
    store = open_store(host())
    assert (store.directory / "state.json").stat().st_mode & 0o777 == 0o600
    assert store.root.stat().st_mode & 0o777 == 0o700


def test_processes_take_turns() -> None:
    store = open_store(host())
    argv = [sys.executable, "-c", COUNT, str(store.directory)]
    writers = [subprocess.Popen(argv) for _ in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert store.read().counter == 150


def test_a_reader_keeps_what_it_read() -> None:
    store = open_store(host())
    before = store.read()
    with store.write() as state:
        state.count()
        assert before.counter == 0
    assert (before.counter, store.read().counter) == (0, 1)
    assert store.read() is store.read()


def test_what_raises_changes_nothing() -> None:
    store = open_store(host())
    with contextlib.suppress(ZeroDivisionError), store.write() as state:
        state.count()
        raise ZeroDivisionError
    assert store.read().counter == 0


def test_a_write_inside_a_write_is_one_write() -> None:
    store = open_store(host())
    with contextlib.suppress(ZeroDivisionError), store.write() as outer:
        with store.write() as inner:
            inner.count()
        assert outer.counter == 1
        raise ZeroDivisionError
    assert store.read().counter == 0


def test_what_is_discarded_is_seen_inside_only() -> None:
    store = open_store(host())
    with store.discarding():
        with store.write() as state:
            state.count()
        assert store.read().counter == 1
    assert store.read().counter == 0


@pytest.mark.parametrize("content", ["", "{", "{}", '{"format": 99}'])
def test_a_damaged_file_is_told(content: str) -> None:
    store = open_store(host())
    (store.directory / "state.json").write_text(content)
    with pytest.raises(Problem) as problem:
        open_store(host())
    (diagnostic,) = problem.value.diagnostics
    assert diagnostic.summary == "The state of a simulated node cannot be read"
    assert str(store.directory) in diagnostic.fix


def test_another_format_is_told() -> None:
    store = open_store(host())
    file = store.directory / "state.json"
    file.write_text(file.read_text().replace('"format":1', '"format":2'))
    with pytest.raises(Problem, match="format 2"):
        open_store(host())


def test_nodes_live_in_the_state_directory(state_directory: Path) -> None:
    assert open_store(host(name="one")).directory == state_directory / "simulated" / "one"


def test_a_directory_that_cannot_be_made_is_told(state_directory: Path) -> None:
    (state_directory / "simulated").write_text("in the way")
    with pytest.raises(Problem, match="cannot be kept"):
        open_store(host())


def test_a_node_that_was_removed_meanwhile_is_told() -> None:
    store = open_store(host())
    (store.directory / "state.json").unlink()
    with pytest.raises(Problem, match="cannot be read"):
        store.read()
