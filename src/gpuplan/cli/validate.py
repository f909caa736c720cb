"""`gpuplan validate`: everything that can be known without asking a node, all faults at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuplan.cli.options import AsJson, InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Severity

if TYPE_CHECKING:
    from gpuplan.cli.inputs import Inputs
    from gpuplan.core.plan.desired import Wish
    from gpuplan.planfile.schema import PlanFile


def validate(
    plan: PlanPath,
    inventory: InventoryPath = "",
    var: Variables = None,
    var_file: VariableFiles = None,
    as_json: AsJson = False,
) -> Exit:
    """Check the plan file and tell all its faults at once.

    With an inventory, also what it means for each node; no node is asked.
    """
    from gpuplan.cli.inputs import read_inputs, read_plan_file
    from gpuplan.cli.voice import Voice
    from gpuplan.output.json import told
    from gpuplan.output.page import paragraph
    from gpuplan.output.words import count

    voice = Voice(as_json)
    if inventory:
        inputs = read_inputs(plan, inventory, var, var_file)
        voice.tell(inputs.warnings)
        wishes = _wishes(inputs)
        voice.tell([warning for wish in wishes.values() for warning in wish.warnings])
        hosts = count(len(inputs.inventory.hosts), "node")
        resources = count(sum(len(wish.desired) for wish in wishes.values()), "resource")
        words = f"Valid: {resources} on {hosts}{_silenced(inputs)}."
    else:
        found, held = _models(read_plan_file(plan, var, var_file))
        voice.tell(found)
        words = f"Valid as far as a plan file shows alone; add -i INVENTORY to check it for each node{held}."
    voice.show([paragraph(words)])
    voice.answer(told(), Exit.DONE)
    return Exit.DONE


def _wishes(inputs: Inputs) -> Mapping[str, Wish]:
    from gpuplan.core.plan.desired import desire

    return desire(inputs.plan, inputs.inventory.hosts)


def _silenced(inputs: Inputs) -> str:
    from gpuplan.planfile.sources import silenced

    return _held(silenced(inputs.plan))


def _models(plan: PlanFile) -> tuple[list[Diagnostic], str]:
    """What there is to warn of in the models, and how much was silenced; an error of theirs ends the verb."""
    from gpuplan.planfile.sources.alone import check_models, servers_alone
    from gpuplan.resources.model.desired import smoke_issues

    found, silenced = check_models(plan)
    found += tuple(fault for host, placed in servers_alone(plan) for fault in smoke_issues(plan, host, placed))
    if any(each.severity is Severity.ERROR for each in found):
        raise Problem(found)
    return list(found), _held(silenced)


def _held(silenced: int) -> str:
    from gpuplan.output.checks import silenced_words

    words = silenced_words(silenced)
    return f"; {words}" if words else ""
