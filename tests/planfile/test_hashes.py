"""Hashes of the operator's files: right after every change, and remembered for large ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from pathlib import Path

import pytest

from gpuplan.planfile.sources import files


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "LARGE", 10)
    monkeypatch.setattr(files, "SETTLED", 0.0)
    files._remembered.cache_clear()
    return tmp_path / "cache/gpuplan/sha256.sqlite"


def write(path: Path, text: str) -> str:
    path.write_text(text)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_large_file_is_read_once_for_all_runs(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights.bin"
    right = write(file, "x" * 20)
    assert files.sha256_of(file) == (right, 20)
    monkeypatch.setattr(files, "_read", lambda path: pytest.fail(f"{path} is read again"))
    files._remembered.cache_clear()
    assert files.sha256_of(file) == (right, 20)
    assert cache.stat().st_mode & 0o777 == 0o600


def test_ten_gigabytes_are_not_read_by_the_next_run(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file stands for the weights, and the count of its readings for the time that they take."""
    file = tmp_path / "weights.bin"
    with file.open("wb") as opened:
        opened.truncate(10 * 2**30)
    os.utime(file, (1_000_000_000, 1_000_000_000))
    read: list[Path] = []
    monkeypatch.setattr(files, "_read", lambda path: read.append(path) or "f" * 64)
    for _ in range(3):
        assert files.sha256_of(file) == ("f" * 64, 10 * 2**30)
        files._remembered.cache_clear()
    assert read == [file]


def test_a_change_that_keeps_size_and_time_is_seen(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    for text in ("x" * 20, "y" * 20, "x" * 20):
        right = write(file, text)
        assert files.sha256_of(file) == (right, 20)


def test_a_file_that_was_just_written_is_not_remembered(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED", 3600.0)
    file = tmp_path / "weights.bin"
    right = write(file, "x" * 20)
    assert files.sha256_of(file) == (right, 20)
    assert not cache.exists()


def test_a_small_file_is_read_and_a_damaged_cache_begun_anew(cache: Path, tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    right = write(small, "x")
    assert files.sha256_of(small) == (right, 1)
    assert not cache.exists()
    right = write(large, "x" * 20)
    cache.parent.mkdir(parents=True)
    for _ in range(2):
        cache.write_bytes(b"no database" * 1000)
        files._remembered.cache_clear()
        assert files.sha256_of(large) == (right, 20)
    assert rows(cache) == 1


def rows(cache: Path) -> int:
    with contextlib.closing(sqlite3.connect(cache)) as opened:
        return int(opened.execute("SELECT count(*) FROM hashes").fetchone()[0])


def test_the_cache_stays_small(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "KEPT", 3)
    for number in range(6):
        file = tmp_path / f"{number}.bin"
        right = write(file, f"{number}" * 20)
        assert files.sha256_of(file) == (right, 20)
    assert rows(cache) == 3


def test_a_cache_that_cannot_be_written_costs_only_time(cache: Path, tmp_path: Path) -> None:
    cache.parent.parent.write_text("not a directory")
    file = tmp_path / "weights.bin"
    right = write(file, "x" * 20)
    assert files.sha256_of(file) == (right, 20)
