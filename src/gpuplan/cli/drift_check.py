"""`gpuplan drift-check`: says what changed on the nodes since the last apply; for cron."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.cli.options import AsJson, InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Exit


def drift_check(
    plan: PlanPath,
    inventory: InventoryPath = "",
    var: Variables = None,
    var_file: VariableFiles = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also say that all is well.")] = False,
    as_json: AsJson = False,
) -> Exit:
    """Tell what changed on the nodes since the last apply.

    Changes nothing and takes no lock. Says nothing when all is well, so that cron only writes when there is news.
    """
    import os

    from gpuplan.cli.inputs import read_inputs
    from gpuplan.cli.interrupt import leaving_at_once
    from gpuplan.cli.planning import problems
    from gpuplan.cli.voice import Voice
    from gpuplan.core.exitcode import of_report
    from gpuplan.core.run import drift
    from gpuplan.output.findings import report as page
    from gpuplan.output.json import report as document

    voice = Voice(as_json)
    inputs = read_inputs(plan, inventory, var, var_file)
    if verbose:
        voice.tell(inputs.warnings)
    with voice.progress(lines=False) as listen, leaving_at_once():
        report = drift(inputs.plan, inputs.inventory, environ=os.environ, base_dir=inputs.base_dir, listen=listen)
    voice.show(page(report, verbose))
    voice.tell([*report.diagnostics, *problems(report.nodes)])
    code = of_report(report)
    voice.answer(document(report), code)
    return code
