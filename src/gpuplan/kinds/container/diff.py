"""Diff: the containers that are wanted against those of the node, into changes with their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuplan.kinds.container.bound import bind, comparable
from gpuplan.kinds.container.changes import create, follow, remove
from gpuplan.kinds.container.images import find
from gpuplan.kinds.container.read import FAILED, OLD, Live, Observed
from gpuplan.kinds.container.seen import digest_of
from gpuplan.kinds.container.shape import from_json
from gpuplan.kinds.container.steps import Wanted
from gpuplan.kinds.container.strangers import strangers
from gpuplan.kinds.container.unread import unread, unresolved
from gpuplan.model.address import Address
from gpuplan.model.change import Action, Change, Comparison, Unknown
from gpuplan.model.diagnostic import Diagnostic
from gpuplan.model.resource import Circumstances, Desired


def diff(desired: Sequence[Desired], observed: Observed, circumstances: Circumstances) -> Comparison:
    """Compare all containers of one node."""
    if observed.error is not None:
        return unread(desired, observed.error, circumstances)
    ours = [live for live in observed.containers if live.plan == circumstances.plan]
    verdicts = [_judge(each, ours, observed, circumstances) for each in desired]
    names = {each.address.name for each in desired}
    gone = sorted({live.role for live in ours} - names)
    kept = {verdict.wanted.spec.image for verdict in verdicts}
    removals = [
        remove(role, [each for each in ours if each.role == role], kept, observed, circumstances) for role in gone
    ]
    starting = [verdict.wanted for verdict in verdicts if verdict.starts]
    return Comparison(
        changes=(*_once([verdict.change for verdict in verdicts if verdict.change]), *removals),
        unmanaged=tuple(strangers(observed, circumstances.plan, starting)),
        unknown=tuple(verdict.unknown for verdict in verdicts if verdict.unknown),
        diagnostics=tuple(diagnostic for verdict in verdicts for diagnostic in _impossible(verdict, observed)),
        rests_on={
            **{v.wanted.address: digest_of(v.wanted.address.name, v.wanted.spec, observed) for v in verdicts},
            **{Address(observed.node, "container", role): digest_of(role, None, observed) for role in gone},
        },
    )


def _once(changes: Iterable[Change]) -> Iterator[Change]:
    """The same changes, with each image brought by the first that needs it; the steps of the others wait for that."""
    seen: set[str] = set()
    for change in changes:
        steps = [step for step in change.steps if step.name != "image" or step.title not in seen]
        seen.update(step.title for step in steps if step.name == "image")
        yield replace(change, steps=tuple(steps))


@dataclass(frozen=True)
class _Verdict:
    """What is to be done about one wanted container."""

    wanted: Wanted
    change: Change | None = None
    unknown: Unknown | None = None

    @property
    def starts(self) -> bool:
        """True where the change set makes or starts it."""
        return self.change is not None and any(step.makes for step in self.change.steps if step.name != "image")


def _judge(desired: Desired, ours: Sequence[Live], observed: Observed, circumstances: Circumstances) -> _Verdict:
    spec = from_json(desired.spec)
    recorded = circumstances.record.resources.get(desired.address)
    wanted = Wanted(desired, spec, bind(spec.devices, circumstances), recorded.needs if recorded else ())
    current, extra = _current(desired.address.name, ours)
    if wanted.bound.missing:
        return _Verdict(wanted, unknown=unresolved(desired.address, wanted.bound.missing))
    if current is None:
        return _Verdict(wanted, create(wanted, observed))
    if not comparable(current, observed):
        return _Verdict(wanted, unknown=unresolved(desired.address, ("the GPUs that it asks for by index",)))
    before = from_json(recorded.spec) if recorded else None
    return _Verdict(wanted, follow(wanted, before, current, extra, observed, circumstances))


def _current(name: str, ours: Sequence[Live]) -> tuple[Live | None, tuple[Live, ...]]:
    """The container that stands for a name, and what else of it is there and has to go."""
    mine = [live for live in ours if live.role == name]
    order = {name: 0, name + OLD: 1, name + FAILED: 3}
    candidates = sorted(mine, key=lambda live: (order.get(live.name, 2), live.name))
    if not candidates or candidates[0].name == name + FAILED:
        return None, ()
    return candidates[0], tuple(live for live in candidates[1:] if live.name != name + FAILED)


def _impossible(verdict: _Verdict, observed: Observed) -> Iterator[Diagnostic]:
    spec, address, change = verdict.wanted.spec, verdict.wanted.address, verdict.change
    if change is None or change.action is Action.UPDATE or spec.pull != "never" or spec.archive:
        return
    if find(spec.image, observed.images) is None:
        yield Diagnostic(
            "An image is not on the node",
            f"{spec.image} is not on {address.node}, and the plan file says pull: never.",
            f"Bring it there (docker load, docker pull), or say pull: missing for {address.name}.",
            where=verdict.wanted.desired.where,
            address=str(address),
        )
