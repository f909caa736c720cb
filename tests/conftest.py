"""What all tests share: the lab, and golden texts, written anew by `pytest --update-golden`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["tests.lab.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing")


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
