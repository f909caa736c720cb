"""Stories as files: a plan, a simulated node, and runs one after the other, each with what it must come to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.model.diagnostic import Exit
from gpuplan.model.outcome import NodeOutcome
from gpuplan.reach.agent.failure import Failure
from gpuplan.reach.connect import connect
from gpuplan.reach.session import Question, Session
from gpuplan.simulation import tools
from gpuplan.simulation.hardware import open_store
from gpuplan.simulation.reboot import reboot
from gpuplan.simulation.store import Store
from tests.flow.conftest import World


@dataclass(frozen=True)
class Run:
    """One apply: what goes before it, and what must be true after it. None is not looked at."""

    exit: str
    plan: Mapping[str, Any] | None = None
    """Takes the place of the plan file, from this run on."""
    reboot: bool = False
    allow: Sequence[str] = ()
    faults: Sequence[Mapping[str, Any]] = ()
    stubborn: Sequence[str] = ()
    """Services whose stop comes to its end only after the time for it is up."""
    planned: Mapping[str, str] | None = None
    """Every change by its address without the node → its sign."""
    steps: Mapping[str, str] | None = None
    """Every step by its id without the node → how it ended."""
    told: Sequence[str] = ()
    """One piece of text for each thing that was told, in its order."""
    slices: Sequence[str] | None = None
    services: Mapping[str, bool] | None = None
    """Service → it runs."""
    started: Sequence[str] | None = None
    """Services that were told to start, in their order."""
    untouched: Sequence[str] = ()
    """Containers that are the same and in the same state as before."""
    then_lock_free: bool = False
    empty_plan: bool | None = None


@dataclass(frozen=True)
class Story:
    """One file."""

    about: str
    plan: Mapping[str, Any]
    simulated: Mapping[str, Any]
    runs: Sequence[Run] = field(default_factory=list)


def load(file: Path) -> Story:
    """A story; a key that it cannot have is refused, and so is a story without a run."""
    text = _checked(Story, yaml.safe_load(file.read_text("utf-8")), file.name)
    runs = [Run(**_checked(Run, run, f"{file.name}, run {at}")) for at, run in enumerate(text.pop("runs", ()), 1)]
    if not runs:
        raise ValueError(f"{file.name}: a story without a run")
    return Story(**text, runs=runs)


def _checked(shape: type, stated: dict[str, Any], where: str) -> dict[str, Any]:
    unknown = set(stated) - {each.name for each in fields(shape)}
    if unknown:
        raise ValueError(f"{where}: unknown keys {sorted(unknown)}")
    return stated


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
    def _store(self) -> Store:
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

    def _program(self, store: Store, argv: Sequence[str]) -> tuple[int, str]:
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
