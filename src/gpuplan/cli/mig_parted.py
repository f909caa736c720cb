"""`gpuplan import mig-parted` and `gpuplan export mig-parted`: MIG layouts from and to NVIDIA's mig-parted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.inputs import InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

if TYPE_CHECKING:
    from gpuplan.nvidia.boards import Board


def import_mig_parted(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Config file of mig-parted.", show_default=False)],
    config: Annotated[
        str, typer.Option("--config", metavar="NAME", help="Config to convert. Required if the file has several.")
    ] = "",
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="NODES", help="Node, group or glob that the config applies to.")
    ] = "",
) -> Exit:
    """Print a config of mig-parted as the gpus section of a plan file.

    The file is parsed as strictly as mig-parted does. A device filter becomes a group of nodes.
    """
    from gpuplan.convert.mig_parted.file import chosen, read_mig_parted
    from gpuplan.convert.mig_parted.gpus_section import gpus_section

    entries, name = chosen(read_mig_parted(file), config, file)
    print(gpus_section(entries, name, file, nodes), end="")
    return Exit.DONE


def export_mig_parted(
    plan: PlanPath,
    inventory: InventoryPath = "",
    var: Variables = None,
    var_file: VariableFiles = None,
    board: Annotated[
        str, typer.Option("--board", metavar="NAME", help="GPU product to assume for GPUs not selected by model.")
    ] = "",
) -> Exit:
    """Print the MIG slices of a plan file as a config file of mig-parted.

    Writes one config per class of nodes, and warns about what mig-parted cannot express. No node is contacted.
    """
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import read_inputs, read_plan_file
    from gpuplan.convert.mig_parted.export_config import as_text, export_configs

    console = Console()
    hosts = None
    if inventory:
        inputs = read_inputs(plan, inventory, var, var_file)
        plan_file, hosts = inputs.plan, inputs.inventory.hosts
        console.report(inputs.warnings)
    else:
        plan_file = read_plan_file(plan, var, var_file)
    export = export_configs(plan_file, hosts, _find_board(board))
    console.report(export.warnings)
    print(as_text(plan_file.name, export.configs, export.hosts), end="")
    return Exit.DONE


def _find_board(name: str) -> Board | None:
    from gpuplan.nvidia.boards import BOARDS, find_board

    board = find_board(name) if name else None
    if name and board is None:
        known = ", ".join(board.catalog_name for board in BOARDS)
        raise Problem(
            Diagnostic("Unknown GPU product", f"--board was given “{name}”.", f"Use one of: {known}."), Exit.USAGE
        )
    return board
