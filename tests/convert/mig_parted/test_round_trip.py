"""What is exported and imported again means the same slices on the same GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.convert.mig_parted.export_config import as_text, counts_of, export_configs
from gpuplan.convert.mig_parted.file import MOST, chosen, read_mig_parted
from gpuplan.convert.mig_parted.gpus_section import gpus_section
from gpuplan.nvidia.boards import BOARDS
from gpuplan.planfile.load import load_plan
from gpuplan.planfile.schema import PlanFile
from tests.conftest import examples

PROFILES = sorted({profile.name for board in BOARDS for profile in board.profiles})
Mig = str | dict[str, object]


@st.composite
def slices(draw: st.DrawFn) -> dict[str, object]:
    """A `mig:` section; no device more often than any board has it."""
    found: dict[str, object] = {}
    for number, profile in enumerate(draw(st.lists(st.sampled_from(PROFILES), max_size=5, unique=True))):
        count = draw(st.integers(1, MOST))
        size = int(profile.partition("g")[0])
        parts = draw(st.lists(st.integers(1, size), max_size=size))
        while sum(parts) > size:
            parts.pop()
        if parts:
            found[f"s{number}"] = {"profile": profile, "compute": [f"{part}c" for part in parts]}
        else:
            found[f"s{number}"] = {"profile": profile, "count": count}
    return found


MIGS = st.one_of(st.just("disabled"), slices())
GPUS = st.one_of(
    MIGS.map(lambda mig: {"every": ("all", mig)}),
    st.dictionaries(st.integers(0, 15), MIGS, min_size=1, max_size=5).map(
        lambda found: {f"gpu{index}": ({"index": index}, mig) for index, mig in found.items()}
    ),
)


def meaning(plan: PlanFile) -> Mapping[object, object]:
    """Selected GPU → its devices, counted."""
    found = {}
    for name, gpu in plan.gpus.items():
        counts, faults = counts_of(name, gpu, plan, None)
        assert not faults
        key = gpu.select if gpu.select == "all" else gpu.select.index
        assert key not in found
        found[key] = None if counts is None else Counter(counts)
    return found


def load(folder: Path, text: str) -> PlanFile:
    file = folder / "plan.yaml"
    file.write_text(f"version: 1\nname: test\n{text}", "utf-8")
    return load_plan(str(file), environ={})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round")


@pytest.mark.faults
@settings(deadline=None, max_examples=examples(60))
@given(gpus=GPUS)
def test_import_of_export_means_the_same_slices(gpus: Mapping[str, tuple[object, Mig]], folder: Path) -> None:
    stated = {name: {"nodes": "all", "select": select, "mig": mig} for name, (select, mig) in gpus.items()}
    plan = load(folder, yaml.safe_dump({"gpus": stated}, sort_keys=False))
    exported = export_configs(plan, None).configs
    file = folder / "config.yaml"
    file.write_text(as_text(plan.name, exported), "utf-8")
    entries, name = chosen(read_mig_parted(str(file)), "", str(file))
    back = load(folder, gpus_section(entries, name, str(file)))
    assert meaning(back) == meaning(plan)
    again = export_configs(back, None).configs
    assert counted(again["all"]) == counted(exported["all"])


def counted(entries: Sequence[object]) -> Counter[object]:
    return Counter(
        (entry.filters, device, entry.mig_enabled, frozenset(entry.slices.items()))  # type: ignore[attr-defined]
        for entry in entries
        for device in (["all"] if entry.devices == "all" else entry.devices)  # type: ignore[attr-defined]
    )
