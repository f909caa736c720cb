"""Flags of `tritonserver` by release: what is objected to, and what the real server does with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.triton.releases import release_of
from gpuplan.triton.server_flags import faults
from tests.lab.fixtures import Lab
from tests.resources.told import checked
from tests.triton.lint.real import RealTriton

CASES = yaml.safe_load((Path(__file__).parent / "flags.yaml").read_text("utf-8"))
STARTS, EXITS = "starts", "exits"


def told(case: dict[str, Any]) -> list[str]:
    release = release_of(f"tritonserver:{case.get('release', '24.10')}-py3")
    stated: dict[str, list[str]] = {}
    for text in case["flags"]:
        name, equals, value = text.partition("=")
        stated.setdefault(name, []).append(value if equals else "true")
    found = faults(stated, release)
    return [f"{'error' if one.fatal else 'warning'} --{one.flag}: {one.why}. {one.fix}".strip() for one in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case["flags"]))
def test_flags_are_told_as_the_case_expects(case: dict[str, Any]) -> None:
    checked(case, "about release flags found real")
    found = told(case)
    assert found == case.get("found", [])
    if "real" in case:
        assert any(line.startswith("error") for line in found) == (case["real"] == EXITS)


@pytest.fixture
def started(lab: Lab) -> Iterator[list[RealTriton]]:
    servers: list[RealTriton] = []
    yield servers
    for server in servers:
        server.remove()


@pytest.mark.lab
@pytest.mark.timeout(600)
def test_the_real_server_does_what_the_cases_say(lab: Lab, started: list[RealTriton]) -> None:
    wrong = []
    for case in CASES:
        if "real" in case:
            server = RealTriton(lab, "flags", ["--exit-on-error=true", *(f"--{flag}" for flag in case["flags"])])
            started.append(server)
            did = STARTS if server.live() else EXITS
            if did != case["real"]:
                wrong.append((case["flags"], did, server.log()[-400:]))
            started.pop().remove()
    assert wrong == []
