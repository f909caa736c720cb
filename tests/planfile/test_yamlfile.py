"""YAML 1.2's core schema, positions, and bounds."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.planfile import yamlsyntax
from gpuplan.planfile.yamlfile import Document, read_document
from gpuplan.types.diagnostic import Location, Problem
from tests.conftest import examples


def read(tmp_path: Path, content: str | bytes) -> Document:
    file = tmp_path / "file.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_document(str(file))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1:0", "1:0"),
        ("0:0", "0:0"),
        ("1:30:00", "1:30:00"),
        ("24.10", 24.1),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("+1", 1),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("685230.15e+03", 685230150.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1e999", math.inf),
        (".", "."),
        ("+", "+"),
        ("1e", "1e"),
        ("yes", "yes"),
        ("off", "off"),
        ("n", "n"),
        ("true", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("", None),
        ("2026-12-31", "2026-12-31"),
        ("2026-12-31 10:00:00", "2026-12-31 10:00:00"),
        ("=", "="),
        ("'24.10'", "24.10"),
        ("!!str 24.10", "24.10"),
        ("!!float 3", 3.0),
        ("0x" + "f" * 5000, "0x" + "f" * 5000),
    ],
)
def test_a_scalar_means_what_yaml_1_2_says(tmp_path: Path, written: str, value: object) -> None:
    document = read(tmp_path, f"key: {written}\n")
    assert document.data == {"key": value}
    assert type(document.data["key"]) is type(value)


def test_the_text_of_a_plain_scalar_is_kept_and_a_quoted_one_is_text(tmp_path: Path) -> None:
    document = read(tmp_path, "a: 24.10\nb: '24.10'\nc: [0x1F, True, x]\n24.10: ~\n")
    assert document.texts == {("a",): "24.10", ("c", 0): "0x1F", ("c", 1): "True", ("24.10",): "~"}


def test_keys_and_values_know_where_they_stand(tmp_path: Path) -> None:
    document = read(tmp_path, "a:\n  b: [x,\n      y]\n'c d': {e: f}\n")
    file = document.file
    assert document.keys == {
        ("a",): Location(file, 1, 1),
        ("a", "b"): Location(file, 2, 3),
        ("a", "b", 0): Location(file, 2, 7),
        ("a", "b", 1): Location(file, 3, 7),
        ("c d",): Location(file, 4, 1),
        ("c d", "e"): Location(file, 4, 9),
    }
    assert document.values["c d", "e"] == Location(file, 4, 12)
    assert document.at(("a", "b", 7, "nothing")) == Location(file, 2, 6)


def test_merge_keys_give_way_to_what_is_stated(tmp_path: Path) -> None:
    document = read(tmp_path, "x: &x {a: 1, b: 2}\ny: &y {<<: *x, b: 3, c: 4}\nz: {b: 5, <<: [{a: 6}, *y]}\n")
    assert document.data == {
        "x": {"a": 1, "b": 2},
        "y": {"a": 1, "b": 3, "c": 4},
        "z": {"a": 6, "b": 5, "c": 4},
    }
    assert document.keys["z", "c"].line == 2


def test_a_byte_order_mark_of_utf8_is_passed_over(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\n").data == {"a": 1}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfea\x00", "UTF-16"),
        (b"a: 1\nb: \xe9\n", "not UTF-8: byte 0xe9 in line 2"),
        (b"", "only comments"),
        (b"x" * (4 * 1024 * 1024 + 1), "larger than 4 MiB"),
        (b"[" * 100_000, "more than 64 levels"),
        (b"- " * 100_000, "more than 64 levels"),
        (b"{a: " * 65 + b"1" + b"}" * 65, "more than 64 levels"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(Problem) as caught:
        read(tmp_path, content)
    (diagnostic,) = caught.value.diagnostics
    assert told in diagnostic.detail


def test_the_number_of_values_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlsyntax, "MAX_NODES", 100)
    assert read(tmp_path, "[" + "1, " * 98 + "1]").data == [1] * 99
    with pytest.raises(Problem, match="more than 100 values"):
        read(tmp_path, "[" + "1, " * 99 + "1]")


def test_sixty_levels_are_allowed(tmp_path: Path) -> None:
    assert read(tmp_path, "[" * 60 + "]" * 60).data is not None


@pytest.mark.parametrize("link", ["[{}]", "{{<<: [{}]}}"])
def test_a_billion_laughs_are_not_expanded(tmp_path: Path, link: str) -> None:
    names = "abcdefghijklmnop"
    lines = ["a: &a {ha: ha}"]
    for before, name in pairwise(names):
        lines.append(f"{name}: &{name} " + link.format(", ".join([f"*{before}"] * 10)))
    started = time.monotonic()
    with pytest.raises(Problem) as caught:
        read(tmp_path, "\n".join(lines))
    assert "aliases" in caught.value.diagnostics[0].detail or "merge keys" in caught.value.diagnostics[0].detail
    assert time.monotonic() - started < 30


def test_a_path_that_is_no_file_is_told(tmp_path: Path) -> None:
    for path, told in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file"), (tmp_path / "a\0b", "NUL")):
        with pytest.raises(Problem) as caught:
            read_document(str(path))
        assert told in caught.value.diagnostics[0].detail


KEYS = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
SCALARS = st.one_of(st.integers(), st.booleans(), st.from_regex(r"[a-z][a-z ]{0,8}[a-z]", fullmatch=True))
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@pytest.mark.faults
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4), st.booleans(), st.integers(2, 6))
@settings(deadline=None, max_examples=examples(150))
def test_every_position_points_at_its_text(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object], flow: bool, indent: int
) -> None:
    import yaml

    text = yaml.safe_dump(tree, default_flow_style=flow, indent=indent, sort_keys=False, allow_unicode=True, width=40)
    document = read(tmp_path_factory.mktemp("law"), text)
    lines = text.split("\n")
    for path, place in document.keys.items():
        key = path[-1]
        rest = lines[place.line - 1][place.column - 1 :]
        assert isinstance(key, int) or rest.lstrip("'\"?").startswith(key)
    for path, written in document.texts.items():
        place = document.values[path]
        assert lines[place.line - 1][place.column - 1 :].startswith(written)


@pytest.mark.faults
@given(st.binary(max_size=300) | st.text(alphabet="ab:-[]{}&*!|>'\"#%@?,<~ \n\t0.\\xU", max_size=120).map(str.encode))
@settings(deadline=None, max_examples=examples(400))
def test_no_bytes_give_anything_but_a_document_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("law") / "file.yaml"
    file.write_bytes(content)
    try:
        found: Document | Problem = read_document(str(file))
    except Problem as problem:
        found = problem
    if isinstance(found, Document):
        assert found.values[()].line >= 1
    else:
        assert all(one.where is not None and one.detail.endswith(".") for one in found.diagnostics)
        assert found.diagnostics
