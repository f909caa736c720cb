"""The real server of the lab does with each case what the case says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplan.planfile.sources.read import lint_directory
from gpuplan.triton.lint import CHECKS, TargetServer
from gpuplan.triton.lint.check import Effect
from gpuplan.types.diagnostic import Diagnostic
from tests.lab.fixtures import Lab
from tests.triton.lint.case import HANGS, LOADS, Case, cases, outcome, told
from tests.triton.lint.corpus import corpus
from tests.triton.lint.mutations import mutations
from tests.triton.lint.real import Answer, RealTriton
from tests.triton.lint.tree import write

pytestmark = pytest.mark.lab
REAL = [case for case in cases() if case.real]
BY_FLAGS = {flags: [case for case in REAL if case.flags == flags] for flags in {case.flags for case in REAL}}


@pytest.fixture
def started(lab: Lab) -> Iterator[list[RealTriton]]:
    """Servers that the test started; taken away afterwards."""
    servers: list[RealTriton] = []
    yield servers
    for server in servers:
        server.remove()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flags", sorted(BY_FLAGS), ids=lambda flags: " ".join(flags) or "no flags")
def test_the_server_does_what_the_cases_say(lab: Lab, started: list[RealTriton], flags: tuple[str, ...]) -> None:
    server = RealTriton(lab, "checks", flags)
    started.append(server)
    assert server.live()
    wrong = [said for case in BY_FLAGS[flags] if (said := _contradiction(server, case))]
    assert wrong == []


def _contradiction(server: RealTriton, case: Case) -> str:
    answer = server.load(case.load, case.files, timeout=6.0 if case.real == HANGS else 20.0)
    server.forget(case.load, answer)
    return "" if answer.did == case.real else f"{case.name} ({case.about}) {answer.did}: {answer.error} {answer.log}"


CORPORA = {"statements": (corpus, 320), "mutations": (mutations, 120)}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CORPORA)
def test_checks_and_server_agree_on_a_corpus(lab: Lab, started: list[RealTriton], tmp_path: Path, name: str) -> None:
    """What the checks pass is loaded, and what the server refuses they name: nothing is completed, so it is quick."""
    samples, size = CORPORA[name]
    flag = "disable-auto-complete-config"
    server = RealTriton(lab, "checks", (f"--{flag}",))
    started.append(server)
    assert server.live()
    ours = TargetServer(release="24.10", gpus=(), flags={flag: ("true",)})
    loaded, disagreements = 0, []
    for sample in samples(size):
        folder = tmp_path / sample.name
        write(folder, sample.files)
        findings = lint_directory(str(folder), ours).findings
        answer = server.load(sample.load, sample.files)
        server.forget(sample.load, answer)
        loaded += answer.did == LOADS
        if not _agree(answer, findings):
            disagreements.append((sample.name, answer.did, answer.error, [told(each, folder) for each in findings]))
    assert disagreements == []
    assert loaded > size / 5, "too few samples are right to say anything"


def _agree(answer: Answer, findings: tuple[Diagnostic, ...]) -> bool:
    """An error means a refusal. What depends on the image, such as a backend of one's own, may be told as a warning."""
    if answer.did == LOADS:
        return outcome(findings) == LOADS
    return any(each.check and CHECKS[each.check].effect is not Effect.IGNORED for each in findings)
