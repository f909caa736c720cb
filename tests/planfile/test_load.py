"""Good plan files: values stay what was written, and positions are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.planfile.load import load_plan
from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.container.fields.networking import ServerPorts
from gpuplan.types.diagnostic import Location, Problem
from tests.plan_files import PlanOf

QUICKSTART = Path(__file__).parents[2] / "plans" / "quickstart.yaml"


def test_the_quickstart_loads() -> None:
    plan = load_plan(str(QUICKSTART), environ={})
    assert plan.containers["triton-small"].image == "nvcr.io/nvidia/tritonserver:24.10-py3"
    assert plan.containers["triton-small"].shm_size == 256 * 1024**2
    line = next(number for number, text in enumerate(QUICKSTART.read_text().split("\n"), 1) if "triton-small:" in text)
    assert plan.where("containers", "triton-small") == Location(str(QUICKSTART), line, 3)
    assert plan.where("containers", "triton-small", "memory").line == line


def test_text_stays_what_was_written(plan_of: PlanOf) -> None:
    plan = plan_of(
        """
containers:
  c:
    nodes: 24
    image: 24.10
    user: 007
    hostname: 0x1F
    env: { A: 1.10, B: True, C: 0o17, D: no, E: 2026-12-31, F: '' }
    labels: { 1.10: 1.10 }
    ports: [1.5, 8000]
    ulimits: { memlock: -1 }
    triton: { flags: { http-port: 08, strict: False, ratio: 1.0 } }
  d: { nodes: a, image: x, command: [1e3, True, 1:0, off] }
"""
    )
    container = plan.containers["c"]
    assert plan.containers["d"].command == ("1e3", "True", "1:0", "off")
    assert (container.nodes, container.image, container.user, container.hostname) == ("24", "24.10", "007", "0x1F")
    assert container.env == {"A": "1.10", "B": "True", "C": "0o17", "D": "no", "E": "2026-12-31", "F": ""}
    assert container.labels == {"1.10": "1.10"}
    assert container.ports == ("1.5", 8000)
    assert container.ulimits == {"memlock": -1}
    assert container.triton is not None
    assert container.triton.flags == {"http-port": "08", "strict": "False", "ratio": "1.0"}


def test_a_models_config_keeps_its_types(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    plan = plan_of(
        """
containers: { c: { nodes: a, image: x, triton: {} } }
models:
  m: { source: m, containers: [c], config: { a: 8, b: 1.0, c: true, d: ~, e: [x, 1], f: { g: yes } } }
"""
    )
    config = plan.models["m"].config
    assert config == {"a": 8, "b": 1.0, "c": True, "d": None, "e": ["x", 1], "f": {"g": "yes"}}
    assert [type(config[key]) for key in "abc"] == [int, float, bool]
    place = plan.where("models", "m", "config", "e", 1)
    assert Path(plan.path).read_text().split("\n")[place.line - 1][place.column - 1 :].startswith("1]")


def test_empty_sections_state_nothing(plan_of: PlanOf) -> None:
    plan = plan_of("gpus:\ncontainers: ~\nmodels: {}\n")
    assert (plan.gpus, plan.containers, plan.models) == ({}, {}, {})


def test_variables_by_strength(plan_of: PlanOf, tmp_path: Path) -> None:
    text = 'variables: { v: { default: default } }\ncontainers: { c: { nodes: a, image: "i:${var.v}" } }\n'
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("v: one\n")
    two.write_text("v: 24.10\n")
    environ, files = {"GPUPLAN_VAR_v": "environ", "GPUPLAN_VAR_other": "x"}, (str(one), str(two))

    def image(**sources: object) -> str | None:
        return plan_of(text, **sources).containers["c"].image

    assert image() == "i:default"
    assert image(environ=environ) == "i:environ"
    assert image(environ=environ, variable_files=files[:1]) == "i:one"
    assert image(environ=environ, variable_files=files) == "i:24.10"
    assert image(environ=environ, variable_files=files, variables={"v": "argument"}) == "i:argument"


def test_a_variable_that_is_the_whole_value_may_be_a_number(plan_of: PlanOf) -> None:
    text = """
variables: { port: { default: 8000 }, tag: { default: 24.10 }, none: {}, quoted: { default: "true" } }
containers:
  c:
    nodes: a
    image: "${var.tag}"
    triton: {}
    ports: { http: "${var.port}", grpc: "${var.none}" }
    env: { A: "${var.port}", B: "x${var.port}", C: "${var.quoted}", D: "$${var.port}" }
"""
    container = plan_of(text, {"none": "9"}).containers["c"]
    assert container.image == "24.10"
    assert container.ports == ServerPorts(http=8000, grpc=9)
    assert container.env == {"A": "8000", "B": "x8000", "C": "true", "D": "${var.port}"}
    container = plan_of(text, {"none": "9", "quoted": "", "port": "0x10"}).containers["c"]
    assert container.ports == ServerPorts(http=16, grpc=9)
    assert (container.env["A"], container.env["C"]) == ("0x10", "")


def test_references_to_secrets_are_kept_and_dollars_escape(plan_of: PlanOf) -> None:
    plan = plan_of(
        """
containers:
  c: { nodes: a, image: x, env: { A: "k=${env:KEY}" }, command: [sh, -c, "echo $${HOME} $HOME $$ $${env:X}"] }
"""
    )
    assert plan.containers["c"].env == {"A": "k=${env:KEY}"}
    assert plan.containers["c"].command == ("sh", "-c", "echo ${HOME} $HOME $$ ${env:X}")


def test_faults_of_a_variable_file_are_told_there(plan_of: PlanOf, tmp_path: Path) -> None:
    file = tmp_path / "vars.yaml"
    file.write_text("tritn: 1\ntriton: [1]\n")
    with pytest.raises(Problem) as caught:
        plan_of("variables: { triton: { default: x } }\n", variable_files=(str(file), str(tmp_path / "none")))
    told = {(one.where.line if one.where else 0, one.summary) for one in caught.value.diagnostics}
    assert told == {
        (1, "Undeclared variable"),
        (2, "Variable has no value"),
        (0, "Cannot read file"),
    }


WORDS = st.sampled_from(
    [
        *("version", "name", "gpus", "containers", "models", "nodes", "select", "mig", "each", "image", "ports"),
        *("triton", "config", "env", "variables", "default", "drift", "ignore", "all", "${var.x}", "${env:X}"),
        *("1", "24.10", "a", "~"),
    ]
)
SECTIONS = st.recursive(
    WORDS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(WORDS, SECTIONS, max_size=6))
@settings(deadline=None, max_examples=300)
def test_no_tree_gives_anything_but_a_plan_file_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]
) -> None:
    import yaml

    file = tmp_path_factory.mktemp("law") / "plan.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "name": "a", **tree}, default_flow_style=None), "utf-8")
    try:
        found: PlanFile | Problem = load_plan(str(file), environ={})
    except Problem as problem:
        found = problem
    if isinstance(found, PlanFile):
        assert found.name == str(tree.get("name", "a"))
    else:
        assert {one.where.file if one.where else "" for one in found.diagnostics} == {str(file)}
