"""Hashes of the operator's files: right after every change, and remembered for large ones."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from gpuplan.intent.sources import hashes


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hashes, "LARGE", 10)
    monkeypatch.setattr(hashes, "SETTLED", 0.0)
    hashes._remembered.cache_clear()
    return tmp_path / "cache/gpuplan/sha256"


def write(path: Path, text: str) -> str:
    path.write_text(text)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_large_file_is_read_once_for_all_runs(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    right = write(file, "x" * 20)
    assert hashes.sha256_of(file) == (right, 20)
    (kept,) = cache.iterdir()
    kept.write_text("f" * 64)
    hashes._remembered.cache_clear()
    assert hashes.sha256_of(file) == ("f" * 64, 20)


def test_a_change_that_keeps_size_and_time_is_seen(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    for text in ("x" * 20, "y" * 20, "x" * 20):
        right = write(file, text)
        assert hashes.sha256_of(file) == (right, 20)


def test_a_file_that_was_just_written_is_not_remembered(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "SETTLED", 3600.0)
    file = tmp_path / "weights.bin"
    right = write(file, "x" * 20)
    assert hashes.sha256_of(file) == (right, 20)
    assert not cache.exists()


def test_a_small_file_and_a_damaged_entry_are_read(cache: Path, tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    right = write(small, "x")
    assert hashes.sha256_of(small) == (right, 1)
    assert not cache.exists()
    right = write(large, "x" * 20)
    hashes.sha256_of(large)
    (kept,) = cache.iterdir()
    kept.write_text("half")
    hashes._remembered.cache_clear()
    assert hashes.sha256_of(large) == (right, 20)


def test_the_cache_stays_small(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "KEPT", 3)
    for number in range(6):
        file = tmp_path / f"{number}.bin"
        right = write(file, f"{number}" * 20)
        assert hashes.sha256_of(file) == (right, 20)
    assert len(list(cache.iterdir())) == 3


def test_a_cache_that_cannot_be_written_costs_only_time(cache: Path, tmp_path: Path) -> None:
    cache.parent.parent.write_text("not a directory")
    file = tmp_path / "weights.bin"
    right = write(file, "x" * 20)
    assert hashes.sha256_of(file) == (right, 20)
