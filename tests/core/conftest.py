"""A plan file and an inventory of simulated nodes, whose state lives and dies with the test."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpuplan.core import run
from gpuplan.inventory import load_inventory
from gpuplan.planfile.load import load_plan
from gpuplan.types.change import ChangeSet
from gpuplan.types.inventory import Inventory
from gpuplan.types.outcome import NodeOutcome
from gpuplan.types.report import Report

PLAN = """
version: 1
name: story
gpus:
  a100-0:
    nodes: all
    select: { index: 0 }
    mig: { left: 3g.40gb, right: 3g.40gb }
containers:
  triton:
    nodes: all
    image: nvcr.io/nvidia/tritonserver:24.10-py3
    gpus: [a100-0/left]
    ports: { http: 8000 }
    env: { LOG: info }
    triton: {}
  cache: { nodes: all, image: "busybox:latest", command: [sleep, "9999"] }
models:
  part: { source: models/part, containers: [triton] }
  whole: { source: models/whole, containers: [triton] }
"""

CACHE = '  cache: { nodes: all, image: "busybox:latest", command: [sleep, "9999"] }\n'

PART = """
backend: "python"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""

WHOLE = """
platform: "ensemble"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling { step [ {
  model_name: "part" model_version: -1
  input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }
} ] }
"""


class World:
    """One folder with a plan file and an inventory, and the verbs on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan_file = folder / "plan.yaml"
        self.environ: dict[str, str] = {}
        self.write(PLAN)
        self.model("part", PART, "class TritonPythonModel:\n    def execute(self, requests): ...\n")
        self.model("whole", WHOLE, None)
        self.nodes({"n1": {}})

    def write(self, text: str) -> None:
        """Replace the plan file."""
        self.plan_file.write_text(text)

    def edit(self, old: str, new: str) -> None:
        """Change a part of the plan file."""
        text = self.plan_file.read_text()
        assert old in text
        self.write(text.replace(old, new))

    def model(self, name: str, config: str, code: str | None) -> None:
        """Write a model's source."""
        version = self.folder / "models" / name / "1"
        version.mkdir(parents=True, exist_ok=True)
        (version.parent / "config.pbtxt").write_text(config)
        if code is not None:
            (version / "model.py").write_text(code)

    def nodes(
        self, hosts: Mapping[str, Mapping[str, object]], gpus: str = "[{ model: A100-SXM4-80GB, count: 1 }]"
    ) -> None:
        """The inventory: name → faults and such."""
        lines = ["all:", "  hosts:"]
        for name, more in hosts.items():
            lines += [f"    {name}:", "      ansible_connection: simulated", "      gpuplan_simulated:"]
            lines += [f"        gpus: {gpus}", '        driver: "570.86.15"']
            lines += [f"        {key}: {value}" for key, value in more.items()]
        (self.folder / "inventory.yaml").write_text("\n".join(lines) + "\n")

    @property
    def inventory(self) -> Inventory:
        """The inventory as it is now."""
        return load_inventory(str(self.folder / "inventory.yaml"))

    def plan(self, **more: object) -> ChangeSet:
        """The change set of the plan file as it is now."""
        plan_file = load_plan(str(self.plan_file), environ=self.environ)
        return run.plan(plan_file, self.inventory, environ=self.environ, base_dir=self.folder, **more)  # type: ignore[arg-type]

    def apply(self, change_set: ChangeSet | None = None, **more: object) -> tuple[NodeOutcome, ...]:
        """Apply a change set, or what the plan file asks for now."""
        planned = change_set or self.plan()
        return run.apply(
            planned,
            self.inventory,
            environ=self.environ,
            base_dir=self.folder,
            who="tester@here",
            **more,  # type: ignore[arg-type]
        )

    def drift(self) -> Report:
        """The drift check of the plan file as it is now."""
        plan_file = load_plan(str(self.plan_file), environ=self.environ)
        return run.drift(plan_file, self.inventory, environ=self.environ, base_dir=self.folder)


@pytest.fixture
def make_world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    """Makes a new world, whose nodes are bare."""

    def make() -> World:
        monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        return World(tmp_path_factory.mktemp("world"))

    return make


@pytest.fixture
def world(make_world: Callable[[], World]) -> World:
    """A world with one bare node."""
    return make_world()


@pytest.fixture(autouse=True)
def _ready_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container without a probe counts as ready at once: that it stays up is tested with the container kind."""
    monkeypatch.setattr("gpuplan.resources.container.apply.readiness.STEADY", 0.0)
