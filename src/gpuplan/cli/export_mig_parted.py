"""`gpuplan export mig-parted`: the MIG part of a plan file as a config file of NVIDIA's mig-parted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.options import InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

if TYPE_CHECKING:
    from gpuplan.nvidia.boards import Board


def export_mig_parted(
    plan: PlanPath,
    inventory: InventoryPath = "",
    var: Variables = None,
    var_file: VariableFiles = None,
    board: Annotated[
        str, typer.Option("--board", metavar="NAME", help="What GPUs are that are not selected by model.")
    ] = "",
) -> Exit:
    """Print the plan file's MIG slices as a config file of mig-parted.

    One config for each class of nodes. What mig-parted cannot say is told as warnings. No node is asked.
    """
    from gpuplan.cli.inputs import read_inputs, read_plan_file
    from gpuplan.cli.voice import Voice
    from gpuplan.convert.mig_parted.export_config import as_text, export_configs

    voice = Voice()
    hosts = None
    if inventory:
        inputs = read_inputs(plan, inventory, var, var_file)
        read, hosts = inputs.plan, inputs.inventory.hosts
        voice.tell(inputs.warnings)
    else:
        read = read_plan_file(plan, var, var_file)
    found = export_configs(read, hosts, _board(board))
    voice.tell(found.warnings)
    print(as_text(read.name, found.configs, found.hosts), end="")
    return Exit.DONE


def _board(name: str) -> Board | None:
    from gpuplan.nvidia.boards import BOARDS, find_board

    found = find_board(name) if name else None
    if name and found is None:
        known = ", ".join(board.catalog_name for board in BOARDS)
        detail = f"--board was given “{name}”; the catalog has {known}."
        raise Problem(Diagnostic("The board is not in the catalog", detail), Exit.USAGE)
    return found
