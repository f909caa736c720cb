"""Nothing that a node or a file says can act on the terminal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.output.change_set import render_change_set
from gpuplan.output.diagnostics import render_diagnostics
from gpuplan.output.outcomes import render_outcomes
from gpuplan.output.text import latency_statistics, rows, visible
from gpuplan.types.address import Address
from gpuplan.types.change import Change, FieldChange, Unmanaged
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.outcome import NodeOutcome, Status, StepOutcome
from tests.output import examples
from tests.output.examples import change_set_of, drawn

EVIL = "a\x1b[2J\x07b\u202ec\rd\x9b31m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ± → ü 日本", "plain ± → ü 日本"),
        ("\x1b[31m", r"\x1b[31m"),
        ("two\nrows", r"two\nrows"),
        ("\u202eexe", r"\u202eexe"),
        ("\udc80", r"\udc80"),
    ],
)
def test_what_is_not_printable_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_visible_text_is_printable(text: str) -> None:
    assert visible(text).isprintable()
    assert all(row.isprintable() for row in rows(text))


def test_no_view_lets_a_control_character_through() -> None:
    address = Address("gpu-a1", "container", EVIL)
    evil = Diagnostic(EVIL, EVIL, EVIL, address=EVIL)
    change = replace(
        examples.SERVER,
        address=address,
        fields=(FieldChange(EVIL, EVIL, EVIL * 50), FieldChange("list", [EVIL], {EVIL: EVIL})),
        reasons=(EVIL,),
        interrupts=(EVIL,),
    )
    node = replace(examples.NODE, node=EVIL, changes=(change,), unmanaged=(Unmanaged(address, EVIL, address, EVIL),))
    step = StepOutcome("x", EVIL, Status.FAILED, 1.0, (EVIL,), (evil,))
    pages = (
        render_change_set(change_set_of(node), steps=True),
        render_outcomes([NodeOutcome(EVIL, (step,), (evil,), 1, (change,))]),
        render_diagnostics([evil], lambda where: EVIL),
    )
    for page in pages:
        text = drawn(page)
        assert text.replace("\n", "").isprintable()
        assert r"\x1b[2J" in text


def test_markup_in_a_name_is_only_text() -> None:
    change = Change(Address("gpu-a1", "container", "[bold]x[/]"), examples.GONE.action)
    assert "[bold]x[/]" in drawn(render_change_set(change_set_of(replace(examples.NODE, changes=(change,)))))


# Percentiles are exact over all samples.


def test_one_sample_is_all_of_them() -> None:
    assert latency_statistics([0.004]) == dict.fromkeys(("p50", "p90", "p95", "p99", "max", "mean"), 4.0)


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=300))
def test_they_are_those_of_numpy(seconds: list[float]) -> None:
    found = latency_statistics(seconds)
    for percent in (50, 90, 95, 99):
        assert found[f"p{percent}"] == pytest.approx(1000 * float(np.percentile(seconds, percent)), abs=1e-6)
    assert found["max"] == 1000 * max(seconds)
