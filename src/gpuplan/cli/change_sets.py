"""What plan, apply and destroy share: making, showing, confirming and applying a change set."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpuplan.cli.inputs import base_dir
from gpuplan.cli.interrupt import InterruptWatch, exit_on_interrupt
from gpuplan.types.change import Unreadable
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

if TYPE_CHECKING:
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import Inputs
    from gpuplan.types.finding import NodeFindings
    from gpuplan.types.inventory import Inventory
    from gpuplan.types.outcome import NodeOutcome

CANCELLED = Diagnostic("Cancelled", "Nothing was changed, because the answer was not “yes”.")
QUESTION = {False: "Apply these changes?", True: "Destroy the resources listed above?"}


@dataclass(frozen=True)
class Approval:
    """What the operator approved on the command line, and how much to show."""

    auto_approve: bool
    allow: tuple[str, ...]
    verbose: bool = False


def check_approval(auto_approve: bool, allow: Sequence[str] | None, as_json: bool, verbose: bool = False) -> Approval:
    """Check the approval before any node is read.

    Raises:
        Problem: confirmation is needed and impossible; a guard does not exist.
    """
    from gpuplan.core.plan.guards import GUARDS

    if unknown := [name for name in allow or () if name not in GUARDS]:
        raise Problem([_unknown_guard(name, sorted(GUARDS)) for name in unknown], Exit.USAGE)
    if not auto_approve and (as_json or not sys.stdin.isatty()):
        reason = "--json is set" if as_json else "stdin is not a terminal"
        raise Problem(
            Diagnostic(
                "Cannot ask for confirmation",
                f"Changes need confirmation, and {reason}.",
                "Review the output of gpuplan plan, then use --auto-approve.",
            ),
            Exit.USAGE,
        )
    return Approval(auto_approve, tuple(allow or ()), verbose)


def make_change_set(
    inputs: Inputs,
    console: Console,
    targets: Sequence[str] | None,
    kinds: Sequence[str] | None = None,
    destroy: bool = False,
    force_replace: Sequence[str] | None = None,
) -> ChangeSet:
    """Read all nodes and compare; containers that match `force_replace` are replaced even if unchanged.

    Raises:
        Problem: a glob matches nothing.
    """
    from gpuplan.core.plan.targets import Scope
    from gpuplan.core.run import plan

    console.report(inputs.warnings)
    with console.progress(lines=False) as listen, exit_on_interrupt():
        change_set = plan(
            inputs.plan,
            inputs.inventory,
            environ=os.environ,
            base_dir=inputs.base_dir,
            scope=Scope(tuple(targets or ()), tuple(kinds or ()), tuple(force_replace or ())),
            destroy=destroy,
            listen=listen,
        )
    unmatched = [_no_match("--target", "resource", glob) for glob in targets or () if not _matches(glob, change_set)]
    unmatched += [
        _no_match("--replace", "container", glob)
        for glob in force_replace or ()
        if not _matches(glob, change_set, "container")
    ]
    if unmatched:
        raise Problem(unmatched, Exit.USAGE)
    return change_set


def show_change_set(
    change_set: ChangeSet, console: Console, partial: bool = False, steps: bool = False, verbose: bool = False
) -> None:
    """Show the change set, then its diagnostics."""
    from gpuplan.output.change_set import render_change_set

    console.show(render_change_set(change_set, steps=steps, partial=partial, verbose=verbose))
    console.report(all_diagnostics(change_set.nodes))


def apply_change_set(
    change_set: ChangeSet, inventory: Inventory, approval: Approval, console: Console, partial: bool = False
) -> int:
    """Show, confirm, apply and report.

    Nodes that are unreadable, have errors or are refused by a guard are skipped, which the exit code shows.
    """
    from gpuplan.core.exitcode import faults, of_plan
    from gpuplan.core.plan.guards import node_refusals

    show_change_set(change_set, console, partial, verbose=approval.verbose)
    codes = {of_plan(change_set, detailed=False)}
    readable = [node for node in change_set.nodes if not _is_unreadable(node) and not faults(node.diagnostics)]
    refusals = {node.node: node_refusals(node, approval.allow) for node in readable}
    console.report([refusal for node_refusals in refusals.values() for refusal in node_refusals])
    if any(refusals.values()):
        codes.add(Exit.REFUSED)
    ready = replace(change_set, nodes=tuple(node for node in readable if not refusals[node.node]))
    if not ready.empty and not (approval.auto_approve or _confirm(ready, console)):
        _print_outcomes(ready, (), Exit.ERROR, console)
        return Exit.ERROR
    return _apply(ready, inventory, approval, console, codes)


def all_diagnostics(nodes: Iterable[NodeChanges | NodeFindings]) -> list[Diagnostic]:
    """All diagnostics of all nodes; of unreadable resources only the causes, not what follows from them."""
    diagnostics: list[Diagnostic] = []
    for node in nodes:
        diagnostics.extend(node.diagnostics)
        diagnostics.extend(_addressed(unknown) for unknown in node.unknown if unknown.cause is None)
    return diagnostics


def _apply(ready: ChangeSet, inventory: Inventory, approval: Approval, console: Console, codes: set[Exit]) -> int:
    """Runs even without changes: each node's record then notes that it agrees with this plan file."""
    from gpuplan.core.exitcode import of_outcomes
    from gpuplan.core.run import apply
    from gpuplan.output.outcomes import render_outcomes
    from gpuplan.output.page import BLANK

    with console.progress() as listen, InterruptWatch(listen) as watch:
        outcomes = apply(
            ready,
            inventory,
            environ=os.environ,
            base_dir=base_dir(ready.plan_file),
            who=_user(),
            allow=approval.allow,
            listen=watch.listen,
        )
    if any(node.steps or node.exit_code for node in outcomes):
        brief = console.steps_shown
        console.show([*[BLANK] * brief, *render_outcomes(outcomes, brief=brief)])
    console.report([diagnostic for node in outcomes for step in node.steps for diagnostic in step.diagnostics])
    console.report([diagnostic for node in outcomes for diagnostic in node.diagnostics])
    code = watch.code or _worst({*codes, of_outcomes(outcomes)})
    _print_outcomes(ready, outcomes, code, console)
    return code


