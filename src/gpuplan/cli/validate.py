"""`gpuplan validate`: everything that can be known without asking a node, all faults at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.options import AsJson, InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.model.diagnostic import Exit

if TYPE_CHECKING:
    from gpuplan.cli.inputs import Inputs
    from gpuplan.cli.voice import Voice


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
    from gpuplan.views.json import told
    from gpuplan.views.page import paragraph
    from gpuplan.views.words import count

    voice = Voice(as_json)
    if inventory:
        inputs = read_inputs(plan, inventory, var, var_file)
        voice.tell(inputs.warnings)
        resources = _resources(inputs, voice)
        hosts = count(len(inputs.inventory.hosts), "node")
        words = f"Valid: {count(resources, 'resource')} on {hosts}."
    else:
        read_plan_file(plan, var, var_file)
        words = "Valid as far as a plan file shows alone; add -i INVENTORY to check it for each node."
    voice.show([paragraph(words)])
    voice.answer(told(), Exit.DONE)
    return Exit.DONE


def _resources(inputs: Inputs, voice: Voice) -> int:
    from gpuplan.flow.desire import desire

    wishes = desire(inputs.plan, inputs.inventory.hosts)
    voice.tell([warning for wish in wishes.values() for warning in wish.warnings])
    return sum(len(wish.desired) for wish in wishes.values())
