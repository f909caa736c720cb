"""How the cost of a plan grows: ratios within one run, printed and never asserted as times."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuplan.core.run import apply, plan
from gpuplan.inventory import load_inventory
from gpuplan.planfile.load import load_plan
from gpuplan.types.change import ChangeSet
from gpuplan.types.inventory import Inventory

QUICKSTART = Path(__file__).parents[2] / "plans" / "quickstart.yaml"
HOST = """
    gpu-{}:
      ansible_connection: simulated
      gpuplan_simulated: {{ gpus: [{{ model: A100-SXM4-80GB, count: 1 }}], driver: "570.86.15" }}"""


def nodes(folder: Path, many: int) -> Inventory:
    """An inventory of simulated nodes in the group of the quick start."""
    file = folder / f"{many}.yaml"
    file.write_text("a100:\n  hosts:" + "".join(HOST.format(number) for number in range(many)))
    return load_inventory(str(file))


def best(work: Callable[[], ChangeSet], runs: int = 3) -> float:
    """Seconds of the quickest of some runs: what it costs when the machine has nothing else to do."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


@pytest.mark.timeout(600)
def test_a_plan_without_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path))
    plan_file = load_plan(str(QUICKSTART), environ={})
    taken: dict[int, float] = {}
    for many in (1, 4, 16):
        inventory = nodes(tmp_path, many)

        def again(inventory: Inventory = inventory) -> ChangeSet:
            return plan(plan_file, inventory, environ={}, base_dir=QUICKSTART.parent)

        apply(again(), inventory, environ={}, base_dir=QUICKSTART.parent, who="bench")
        taken[many] = best(again)
        assert again().empty
    with capsys.disabled():
        print("\na plan without changes, 13 resources a node:")
        for many, seconds in taken.items():
            print(f"  {many:>3} nodes  {seconds / taken[1]:6.1f} × one node  ({seconds * 1000:.0f} ms)")
