"""The specs of models in external repositories, of overrides, and of declared memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuplan.planfile.load import load_plan
from gpuplan.planfile.sources.repositories import laid_over
from gpuplan.resources.model.desired import desired_models
from gpuplan.resources.model.spec import (
    InstanceGroup,
    ModelSpec,
    SliceSize,
    instance_groups,
    model_spec,
    replaces_overrides,
)
from gpuplan.types.inventory import Host
from gpuplan.types.value import JsonObject

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
REPORTED: JsonObject = {
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


def specs(folder: Path, models: str) -> dict[str, ModelSpec]:
    """The spec of each model, by container/model."""
    (folder / "plan.yaml").write_text(PLAN + models)
    desired, faults = desired_models(load_plan(str(folder / "plan.yaml"), environ={}), Host("n"))
    assert list(faults) == []
    return {each.address.name: model_spec(each.spec) for each in desired}


def test_one_model_on_two_servers_has_two_overrides(tmp_path: Path) -> None:
    models = specs(
        tmp_path,
        "  a:\n    containers: [one, four]\n    config: { max_batch_size: 8 }\n"
        "    overrides: { four: { instance_group: [{ count: 4 }] } }\n",
    )
    assert models["one/a"].overrides == ({"max_batch_size": 8},)
    assert models["four/a"].overrides == ({"max_batch_size": 8}, {"instance_group": [{"count": 4}]})
    assert models["one/a"].content != models["four/a"].content
    assert {each.repository for each in models.values()} == {"/mnt/models"}


def test_versions_are_numbers_only_if_they_are_listed(tmp_path: Path) -> None:
    models = specs(
        tmp_path,
        "  a: { containers: [one], versions: [3, 1] }\n  b: { containers: [one], versions: latest 2 }\n"
        "  c: { containers: [one] }\n",
    )
    assert [models[f"one/{name}"].versions for name in "abc"] == [(1, 3), (), ()]
    assert models["one/b"].overrides == ({"version_policy": {"latest": {"num_versions": 2}}},)
    assert (models["one/c"].overrides, models["one/c"].content) == ((), "")


def test_the_budget_has_the_memory_and_the_devices_of_a_model(tmp_path: Path) -> None:
    models = specs(tmp_path, "  a: { containers: [one, four], memory: 2.5GiB }\n")
    small, large = models["one/a"].budget, models["four/a"].budget
    assert small is not None
    assert large is not None
    assert (small.memory, small.devices, small.slices) == (5 << 29, ("g/s",), {"g/s": SliceSize(profile="1g.10gb")})
    assert (large.devices, large.slices, large.overcommit) == (("h0", "h1"), {}, True)
    assert [replace(models["four/a"], versions=(1, 2)).memory_on(number) for number in (0, 1)] == [10 << 29, 10 << 29]


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
    assert instance_groups({}) == (InstanceGroup(1),)
    assert instance_groups({"instance_group": [{"count": 3, "kind": "KIND_CPU"}]}) == ()
    groups = instance_groups({"instance_group": [{"count": 2}, {"gpus": [1]}]})
    assert groups == (InstanceGroup(2), InstanceGroup(1, (1,)))
    assert instance_groups({"platform": "ensemble"}) == ()


def test_overrides_replace_others_only_if_nothing_of_them_remains() -> None:
    before: list[JsonObject] = [{"dynamic_batching": {"max_queue_delay_microseconds": 5}, "max_batch_size": 4}]
    assert replaces_overrides([*before, {"instance_group": []}], before)
    assert replaces_overrides(
        [{"max_batch_size": 1}, {"dynamic_batching": {"max_queue_delay_microseconds": 1}}], before
    )
    assert not replaces_overrides([{"max_batch_size": 1}], before)
    assert not replaces_overrides([{"max_batch_size": 1, "dynamic_batching": {"preserve_ordering": True}}], before)


def test_a_server_with_few_threads_takes_few_loads_at_once(tmp_path: Path) -> None:
    for threads, loads in ((1, 1), (2, 1), (4, 3)):
        flags = f"triton: {{ repository: /mnt/models, flags: {{ http-thread-count: {threads} }} }}"
        text = PLAN.replace("triton: { repository: /mnt/models }", flags) + "  a: { containers: [one, four] }\n"
        (tmp_path / "plan.yaml").write_text(text)
        desired, _ = desired_models(load_plan(str(tmp_path / "plan.yaml"), environ={}), Host("n"))
        models = {each.address.name: model_spec(each.spec).max_parallel for each in desired}
        assert models == {"one/a": loads, "four/a": 0}
