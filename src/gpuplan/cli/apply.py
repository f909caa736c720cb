"""`gpuplan apply`: applies a plan file, exactly a saved change set, or with --local the node's own record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.console import Console
from gpuplan.cli.inputs import (
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

if TYPE_CHECKING:
    from gpuplan.cli.change_sets import Approval
    from gpuplan.types.inventory import Host
    from gpuplan.types.value import JsonObject


def apply(
    plan_or_change_set: Annotated[
        str, typer.Argument(metavar="PLAN|FILE", help="Plan file, or change set saved by gpuplan plan --out.")
    ] = "",
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
    """Show the changes, ask for confirmation, and apply them.

    Nodes are changed in parallel. A step succeeds only if the node, read again, shows its effect.
    """
    from gpuplan.cli import saved_file
    from gpuplan.cli.change_sets import apply_change_set, check_approval, make_change_set
    from gpuplan.cli.inputs import check_kinds, inventory_path, read_inputs, read_inventory_file

    path = plan_or_change_set
    if local == bool(path) or (local and (target or replace or var or var_file)):
        raise Problem(_local_or_path(local), Exit.USAGE)
    kinds = check_kinds(only)
    approval = check_approval(auto_approve, allow, as_json, verbose)
    if local:
        return restore_this_node(kinds, approval, as_json)
    console = Console(as_json)
    if saved_file.is_change_set(path):
        if target or kinds or replace or var or var_file:
            raise Problem(_options_with_change_set(path), Exit.USAGE)
        change_set, saved_inventory = saved_file.read_change_set(path)
        hosts = read_inventory_file(inventory_path(inventory or saved_inventory))
        console.report(hosts.warnings)
        return apply_change_set(change_set, hosts, approval, console)
    inputs = read_inputs(path, inventory, var, var_file)
    change_set = make_change_set(inputs, console, target, kinds, force_replace=replace)
    return apply_change_set(change_set, inputs.inventory, approval, console, partial=bool(target or kinds))


class RestoreConsole(Console):
    """Collects the documents of all restored plans into one."""

    def __init__(self, as_json: bool) -> None:
        super().__init__(as_json)
        self._plans: list[JsonObject] = []

    def print_document(self, document: JsonObject, exit_code: int) -> None:
        """Keep the document of one plan."""
        self._plans.append({**document, "exit_code": int(exit_code)})

    def print_all(self, exit_code: int) -> None:
        """Print the one document for all plans."""
        super().print_document({"kind": "gpuplan restore", "format": 1, "plans": self._plans}, exit_code)


def restore_this_node(kinds: Sequence[str], approval: Approval, as_json: bool, host: Host | None = None) -> int:
    """Restore every plan in this machine's record; one that fails does not stop the next.

    `host` is this machine; by default it is reached locally, through sudo unless gpuplan runs as root.
    """
    import socket

    from gpuplan.core.restore import recorded_plans
    from gpuplan.output.page import paragraph
    from gpuplan.types.inventory import Connection, Host

    console = RestoreConsole(as_json)
    here = host or Host(socket.gethostname(), Connection.LOCAL, become=True)
    plans = recorded_plans(here)
    if not plans:
        console.show([paragraph("Nothing to restore: no plan file was applied to this node.")])
    code = _worst([_restore_plan(here, plan, kinds, approval, console) for plan in plans])
    console.print_all(code)
    return code


def _restore_plan(here: Host, plan: str, kinds: Sequence[str], approval: Approval, console: Console) -> int:
    import os

    from gpuplan.cli.change_sets import apply_change_set
    from gpuplan.core.restore import follower_warnings, plan_restore
    from gpuplan.output.page import paragraph
    from gpuplan.types.inventory import Inventory

    console.show([paragraph(f"Plan {plan}, as last applied:")])
    try:
        restore = plan_restore(here, plan, kinds, os.environ)
        inventory = Inventory((restore.host,))
        code = apply_change_set(restore.change_set, inventory, approval, console, partial=bool(kinds))
    except Problem as problem:
        console.report(problem.diagnostics)
        return int(problem.exit_code)
    console.report(follower_warnings(restore))
    return code


def _worst(codes: Sequence[int]) -> int:
    from gpuplan.cli.interrupt import INTERRUPTED

    order = (INTERRUPTED, Exit.ERROR, Exit.STALE, Exit.BUSY, Exit.REFUSED, Exit.UNREAD)
    return next((int(code) for code in order if code in codes), max(codes, default=0))


def _options_with_change_set(file: str) -> Diagnostic:
    return Diagnostic(
        "A saved change set takes no planning options",
        f"{file} is applied exactly as saved: --target, --only, --replace, --var and --var-file have no effect on it.",
        "Remove these options, or save a new change set with gpuplan plan --out.",
    )


def _local_or_path(local: bool) -> Diagnostic:
    if local:
        return Diagnostic(
            "--local takes no plan file, targets or variables",
            "--local restores this machine from its own record.",
            "Remove them. To restore only some kinds, use --only KIND.",
        )
    return Diagnostic(
        "Nothing to apply",
        "Neither a plan file nor a saved change set was given.",
        "Name one, or use --local to restore this machine from its own record.",
    )
