"""`gpuplan validate` and `gpuplan schema`: what can be said of a plan file without reading a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.inputs import AsJson, InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Severity

if TYPE_CHECKING:
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import Inputs
    from gpuplan.planfile.schema import PlanFile


def validate(
    plan: PlanPath,
    inventory: InventoryPath = "",
    var: Variables = None,
    var_file: VariableFiles = None,
    as_json: AsJson = False,
) -> Exit:
    """Check a plan file and report all errors at once.

    With an inventory, the plan file is also checked for each node. No node is contacted.
    """
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import read_inputs, read_plan_file
    from gpuplan.output.json import diagnostics_document
    from gpuplan.output.page import paragraph

    console = Console(as_json)
    if inventory:
        summary = _validate_for_nodes(read_inputs(plan, inventory, var, var_file), console)
    else:
        summary = _validate_alone(read_plan_file(plan, var, var_file), console)
    console.show([paragraph(summary)])
    console.print_document(diagnostics_document(), Exit.DONE)
    return Exit.DONE


def schema() -> Exit:
    """Print the JSON Schema of plan files, for editors."""
    from gpuplan.cli.console import print_json
    from gpuplan.planfile.json_schema import schema as of_plan_files

    print_json(of_plan_files())
    return Exit.DONE


def _validate_for_nodes(inputs: Inputs, console: Console) -> str:
    from gpuplan.core.plan.desired import desired_state
    from gpuplan.output.text import count
    from gpuplan.planfile.sources import silenced_count

    console.report(inputs.warnings)
    nodes = desired_state(inputs.plan, inputs.inventory.hosts).values()
    console.report([warning for node in nodes for warning in node.warnings])
    resources = count(sum(len(node.desired) for node in nodes), "resource")
    hosts = count(len(inputs.inventory.hosts), "node")
    return f"Valid: {resources} on {hosts}{_silenced_note(silenced_count(inputs.plan))}."


def _validate_alone(plan: PlanFile, console: Console) -> str:
    warnings, silenced = _check_models(plan)
    console.report(warnings)
    return f"Valid without an inventory{_silenced_note(silenced)}. Add -i INVENTORY to check it for each node."


def _check_models(plan: PlanFile) -> tuple[list[Diagnostic], int]:
    """The warnings about the models, and how many findings are silenced.

    Raises:
        Problem: a model has an error.
    """
    from gpuplan.planfile.sources.source import lint_models, servers_without_inventory
    from gpuplan.resources.model.desired import smoke_issues

    findings, silenced = lint_models(plan)
    findings += tuple(
        error for host, placed in servers_without_inventory(plan) for error in smoke_issues(plan, host, placed)
    )
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise Problem(findings)
    return list(findings), silenced


def _silenced_note(silenced: int) -> str:
    from gpuplan.output.summary import describe_silenced

    return f"; {describe_silenced(silenced)}" if silenced else ""
