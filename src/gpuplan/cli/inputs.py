"""Reads what verbs are given: the plan file with its variables, and the inventory; all faults of both at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Severity

if TYPE_CHECKING:
    from gpuplan.planfile.schema import PlanFile
    from gpuplan.types.inventory import Inventory

Read = TypeVar("Read")


@dataclass(frozen=True)
class Inputs:
    """What a verb that goes to the nodes works with."""

    plan: PlanFile
    inventory: Inventory
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def base_dir(self) -> Path:
        """The folder of the plan file."""
        return base_dir(self.plan.path)


def base_dir(plan_file: str) -> Path:
    """The folder in which a plan file's sources and archives lie."""
    return Path(plan_file).absolute().parent


def read_inputs(
    plan: str,
    inventory: str,
    variables: Sequence[str] | None,
    variable_files: Sequence[str] | None,
    fitting: bool = True,
) -> Inputs:
    """Plan file and inventory; `fitting` = the plan file's names must fit the inventory's nodes as well.

    Raises:
        Problem: with the faults of both.
    """
    path = inventory_path(inventory)
    faults: list[Diagnostic] = []
    read_plan = _attempt(lambda: read_plan_file(plan, variables, variable_files), faults)
    read_inventory = _attempt(lambda: read_inventory_file(path), faults)
    if read_plan is None or read_inventory is None:
        raise Problem(faults)
    told = _together(read_plan, read_inventory)
    if fitting and any(each.severity is Severity.ERROR for each in told):
        raise Problem(told)
    return Inputs(read_plan, read_inventory, tuple(each for each in told if each.severity is Severity.WARNING))


def _together(plan: PlanFile, inventory: Inventory) -> tuple[Diagnostic, ...]:
    from gpuplan.planfile.checks import check_nodes
    from gpuplan.secrets.references import exposed

    return (*inventory.warnings, *exposed(plan, base_dir(plan.path), os.environ), *check_nodes(plan, inventory))


def read_plan_file(plan: str, variables: Sequence[str] | None, variable_files: Sequence[str] | None) -> PlanFile:
    """The plan file alone.

    Raises:
        Problem: with all its faults; or no path was given, or that of a saved change set.
    """
    from gpuplan.cli.saved_file import no_path, refuse_as_plan_file

    if not plan:
        raise Problem(no_path("A plan file", "PLAN"), Exit.USAGE)
    refuse_as_plan_file(plan)
    named = dict(_pair(text) for text in variables or ())
    from gpuplan.planfile.load import load_plan

    return load_plan(plan, variables=named, variable_files=tuple(variable_files or ()), environ=os.environ)


def read_inventory_file(path: str) -> Inventory:
    """The inventory alone."""
    from gpuplan.inventory import load_inventory

    return load_inventory(path)


def inventory_path(given: str) -> str:
    """The inventory's path.

    Raises:
        Problem: none was given.
    """
    if given:
        return given
    raise Problem(
        Diagnostic(
            "No inventory was given",
            "The nodes are named by an inventory, and neither -i nor GPUPLAN_INVENTORY says where it is.",
            "Add -i INVENTORY, or set GPUPLAN_INVENTORY.",
        ),
        Exit.USAGE,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise Problem(
            Diagnostic(
                "A variable is not written NAME=VALUE", f"--var was given “{text}”.", "Write it as --var NAME=VALUE."
            ),
            Exit.USAGE,
        )
    return name, value


def _attempt(read: Callable[[], Read], faults: list[Diagnostic]) -> Read | None:
    try:
        return read()
    except Problem as problem:
        if problem.exit_code is Exit.USAGE:
            raise
        faults.extend(problem.diagnostics)
        return None
