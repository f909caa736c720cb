"""Sizes and durations."""

from __future__ import annotations

import pytest

from gpuplan.planfile.scalars import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("64MiB", 64 * 1024**2),
        ("64 mib", 64 * 1024**2),
        ("2.5k", 2560),
        ("2.1GiB", round(2.1 * 1024**3)),
        ("500MB", 500_000_000),
        ("1TB", 10**12),
        ("3B", 3),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e3", "64 mebibytes", "1 i", "9" * 400, "1.5.5G", True])
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("5m", 300), ("1h30m", 5400), ("1h0.5s", 3600.5), ("0s", 0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "30m1h", "5 m", "-5s", "9" * 400 + "s", False])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_duration(text)


def test_numbers_pass() -> None:
    assert (parse_size(5), parse_duration(2.5), parse_size(None)) == (5, 2.5, None)
