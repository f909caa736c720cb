"""`gpuplan smoke` on simulated nodes: what is asked, what it says, and its exit codes."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.cli.smoke import MAX_OPEN_FILES, raise_open_files_limit
from tests.cli.command import Command

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"
CONFIG = """
backend: "python"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
CODE = """
class TritonPythonModel:
    def execute(self, requests):
        return []
"""
PLAN: dict[str, Any] = {
    "version": 1,
    "name": "smoky",
    "containers": {"triton": {"nodes": "all", "image": IMAGE, "ports": {"http": 8000}, "triton": {}}},
    "models": {
        "good": {"source": "m", "containers": ["triton"], "smoke": True},
        "bad": {"source": "m", "containers": ["triton"], "smoke": {"outputs": {"OUT": 0}}},
        "plain": {"source": "m", "containers": ["triton"]},
    },
}
ON = ("plan.yaml", "-i", "inv.yaml")


def inventory(**faults: list[dict[str, Any]]) -> None:
    """Two nodes; `faults` by node, with an underscore for the hyphen."""
    simulated = {"ansible_connection": "simulated"}
    hosts = {
        node: {
            **simulated,
            "gpuplan_simulated": {"gpus": [{"model": "A30"}], "images": [IMAGE], "faults": faults.get(node, [])},
        }
        for node in ("n1", "n2")
    }
    Path("inv.yaml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))


@pytest.fixture(autouse=True)
def applied(_alone: None, command: Command) -> None:
    for path, text in (("m/config.pbtxt", CONFIG), ("m/1/model.py", CODE)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    Path("plan.yaml").write_text(yaml.safe_dump(PLAN, sort_keys=False))
    inventory()
    ran = command("apply", *ON, "--auto-approve")
    assert ran.code == 0, ran.err


def answered(command: Command, *argv: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the proofs by address."""
    ran = command("smoke", *ON, "--json", *argv)
    document = json.loads(ran.out)
    assert document["kind"] == "gpuplan smoke"
    return ran.code, {proof["address"]: proof for node in document["nodes"] for proof in node["proofs"]}


def test_all_that_have_a_smoke_section_are_asked(command: Command) -> None:
    ran = command("smoke", *ON)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("version 1") == 4
    assert "Smoke: 4 models answered on 2 nodes." in ran.out
    code, proofs = answered(command)
    assert code == 0
    assert set(proofs) == {f"{node}/model/triton/{model}" for node in ("n1", "n2") for model in ("good", "bad")}


def test_what_is_named_is_asked_and_targets_confine(command: Command) -> None:
    _, proofs = answered(command, "--model", "plain", "--target", "n2/*")
    assert set(proofs) == {"n2/model/triton/plain"}
    _, proofs = answered(command, "--all", "--target", "n1/*")
    assert len(proofs) == 3


def test_many_requests_have_percentiles(command: Command) -> None:
    code, proofs = answered(command, "--model", "good", "--requests", "30", "--concurrency", "4")
    assert code == 0
    for proof in proofs.values():
        assert (proof["requests"], proof["failed"], proof["concurrency"]) == (30, 0, 4)
        times = [proof["latency_ms"][name] for name in ("p50", "p90", "p95", "p99", "max")]
        assert times == sorted(times)
        assert proof["per_second"] > 0
    ran = command("smoke", *ON, "--model", "good", "--requests", "30")
    assert "p50" in ran.out


def test_one_that_fails_is_named_with_the_servers_words(command: Command) -> None:
    inventory(n2=[{"infer": "bad", "says": "out of memory"}])
    ran = command("smoke", *ON)
    assert ran.code == 1
    assert "1 of 4 models failed on 2 nodes" in ran.out
    assert "n2/model/triton/bad" in ran.err
    assert "asked with IN FP32 [1, 1]: out of memory." in " ".join(ran.err.replace("│", "").split())


def test_a_node_that_cannot_be_read_is_told_and_the_others_are_asked(command: Command) -> None:
    inventory(n1=[{"refuse": "no route to host"}])
    ran = command("smoke", *ON)
    assert ran.code == 4
    assert "no route to host" in ran.err
    assert "n2" in ran.out
    assert "1 node could not be read" in ran.out


def test_another_smoke_is_no_change(command: Command) -> None:
    changed = {**PLAN, "models": {**PLAN["models"], "plain": {**PLAN["models"]["plain"], "smoke": True}}}
    Path("plan.yaml").write_text(yaml.safe_dump(changed, sort_keys=False))
    assert command("plan", *ON, "--detailed-exitcode").code == 0
    assert command("drift-check", *ON).code == 0


def test_nothing_to_ask_and_names_that_are_not_there_are_wrong_usage(command: Command) -> None:
    ran = command("smoke", *ON, "--model", "god")
    assert ran.code == 64
    assert "Its models are: good, bad, plain." in ran.err
    assert command("smoke", *ON, "--model", "good", "--model", "god").code == 64  # nobody is to think that it answered
    assert command("smoke", *ON, "--target", "n9/*").code == 64
    assert command("smoke", *ON, "--requests", "0").code == 64
    assert command("smoke", *ON, "--protocol", "udp").code == 64


def test_a_smoke_that_does_not_fit_is_told_at_its_place(command: Command) -> None:
    wrong = {**PLAN["models"], "good": {**PLAN["models"]["good"], "smoke": {"inputs": {"INN": 1}, "batch": 9}}}
    Path("plan.yaml").write_text(yaml.safe_dump({**PLAN, "models": wrong}, sort_keys=False))
    for verb in (("validate", "plan.yaml"), ("validate", *ON), ("plan", *ON), ("smoke", *ON)):
        ran = command(*verb)
        assert ran.code == 1, verb
        assert "good has no input INN." in ran.err
        assert "batch is 9, but good takes at most 4." in ran.err
        assert "plan.yaml:" in ran.err


def test_the_usual_limit_of_open_files_is_lifted() -> None:
    """Four for each request in flight, on every node at once, are soon more than a shell allows."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_open_files_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert hard == before[1]
    assert soft > 256
    assert soft in (MAX_OPEN_FILES, hard)
