"""mig-parted files that are wrong (faults.yaml), and the choice of a config."""

from pathlib import Path

import pytest
import yaml

from gpuplan.convert.mig_parted.file import chosen, read_mig_parted
from gpuplan.types.diagnostic import Diagnostic, Problem

CASES = yaml.safe_load((Path(__file__).parent / "file_faults.yaml").read_text("utf-8"))
TWO = """
version: v1
mig-configs:
  off: [{ devices: all, mig-enabled: false }]
  on:
    - device-filter: ["0x20B210DE", "0x233010DE:0x16C110DE"]
      devices: [0, 2]
      mig-enabled: true
      mig-devices: { 1c.3g.40gb: 2 }
"""


def told(diagnostic: Diagnostic, file: str) -> str:
    where = str(diagnostic.where).removeprefix(f"{file}:")
    fix = f" | {diagnostic.fix}" if diagnostic.fix else ""
    return f"{where} {diagnostic.summary}: {diagnostic.detail}{fix}"


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_every_fault_is_told_once_and_in_its_place(case: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(str(case["file"]), "utf-8")
    with pytest.raises(Problem) as caught:
        read_mig_parted(str(file))
    assert list(dict.fromkeys(told(one, str(file)) for one in caught.value.diagnostics)) == case["told"]


def test_a_good_file_is_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TWO, "utf-8")
    (entry,), name = chosen(read_mig_parted(str(file)), "on", str(file))
    assert (name, entry.filters, entry.devices) == ("on", ("0x20B210DE", "0x233010DE:0x16C110DE"), (0, 2))
    assert (entry.mig_enabled, dict(entry.slices)) == (True, {"1c.3g.40gb": 2})


@pytest.mark.parametrize(("name", "summary"), [("", "Config not selected"), ("of", "Unknown config")])
def test_of_several_configs_one_is_named(tmp_path: Path, name: str, summary: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TWO, "utf-8")
    with pytest.raises(Problem) as caught:
        chosen(read_mig_parted(str(file)), name, str(file))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.summary.startswith(summary)
    assert diagnostic.fix == "Name one with --config: off, on."
