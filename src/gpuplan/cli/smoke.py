"""`gpuplan smoke`: asks the loaded models for inferences and tells how long they take."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from gpuplan.cli.options import AsJson, InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Exit

FILES = 65536
"""Open files that are enough for all requests in flight: each takes four, on every node at once."""


class OverProtocol(enum.StrEnum):
    """What --protocol takes."""

    HTTP = "http"
    GRPC = "grpc"


class OverMemory(enum.StrEnum):
    """What --shared-memory takes."""

    NONE = "none"
    SYSTEM = "system"
    CUDA = "cuda"


def smoke(
    plan: PlanPath,
    inventory: InventoryPath = "",
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="ADDRESS", help="Only models that match this glob; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="Only this model, also without a smoke section; may be repeated."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also models without a smoke section.")] = False,
    requests: Annotated[int, typer.Option("--requests", min=1, max=1_000_000, help="Requests to each version.")] = 1,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=256, help="Requests in flight.")] = 1,
    protocol: Annotated[OverProtocol | None, typer.Option("--protocol", help="Instead of what is stated.")] = None,
    shared_memory: Annotated[
        OverMemory | None, typer.Option("--shared-memory", help="Instead of what is stated.")
    ] = None,
    var: Variables = None,
    var_file: VariableFiles = None,
    as_json: AsJson = False,
) -> Exit:
    """Ask the loaded models for inferences, and tell how long they take.

    Changes nothing and takes no lock. Asks each model that has a smoke section, in each of its versions.
    """
    from gpuplan.cli.inputs import read_inputs
    from gpuplan.cli.interrupt import leaving_at_once
    from gpuplan.cli.voice import Voice
    from gpuplan.core.smoke import Choice, exit_of
    from gpuplan.core.smoke import smoke as ask
    from gpuplan.output.json_smoke import document
    from gpuplan.output.smoke import page
    from gpuplan.resources.model.smoke.run import RequestLoad
    from gpuplan.resources.model.smoke.spec import memory_of, protocol_of

    allow_open_files()
    voice = Voice(as_json)
    inputs = read_inputs(plan, inventory, var, var_file)
    voice.tell(inputs.warnings)
    choice = Choice(
        tuple(target or ()),
        tuple(model or ()),
        everything,
        RequestLoad(requests, concurrency),
        protocol_of(protocol.value if protocol else ""),
        memory_of(shared_memory.value) if shared_memory else None,
    )
    with voice.progress(lines=False) as listen, leaving_at_once():
        nodes = ask(inputs.plan, inputs.inventory, choice, base_dir=inputs.base_dir, listen=listen)
    voice.show(page(nodes))
    voice.tell([each for node in nodes for each in node.unread])
    voice.tell([each for node in nodes for proof in node.proofs for each in proof.diagnostics])
    code = exit_of(nodes)
    voice.answer(document(inputs.plan.name, nodes), code)
    return code


def allow_open_files() -> None:
    """Have as many as this user may have, `FILES` at most; a shell usually allows 1024 where nobody asks for more."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
