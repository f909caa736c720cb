"""The arguments and options that verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

PlanPath = Annotated[str, typer.Argument(metavar="PLAN", help="The plan file.", show_default=False)]
InventoryPath = Annotated[
    str,
    typer.Option("--inventory", "-i", metavar="INV", envvar="GPUPLAN_INVENTORY", help="The inventory."),
]
Variables = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="Set a variable of the plan file; may be repeated."),
]
VariableFiles = Annotated[
    list[str] | None,
    typer.Option("--var-file", metavar="FILE", help="YAML file of variables; may be repeated."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", metavar="ADDRESS", help="Only what matches this glob, and what it needs; may be repeated."
    ),
]
Replace = Annotated[
    list[str] | None,
    typer.Option(
        "--replace", metavar="ADDRESS", help="Make containers that match this glob anew in any case; may be repeated."
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="KIND", help="Only this kind: gpu, repository, container, model; may be repeated."),
]
Local = Annotated[bool, typer.Option("--local", help="Restore this machine from its own record, as after a boot.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every node, also those without changes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document (docs/json.md) and nothing else.")]
AutoApprove = Annotated[bool, typer.Option("--auto-approve", help="Do not ask.")]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", metavar="GUARD", help="Lift the guard of this name; may be repeated.")
]
