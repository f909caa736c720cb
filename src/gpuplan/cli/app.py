"""All verbs under one command; each is imported as it is, what they need only when they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from gpuplan.cli.apply import apply
from gpuplan.cli.check import check
from gpuplan.cli.destroy import destroy
from gpuplan.cli.drift_check import drift_check
from gpuplan.cli.edge import at_the_edge
from gpuplan.cli.plan import plan
from gpuplan.cli.schema import schema
from gpuplan.cli.show import show
from gpuplan.cli.validate import validate

VERBS: Mapping[str, Callable[..., int]] = {
    "validate": validate,
    "check": check,
    "plan": plan,
    "apply": apply,
    "destroy": destroy,
    "drift-check": drift_check,
    "show": show,
    "schema": schema,
}
EPILOGUE = "Exit codes: 0 done or in sync, 1 error, 2 changes or drift, 3 only pending, 4 a node could not be read, \
5 busy, 6 refused by a guard, 7 stale, 64 wrong usage, 130 interrupted."


def build() -> typer.Typer:
    """The whole command. Help is plain text: drawing it with rich would take as long as all the rest."""
    app = typer.Typer(
        name="gpuplan",
        help="Terraform for GPU nodes: MIG slices, containers and Triton models from one plan file.",
        epilog=EPILOGUE,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_top)
    for name, verb in VERBS.items():
        app.command(name)(at_the_edge(verb))
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from gpuplan import __version__

        print(f"gpuplan {__version__}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Nothing happens before a verb."""
