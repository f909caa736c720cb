"""`gpuplan show`: a saved change set, for review."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.cli.inputs import AsJson, Verbose
from gpuplan.types.diagnostic import Exit


def show(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Change set saved by gpuplan plan --out.")],
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> Exit:
    """Show a saved change set and the order of its steps."""
    from gpuplan.cli import saved_file
    from gpuplan.cli.change_sets import show_change_set
    from gpuplan.cli.console import Console
    from gpuplan.output.json import change_set_document

    console = Console(as_json)
    change_set, inventory = saved_file.read_change_set(file)
    show_change_set(change_set, console, steps=True, verbose=verbose)
    console.print_document({**change_set_document(change_set), "inventory": inventory}, Exit.DONE)
    return Exit.DONE
