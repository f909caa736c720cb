"""`gpuplan destroy`: removes what this plan file made, and nothing else."""

from __future__ import annotations

from gpuplan.cli.options import (
    Allow,
    AsJson,
    AutoApprove,
    InventoryPath,
    PlanPath,
    Targets,
    VariableFiles,
    Variables,
    Verbose,
)


def destroy(
    plan: PlanPath,
    inventory: InventoryPath = "",
    target: Targets = None,
    var: Variables = None,
    var_file: VariableFiles = None,
    auto_approve: AutoApprove = False,
    allow: Allow = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Show what this plan file made, ask, and remove it.

    What gpuplan did not make stays as it is.
    """
    from gpuplan.cli import carrying_out, planning
    from gpuplan.cli.inputs import read_inputs
    from gpuplan.cli.voice import Voice

    given = carrying_out.consent(auto_approve, allow, as_json, verbose)
    voice = Voice(as_json)
    inputs = read_inputs(plan, inventory, var, var_file, fitting=False)
    change_set = planning.make(inputs, voice, target, destroy=True)
    return carrying_out.carry_out(change_set, inputs.inventory, given, voice, partial=bool(target))
