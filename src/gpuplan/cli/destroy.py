"""`gpuplan destroy`: removes what this plan file made, and nothing else."""

from __future__ import annotations

from gpuplan.cli.inputs import (
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
    """Show what this plan file made, ask for confirmation, and remove it.

    Unmanaged resources are left alone.
    """
    from gpuplan.cli.change_sets import apply_change_set, check_approval, make_change_set
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import read_inputs

    approval = check_approval(auto_approve, allow, as_json, verbose)
    console = Console(as_json)
    inputs = read_inputs(plan, inventory, var, var_file, check_nodes=False)
    change_set = make_change_set(inputs, console, target, destroy=True)
    return apply_change_set(change_set, inputs.inventory, approval, console, partial=bool(target))
