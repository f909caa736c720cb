"""`gpuplan discover`: writes the plan file that describes the nodes as they are, so that its plan shows no changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.options import AsJson, InventoryPath
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

if TYPE_CHECKING:
    from gpuplan.cli.voice import Voice
    from gpuplan.core.plan.observe import Answer
    from gpuplan.discover.entry import Discovery
    from gpuplan.types.inventory import Host
    from gpuplan.types.value import JsonObject

Out = Annotated[
    str, typer.Option("--out", "-o", metavar="FILE", help="Write it there; a file that is there is left alone.")
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The plan file's name, which owns what it makes.")]


def _known(context: typer.Context, incomplete: str) -> Sequence[str]:
    """Nodes and groups that begin so, for the shell; none where the inventory cannot be read."""
    from gpuplan.cli.inputs import inventory_path, read_inventory_file

    try:
        hosts = read_inventory_file(inventory_path(context.params.get("inventory") or "")).hosts
    except Problem:
        return ()
    names = dict.fromkeys(name for host in hosts for name in (host.name, *host.groups))
    return [name for name in names if name.startswith(incomplete)]


Nodes = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="NODE", autocompletion=_known, help="Only this node or group; may be repeated."),
]


def discover(
    inventory: InventoryPath = "",
    out: Out = "",
    name: Name = "discovered",
    node: Nodes = None,
    as_json: AsJson = False,
) -> Exit:
    """Write the plan file that describes the nodes as they are.

    Its plan shows no changes. What runs is neither touched nor taken over: a container that gpuplan did not make stays
    unmanaged, and adopting it takes a replacement, for which the plan file has `adopt: true`. Nothing that looks like a
    secret is written.
    """
    from gpuplan.cli.inputs import inventory_path, read_inventory_file
    from gpuplan.cli.voice import Voice
    from gpuplan.discover.discover import discovered

    voice = Voice(as_json)
    _refuse(out, name)
    read = read_inventory_file(inventory_path(inventory))
    voice.tell(read.warnings)
    hosts = _chosen(read.hosts, node or ())
    answers = _ask(hosts, name, voice)
    found = discovered(name, [(each.host, each.snapshot) for each in answers if each.snapshot is not None])
    document = found.document(_words(found, hosts))
    unread = [each.host.name for each in answers if each.snapshot is None]
    text = _text(found, document, unread)
    if out:
        _write(Path(out), text)
    elif not as_json:
        print(text, end="")
    code = Exit.UNREAD if unread else Exit.DONE
    voice.answer(_json(found, document, text, unread), code)
    return code


def _json(found: Discovery, document: JsonObject, text: str, unread: Sequence[str]) -> JsonObject:
    left_out = [{"node": each.node, "what": each.what, "why": each.why} for each in found.left_out]
    head: JsonObject = {"kind": "gpuplan discovery", "format": 1}
    return {**head, "plan": document, "text": text, "left_out": left_out, "unread": list(unread)}


def _ask(hosts: Sequence[Host], name: str, voice: Voice) -> Sequence[Answer]:
    from gpuplan.cli.interrupt import leaving_at_once
    from gpuplan.core.plan.observe import observe
    from gpuplan.transport.session import Question

    with voice.progress(lines=False) as listen, leaving_at_once():
        answers = observe(hosts, Question(name), listen)
    voice.tell([problem for each in answers for problem in each.problems])
    return answers


def _chosen(hosts: Sequence[Host], wanted: Sequence[str]) -> Sequence[Host]:
    from gpuplan.planfile.expand import on_node

    chosen = [host for host in hosts if not wanted or on_node(tuple(wanted), host)]
    if not chosen:
        detail = f"--node was given {', '.join(wanted)}, and no node of the inventory is called or grouped so."
        raise Problem(Diagnostic("No such node", detail, "Name a node, a group or a glob."), Exit.USAGE)
    return chosen


def _words(found: Discovery, hosts: Sequence[Host]) -> Mapping[tuple[str, ...], str | list[str]]:
    from gpuplan.discover.together import words

    return words({each.nodes for each in found.sections}, hosts)


def _text(found: Discovery, document: Mapping[str, object], unread: Sequence[str]) -> str:
    from gpuplan.output.planfile import planfile

    notes = {(each.kind, each.key): tuple(_notes(each.unsaid, each.secrets)) for each in found.sections}
    return planfile(document, notes, _head(found, unread))


def _notes(unsaid: Sequence[str], secrets: Sequence[str]) -> Iterator[str]:
    if unsaid:
        yield f"Not said here, and left as it is: {'; '.join(unsaid)}."
    if secrets:
        names = ", ".join(secrets)
        yield f"Looks like a secret, so its value is not here: {names}. Set it where gpuplan runs, or use ${{file:…}}."


def _head(found: Discovery, unread: Sequence[str]) -> Iterator[str]:
    yield "Written by gpuplan discover: the nodes as they are. gpuplan plan shows no changes as long as they stay so."
    if any(each.kind == "containers" for each in found.sections):
        yield "What runs was made by somebody else, and is left alone; adopt: true has a container replaced by one of"
        yield "gpuplan's own. What a container states here is compared with it from now on."
    yield from (f"{node} could not be read, and is not in here." for node in unread)
    if found.left_out:
        yield ""
        yield "Left out:"
        yield from (f"- {node}: {what}: {why}" for node, what, why in _together(found))
    yield ""


def _together(found: Discovery) -> Iterator[tuple[str, str, str]]:
    """What is left out of each node, with those of one reason in one line."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in found.left_out:
        reasons.setdefault((each.node, each.why), []).append(each.what)
    return ((node, ", ".join(things), why) for (node, why), things in reasons.items())


def _refuse(out: str, name: str) -> None:
    import re

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", name):
        detail = f"--name was given “{name}”; a name has letters, digits, and _ . - between them."
        raise Problem(Diagnostic("Not a name for a plan file", detail), Exit.USAGE)
    if out and Path(out).exists():
        fix = "Choose another file, or remove that one."
        raise Problem(Diagnostic("The file is there already", f"{out} is not written over.", fix), Exit.USAGE)


def _write(path: Path, text: str) -> None:
    """Readable by its owner alone: what runs on the nodes is nobody else's business until somebody says so."""
    import os

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as fault:
        raise Problem(Diagnostic("The plan file cannot be written", f"{path}: {fault.strerror}.")) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
