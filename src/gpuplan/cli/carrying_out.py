"""Carries a change set out: shows it, asks, applies, tells; what apply and destroy have in common."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuplan.cli import planning
from gpuplan.cli.inputs import base_dir
from gpuplan.cli.interrupt import Watch
from gpuplan.cli.voice import Voice
from gpuplan.types.changeset import ChangeSet
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from gpuplan.types.inventory import Inventory
    from gpuplan.types.outcome import NodeOutcome

CANCELLED = Diagnostic("Cancelled", "The answer was not “yes”, so nothing was changed.")
QUESTION = {False: "Apply these changes?", True: "Destroy what is listed above?"}


@dataclass(frozen=True)
class Consent:
    """What the operator allowed beforehand, and how much is to be shown."""

    auto_approve: bool
    allow: tuple[str, ...]
    verbose: bool = False


def consent(auto_approve: bool, allow: Sequence[str] | None, as_json: bool, verbose: bool = False) -> Consent:
    """The operator's consent, checked before any node is asked.

    Raises:
        Problem: somebody has to be asked and nobody is there; a guard of that name does not exist.
    """
    from gpuplan.core.plan.guards import GUARDS

    if unknown := [name for name in allow or () if name not in GUARDS]:
        raise Problem([_no_such_guard(name, sorted(GUARDS)) for name in unknown], Exit.USAGE)
    if not auto_approve and (as_json or not sys.stdin.isatty()):
        raise Problem(
            Diagnostic(
                "Nobody can be asked",
                "Changes are applied after a “yes” on a terminal, and "
                + ("--json leaves no room for a question." if as_json else "standard input is not one."),
                "Review the output of gpuplan plan, then add --auto-approve.",
            ),
            Exit.USAGE,
        )
    return Consent(auto_approve, tuple(allow or ()), verbose)


def carry_out(change_set: ChangeSet, inventory: Inventory, given: Consent, voice: Voice, partial: bool = False) -> int:
    """Show, ask, apply and tell.

    Nodes that could not be read or that are at fault are left out, and the exit code says so; the others go on.
    """
    from gpuplan.core.exitcode import faults, of_plan
    from gpuplan.core.plan.guards import node_refusals

    planning.show(change_set, voice, partial, verbose=given.verbose)
    before = {of_plan(change_set, detailed=False)}
    readable = [node for node in change_set.nodes if not planning.unread(node) and not faults(node.diagnostics)]
    refused = {node.node: node_refusals(node, given.allow) for node in readable}
    voice.tell([each for refusals in refused.values() for each in refusals])
    if any(refused.values()):
        before.add(Exit.REFUSED)
    ready = replace(change_set, nodes=tuple(node for node in readable if not refused[node.node]))
    if not ready.empty and not (given.auto_approve or _yes(ready, voice)):
        voice.answer(_json(ready, ()), Exit.ERROR)
        return Exit.ERROR
    return _apply(ready, inventory, given, voice, before)


def _apply(ready: ChangeSet, inventory: Inventory, given: Consent, voice: Voice, before: set[Exit]) -> int:
    """Runs even where nothing changes: each node's record then learns of the plan file that it already agrees with."""
    from gpuplan.core.exitcode import of_outcomes
    from gpuplan.core.run import apply

    with voice.progress() as listen, Watch(listen) as watch:
        outcomes = apply(
            ready,
            inventory,
            environ=os.environ,
            base_dir=base_dir(ready.plan_file),
            who=_who(),
            allow=given.allow,
            listen=watch.listen,
        )
    code = watch.code or _worst({*before, of_outcomes(outcomes)})
    _tell(outcomes, voice)
    voice.answer(_json(ready, outcomes), code)
    return code


def _tell(outcomes: Sequence[NodeOutcome], voice: Voice) -> None:
    from gpuplan.output.outcomes import outcomes as page
    from gpuplan.output.page import BLANK

    if any(node.steps or node.exit_code for node in outcomes):
        voice.show([BLANK, *page(outcomes, brief=True)] if voice.seen_live else page(outcomes))
    steps = [diagnostic for node in outcomes for step in node.steps for diagnostic in step.diagnostics]
    voice.tell([*steps, *(diagnostic for node in outcomes for diagnostic in node.diagnostics)])


def _json(ready: ChangeSet, outcomes: Sequence[NodeOutcome]) -> JsonObject:
    from gpuplan.output.json import outcomes as document

    return document(ready, outcomes)


def _yes(ready: ChangeSet, voice: Voice) -> bool:
    print(f"\n{QUESTION[ready.destroy]} Only 'yes' is accepted: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() == "yes":
        return True
    voice.tell([CANCELLED])
    return False


def _worst(codes: set[Exit]) -> Exit:
    order = (Exit.ERROR, Exit.STALE, Exit.BUSY, Exit.REFUSED, Exit.UNREAD)
    return next((code for code in order if code in codes), Exit.DONE)


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _no_such_guard(name: str, known: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "There is no guard of that name",
        f"--allow was given “{name}”; the guards are {', '.join(known)}.",
        "Write the name as the refusal gives it.",
    )
