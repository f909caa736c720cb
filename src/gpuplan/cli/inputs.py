"""The options that commands share, and what they name: the plan file with its variables, and the inventory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Severity

if TYPE_CHECKING:
    from gpuplan.planfile.schema import PlanFile
    from gpuplan.types.inventory import Inventory

PlanPath = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file.", show_default=False)]
InventoryPath = Annotated[
    str,
    typer.Option(
        "--inventory",
        "-i",
        metavar="INVENTORY",
        envvar="GPUPLAN_INVENTORY",
        help="Ansible inventory (YAML or INI) with the nodes.",
    ),
]
Variables = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="Set a variable of the plan file. Repeatable."),
]
VariableFiles = Annotated[
    list[str] | None,
    typer.Option("--var-file", metavar="FILE", help="Read variables from a YAML file. Repeatable."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="ADDRESS",
        help="Only resources that match this glob (node/kind/name), and what they need. Repeatable.",
    ),
]
Replace = Annotated[
    list[str] | None,
    typer.Option("--replace", metavar="ADDRESS", help="Replace matching containers even if unchanged. Repeatable."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="KIND", help="Only resources of this kind: gpu, repository, container or model. Repeatable."
    ),
]
Local = Annotated[
    bool, typer.Option("--local", help="Restore this machine from its own record, for example after a reboot.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every node, including those without changes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only one JSON document (see docs/json.md).")]
AutoApprove = Annotated[bool, typer.Option("--auto-approve", help="Apply without asking for confirmation.")]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", metavar="GUARD", help="Allow what this guard refuses. Repeatable.")
]

Value = TypeVar("Value")


@dataclass(frozen=True)
class Inputs:
    """A plan file and the inventory it is used with."""

    plan: PlanFile
    inventory: Inventory
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def base_dir(self) -> Path:
        """The directory of the plan file."""
        return base_dir(self.plan.path)


def base_dir(plan_file: str) -> Path:
    """The directory to which a plan file's model sources and image archives are relative."""
    return Path(plan_file).absolute().parent


def read_inputs(
    plan: str,
    inventory: str,
    variables: Sequence[str] | None,
    variable_files: Sequence[str] | None,
    check_nodes: bool = True,
) -> Inputs:
    """Read plan file and inventory; `check_nodes` also requires that they fit together.

    Raises:
        Problem: with all errors of both.
    """
    path = inventory_path(inventory)
    errors: list[Diagnostic] = []
    plan_file = _collect_errors(lambda: read_plan_file(plan, variables, variable_files), errors)
    hosts = _collect_errors(lambda: read_inventory_file(path), errors)
    if plan_file is None or hosts is None:
        raise Problem(errors)
    diagnostics = _check_together(plan_file, hosts)
    if check_nodes and any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics):
        raise Problem(diagnostics)
    warnings = tuple(diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.WARNING)
    return Inputs(plan_file, hosts, warnings)


def read_plan_file(plan: str, variables: Sequence[str] | None, variable_files: Sequence[str] | None) -> PlanFile:
    """Read the plan file without an inventory.

    Raises:
        Problem: with all its errors; the path is empty, or names a saved change set.
    """
    from gpuplan.cli.saved_file import missing_path, refuse_as_plan_file

    if not plan:
        raise Problem(missing_path("a plan file", "PLAN"), Exit.USAGE)
    refuse_as_plan_file(plan)
    values = dict(_parse_variable(text) for text in variables or ())
    from gpuplan.planfile.load import load_plan

    return load_plan(plan, variables=values, variable_files=tuple(variable_files or ()), environ=os.environ)


def read_inventory_file(path: str) -> Inventory:
    """Read the inventory."""
    from gpuplan.inventory import load_inventory

    return load_inventory(path)


def inventory_path(path: str) -> str:
    """The inventory's path.

    Raises:
        Problem: the path is empty.
    """
    if path:
        return path
    raise Problem(
        Diagnostic(
            "No inventory given",
            "This command needs an inventory with the nodes, and neither -i nor GPUPLAN_INVENTORY is set.",
            "Add -i INVENTORY, or set GPUPLAN_INVENTORY.",
        ),
        Exit.USAGE,
    )


def check_kinds(names: Sequence[str] | None) -> tuple[str, ...]:
    """The kinds given to `--only`, without duplicates.

    Raises:
        Problem: a kind does not exist.
    """
    from gpuplan.resources.kinds import KINDS

    known = [kind.name for kind in KINDS]
    if unknown := [name for name in names or () if name not in known]:
        raise Problem([_unknown_kind(name, known) for name in unknown], Exit.USAGE)
    return tuple(dict.fromkeys(names or ()))


def _check_together(plan: PlanFile, inventory: Inventory) -> tuple[Diagnostic, ...]:
    from gpuplan.planfile.checks import check_nodes
    from gpuplan.secrets.references import exposed

    return (*inventory.warnings, *exposed(plan, base_dir(plan.path), os.environ), *check_nodes(plan, inventory))


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        detail = f"--var was given “{text}”, which is not of the form NAME=VALUE."
        raise Problem(Diagnostic("Invalid variable", detail, "Write it as --var NAME=VALUE."), Exit.USAGE)
    return name, value


def _collect_errors(read: Callable[[], Value], errors: list[Diagnostic]) -> Value | None:
    try:
        return read()
    except Problem as problem:
        if problem.exit_code is Exit.USAGE:
            raise
        errors.extend(problem.diagnostics)
        return None


def _unknown_kind(name: str, known: Sequence[str]) -> Diagnostic:
    return Diagnostic("Unknown resource kind", f"--only was given “{name}”.", f"Use one of: {', '.join(known)}.")
