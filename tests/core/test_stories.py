"""Bad days of a node from their beginning to their end, each as a file: stories/*.yaml."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.agent.failure import Failure
from gpuplan.simulator import tools
from gpuplan.simulator.hardware import open_store
from gpuplan.simulator.store import StateStore
from gpuplan.simulator.world import reboot
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question, Session
from gpuplan.types.diagnostic import Exit
from gpuplan.types.outcome import NodeOutcome
from tests.core.conftest import World
from tests.core.story import Run, Story, load

STORIES = sorted((Path(__file__).parent / "stories").glob("*.yaml"))


class Stage:
    """A world in which a story happens."""

    def __init__(self, world: World, story: Story, patch: pytest.MonkeyPatch) -> None:
        self._world, self._story = world, story
        self._stubborn: Sequence[str] = ()
        self._started: list[str] = []
        self._programs = tools.run
        patch.setattr(tools, "run", self._program)
        self._write(story.plan)
        self._node(())

    def play(self, run: Run) -> None:
        """One run, and a look at all that is said of it."""
        if run.plan is not None:
            self._write(run.plan)
        if run.reboot:
            reboot(self._store, "n1")
        self._node(run.faults)
        before = {name: self._container(name) for name in run.untouched}
        self._stubborn, self._started = run.stubborn, []
        change_set = self._world.plan()
        if run.planned is not None:
            changes = change_set.nodes[0].changes
            assert {str(one.address).removeprefix("n1/"): one.action.value for one in changes} == run.planned
        (outcome,) = self._world.apply(change_set, allow=run.allow)
        self._node(())
        self._compare_outcome(run, outcome)
        self._compare_node(run)
        assert {name: self._container(name) for name in run.untouched} == before

    def _compare_outcome(self, run: Run, outcome: NodeOutcome) -> None:
        assert Exit(outcome.exit_code).name.lower() == run.exit, outcome
        if run.steps is not None:
            assert {one.step.removeprefix("n1/"): one.status.value for one in outcome.steps} == run.steps
        told = list(_told(outcome))
        assert len(told) == len(run.told), told
        for said, piece in zip(told, run.told, strict=True):
            assert piece in said

    def _compare_node(self, run: Run) -> None:
        if run.then_lock_free:
            with closing(self._session()) as session:
                session.agent("lock.take", owner={"run": "next", "who": "next@here", "since": "now", "pid": 1})
        if run.slices is not None:
            assert self._slices() == run.slices
        if run.services is not None:
            assert {one.name: one.active for one in self._store.read().services} == run.services
        if run.started is not None:
            assert self._started == run.started
        if run.empty_plan is not None:
            assert self._world.plan().empty is run.empty_plan

    @property
    def _store(self) -> StateStore:
        return open_store(self._world.inventory.hosts[0])

    def _write(self, sections: Mapping[str, Any]) -> None:
        self._world.write(yaml.safe_dump({"version": 1, "name": "story", **sections}, sort_keys=False))

    def _node(self, faults: Sequence[Mapping[str, Any]]) -> None:
        more = {key: json.dumps(value) for key, value in self._story.simulated.items() if key != "gpus"}
        gpus = json.dumps(self._story.simulated["gpus"])
        self._world.nodes({"n1": {**more, "faults": json.dumps(faults)}}, gpus)

    def _session(self) -> Session:
        return connect(self._world.inventory.hosts[0])

    def _slices(self) -> list[str]:
        with closing(self._session()) as session:
            value: Any = session.ask(Question("story", ("gpu",))).probe("gpu").value
        return [f"{one['profile']}@{one['start']}" for gpu in value["gpus"] for one in gpu["instances"]]

    def _container(self, name: str) -> tuple[str, object]:
        with closing(self._session()) as session:
            found = session.docker().inspect_container(name)
        return found["Id"], found["State"]

    def _program(self, store: StateStore, argv: Sequence[str]) -> tuple[int, str]:
        """The node's programs, of which systemctl is patient no longer than an agent is."""
        name = argv[-1].removesuffix(".service")
        if tuple(argv[:2]) == ("systemctl", "start"):
            self._started.append(name)
        answer = self._programs(store, argv)
        if tuple(argv[:2]) == ("systemctl", "stop") and name in self._stubborn:
            raise Failure("timeout", f"{' '.join(argv)}: no answer within 60 s")
        return answer


def _told(outcome: NodeOutcome) -> Iterator[str]:
    for one in (*outcome.diagnostics, *(each for step in outcome.steps for each in step.diagnostics)):
        yield f"{one.summary}: {one.detail} {one.fix}"


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_a_story(file: Path, make_world: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    story = load(file)
    stage = Stage(make_world(), story, monkeypatch)
    for run in story.runs:
        stage.play(run)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{ about: x, plan: {}, simulated: {}, run: [] }", r"bad.yaml: unknown keys \['run'\]"),
        ("{ about: x, plan: {}, simulated: {}, runs: [{ exit: done, tolt: [] }] }", r"run 1: unknown keys \['tolt'\]"),
        ("{ about: x, plan: {}, simulated: {}, runs: [] }", "a story without a run"),
    ],
)
def test_what_no_story_can_say_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=said):
        load(file)