def _print_outcomes(ready: ChangeSet, outcomes: Sequence[NodeOutcome], code: int, console: Console) -> None:
    from gpuplan.output.json import outcomes_document

    console.print_document(outcomes_document(ready, outcomes), code)


def _confirm(ready: ChangeSet, console: Console) -> bool:
    print(f"\n{QUESTION[ready.destroy]} Only 'yes' is accepted: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() == "yes":
        return True
    console.report([CANCELLED])
    return False


def _worst(codes: set[Exit]) -> Exit:
    order = (Exit.ERROR, Exit.STALE, Exit.BUSY, Exit.REFUSED, Exit.UNREAD)
    return next((code for code in order if code in codes), Exit.DONE)


def _user() -> str:
    """USER@HOST, which the node's record keeps."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _is_unreadable(node: NodeChanges) -> bool:
    """True if the node as a whole could not be read."""
    return any(unknown.address.kind == "node" for unknown in node.unknown)


def _addressed(unknown: Unreadable) -> Diagnostic:
    diagnostic = unknown.diagnostic
    return diagnostic if diagnostic.address else replace(diagnostic, address=str(unknown.address))


def _matches(glob: str, change_set: ChangeSet, kind: str = "") -> bool:
    addresses = {resource.address for node in change_set.nodes for resource in node.desired}
    addresses |= {change.address for node in change_set.nodes for change in node.changes}
    return any(fnmatchcase(str(address), glob) for address in addresses if kind in ("", address.kind))


def _no_match(option: str, what: str, glob: str) -> Diagnostic:
    return Diagnostic(
        f"{option} matches nothing",
        f"No {what} of the plan file has an address that matches “{glob}”.",
        "Use an address of the form node/kind/name, for example gpu-a1/container/*.",
    )


def _unknown_guard(name: str, known: Sequence[str]) -> Diagnostic:
    return Diagnostic("Unknown guard", f"--allow was given “{name}”.", f"Use one of: {', '.join(known)}.")
