"""The desired GPUs: what the plan file states, and which mistakes in it are reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.gpu.desired import GpuSelector, GpuSpec, SliceSpec, decode_spec, spec
from gpuplan.resources.typed import encode
from gpuplan.types.inventory import Host

HOST = Host("n", groups=("a100",))
FIRST = {"index": 0}


def specs(gpu: Any) -> tuple[Sequence[GpuSpec], Sequence[str]]:
    """The specs of a `gpus:` entry, and the summaries of its diagnostics."""
    desired, diagnostics = spec(PlanFile(version=1, name="p", gpus={"g": gpu}), HOST)
    return [decode_spec(resource.spec) for resource in desired], [diagnostic.summary for diagnostic in diagnostics]


def test_slices_keep_their_order_and_a_count_numbers_them() -> None:
    mig = {"z": "3g.40gb", "a": {"profile": "1g.10gb", "count": 2}, "b": {"profile": "1g.10gb+me"}}
    (gpu,), problems = specs({"nodes": "a100", "select": FIRST, "mig": mig})
    assert problems == []
    assert [(slice_.name, slice_.profile) for slice_ in gpu.slices] == [
        ("z", "3g.40gb"), ("a[0]", "1g.10gb"), ("a[1]", "1g.10gb"), ("b", "1g.10gb+me"),
    ]  # fmt: skip


def test_only_the_gpus_of_this_node() -> None:
    assert specs({"nodes": "h100", "select": FIRST}) == ([], [])


def test_memory_and_compute_instances_are_kept_as_stated() -> None:
    mig = {"a": {"memory": "20GiB", "count": 2}, "b": {"profile": "3g.40gb", "compute": ["1c", "2c"]}}
    (gpu,), problems = specs({"nodes": "a100", "select": FIRST, "mig": mig})
    assert problems == []
    assert gpu.slices == (
        SliceSpec("a[0]", memory=20 * 1024**3),
        SliceSpec("a[1]", memory=20 * 1024**3),
        SliceSpec("b", "3g.40gb", compute=(1, 2)),
    )
    assert decode_spec(encode(gpu)) == gpu


@pytest.mark.parametrize("mig", [None, "disabled"])
def test_what_is_not_stated_is_left_alone_and_disabled_is_stated(mig: Any) -> None:
    (gpu,), _ = specs({"nodes": "n", "select": "all", "mig": mig})
    assert gpu == GpuSpec(GpuSelector("all"), mig)


def test_mig_without_slices_is_warned_of() -> None:
    gpus, problems = specs({"nodes": "n", "select": FIRST, "mig": {}})
    assert gpus == [GpuSpec(GpuSelector("index", 0), ())]
    assert problems == ["MIG without slices"]


@pytest.mark.parametrize(
    "profile",
    ["3g.40gb", "1g.10gb+me", "1g.24gb+me.all", "1g.24gb-me", "4g.96gb+gfx", "1c.3g.40gb", "1g", "2g+gfx", "1c.3g"],
)
def test_every_form_of_a_profile_is_read(profile: str) -> None:
    assert specs({"nodes": "n", "select": FIRST, "mig": {"a": profile}})[1] == []


@pytest.mark.parametrize("profile", ["3g.40", "40gb", "4c.3g.40gb", "MIG 3g.40gb", "1g.10gb+me-me", "1c", "19"])
def test_what_is_no_profile_is_reported(profile: str) -> None:
    gpus, problems = specs({"nodes": "n", "select": FIRST, "mig": {"a": profile}})
    assert (gpus, problems) == ([], ["Not the name of a MIG profile"])


@pytest.mark.parametrize(
    "damaged",
    [
        {"mig": "disabled"},
        {"select": None},
        {"select": {"key": "serial", "value": "x"}},
        {"select": {"key": "all"}, "mig": "enabled"},
        {"select": {"key": "all"}, "mig": ["3g.40gb"]},
    ],
)
def test_a_damaged_spec_is_refused(damaged: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        decode_spec(damaged)
