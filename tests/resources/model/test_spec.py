"""What a plan file makes of models that a server reads from a repository of its own, and of stated memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuplan.planfile.load import load_plan
from gpuplan.planfile.sources.remote import laid_over
from gpuplan.resources.model.desired import desired_models
from gpuplan.resources.model.spec import ModelSpec, groups_of, lays_all_anew, wanted_from
from gpuplan.types.inventory import Host

PLAN = """
version: 1
name: prod
gpus:
  g: { nodes: n, select: { index: 0 }, mig: { s: 1g.10gb, m: { memory: 20GiB } } }
  h0: { nodes: n, select: { index: 1 } }
  h1: { nodes: n, select: { index: 2 } }
containers:
  one: { nodes: n, image: "x:24.10", gpus: [g/s], triton: { repository: /mnt/models } }
  four: { nodes: n, image: "x:24.10", gpus: [h0, h1], triton: { repository: /mnt/models/ , overcommit: true } }
models:
"""
REPORTED = {
    "name": "a",
    "platform": "",
    "backend": "python",
    "version_policy": {"latest": {"num_versions": 1}},
    "max_batch_size": 4,
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [1], "optional": False}],
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1], "label_filename": ""}],
    "instance_group": [{"name": "a_0", "kind": "KIND_CPU", "count": 1, "gpus": [], "host_policy": ""}],
    "default_model_filename": "model.py",
    "parameters": {"theirs": {"string_value": "kept"}},
}


def wanted(folder: Path, models: str) -> dict[str, ModelSpec]:
    """Container/model → what is wanted."""
    (folder / "plan.yaml").write_text(PLAN + models)
    desired, faults = desired_models(load_plan(str(folder / "plan.yaml"), environ={}), Host("n"))
    assert list(faults) == []
    return {each.address.name: wanted_from(each.spec) for each in desired}


def test_one_model_on_two_servers_has_two_overrides(tmp_path: Path) -> None:
    found = wanted(
        tmp_path,
        "  a:\n    containers: [one, four]\n    config: { max_batch_size: 8 }\n"
        "    overrides: { four: { instance_group: [{ count: 4 }] } }\n",
    )
    assert found["one/a"].overlay == ({"max_batch_size": 8},)
    assert found["four/a"].overlay == ({"max_batch_size": 8}, {"instance_group": [{"count": 4}]})
    assert found["one/a"].content != found["four/a"].content
    assert {each.repository for each in found.values()} == {"/mnt/models"}


def test_versions_are_numbers_only_where_they_are_listed(tmp_path: Path) -> None:
    found = wanted(
        tmp_path,
        "  a: { containers: [one], versions: [3, 1] }\n  b: { containers: [one], versions: latest 2 }\n"
        "  c: { containers: [one] }\n",
    )
    assert [found[f"one/{name}"].versions for name in "abc"] == [(1, 3), (), ()]
    assert found["one/b"].overlay == ({"version_policy": {"latest": {"num_versions": 2}}},)
    assert (found["one/c"].overlay, found["one/c"].content) == ((), "")


def test_memory_is_told_with_where_it_is_taken(tmp_path: Path) -> None:
    found = wanted(tmp_path, "  a: { containers: [one, four], memory: 2.5GiB }\n")
    small, large = found["one/a"].budget, found["four/a"].budget
    assert small is not None
    assert large is not None
    assert (small.memory, small.devices, small.slices) == (5 << 29, ("g/s",), {"g/s": {"profile": "1g.10gb"}})
    assert (large.devices, large.slices, large.overcommit) == (("h0", "h1"), {}, True)
    assert [large.on(number, 2) for number in (0, 1)] == [10 << 29, 10 << 29]


def test_the_config_of_a_load_is_whole(tmp_path: Path) -> None:
    given = json.loads(laid_over(REPORTED, [{"instance_group": [{"count": 2, "kind": "KIND_CPU"}]}], "digest"))
    assert given["instance_group"] == [{"kind": "KIND_CPU", "count": 2}]
    assert given["parameters"] == {
        "theirs": {"string_value": "kept"},
        "gpuplan_content": {"string_value": "digest"},
    }
    whole: dict[str, Any] = {key: given[key] for key in ("name", "backend", "max_batch_size", "default_model_filename")}
    assert whole == {key: REPORTED[key] for key in whole}
    assert given["input"] == [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}]


def test_instances_are_counted_where_they_run() -> None:
    assert groups_of({}) == ((1, ()),)
    assert groups_of({"instance_group": [{"count": 3, "kind": "KIND_CPU"}]}) == ()
    assert groups_of({"instance_group": [{"count": 2}, {"gpus": [1]}]}) == ((2, ()), (1, (1,)))
    assert groups_of({"platform": "ensemble"}) == ()


def test_an_override_is_laid_over_another_only_where_nothing_of_that_remains() -> None:
    before = [{"dynamic_batching": {"max_queue_delay_microseconds": 5}, "max_batch_size": 4}]
    assert lays_all_anew([*before, {"instance_group": []}], before)
    assert lays_all_anew([{"max_batch_size": 1}, {"dynamic_batching": {"max_queue_delay_microseconds": 1}}], before)
    assert not lays_all_anew([{"max_batch_size": 1}], before)
    assert not lays_all_anew([{"max_batch_size": 1, "dynamic_batching": {"preserve_ordering": True}}], before)


def test_a_server_of_few_threads_bears_few_loads_at_once(tmp_path: Path) -> None:
    for threads, loads in ((1, 1), (2, 1), (4, 3)):
        flags = f"triton: {{ repository: /mnt/models, flags: {{ http-thread-count: {threads} }} }}"
        text = PLAN.replace("triton: { repository: /mnt/models }", flags) + "  a: { containers: [one, four] }\n"
        (tmp_path / "plan.yaml").write_text(text)
        desired, _ = desired_models(load_plan(str(tmp_path / "plan.yaml"), environ={}), Host("n"))
        found = {each.address.name: wanted_from(each.spec).abreast for each in desired}
        assert found == {"one/a": loads, "four/a": 0}
