"""All verbs under one command; each is imported as it is, what they need only when they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from gpuplan.cli.apply import apply
from gpuplan.cli.boot_unit import boot_unit
from gpuplan.cli.check import check
from gpuplan.cli.destroy import destroy
from gpuplan.cli.discover import discover
from gpuplan.cli.drift_check import drift_check
from gpuplan.cli.edge import at_the_edge
from gpuplan.cli.export_mig_parted import export_mig_parted
from gpuplan.cli.import_mig_parted import import_mig_parted
from gpuplan.cli.plan import plan
from gpuplan.cli.schema import schema
from gpuplan.cli.show import show
from gpuplan.cli.smoke import smoke
from gpuplan.cli.validate import validate

VERBS: Mapping[str, Callable[..., int]] = {
    "validate": validate,
    "check": check,
    "plan": plan,
    "apply": apply,
    "destroy": destroy,
    "drift-check": drift_check,
    "discover": discover,
    "smoke": smoke,
    "show": show,
    "boot-unit": boot_unit,
    "schema": schema,
}
FORMATS: Mapping[str, tuple[str, Mapping[str, Callable[..., int]]]] = {
    "import": ("Turn files of other tools into parts of a plan file.", {"mig-parted": import_mig_parted}),
    "export": ("Turn a plan file into files of other tools.", {"mig-parted": export_mig_parted}),
}
"""Verbs that are followed by the other tool's name: what each does, and its tools."""
HELP = "Terraform for GPU nodes: MIG slices, containers and Triton models from one plan file."
EPILOGUE = "Exit codes: 0 done or in sync, 1 error, 2 changes or drift, 3 only pending, 4 a node could not be read, \
5 busy, 6 refused by a guard, 7 stale, 64 wrong usage, 130 (143, 129) interrupted."


def build() -> typer.Typer:
    """The whole command. Help is plain text: drawing it with rich would take as long as all the rest."""
    app = typer.Typer(
        name="gpuplan",
        help=HELP,
        epilog=EPILOGUE,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(help=f"{HELP}\n\n--install-completion edits the start file of your shell, such as ~/.bashrc.")(_top)
    for name, verb in VERBS.items():
        app.command(name)(at_the_edge(verb))
    for name, (about, tools) in FORMATS.items():
        group = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None)
        group.callback()(_of_a_tool)
        for tool, verb in tools.items():
            group.command(tool)(at_the_edge(verb))
        app.add_typer(group, name=name)
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


def _of_a_tool() -> None:
    """Nothing happens before the tool's name either; without this, a group of one would swallow its name."""
