"""Percentiles are exact over all samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.output.percentiles import in_milliseconds


def test_one_sample_is_all_of_them() -> None:
    assert in_milliseconds([0.004]) == dict.fromkeys(("p50", "p90", "p95", "p99", "max", "mean"), 4.0)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=300))
def test_they_are_those_of_numpy(seconds: list[float]) -> None:
    found = in_milliseconds(seconds)
    for percent in (50, 90, 95, 99):
        assert found[f"p{percent}"] == pytest.approx(1000 * float(np.percentile(seconds, percent)), abs=1e-6)
    assert found["max"] == 1000 * max(seconds)
