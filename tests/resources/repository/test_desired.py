"""Source directories: the files to copy, the rendered config, and every issue with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.planfile.load import load_plan
from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.model.desired import desired_models
from gpuplan.resources.model.spec import model_spec
from gpuplan.resources.repository.desired import desired_repositories
from gpuplan.resources.repository.spec import ModelFiles, repository_spec
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired
from tests.resources.told import checked

SOURCES = sorted((Path(__file__).parent / "sources").glob("*.yaml"))
QUICKSTART = Path(__file__).parents[3] / "plans/quickstart.yaml"
HOST = Host("gpu-a1", groups=("a100",))
HEAD = {
    "version": 1,
    "name": "prod",
    "containers": {"triton": {"nodes": "all", "image": "x/tritonserver:24.10-py3", "triton": {}}},
}

TENSORS = "input { name: 'I' data_type: TYPE_FP32 dims: 1 } output { name: 'O' data_type: TYPE_FP32 dims: 1 }"
PYTHON_CONFIG = f'backend: "python" {TENSORS}'
PYTHON = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
STEP = "{ model_name: 'a' model_version: -1 input_map { key: 'I' value: 'I' } output_map { key: 'O' value: 'O' } }"
ENSEMBLE = f'platform: "ensemble" {TENSORS} ensemble_scheduling {{ step [ {STEP} ] }}'


def build(folder: Path, files: dict[str, Any], plan: dict[str, Any]) -> PlanFile:
    """A plan file with files beside it; a file is a text, or a link."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            place.mkdir(exist_ok=True)
        elif isinstance(text, dict):
            place.symlink_to(text["link"].replace("${here}", str(folder)))
        else:
            place.write_text(text, "utf-8")
    written = folder / "plan.yaml"
    written.write_text(yaml.safe_dump(HEAD | plan, sort_keys=False), "utf-8")
    return load_plan(str(written), environ={})


def described(folder: Path, found: Diagnostic) -> str:
    """An issue in one line, without the test's directory."""
    where = str(found.where).replace(f"{folder}/", "")
    return f"{where}: {found.summary}: {found.detail}".replace(f"{folder}/", "")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_case(path: Path, tmp_path: Path) -> None:
    case = checked(yaml.safe_load(path.read_text("utf-8")), "about files plan expect")
    expect = checked(case["expect"], "issues files versions")
    plan = build(tmp_path, case["files"], case["plan"])
    desired, issues = desired_repositories(plan, HOST)
    models, more = desired_models(plan, HOST)
    assert sorted(described(tmp_path, each) for each in (*issues, *more)) == sorted(expect.get("issues", [])), case[
        "about"
    ]
    if "files" in expect:
        assert {name: list(model.files) for name, model in models_of(desired[0]).items()} == expect["files"]
    if "versions" in expect:
        assert {spec.model: list(spec.versions) for spec in (model_spec(each.spec) for each in models)} == expect[
            "versions"
        ]


def test_rendered_configs_of_the_quickstart(golden: Callable[[str, str], None]) -> None:
    desired, issues = desired_repositories(load_plan(str(QUICKSTART), environ={}), HOST)
    assert issues == []
    texts = [f"# {each.address.name}/{name}\n{text}" for each in desired for name, text in configs(each).items()]
    golden("quickstart", "\n".join(texts))


def test_each_container_has_its_own_overrides() -> None:
    desired, _ = desired_repositories(load_plan(str(QUICKSTART), environ={}), HOST)
    sizes = {each.address.name: "max_batch_size: 8" in configs(each)["classifier"] for each in desired}
    assert sizes == {"triton-large": False, "triton-small": True}


def test_the_content_follows_files_and_config_and_nothing_else(tmp_path: Path) -> None:
    files = {"m/1/model.py": PYTHON, "m/config.pbtxt": PYTHON_CONFIG}
    models: dict[str, Any] = {"a": {"source": "m", "containers": ["triton"]}}

    def content(**changed: Any) -> str:
        plan = {"models": {"a": models["a"] | changed.pop("model", {})}}
        desired, issues = desired_repositories(build(tmp_path, files | changed, plan), HOST)
        assert issues == []
        return models_of(desired[0])["a"].content

    first = content()
    assert content() == first
    assert content(**{"m/config.pbtxt": f"# a remark\n{PYTHON_CONFIG}\n"}) == first
    assert content(**{"m/1/model.py": f"{PYTHON}# changed"}) != first
    assert content(**{"m/config.pbtxt": f"{PYTHON_CONFIG} max_batch_size: 2"}) != first
    assert content(model={"config": {"max_batch_size": 3}}) != first
    assert content(model={"load_timeout": "9s"}) == first


def test_all_nodes_of_one_run_get_the_same_files(tmp_path: Path) -> None:
    plan = build(tmp_path, {"m/1/model.py": PYTHON, "m/config.pbtxt": PYTHON_CONFIG}, one("m"))
    (first,), _ = desired_repositories(plan, Host("n1"))
    (tmp_path / "m/1/model.py").write_text("changed meanwhile")
    (second,), _ = desired_repositories(plan, Host("n2"))
    assert second.spec == first.spec


def test_a_content_digest_in_the_source_is_replaced(tmp_path: Path) -> None:
    config = f'{PYTHON_CONFIG} parameters {{ key: "gpuplan_content" value {{ string_value: "of another node" }} }}'
    plain = build(tmp_path, {"m/1/model.py": PYTHON, "m/config.pbtxt": PYTHON_CONFIG}, one("m"))
    (wanted,), _ = desired_repositories(plain, HOST)
    marked = build(tmp_path, {"m/config.pbtxt": config}, one("m"))
    (found,), _ = desired_repositories(marked, HOST)
    assert found.spec == wanted.spec


def test_a_models_needs_are_its_container_its_files_and_its_parts() -> None:
    desired, issues = desired_models(load_plan(str(QUICKSTART), environ={}), HOST)
    assert list(issues) == []
    (ensemble,) = [each for each in desired if each.address.name == "triton-small/sentiment"]
    assert [str(need) for need in ensemble.needs] == [
        "gpu-a1/container/triton-small",
        "gpu-a1/repository/triton-small/sentiment",
        "gpu-a1/model/triton-small/tokenizer",
        "gpu-a1/model/triton-small/classifier",
        "gpu-a1/model/triton-small/postprocessor",
    ]


def one(source: str) -> dict[str, Any]:
    return {"models": {"a": {"source": source, "containers": ["triton"]}}}


def models_of(desired: Desired) -> Mapping[str, ModelFiles]:
    return repository_spec(desired.spec).models


def configs(desired: Desired) -> dict[str, str]:
    return {name: model.files["config.pbtxt"].text or "" for name, model in models_of(desired).items()}
