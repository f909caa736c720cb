"""Makes and shows a change set: what plan, apply and destroy begin with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpuplan.cli.interrupt import leaving_at_once
from gpuplan.types.change import Unreadable
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

if TYPE_CHECKING:
    from gpuplan.cli.inputs import Inputs
    from gpuplan.cli.voice import Voice
    from gpuplan.types.finding import NodeFindings


def make(
    inputs: Inputs,
    voice: Voice,
    targets: Sequence[str] | None,
    kinds: Sequence[str] | None = None,
    destroy: bool = False,
    anew: Sequence[str] | None = None,
) -> ChangeSet:
    """Ask all nodes and compare; `anew` is replaced whether it differs or not."""
    from gpuplan.core.plan.targets import Scope
    from gpuplan.core.run import plan

    voice.tell(inputs.warnings)
    with voice.progress(lines=False) as listen, leaving_at_once():
        made = plan(
            inputs.plan,
            inputs.inventory,
            environ=os.environ,
            base_dir=inputs.base_dir,
            scope=Scope(tuple(targets or ()), tuple(kinds or ()), tuple(anew or ())),
            destroy=destroy,
            listen=listen,
        )
    idle = [_idle_target(target, "resource") for target in targets or () if not _means_something(target, made)]
    idle += [_idle_target(each, "container") for each in anew or () if not _means_something(each, made, "container")]
    if idle:
        raise Problem(idle, Exit.USAGE)
    return made


def show(
    change_set: ChangeSet, voice: Voice, partial: bool = False, steps: bool = False, verbose: bool = False
) -> None:
    """The change set, then everything that is wrong with it."""
    from gpuplan.output.changes import change_set as page

    voice.show(page(change_set, steps=steps, partial=partial, verbose=verbose))
    voice.tell(problems(change_set.nodes))


def problems(nodes: Iterable[NodeChanges | NodeFindings]) -> list[Diagnostic]:
    """All diagnostics of all nodes; of what could not be read only the causes, not what follows from them."""
    told: list[Diagnostic] = []
    for node in nodes:
        told.extend(node.diagnostics)
        told.extend(addressed(unknown) for unknown in node.unknown if unknown.cause is None)
    return told


def unread(node: NodeChanges) -> bool:
    """True where the node as a whole could not be read."""
    return any(unknown.address.kind == "node" for unknown in node.unknown)


def addressed(unknown: Unreadable) -> Diagnostic:
    """Why something could not be read, with what it was."""
    diagnostic = unknown.diagnostic
    return diagnostic if diagnostic.address else replace(diagnostic, address=str(unknown.address))


def _means_something(target: str, made: ChangeSet, kind: str = "") -> bool:
    addresses = {each.address for node in made.nodes for each in node.desired}
    addresses |= {each.address for node in made.nodes for each in node.changes}
    return any(fnmatchcase(str(address), target) for address in addresses if kind in ("", address.kind))


def _idle_target(target: str, what: str) -> Diagnostic:
    return Diagnostic(
        "A target matches nothing",
        f"No {what} of the plan file has an address that matches “{target}”.",
        "An address is node/kind/name, such as gpu-a1/container/*.",
    )
