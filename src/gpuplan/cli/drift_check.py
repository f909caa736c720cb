"""`gpuplan drift-check`: reports what changed on the nodes since the last apply; for cron."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.cli.inputs import AsJson, InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Exit


def drift_check(
    plan: PlanPath,
    inventory: InventoryPath = "",
    var: Variables = None,
    var_file: VariableFiles = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also report nodes that are in sync.")] = False,
    as_json: AsJson = False,
) -> Exit:
    """Report what changed on the nodes since the last apply.

    Changes nothing and takes no lock. Prints nothing if all nodes are in sync, so that cron sends no mail.
    """
    import os

    from gpuplan.cli.change_sets import all_diagnostics
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import read_inputs
    from gpuplan.cli.interrupt import exit_on_interrupt
    from gpuplan.core.run import drift, drift_exit_code
    from gpuplan.output.drift import render_drift_report
    from gpuplan.output.json import drift_document

    console = Console(as_json)
    inputs = read_inputs(plan, inventory, var, var_file)
    if verbose:
        console.report(inputs.warnings)
    with console.progress(lines=False) as listen, exit_on_interrupt():
        report = drift(inputs.plan, inputs.inventory, environ=os.environ, base_dir=inputs.base_dir, listen=listen)
    console.show(render_drift_report(report, verbose))
    console.report([*report.diagnostics, *all_diagnostics(report.nodes)])
    code = drift_exit_code(report)
    console.print_document(drift_document(report), code)
    return code
