"""The command as somebody at a terminal runs it: on one plan file, on one node, simulated or of the lab."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.cli import main
from gpuplan.types.diagnostic import Exit

NGC = "nvcr.io/nvidia/tritonserver:24.10-py3"
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
ENSEMBLE = """
platform: "ensemble"
max_batch_size: 2
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling {
  step [
    { model_name: "one" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "mid" } },
    { model_name: "two" model_version: -1 input_map { key: "IN" value: "mid" } output_map { key: "OUT" value: "OUT" } }
  ]
}
"""


@dataclass(frozen=True)
class Operator:
    """Somebody with a plan file and an inventory."""

    folder: Path
    inventory: Path
    printed: Callable[[], tuple[str, str]]
    """What was printed since it was last asked, on standard output and on standard error."""

    def plan_file(self, text: str) -> None:
        """Write the plan file."""
        (self.folder / "plan.yaml").write_text(text)

    def run(self, verb: str, *more: str) -> tuple[int, str]:
        """One verb on the plan file: its exit code and all that it printed."""
        self.printed()
        code = main([verb, str(self.folder / "plan.yaml"), "-i", str(self.inventory), *more])
        return code, "".join(self.printed())

    def await_read(self) -> None:
        """Wait until the nodes can be read whole, as a server can some time after it was started."""
        deadline = time.monotonic() + 60
        while self.run("plan")[0] == Exit.UNREAD:
            assert time.monotonic() < deadline, "a server does not come back"
            time.sleep(0.2)

    def apply(self, expected: int = 0) -> str:
        """Apply without asking; what was printed."""
        code, text = self.run("apply", "--auto-approve")
        assert code == expected, text
        return text

    def converge(self) -> None:
        """Apply as often as an operator would whose server dies and comes up meanwhile: until it is done."""
        deadline = time.monotonic() + 60
        while (said := self.run("apply", "--auto-approve"))[0] in (Exit.UNREAD, Exit.STALE):
            assert time.monotonic() < deadline, said[1]
            time.sleep(0.2)
        assert said[0] == Exit.DONE, said[1]

    def changes(self) -> dict[str, Any]:
        """What a plan would change, by address without the node."""
        self.printed()
        main(["plan", str(self.folder / "plan.yaml"), "-i", str(self.inventory), "--json"])
        found = json.loads(self.printed()[0])
        return {
            change["address"].partition("/")[2]: change for node in found["nodes"] for change in node.get("changes", ())
        }

    def settled(self) -> None:
        """There is nothing to do."""
        assert self.changes() == {}


def python_model(folder: Path, answers: dict[int, int], first: str = "pass") -> None:
    """Write a model that answers with a number, in one version for each."""
    for version, answer in answers.items():
        (folder / str(version)).mkdir(parents=True, exist_ok=True)
        (folder / str(version) / "model.py").write_text(CODE.format(first=first, answer=answer))
    (folder / "config.pbtxt").write_text(CONFIG)


def ensemble_model(folder: Path) -> None:
    """Write an ensemble of the models `one` and `two`."""
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(ENSEMBLE)
