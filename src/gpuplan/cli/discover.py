"""`gpuplan discover`: writes a plan file that describes the nodes as they are, so that its plan shows no changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.inputs import AsJson, InventoryPath
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

if TYPE_CHECKING:
    from gpuplan.cli.console import Console
    from gpuplan.core.plan.observe import NodeAnswer
    from gpuplan.discover.entries import Discovery
    from gpuplan.types.inventory import Host
    from gpuplan.types.value import JsonObject

Out = Annotated[
    str,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Write to this file, which must not exist. Default: standard output."
    ),
]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name of the plan file, used as the owner of what it makes.")
]


def _complete_node(context: typer.Context, incomplete: str) -> Sequence[str]:
    """Complete the names of nodes and groups in the shell; nothing if the inventory cannot be read."""
    from gpuplan.cli.inputs import inventory_path, read_inventory_file

    try:
        hosts = read_inventory_file(inventory_path(context.params.get("inventory") or "")).hosts
    except Problem:
        return ()
    names = dict.fromkeys(name for host in hosts for name in (host.name, *host.groups))
    return [name for name in names if name.startswith(incomplete)]


Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="NODE", autocompletion=_complete_node, help="Only this node, group or glob. Repeatable."
    ),
]


def discover(
    inventory: InventoryPath = "",
    out: Out = "",
    name: Name = "discovered",
    node: Nodes = None,
    as_json: AsJson = False,
) -> Exit:
    """Write a plan file that describes the nodes as they are.

    A plan of this file shows no changes. Nothing is adopted: containers that gpuplan did not make stay unmanaged until
    you set `adopt: true` for them, which replaces them. Values that look like secrets are not written.
    """
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import inventory_path, read_inventory_file
    from gpuplan.discover.discover import discover_plan_file

    console = Console(as_json)
    _check_options(out, name)
    inventory_file = read_inventory_file(inventory_path(inventory))
    console.report(inventory_file.warnings)
    hosts = _select_hosts(inventory_file.hosts, node or ())
    answers = _read_nodes(hosts, name, console)
    discovery = discover_plan_file(
        name, [(answer.host, answer.snapshot) for answer in answers if answer.snapshot is not None]
    )
    plan = discovery.document(_node_set_names(discovery, hosts))
    unread = [answer.host.name for answer in answers if answer.snapshot is None]
    text = _render(discovery, plan, unread)
    if out:
        _write(Path(out), text)
    elif not as_json:
        print(text, end="")
    code = Exit.UNREAD if unread else Exit.DONE
    console.print_document(_document(discovery, plan, text, unread), code)
    return code


def _document(discovery: Discovery, plan: JsonObject, text: str, unread: Sequence[str]) -> JsonObject:
    left_out = [{"node": item.node, "what": item.what, "why": item.why} for item in discovery.left_out]
    head: JsonObject = {"kind": "gpuplan discovery", "format": 1}
    return {**head, "plan": plan, "text": text, "left_out": left_out, "unread": list(unread)}


def _read_nodes(hosts: Sequence[Host], name: str, console: Console) -> Sequence[NodeAnswer]:
    from gpuplan.cli.interrupt import exit_on_interrupt
    from gpuplan.core.plan.observe import observe
    from gpuplan.transport.session import Question

    with console.progress(lines=False) as listen, exit_on_interrupt():
        answers = observe(hosts, Question(name), listen)
    console.report([problem for answer in answers for problem in answer.problems])
    return answers


def _select_hosts(hosts: Sequence[Host], names: Sequence[str]) -> Sequence[Host]:
    from gpuplan.planfile.expand import on_node

    selected = [host for host in hosts if not names or on_node(tuple(names), host)]
    if not selected:
        detail = f"No node or group of the inventory matches --node {', '.join(names)}."
        raise Problem(
            Diagnostic("No matching node", detail, "Use a node, a group or a glob of the inventory."), Exit.USAGE
        )
    return selected


def _node_set_names(discovery: Discovery, hosts: Sequence[Host]) -> Mapping[tuple[str, ...], str | list[str]]:
    from gpuplan.discover.entries import name_node_sets

    return name_node_sets({section.nodes for section in discovery.sections}, hosts)


def _render(discovery: Discovery, plan: Mapping[str, object], unread: Sequence[str]) -> str:
    from gpuplan.output.plan_file import render_plan_file

    notes = {
        (section.kind, section.key): tuple(_notes(section.omitted, section.secrets)) for section in discovery.sections
    }
    return render_plan_file(plan, notes, _header(discovery, unread))


def _notes(omitted: Sequence[str], secrets: Sequence[str]) -> Iterator[str]:
    if omitted:
        yield f"Not in this plan file, and left as it is: {'; '.join(omitted)}."
    if secrets:
        names = ", ".join(secrets)
        yield f"Looks like a secret, value left out: {names}. Set it in gpuplan's environment, or use ${{file:…}}."


def _header(discovery: Discovery, unread: Sequence[str]) -> Iterator[str]:
    yield "Written by gpuplan discover. gpuplan plan shows no changes as long as the nodes stay as they are."
    if any(section.kind == "containers" for section in discovery.sections):
        yield "The containers are unmanaged: gpuplan leaves them alone as long as they match this file. To manage a"
        yield "container, set adopt: true; the next apply replaces it by one of its own."
    yield from (f"{node} is missing, because it could not be read." for node in unread)
    if discovery.left_out:
        yield ""
        yield "Left out:"
        yield from (f"- {node}: {what}: {why}" for node, what, why in _group_left_out(discovery))
    yield ""


def _group_left_out(discovery: Discovery) -> Iterator[tuple[str, str, str]]:
    """What is left out of each node and why, one line per reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in discovery.left_out:
        reasons.setdefault((item.node, item.why), []).append(item.what)
    return ((node, ", ".join(things), why) for (node, why), things in reasons.items())


def _check_options(out: str, name: str) -> None:
    import re

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", name):
        detail = f"--name was given “{name}”. A name has at most 63 letters, digits, “_”, “.” and “-”."
        raise Problem(Diagnostic("Invalid plan name", detail), Exit.USAGE)
    if out and Path(out).exists():
        fix = "Choose another file, or remove it."
        raise Problem(Diagnostic("Refusing to overwrite a file", f"{out} exists.", fix), Exit.USAGE)


def _write(path: Path, text: str) -> None:
    """Write with mode 0600: the file shows what runs on the nodes."""
    import os

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Problem(Diagnostic("Cannot write the plan file", f"{path}: {error.strerror}.")) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
