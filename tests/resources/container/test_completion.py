"""Auto-completion: off where all configs say all, and never a reason to replace a server that does without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.planfile.load import load_plan
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.types.change import Change
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired, DiffContext, Record
from tests.resources.container.node import snapshot

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"
OLD = "nvcr.io/nvidia/tritonserver:22.06-py3"
OFF = "--disable-auto-complete-config"
TENSORS = (
    'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
    'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
)
FULL = f'backend: "python"\n{TENSORS}'
PARTLY = 'backend: "onnxruntime"\nmax_batch_size: 4\noutput [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
Want = Callable[..., Desired]


@pytest.fixture
def want(tmp_path: Path) -> Want:
    """The container of a plan file whose server has models of these configs."""

    def make(configs: Mapping[str, str], image: str = IMAGE, code: str = CODE, **triton: Any) -> Desired:
        for name, config in configs.items():
            (tmp_path / name / "1").mkdir(parents=True, exist_ok=True)
            (tmp_path / name / "config.pbtxt").write_text(config)
            (tmp_path / name / "1" / ("model.onnx" if "onnx" in config else "model.py")).write_text(code)
        plan = {
            "version": 1,
            "name": "prod",
            "containers": {"triton": {"nodes": "all", "image": image, "triton": triton}},
            "models": {name: {"source": name, "containers": ["triton"]} for name in configs},
        }
        (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
        desired, faults = CONTAINER.desired(load_plan(str(tmp_path / "plan.yaml"), environ={}), Host("n"))
        assert list(faults) == []
        return desired[0]

    return make


def change(desired: Desired, made_of: Desired) -> Change | None:
    """What becomes of a container that was made of another spec."""
    container = {
        "name": "triton",
        "plan": "prod",
        "image": IMAGE,
        "env": {"NVIDIA_VISIBLE_DEVICES": "void"},
        "config": {"Cmd": list(made_of.spec["command"])},  # type: ignore[arg-type] - a list of words
        "host": {"Binds": ["/elsewhere/plans/prod/triton/triton:/gpuplan:ro"]},
    }
    seen = snapshot([container], [{"tags": [IMAGE]}])
    found = CONTAINER.compare([desired], seen, DiffContext("n", "prod", Record("prod"))).changes
    return next((each for each in found if each.address == desired.address), None)


def flags(desired: Desired) -> list[str]:
    return [word for word in desired.spec["command"] if "complete" in word or "strict-model" in word]  # type: ignore[union-attr] - a list of words


def test_it_is_off_where_all_configs_say_all(want: Want) -> None:
    assert flags(want({"a": FULL, "b": FULL})) == [OFF]
    assert flags(want({"a": FULL, "b": PARTLY})) == []
    assert flags(want({})) == []


def test_what_completes_itself_is_let(want: Want) -> None:
    code = (
        "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(c): return c\n"
        + CODE.split("\n", 1)[1]
    )
    assert flags(want({"a": FULL}, code=code)) == []


def test_the_plan_file_has_the_last_word(want: Want) -> None:
    assert flags(want({"a": FULL}, auto_complete=True)) == []
    assert flags(want({"a": FULL}, auto_complete=False)) == [OFF]
    assert flags(want({"a": FULL}, flags={"disable-auto-complete-config": False})) == []


def test_an_early_release_completes_nothing_unless_it_is_told_to(want: Want) -> None:
    assert flags(want({"a": FULL}, image=OLD)) == []
    assert flags(want({"a": FULL}, image=OLD, auto_complete=True)) == ["--strict-model-config=false"]


def test_a_server_that_completes_although_none_needs_it_stays(want: Want) -> None:
    partly, full = want({"a": PARTLY}), want({"b": FULL})
    assert change(full, made_of=partly) is None
    assert change(want({"b": FULL, "c": FULL}), made_of=full) is None


def test_a_server_that_completes_nothing_gives_way_to_a_config_that_needs_it(want: Want) -> None:
    found = change(want({"a": FULL, "b": PARTLY}), made_of=want({"a": FULL}))
    assert found is not None
    assert [field.path for field in found.fields] == ["command"]
    assert found.reasons == (
        "it runs with --disable-auto-complete-config, and the config of b leaves out input; complete the config to "
        "keep the container",
    )


def test_what_the_plan_file_states_is_made_so(want: Want) -> None:
    found = change(want({"a": FULL}, auto_complete=False), made_of=want({"a": PARTLY}))
    assert found is not None
    assert [field.path for field in found.fields] == ["command"]
