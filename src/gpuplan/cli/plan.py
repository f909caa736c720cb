"""`gpuplan plan`: asks the nodes and shows the change set."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.cli.options import (
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
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Save the change set for gpuplan apply.")] = "",
    target: Targets = None,
    only: Only = None,
    replace: Replace = None,
    var: Variables = None,
    var_file: VariableFiles = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 when there are changes.")
    ] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> Exit:
    """Ask the nodes and show what would change."""
    from gpuplan.cli import planning, saved_file
    from gpuplan.cli.inputs import read_inputs
    from gpuplan.cli.kinds import checked_kinds
    from gpuplan.cli.voice import Voice
    from gpuplan.core.exitcode import of_plan
    from gpuplan.core.plan.guards import refusals
    from gpuplan.output.json_change_set import change_set as whole
    from gpuplan.output.page import paragraph

    voice = Voice(as_json)
    if out:
        saved_file.refuse_to_overwrite(out)
    kinds = checked_kinds(only)
    change_set = planning.make(read_inputs(plan, inventory, var, var_file), voice, target, kinds, anew=replace)
    code = of_plan(change_set, detailed_exitcode)
    planning.show(change_set, voice, partial=bool(target or kinds), verbose=verbose)
    vetoes = refusals(change_set, ())
    voice.tell(vetoes)
    if vetoes and code in (Exit.DONE, Exit.CHANGES):
        code = Exit.REFUSED
    if out and code is not Exit.ERROR:
        saved_file.write(out, change_set, inventory)
        words = "Saved. A guard refuses to apply it" if vetoes else "Saved. To apply exactly this"
        voice.show([paragraph(f"{words}: gpuplan apply {out}")])
    voice.answer({**whole(change_set), "inventory": inventory}, code)
    return code
