"""One value in one row."""

from __future__ import annotations

import pytest

from gpuplan.output.value import MAX_LENGTH, format_change, format_one, format_value
from gpuplan.types.change import FieldChange
from gpuplan.types.value import Json, KnownAfterApply


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(none)"),
        ("(none)", '"(none)"'),
        (True, "true"),
        ("true", '"true"'),
        (24.1, "24.1"),
        ("24.10", '"24.10"'),
        ("127.0.0.1", "127.0.0.1"),
        ("3g.40gb", "3g.40gb"),
        ("", '""'),
        (" x", '" x"'),
        ("[a]", '"[a]"'),
        (["a", 1, None], '["a", 1, null]'),
        ({"b": {"c": 1}}, '{"b": {"c": 1}}'),
        ({"secret": "${env:KEY}"}, "(sensitive) ${env:KEY}"),
        (KnownAfterApply("slice cls-a"), "(known after apply: slice cls-a)"),
        ("0123456789ab" + "f" * 52, "0123456789ab…"),
    ],
)
def test_a_value_is_written_so_that_it_cannot_be_mistaken(value: Json | KnownAfterApply, text: str) -> None:
    assert format_value(value) == text


def test_of_two_long_values_the_difference_is_shown() -> None:
    head = "--flag=" * 100
    before, after = format_change(FieldChange("command", f"{head}one{'x' * 300}", f"{head}two{'x' * 300}"))
    assert "one" in before
    assert "two" in after
    assert len(before) < MAX_LENGTH + 40


def test_two_long_values_that_differ_at_once_are_shown_from_their_beginning() -> None:
    before, after = format_change(FieldChange("x", "a" * 500, "b" * 500))
    assert before.startswith("aaa")
    assert after.startswith("bbb")
    assert "(500 characters)" in before


def test_a_long_value_alone_keeps_its_two_ends() -> None:
    text = format_one("start " + "x" * 1000 + " end")
    assert text.startswith("start")
    assert text.endswith("end (1010 characters)")


def test_a_sensitive_field_says_only_that_it_changed() -> None:
    assert format_change(FieldChange("env.KEY", "old", "new", sensitive=True)) == ("(sensitive)", "(sensitive) changed")
    assert format_one("new", sensitive=True) == "(sensitive)"
