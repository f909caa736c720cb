"""Hardware from the inventory: known boards only, the same node each time."""

from __future__ import annotations

import pytest

from gpuplan.nvidia.boards import BOARDS
from gpuplan.simulator.hardware import make_node, open_store
from gpuplan.simulator.state import board_of
from gpuplan.types.diagnostic import Problem
from gpuplan.types.inventory import Connection, Host
from tests.simulator.conftest import host


def told(stated: Host) -> list[str]:
    """The details of what is wrong."""
    with pytest.raises(Problem) as problem:
        open_store(stated)
    return [f"{diagnostic.detail} {diagnostic.fix}" for diagnostic in problem.value.diagnostics]


def test_the_same_node_has_the_same_gpus() -> None:
    hardware = {"gpus": [{"model": "A30", "count": 2}], "driver": "570.86.15", "images": []}
    first, second = make_node("n", hardware), make_node("n", hardware)
    assert [gpu.uuid for gpu in first.gpus] == [gpu.uuid for gpu in second.gpus]
    assert len({gpu.uuid for gpu in first.gpus} | {make_node("m", hardware).gpus[0].uuid}) == 3
    assert [gpu.pci for gpu in first.gpus] == ["00000000:07:00.0", "00000000:0F:00.0"]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.catalog_name)
def test_every_board_of_the_catalog_can_be_simulated(board: object) -> None:
    for name in (board.catalog_name, board.product_name):
        (gpu,) = open_store(host(name)).read().gpus
        assert board_of(gpu) is board


def test_an_unknown_board_names_the_nearest() -> None:
    (said,) = told(host("A100-80GB"))
    assert "no board 'A100-80GB'" in said
    assert "A100-SXM4-80GB" in said


def test_all_faults_at_once() -> None:
    bad = {"gpus": [{"model": "nothing", "count": 0}], "images": ["nowhere/at:all"], "cpus": 4}
    assert len(told(Host("sim", Connection.SIMULATED, simulated=bad))) == 4


def test_a_name_that_is_a_path_is_refused() -> None:
    (said,) = told(host(name="../up"))
    assert "cannot become a directory" in said


def test_too_many_gpus() -> None:
    (said,) = told(host(count=17))
    assert "at most 16" in said


def test_other_hardware_is_another_node() -> None:
    store = open_store(host(count=1))
    (said,) = told(host(count=2))
    assert str(store.directory) in said
    assert open_store(host(count=1)).read().gpus == store.read().gpus


def test_faults_are_not_hardware() -> None:
    open_store(host())
    assert open_store(host(faults=[{"hang": "gpu"}])).exists


def test_images_are_there_from_the_beginning() -> None:
    (image,) = open_store(host(images=["busybox:1.36"])).read().images
    assert image.tags == ["busybox:1.36"]


@pytest.mark.parametrize(("driver", "cuda"), [("570.86.15", "12.8"), ("535.104.05", "12.2"), ("450.80.02", "11.0")])
def test_the_driver_brings_its_cuda(driver: str, cuda: str) -> None:
    state = open_store(host(driver=driver)).read()
    assert (state.driver, state.cuda) == (driver, cuda)
