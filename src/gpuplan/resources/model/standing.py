"""How a wanted model stands on its server, told version by version, and what its reload takes from whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.resources.model.read import READY, Server
from gpuplan.resources.model.situation import Situation
from gpuplan.resources.model.wanted import Wanted, lays_all_anew, wanted_from
from gpuplan.types.address import Address
from gpuplan.types.change import FieldChange
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.value import Json, JsonObject

SHORT = 12
"""Hexadecimal digits of a content that are shown."""


def first_time(wanted: Wanted) -> Iterator[FieldChange]:
    """What else is told of a model that is loaded for the first time."""
    if wanted.versions:
        yield FieldChange("versions", None, list(wanted.versions))
    if wanted.overlay:
        yield FieldChange("override", None, _told(wanted.overlay))


def overridden(desired: Desired, wanted: Wanted, mark: str, context: DiffContext) -> Iterator[FieldChange]:
    """What is laid over a model's config, where the server has not that in force; `mark` is what it says it has."""
    if mark != wanted.content:
        recorded = context.record.resources.get(desired.address)
        before = wanted_from(recorded.spec) if recorded else None
        known = _told(before.overlay) if before is not None and before.content == mark else mark[:SHORT]
        yield FieldChange("override", known if mark else None, _told(wanted.overlay) if wanted.overlay else None)


def _told(overlay: Sequence[JsonObject]) -> Json:
    return overlay[0] if len(overlay) == 1 else list(overlay)


def versions(wanted: Wanted, server: Server) -> Iterator[FieldChange]:
    """Each version whose state is not the wanted one: a wanted one that is not READY, another one that is."""
    states = {each.number: each.state or None for each in server.index.get(wanted.model, ())}
    ready = server.ready(wanted.model)
    for number in sorted({*wanted.versions, *ready}):
        if (number in wanted.versions) is not (number in ready):
            yield FieldChange(f"versions.{number}", states.get(number), READY if number in wanted.versions else None)


def versions_gone(wanted: Wanted, found: Situation) -> Sequence[str]:
    """Versions that serve and will not any more: whoever asks for one by its number is refused."""
    ready = found.server.ready(wanted.model) if found.server and wanted.versions else ()
    gone = [number for number in ready if number not in wanted.versions]
    if not gone or not wanted.versions:
        return ()
    which = f"version {gone[0]}" if len(gone) == 1 else f"versions {', '.join(map(str, gone))}"
    verb, whom = ("stops", "it") if len(gone) == 1 else ("stop", "them")
    rest = f"all others get version {wanted.versions[-1]} without a gap"
    where = f"{which} of {wanted.model} on {found.container.name} {verb} serving"
    return (f"{where}: who asks for {whom} by number is refused, {rest}",)


def override_gap(desired: Desired, wanted: Wanted, found: Situation, context: DiffContext) -> Sequence[str]:
    """Why a model has to be unloaded before it is loaded: an override is lifted by nothing else.

    One that states every field of the override in force needs no gap: nothing of that can remain.
    """
    server = found.server
    if server is None or not server.ready(wanted.model) or found.disturbed:
        return ()
    mark = server.contents.get(wanted.model) or ""
    if not wanted.repository:
        return _gap(wanted, found) if loaded_by_hand(wanted, server) and not _new_files(wanted, context) else ()
    if not mark or mark == wanted.content:
        return ()
    recorded = context.record.resources.get(desired.address)
    before = wanted_from(recorded.spec) if recorded else None
    if before is not None and before.content == mark and lays_all_anew(wanted.overlay, before.overlay):
        return ()
    return _gap(wanted, found)


def loaded_by_hand(wanted: Wanted, server: Server) -> bool:
    """True where a server took the config of a load call in place of that of our files, which holds our mark.

    A load without one leaves such a model as it is while its files are those that it was loaded from.
    """
    model = wanted.model
    return not wanted.repository and bool(server.ready(model)) and not server.contents.get(model)


def _gap(wanted: Wanted, found: Situation) -> Sequence[str]:
    return (f"model {wanted.model} on {found.container.name} stops serving until it is loaded again",)


def _new_files(wanted: Wanted, context: DiffContext) -> bool:
    files = Address(context.node, "repository", wanted.container).part(wanted.model)
    return any(disturbed.covers(files) for disturbed in context.disturbed)


def override_lost(wanted: Wanted, server: Server) -> Iterator[str]:
    """A model that serves with the config of its repository although the plan file lays something over it."""
    if wanted.overlay and server.ready(wanted.model) and not server.contents.get(wanted.model):
        yield "the override of its config is lost: a server that is started anew loads what its repository says"


def unseen(wanted: Wanted, server: Server) -> str:
    """Why a model is not in the index: it is not in the repository, or the server does not see that it is."""
    if server.on_disk is None:
        return "the server does not see the model in its repository"
    if wanted.model in server.on_disk:
        return f"the server does not see the model yet, and {wanted.repository} on the node has it"
    return f"the model is not in {wanted.repository} on the node"
