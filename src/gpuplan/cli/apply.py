"""`gpuplan apply`: makes the nodes as the plan file says, or carries out exactly a saved change set."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.cli.options import (
    Allow,
    AsJson,
    AutoApprove,
    InventoryPath,
    Local,
    Only,
    Replace,
    Targets,
    VariableFiles,
    Variables,
    Verbose,
)
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem


def apply(
    what: Annotated[str, typer.Argument(metavar="PLAN|FILE", help="The plan file, or what plan --out saved.")] = "",
    inventory: InventoryPath = "",
    target: Targets = None,
    only: Only = None,
    replace: Replace = None,
    local: Local = False,
    var: Variables = None,
    var_file: VariableFiles = None,
    auto_approve: AutoApprove = False,
    allow: Allow = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Show what would change, ask, and change it.

    Nodes are worked on at the same time; a step counts as done when a second look at the node says so.
    """
    from gpuplan.cli import carrying_out, planning, saved_file
    from gpuplan.cli.inputs import inventory_path, read_inputs, read_inventory_file
    from gpuplan.cli.kinds import checked_kinds
    from gpuplan.cli.voice import Voice

    if local == bool(what) or (local and (target or replace or var or var_file)):
        raise Problem(_either(local), Exit.USAGE)
    kinds = checked_kinds(only)
    given = carrying_out.consent(auto_approve, allow, as_json, verbose)
    if local:
        from gpuplan.cli.restoring import restore_here

        return restore_here(kinds, given, as_json)
    voice = Voice(as_json)
    if saved_file.is_change_set(what):
        if target or kinds or replace or var or var_file:
            raise Problem(_settled(what), Exit.USAGE)
        change_set, made_with = saved_file.read(what)
        nodes = read_inventory_file(inventory_path(inventory or made_with))
        voice.tell(nodes.warnings)
        return carrying_out.carry_out(change_set, nodes, given, voice)
    inputs = read_inputs(what, inventory, var, var_file)
    change_set = planning.make(inputs, voice, target, kinds, anew=replace)
    return carrying_out.carry_out(change_set, inputs.inventory, given, voice, partial=bool(target or kinds))


def _settled(file: str) -> Diagnostic:
    return Diagnostic(
        "A saved change set is applied as it is",
        f"{file} was made with its own targets and variables; --target, --only, --replace, --var and --var-file cannot "
        "change it.",
        "Leave them out, or make a new change set with gpuplan plan --out.",
    )


def _either(local: bool) -> Diagnostic:
    if local:
        return Diagnostic(
            "A node's own record is applied as it is",
            "--local needs no plan file, no variables and no targets: the record of this machine says it all.",
            "Leave them out; --only KIND confines it.",
        )
    return Diagnostic(
        "Nothing to apply was given",
        "A plan file or a saved change set is missing.",
        "Name one, or say --local to restore this machine from its own record.",
    )
