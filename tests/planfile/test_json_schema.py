"""The schema for editors takes what the loader takes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from gpuplan.planfile.json_schema import schema

PLANS = sorted((Path(__file__).parents[2] / "plans").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(schema())


def faults(document: object) -> list[str]:
    return sorted(error.json_path for error in VALIDATOR.iter_errors(document))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.dumps(schema())


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.name)
def test_the_plans_that_come_with_it_are_valid(plan: Path) -> None:
    assert faults(yaml.safe_load(plan.read_text())) == []


def test_what_may_stand_before_variables_are_filled_in() -> None:
    container = {
        "nodes": "a",
        "image": 24.10,
        "user": 1000,
        "pull": "${var.pull}",
        "shm_size": "${var.size}GiB",
        "memory": "2.1GiB",
        "stop_timeout": "1h30m",
        "cpus": "${var.cpus}",
        "ports": {"http": "${var.port}", "grpc": 1},
        "env": {"A": 1, "B": True},
        "triton": {"flags": {"x": 1.5}},
    }
    assert faults({"version": 1, "name": "${var.env}-a", "containers": {"c": container}}) == []


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"gpu": {}}, "$"),
        ({"gpus": {"g": {"nodes": "a", "select": {"uid": "x"}}}}, "$.gpus.g.select"),
        ({"gpus": {"a b": {"nodes": "a", "select": "all"}}}, "$.gpus"),
        ({"containers": {"c": {"nodes": "a", "shm_size": "64 mebibytes"}}}, "$.containers.c.shm_size"),
        ({"containers": {"c": {"nodes": "a", "ports": {"http": 70000}}}}, "$.containers.c.ports"),
        ({"containers": {"c": {"nodes": "a", "triton": None}}}, "$.containers.c.triton"),
        ({"containers": {"c": {"image": "x"}}}, "$.containers.c"),
        ({"models": {"m": {"source": "m", "containers": []}}}, "$.models.m.containers"),
        ({"version": 2}, "$.version"),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(section: dict[str, object], path: str) -> None:
    assert faults({"version": 1, "name": "a", **section}) == [path]
