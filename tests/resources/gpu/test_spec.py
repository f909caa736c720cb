"""The spec door: what the plan file says of GPUs, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.gpu.desired import read_spec, spec
from gpuplan.types.inventory import Host

HOST = Host("n", groups=("a100",))


def said(gpu: Any) -> tuple[list[Any], list[str]]:
    desired, diagnostics = spec(PlanFile(version=1, name="p", gpus={"g": gpu}), HOST)
    return [each.spec for each in desired], [each.summary for each in diagnostics]


def test_slices_keep_their_order_and_a_count_numbers_them() -> None:
    mig = {"z": "3g.40gb", "a": {"profile": "1g.10gb", "count": 2}, "b": {"profile": "1g.10gb+me"}}
    (stated,), faults = said({"nodes": "a100", "select": {"index": 0}, "mig": mig})
    assert faults == []
    assert [(each["name"], each["profile"]) for each in stated["mig"]] == [
        ("z", "3g.40gb"), ("a[0]", "1g.10gb"), ("a[1]", "1g.10gb"), ("b", "1g.10gb+me"),
    ]  # fmt: skip


def test_only_the_gpus_of_this_node() -> None:
    assert said({"nodes": "h100", "select": {"index": 0}}) == ([], [])


def test_memory_and_compute_instances_are_kept_as_stated() -> None:
    mig = {"a": {"memory": "20GiB", "count": 2}, "b": {"profile": "3g.40gb", "compute": ["1c", "2c"]}}
    (stated,), faults = said({"nodes": "a100", "select": {"index": 0}, "mig": mig})
    assert faults == []
    assert stated["mig"] == [
        {"name": "a[0]", "memory": 20 * 1024**3},
        {"name": "a[1]", "memory": 20 * 1024**3},
        {"name": "b", "profile": "3g.40gb", "compute": [1, 2]},
    ]
    assert read_spec(stated).to_json() == stated


@pytest.mark.parametrize("mig", [None, "disabled"])
def test_what_is_not_stated_is_left_alone_and_disabled_is_stated(mig: str | None) -> None:
    (stated,), _ = said({"nodes": "n", "select": "all", "mig": mig})
    assert stated == {"select": "all", "mig": mig}


def test_mig_without_slices_is_warned_of() -> None:
    stated, faults = said({"nodes": "n", "select": {"index": 0}, "mig": {}})
    assert stated == [{"select": {"index": 0}, "mig": []}]
    assert faults == ["MIG without slices"]


@pytest.mark.parametrize(
    "profile",
    ["3g.40gb", "1g.10gb+me", "1g.24gb+me.all", "1g.24gb-me", "4g.96gb+gfx", "1c.3g.40gb", "1g", "2g+gfx", "1c.3g"],
)
def test_every_form_of_a_profile_is_read(profile: str) -> None:
    assert said({"nodes": "n", "select": {"index": 0}, "mig": {"a": profile}})[1] == []


@pytest.mark.parametrize("profile", ["3g.40", "40gb", "4c.3g.40gb", "MIG 3g.40gb", "1g.10gb+me-me", "1c", "19"])
def test_what_is_no_profile_is_told(profile: str) -> None:
    stated, faults = said({"nodes": "n", "select": {"index": 0}, "mig": {"a": profile}})
    assert (stated, faults) == ([], ["Not the name of a MIG profile"])


@pytest.mark.parametrize(
    "damaged",
    [
        {"select": None, "mig": None},
        {"select": {"index": 0, "uuid": "x"}, "mig": None},
        {"select": {"serial": "x"}, "mig": None},
        {"select": "all", "mig": "enabled"},
        {"select": "all", "mig": ["3g.40gb"]},
    ],
)
def test_a_damaged_spec_is_refused(damaged: Any) -> None:
    with pytest.raises(ValueError, match="not "):
        read_spec(damaged)
