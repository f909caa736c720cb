"""`gpuplan plan`: reads the nodes and shows the change set."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.cli.inputs import (
    AsJson,
    InventoryPath,
    Only,
    PlanPath,
    Replace,
    Targets,
    VariableFiles,
    Variables,
    Verbose,
)
from gpuplan.types.diagnostic import Exit


def plan(
    plan: PlanPath,
    inventory: InventoryPath = "",
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Save the change set to this file, for gpuplan apply FILE.")
    ] = "",
    target: Targets = None,
    only: Only = None,
    replace: Replace = None,
    var: Variables = None,
    var_file: VariableFiles = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with code 2 if there are changes.")
    ] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> Exit:
    """Read the nodes and show what apply would change.

    Changes nothing and takes no lock.
    """
    from gpuplan.cli import saved_file
    from gpuplan.cli.change_sets import make_change_set, show_change_set
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import check_kinds, read_inputs
    from gpuplan.core.plan.guards import refusals
    from gpuplan.core.run import plan_exit_code
    from gpuplan.output.json import change_set_document
    from gpuplan.output.page import paragraph

    console = Console(as_json)
    if out:
        saved_file.refuse_to_overwrite(out)
    kinds = check_kinds(only)
    inputs = read_inputs(plan, inventory, var, var_file)
    change_set = make_change_set(inputs, console, target, kinds, force_replace=replace)
    code = plan_exit_code(change_set, detailed_exitcode)
    show_change_set(change_set, console, partial=bool(target or kinds), verbose=verbose)
    refused = refusals(change_set, ())
    console.report(refused)
    if refused and code in (Exit.DONE, Exit.CHANGES):
        code = Exit.REFUSED
    if out and code is not Exit.ERROR:
        saved_file.write_change_set(out, change_set, inventory)
        note = "Saved, but a guard refuses to apply it" if refused else "Saved. To apply exactly these changes, run"
        console.show([paragraph(f"{note}: gpuplan apply {out}")])
    console.print_document({**change_set_document(change_set), "inventory": inventory}, code)
    return code
