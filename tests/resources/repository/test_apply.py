"""Copying files to a node through the real agent, and what is reported if that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuplan.core.apply.context import NodeContext
from gpuplan.resources.repository import REPOSITORY
from gpuplan.resources.repository.desired import desired_repositories
from gpuplan.resources.repository.spec import RepositorySpec
from gpuplan.resources.typed import encode
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Session
from gpuplan.types.change import Change, Step
from gpuplan.types.content import Arrived, Content
from gpuplan.types.diagnostic import Problem, Refused
from gpuplan.types.event import Amount
from gpuplan.types.inventory import Connection, Host
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Probe, Snapshot
from gpuplan.types.value import JsonObject, as_object
from tests.resources.repository.test_desired import ENSEMBLE, HEAD, PYTHON, PYTHON_CONFIG, build, models_of

FILES: dict[str, Any] = {
    "m/config.pbtxt": PYTHON_CONFIG,
    "m/1/model.py": PYTHON,
    "m/1/weights.bin": "w" * 1000,
    "e/config.pbtxt": ENSEMBLE,
    "e/1/.gitkeep": "",
}
MODELS = {
    "a": {"source": "m", "containers": ["triton"]},
    "b": {"source": "m", "containers": ["triton"], "config": {"max_batch_size": 2}},
    "e": {"source": "e", "containers": ["triton"]},
}


class FailingContext(NodeContext):
    """A real context that can be told to fail."""

    def __init__(self, session: Session, base: Path) -> None:
        self.sent: list[int] = []
        self.without_effect: set[str] = set()
        self.free: int | None = None
        self.full = False
        self.inodes: int | None = None
        self.progress_lines: list[str] = []
        self.measured: list[Amount] = []
        super().__init__(
            session, "prod", base, {}, self.progress_lines.append, lambda _, amount: self.measured.append(amount)
        )

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        return {} if operation in self.without_effect else super().agent(operation, **arguments)

    def send(self, contents: Sequence[Content], arrived: Arrived) -> None:
        if self.full:
            raise Refused(self.node, "blob.put", "disk_full", "No space left on device")
        self.sent.extend(content.size for content in contents)
        super().send(contents, arrived)

    def look(self, *probes: str) -> Snapshot:
        found = super().look(*probes)
        host = found.probe("host")
        if host.error is not None:
            return found
        stated = {"free": self.free, "inodes": self.inodes}
        disk = {**as_object(as_object(host.value)["disk"]), **{key: n for key, n in stated.items() if n is not None}}
        return replace(found, probes={**found.probes, "host": Probe({**as_object(host.value), "disk": disk})})


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingContext]:
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path / "state"))
    session = connect(Host("n", Connection.SIMULATED, simulated={"gpus": [{"model": "A30"}]}))
    yield FailingContext(session, tmp_path)
    session.close()


def plan(folder: Path, files: dict[str, Any] = FILES, **models: object) -> Sequence[Desired]:
    desired, issues = desired_repositories(build(folder, dict(files), {**HEAD, "models": models or MODELS}), Host("n"))
    assert issues == []
    return desired


def compare(context: FailingContext, desired: Sequence[Desired]) -> tuple[Change, ...]:
    return REPOSITORY.compare(desired, context.look("repository"), DiffContext("n", "prod", Record("prod"))).changes


def apply(context: FailingContext, desired: Sequence[Desired]) -> list[Step]:
    steps = [step for change in compare(context, desired) for step in change.steps]
    for step in steps:
        assert list(REPOSITORY.apply(step, context)) == []
    return steps


def failure(context: FailingContext, desired: Sequence[Desired]) -> str:
    with pytest.raises(Problem) as caught:
        apply(context, desired)
    (issue,) = caught.value.diagnostics
    assert issue.fix
    return f"{issue.summary}: {issue.detail}"


def test_files_are_copied_and_removed_and_each_content_is_sent_once(context: FailingContext, tmp_path: Path) -> None:
    desired = plan(tmp_path)
    apply(context, desired)
    assert compare(context, desired) == ()
    assert sorted(context.sent)[-1] == 1000
    assert context.sent.count(1000) == 1
    context.sent.clear()
    fewer = plan(tmp_path, a=MODELS["a"])
    assert [step.name for step in apply(context, fewer)] == ["remove-b", "remove-e"]
    assert [step.name for step in apply(context, desired)] == ["switch-b", "switch-e"]
    assert 1000 not in context.sent  # still there for the model that stayed
    apply(context, ())
    assert compare(context, ()) == ()
    assert context.look("repository").probe("repository").value == {"repositories": {}}
    assert [path for path in tmp_path.glob("state/**/blobs/**/*") if path.is_file()] == []


def test_a_repository_without_models_is_created(context: FailingContext, tmp_path: Path) -> None:
    desired = [replace(each, spec=encode(RepositorySpec("triton"))) for each in plan(tmp_path)]
    assert [step.name for step in apply(context, desired)] == ["prepare"]
    assert compare(context, desired) == ()


@pytest.mark.parametrize("changed", [PYTHON.replace("[]", "()"), f"{PYTHON}# longer"])
def test_a_source_that_changed_since_the_plan_is_refused(context: FailingContext, tmp_path: Path, changed: str) -> None:
    desired = plan(tmp_path)
    (tmp_path / "m/1/model.py").write_text(changed)
    message = failure(context, desired)
    assert message.startswith("A source file changed since the plan: m/1/model.py no longer has the planned content")
    assert REPOSITORY.read(context.look("repository")).repositories == {"triton": {}}


def test_a_missing_source_is_reported(context: FailingContext, tmp_path: Path) -> None:
    desired = plan(tmp_path)
    (tmp_path / "m/1/model.py").unlink()
    assert "m/1/model.py" in failure(context, desired)


def test_a_full_disk_is_reported_before_anything_is_sent(context: FailingContext, tmp_path: Path) -> None:
    desired = plan(tmp_path, a=MODELS["a"])
    context.free = 900
    needed = 4096 * len(models_of(desired[0])["a"].files)  # what each of them takes on a disk
    message = failure(context, desired)
    assert message == (
        f"Not enough disk space for the model files: {needed:,} bytes are to be copied to /var/lib/gpuplan, "
        "but only 900 bytes are free."
    )
    assert context.sent == []


def steps(context: FailingContext, desired: Sequence[Desired]) -> list[Step]:
    return [step for change in compare(context, desired) for step in change.steps]


def blocks(desired: Sequence[Desired]) -> int:
    """What all contents take on a disk, each once."""
    files = [file for model in models_of(desired[0]).values() for file in model.files.values() if file.sha256]
    return 4096 * len({file.sha256 for file in files})


def test_the_preflight_sums_up_all_models(context: FailingContext, tmp_path: Path) -> None:
    desired = plan(tmp_path)
    context.free = blocks(desired)
    REPOSITORY.preflight(steps(context, desired), context)
    context.free -= 1
    with pytest.raises(Problem) as caught:
        REPOSITORY.preflight(steps(context, desired), context)
    assert (
        f"{blocks(desired):,} bytes are to be copied to /var/lib/gpuplan, but only {context.free:,} bytes are free"
        in str(caught.value)
    )
    assert context.sent == []


def test_the_preflight_counts_inodes(context: FailingContext, tmp_path: Path) -> None:
    desired = plan(tmp_path, a=MODELS["a"])
    context.inodes = 7
    REPOSITORY.preflight(
        steps(context, desired), context
    )  # three contents, the directory and one in it, and two names beside it
    context.inodes = 6
    with pytest.raises(Problem, match=r"7 files and directories .* only 6 inodes are free"):
        REPOSITORY.preflight(steps(context, desired), context)


def test_removed_models_free_no_space_for_the_new_ones(context: FailingContext, tmp_path: Path) -> None:
    """If it were counted, the first step would fail, and the last one would still remove what is served."""
    apply(context, plan(tmp_path, a=MODELS["a"]))
    other = {"o/1/model.py": PYTHON.replace("[]", "{}"), "o/config.pbtxt": PYTHON_CONFIG}
    exchanged = plan(tmp_path, {**FILES, **other}, o={"source": "o", "containers": ["triton"]})
    assert [step.name for step in steps(context, exchanged)] == ["switch-o", "remove-a"]
    context.free = 4096
    with pytest.raises(Problem, match="Not enough disk space") as caught:
        REPOSITORY.preflight(steps(context, exchanged), context)
    assert "apply their removal alone first" in caught.value.diagnostics[0].fix


def test_an_apply_that_cannot_be_finished_changes_nothing(context: FailingContext, tmp_path: Path) -> None:
    apply(context, plan(tmp_path, a=MODELS["a"]))
    before = context.look("repository").probe("repository").value
    context.free = 100
    with pytest.raises(Problem):
        REPOSITORY.preflight(steps(context, plan(tmp_path)), context)
    assert context.look("repository").probe("repository").value == before


def test_an_interrupted_transfer_is_resumed(context: FailingContext, tmp_path: Path) -> None:
    big = {**FILES, "m/1/weights.bin": "w" * (1 << 20)}
    desired = plan(tmp_path, big, a=MODELS["a"])
    weights = models_of(desired[0])["a"].files["1/weights.bin"]
    arguments = {"digest": weights.sha256, "size": weights.size, "offset": 0, "last": False}
    simulated: Any = context._session
    simulated.call("blob.put", arguments, b"w" * 300_000)
    context._session.close()
    session = connect(Host("n", Connection.SIMULATED, simulated={"gpus": [{"model": "A30"}]}))
    again = FailingContext(session, tmp_path)
    apply(again, desired)
    assert "resuming an interrupted transfer: 300,000 bytes are already on the node" in again.progress_lines
    total = sum(file.size for file in models_of(desired[0])["a"].files.values())
    assert again.measured[0] == Amount(300_000, total)
    assert again.measured[-1] == Amount(total, total)
    session.close()


def test_a_disk_that_fills_up_during_the_transfer_is_reported(context: FailingContext, tmp_path: Path) -> None:
    context.full = True
    assert failure(context, plan(tmp_path)).startswith("Not enough disk space for the model files")


@pytest.mark.parametrize(
    ("operation", "otherwise"),
    [
        ("repository.prepare", "the repository does not exist"),
        ("repository.switch", "the files of a are not those that were sent"),
    ],
)
def test_a_step_without_effect_fails(context: FailingContext, tmp_path: Path, operation: str, otherwise: str) -> None:
    context.without_effect.add(operation)
    message = failure(context, plan(tmp_path))
    assert message == f"The step had no effect: The agent reported success, but {otherwise}."


def test_a_removal_without_effect_fails(context: FailingContext, tmp_path: Path) -> None:
    apply(context, plan(tmp_path))
    context.without_effect.add("repository.remove")
    assert "the files of b still exist" in failure(context, plan(tmp_path, a=MODELS["a"]))
    assert "the repository still exists" in failure(context, ())
