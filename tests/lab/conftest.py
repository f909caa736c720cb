"""A simulated driver for each test that meets it without a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.nvml.build import bare_state, build
from tests.lab.nvml.driver import BOARDS, Driver


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("nvml")
    build(directory)
    directory.chmod(0o755)
    return directory


@pytest.fixture
def driver(built: Path, tmp_path: Path) -> Driver:
    made = Driver(built, tmp_path)
    made.state.write_text(bare_state("test", BOARDS))
    return made
