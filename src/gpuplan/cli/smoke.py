"""`gpuplan smoke`: runs inferences on the loaded models and reports their latencies."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from gpuplan.cli.inputs import AsJson, InventoryPath, PlanPath, VariableFiles, Variables
from gpuplan.types.diagnostic import Exit

MAX_OPEN_FILES = 65536
"""Open files that suffice for all requests in flight: each takes four, on all nodes in parallel."""


class ProtocolChoice(enum.StrEnum):
    """The values of --protocol."""

    HTTP = "http"
    GRPC = "grpc"


class SharedMemoryChoice(enum.StrEnum):
    """The values of --shared-memory."""

    NONE = "none"
    SYSTEM = "system"
    CUDA = "cuda"


def smoke(
    plan: PlanPath,
    inventory: InventoryPath = "",
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", metavar="ADDRESS", help="Only models that match this glob (node/kind/name). Repeatable."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="Only this model, even without a smoke section. Repeatable."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include models without a smoke section.")] = False,
    requests: Annotated[int, typer.Option("--requests", min=1, max=1_000_000, help="Requests per model version.")] = 1,
    concurrency: Annotated[
        int,
        typer.Option("--concurrency", min=1, max=256, help="Requests in flight at the same time, per model version."),
    ] = 1,
    protocol: Annotated[
        ProtocolChoice | None, typer.Option("--protocol", help="Override the protocol of the smoke section.")
    ] = None,
    shared_memory: Annotated[
        SharedMemoryChoice | None,
        typer.Option("--shared-memory", help="Override the shared memory of the smoke section."),
    ] = None,
    var: Variables = None,
    var_file: VariableFiles = None,
    as_json: AsJson = False,
) -> Exit:
    """Run inferences on the loaded models and report their latencies.

    Sends requests to every version of each model that has a smoke section. Changes nothing and takes no lock.
    """
    from gpuplan.cli.console import Console
    from gpuplan.cli.inputs import read_inputs
    from gpuplan.cli.interrupt import exit_on_interrupt
    from gpuplan.core.smoke import SmokeSelection, smoke_exit_code
    from gpuplan.core.smoke import smoke as run_smoke
    from gpuplan.output.json import smoke_document
    from gpuplan.output.smoke import render_smoke
    from gpuplan.resources.model.smoke.run import RequestLoad
    from gpuplan.resources.model.smoke.spec import memory_of, protocol_of

    raise_open_files_limit()
    console = Console(as_json)
    inputs = read_inputs(plan, inventory, var, var_file)
    console.report(inputs.warnings)
    choice = SmokeSelection(
        tuple(target or ()),
        tuple(model or ()),
        everything,
        RequestLoad(requests, concurrency),
        protocol_of(protocol.value if protocol else ""),
        memory_of(shared_memory.value) if shared_memory else None,
    )
    with console.progress(lines=False) as listen, exit_on_interrupt():
        nodes = run_smoke(inputs.plan, inputs.inventory, choice, base_dir=inputs.base_dir, listen=listen)
    console.show(render_smoke(nodes))
    console.report([diagnostic for node in nodes for diagnostic in node.unread])
    console.report([diagnostic for node in nodes for proof in node.proofs for diagnostic in proof.diagnostics])
    code = smoke_exit_code(nodes)
    console.print_document(smoke_document(inputs.plan.name, nodes), code)
    return code


def raise_open_files_limit() -> None:
    """Raise this process's limit of open files to `MAX_OPEN_FILES` if the user may; shells usually set it to 1024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
