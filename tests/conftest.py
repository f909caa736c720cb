"""What all tests share: the lab, golden texts (`pytest --update-golden` records them), and how thorough they are."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.lab.fixtures", "tests.plan_files"]

_thorough = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing")
    parser.addoption("--thorough", action="store_true", help="all cut-offs and many examples of laws, not a sample")


def pytest_configure(config: pytest.Config) -> None:
    global _thorough  # noqa: PLW0603 - read while test modules are imported, where no fixture is at hand
    _thorough = config.getoption("--thorough")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with golden/NAME.txt beside the test."""

    def check(name: str, text: str) -> None:
        file = Path(request.path).parent / "golden" / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert text == file.read_text(), f"{file} differs; if the new text is right: pytest --update-golden"

    return check


def examples(thorough: int) -> int:
    """How many examples hypothesis tries of a law: all of them in `make faults`, a quarter in `make check`."""
    return thorough if _thorough else max(10, thorough // 4)


CutOffs = Callable[..., Iterator[int]]


@pytest.fixture
def cut_offs(request: pytest.FixtureRequest) -> CutOffs:
    """The changes after which a run is cut off, from a first one on, without end.

    All of them with `--thorough` (`make faults`), else each fourth (`stride`), and other ones in each test.
    """

    def numbers(first: int, stride: int = 4) -> Iterator[int]:
        if _thorough:
            return itertools.count(first)
        return itertools.count(first + zlib.crc32(request.node.nodeid.encode()) % stride, stride)

    return numbers
