"""A GPU as the section that leaves it as it is: its name, slices and settings, and what is omitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuplan.resources.gpu.describe import describe
from gpuplan.resources.gpu.observed import ComputeInstance, GpuInstance, MigProfile, ObservedGpu, PowerLimitRange
from gpuplan.types.snapshot import ProbeError

PROFILES = (
    MigProfile(9, "3g.40gb", 3, 40192, 2, ((0, 4), (4, 4))),
    MigProfile(19, "1g.10gb", 1, 9728, 7, tuple((start, 1) for start in range(7))),
    MigProfile(20, "1g.10gb+me", 1, 9728, 1, tuple((start, 1) for start in range(7))),
)
WHOLE = ObservedGpu(
    0, "GPU-a", "07:00.0", "NVIDIA A100-SXM4-80GB", mig_supported=True, mig_enabled=False, mig_pending=False,
    profiles=PROFILES, instances=(), processes=(),
)  # fmt: skip
CUT = replace(WHOLE, mig_enabled=True, mig_pending=True)
HALF = GpuInstance(1, 9, "3g.40gb", 4, 4, (ComputeInstance(0, 3, "MIG-h"),))
SMALL = GpuInstance(7, 20, "1g.10gb+me", 0, 1, (ComputeInstance(0, 1, "MIG-s"),))


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-0"),
        ("NVIDIA H100 80GB HBM3", "h100-0"),
        ("NVIDIA A30", "a30-0"),
        ("Tesla T4", "t4-0"),
        ("NVIDIA GeForce RTX 4090", "rtx4090-0"),
        ("NVIDIA RTX A6000", "rtxa6000-0"),
        ("Graphics Device", "gpu-0"),
        ("", "gpu-0"),
    ],
)
def test_its_name_is_that_of_its_board(product: str, name: str) -> None:
    assert describe(replace(WHOLE, name=product)).name == name


def test_slices_state_where_they_begin() -> None:
    found = describe(replace(CUT, instances=(HALF, SMALL)))
    assert found.section["mig"] == {
        "1g-me-0": {"profile": "1g.10gb+me", "start": 0},
        "3g-4": {"profile": "3g.40gb", "start": 4},
    }
    assert found.devices == {"GPU-a": "", "MIG-s": "1g-me-0", "MIG-h": "3g-4"}
    assert found.omitted == ()


def test_several_compute_instances_are_parts() -> None:
    both = (ComputeInstance(0, 1, "MIG-x"), ComputeInstance(1, 2, "MIG-y"))
    found = describe(replace(CUT, instances=(replace(HALF, compute_instances=both),)))
    assert found.section["mig"] == {"3g-4": {"profile": "3g.40gb", "start": 4, "compute": ["1c", "2c"]}}
    assert found.devices == {"GPU-a": "", "MIG-x": "3g-4/0", "MIG-y": "3g-4/1"}


def test_a_slice_without_a_compute_instance_is_omitted() -> None:
    found = describe(replace(CUT, instances=(replace(HALF, compute_instances=()), SMALL)))
    assert list(found.section["mig"]) == ["1g-me-0"]
    assert found.omitted == ("the slice 3g.40gb at 4 has no compute instance",)


@pytest.mark.parametrize(
    ("gpu", "omitted"),
    [
        (replace(WHOLE, mig_pending=True), "its MIG mode changes with the next reset, so it is left alone"),
        (replace(CUT, instances=ProbeError("timeout", "too slow")), "cannot read its slices: too slow"),
    ],
)
def test_what_is_uncertain_is_omitted(gpu: ObservedGpu, omitted: str) -> None:
    found = describe(gpu)
    assert "mig" not in found.section
    assert found.omitted == (omitted,)


def test_usual_settings_are_omitted() -> None:
    limits = PowerLimitRange(400_000, 100_000, 400_000)
    usual = {"persistence_mode": False, "power_limit_mw": 400_000, "compute_mode": "default"}
    plain = describe(replace(WHOLE, power_limits=limits, settings=usual))
    assert plain.section == {"select": {"index": 0}, "mig": "disabled"}
    changed = {"persistence_mode": True, "power_limit_mw": 350_500, "compute_mode": "exclusive_process"}
    other = describe(replace(WHOLE, power_limits=limits, settings=changed))
    assert other.section == {
        "select": {"index": 0}, "mig": "disabled", "persistence_mode": True, "power_limit": "350.5W",
        "compute_mode": "exclusive_process",
    }  # fmt: skip


def test_mig_is_omitted_for_a_gpu_without_it() -> None:
    assert describe(replace(WHOLE, mig_supported=False, profiles=())).section == {"select": {"index": 0}}
