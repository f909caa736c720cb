"""Files of mig-parted through the real command: out, in, and what is told on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command

PLAN = """
version: 1
name: prod
gpus:
  a: { nodes: a100, select: { index: 0 }, mig: { big: 4g.40gb, small: { profile: 1g.10gb, count: 2 } } }
  b: { nodes: a100, select: { uuid: GPU-1 }, mig: disabled }
"""
TWO = """
version: v1
mig-configs:
  off: [{ devices: all, mig-enabled: false }]
  on: [{ device-filter: "0x20B210DE", devices: all, mig-enabled: true, mig-devices: { 1g.10gb+me: 1, 1c.3g.40gb: 3 } }]
"""


def test_out_and_in_again(command: Command) -> None:
    Path("plan.yaml").write_text(PLAN)
    out = command("export", "mig-parted", "plan.yaml")
    assert out.code == 0
    assert '    - devices: [0]\n      mig-enabled: true\n      mig-devices:\n        "4g.40gb": 1\n' in out.out
    assert "Warning: Slice names are lost" in out.err
    assert "Warning: GPU left out of the export" in out.err
    Path("config.yaml").write_text(out.out)
    back = command("import", "mig-parted", "config.yaml", "--nodes", "a100")
    assert (back.code, back.err) == (0, "")
    Path("again.yaml").write_text(f"version: 1\nname: again\n{back.out}")
    assert command("validate", "again.yaml").code == 0


def test_a_device_filter_becomes_a_group_of_nodes(command: Command) -> None:
    Path("config.yaml").write_text(TWO)
    ran = command("import", "mig-parted", "config.yaml", "--config", "on")
    assert ran.out.endswith(
        """gpus:
  # device-filter 0x20B210DE: A100-SXM4-80GB
  a100-80gb:
    nodes: a100-80gb  # the nodes with these boards
    select: all
    mig:
      1g.10gb.me: 1g.10gb+me
      3g.40gb.shared-0: { profile: 3g.40gb, compute: [1c, 1c, 1c] }
"""
    )
    Path("plan.yaml").write_text(f"version: 1\nname: imported\n{ran.out}")
    assert command("validate", "plan.yaml").code == 0


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["import", "mig-parted", "config.yaml"], 1, "off, on"),
        (["import", "mig-parted", "config.yaml", "--config", "of"], 1, "off, on"),
        (["import", "mig-parted", "nowhere.yaml"], 1, "Cannot read"),
        (["import", "nothing"], 64, "nothing"),
        (["export", "mig-parted"], 64, "Missing argument"),
        (["export", "mig-parted", "plan.yaml", "--board", "Voodoo2"], 64, "A100-SXM4-80GB"),
    ],
)
def test_what_goes_wrong_is_told(command: Command, argv: list[str], code: int, says: str) -> None:
    Path("config.yaml").write_text(TWO)
    Path("plan.yaml").write_text(PLAN)
    ran = command(*argv)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err
