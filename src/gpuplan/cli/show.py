"""`gpuplan show`: a saved change set as people and scripts read it."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.cli.options import AsJson, Verbose
from gpuplan.types.diagnostic import Exit


def show(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What gpuplan plan --out saved.")],
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> Exit:
    """Show a saved change set and the order of its steps."""
    from gpuplan.cli import planning, saved_file
    from gpuplan.cli.voice import Voice
    from gpuplan.output.json_change_set import change_set as whole

    voice = Voice(as_json)
    change_set, inventory = saved_file.read(file)
    planning.show(change_set, voice, steps=True, verbose=verbose)
    voice.answer({**whole(change_set), "inventory": inventory}, Exit.DONE)
    return Exit.DONE
