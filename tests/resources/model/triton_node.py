"""A node with one Triton, simulated or real, to which the repository and the model kind are applied."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gpuplan.core.apply.context import NodeContext
from gpuplan.core.apply.journal import Journal
from gpuplan.core.apply.record_keeper import RecordKeeper
from gpuplan.core.apply.steps import Runner
from gpuplan.core.plan.order import in_order
from gpuplan.planfile.load import load_plan
from gpuplan.resources import model, repository
from gpuplan.resources.kind import Kind
from gpuplan.transport.session import Question, Session
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Comparison
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.event import silent
from gpuplan.types.inventory import Host
from gpuplan.types.outcome import StepOutcome
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext

PLAN = "test"
SERVER = "triton"
START = 'exec tritonserver "$@" $(cat /gpuplan/load-models)'
FLAGS = (
    "--model-repository=/gpuplan/models",
    "--model-control-mode=explicit",
    "--exit-on-error=false",
    "--disable-auto-complete-config",  # a load then takes 0.1 s instead of 1.3 s
)
KINDS: dict[str, Kind[Any]] = {"repository": repository.REPOSITORY, "model": model.MODEL}
CONFIG = """
backend: "python"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
CODE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        {first}

    def execute(self, requests):
        answer = np.array([[{answer}]], dtype=np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", answer)]) for _ in requests]
"""


@dataclass
class SentRequests:
    """The responses to requests that were sent without a pause."""

    answers: dict[str, list[float]]
    """By model."""
    failed: list[str]


class TritonNode:
    """One node with one Triton in a container that the container kind did not create."""

    def __init__(self, session: Session, base: Path, image: str) -> None:
        self.session = session
        self.base = base
        self.image = image
        self.progress: list[str] = []
        self.apply_context = NodeContext(session, PLAN, base, {}, self.progress.append)
        self.record = Record(PLAN)

    def serve(self) -> None:
        """Start the server on the repository of the plan file."""
        path = str(self.session.agent("repository.prepare", plan=PLAN, container=SERVER)["path"])
        engine = self.session.docker()
        settings = engine.create_host_config(
            port_bindings={8000: 8000}, shm_size="256m", binds={path: {"bind": "/gpuplan", "mode": "ro"}}
        )
        labels = {"gpuplan.plan": PLAN, "gpuplan.name": SERVER, "gpuplan.triton": "8000"}
        command = ["sh", "-c", START, "tritonserver", *FLAGS]
        engine.create_container(self.image, command, name=SERVER, ports=[8000], labels=labels, host_config=settings)
        engine.start(SERVER)
        self.wait_until_live()

    def wait_until_live(self) -> None:
        """Wait until the server answers."""
        deadline = time.monotonic() + 30
        while "index" not in self._server():
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)

    def write_model(self, name: str, answer: int = 1, versions: Sequence[int] = (1,), first: str = "pass") -> None:
        """Write the source of a model that answers with a number."""
        for version in versions:
            self.write(f"{name}/{version}/model.py", CODE.format(first=first, answer=answer))
        self.write(f"{name}/config.pbtxt", CONFIG)

    def write(self, path: str, text: str) -> None:
        place = self.base / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")

    def plan(self, **models: Any) -> tuple[Desired, ...]:
        """The desired resources of a plan file with these models; each source is the directory of its name."""
        plan = {
            "version": 1,
            "name": PLAN,
            "containers": {SERVER: {"nodes": "all", "image": self.image, "triton": {}}},
            "models": {name: {"source": name, "containers": [SERVER], **stated} for name, stated in models.items()},
        }
        (self.base / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), "utf-8")
        read = load_plan(str(self.base / "plan.yaml"), environ={})
        desired: list[Desired] = []
        for kind in KINDS.values():
            resources, issues = kind.desired(read, Host(self.session.node))
            assert list(issues) == []
            desired.extend(resources)
        return tuple(desired)

    def compare(self, desired: Sequence[Desired]) -> tuple[Change, ...]:
        """The changes of both kinds; nothing may be unknown."""
        snapshot = self.session.ask(Question(PLAN, ("docker", "triton", "repository")))
        disturbed: dict[Address, str] = {}
        changes: list[Change] = []
        for name, kind in KINDS.items():
            diff_context = DiffContext(self.session.node, PLAN, self.record, {}, dict(disturbed))
            resources = [resource for resource in desired if resource.address.kind == name]
            comparison: Comparison = kind.compare(resources, snapshot, diff_context)
            assert comparison.unknown == ()
            for change in comparison.changes:
                disturbed.update(change.disturbs)
            changes.extend(comparison.changes)
        return tuple(changes)

    def apply(self, desired: Sequence[Desired]) -> tuple[Change, ...]:
        """Compare, run every step in order, and record the desired resources; the changes."""
        changes = self.compare(desired)
        self.run_steps(changes)
        resources = {each.address: Recorded(each.digest, each.spec, each.needs) for each in desired}
        self.record = Record(PLAN, "r1", resources=resources)
        return changes

    def run_steps(self, changes: Sequence[Change]) -> None:
        """Run every step in order."""
        steps = {step.id: step for change in changes for step in change.steps}
        for name in in_order(changes):
            KINDS[steps[name].address.kind].apply(steps[name], self.apply_context)

    def apply_in_parallel(self, desired: Sequence[Desired]) -> dict[str, StepOutcome]:
        """Compare, and run the steps as an apply does, loads in parallel; the outcomes by model."""
        changes = self.compare(desired)
        node = NodeChanges(self.session.node, changes, in_order(changes), desired=tuple(desired))
        journal, ledger = (
            Journal(self.session, PLAN, "r1"),
            RecordKeeper(self.session, self.record, "r1", "tester@here"),
        )
        apply_context = partial(NodeContext, self.session, PLAN, self.base, {}, keeper=ledger)
        runner = Runner(node, apply_context, journal, ledger, silent, threading.Event(), lambda text: text)
        outcomes = runner.run()
        self.record = ledger.record
        return {each.step.partition("/model/triton/")[2].partition(":")[0]: each for each in outcomes}

    def call_manually(self, act: str, name: str, config: str = "") -> None:
        """Load or unload a model as with curl, and wait until that is done; `config` is JSON."""
        body = json.dumps({"parameters": {"config": config}} if config else {}).encode()
        with self.apply_context.forward(8000) as address:
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request("POST", f"/v2/repository/models/{name}/{act}", body=body)
            assert connection.getresponse().status == 200
            connection.close()
        deadline = time.monotonic() + 10
        while self.states()[name] not in ("READY", "UNAVAILABLE"):
            assert time.monotonic() < deadline, f"{name} is {self.states()[name]}"
            time.sleep(0.05)

    def states(self) -> dict[str, str]:
        """Model → the state of its youngest version that has one, as the server reports."""
        return {entry["name"]: entry["state"] for entry in self._server()["index"] if "state" in entry}

    def edit(self, name: str, path: str, old: str, new: str) -> None:
        """Change a file of a model on the node as an editor does: a new file replaces the old one."""
        node = self.on_node / "models" / name
        real = self.on_node / "versions" / node.readlink().name / path
        text = real.read_text("utf-8")
        assert old in text
        real.unlink()
        real.write_text(text.replace(old, new), "utf-8")

    on_node: Path
    """The server's repository as it lies on the node, seen from here."""

    def infer(self, name: str) -> float:
        """The answer of a model; only of a real one."""
        body = {"inputs": [{"name": "IN", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
        with self.apply_context.forward(8000) as address:
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request("POST", f"/v2/models/{name}/infer", body=json.dumps(body))
            answer = json.loads(connection.getresponse().read())
            connection.close()
        return float(answer["outputs"][0]["data"][0])

    @contextmanager
    def sending_requests(self, *models: str) -> Iterator[SentRequests]:
        """Send requests to models without a pause while the block runs, each from a thread of its own."""
        sent, ended = SentRequests({name: [] for name in models}, []), threading.Event()

        def ask(name: str) -> None:
            while not ended.is_set():
                try:
                    sent.answers[name].append(self.infer(name))
                except (OSError, KeyError, http.client.HTTPException) as error:
                    sent.failed.append(f"{name}: {error!r}")

        threads = [threading.Thread(target=ask, args=(name,)) for name in models]
        for thread in threads:
            thread.start()
        try:
            yield sent
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def _server(self) -> dict[str, Any]:
        value: Any = self.session.ask(Question(PLAN, ("triton",))).probe("triton").value
        return dict(value["servers"][0]) if value["servers"] else {}
