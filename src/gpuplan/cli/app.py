"""All commands in one parser. A command imports what it needs when it runs, so that --help is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from gpuplan.cli.apply import apply
from gpuplan.cli.boot_unit import boot_unit
from gpuplan.cli.check import check
from gpuplan.cli.console import Unwritable, discard_output, print_plain_error, writing
from gpuplan.cli.destroy import destroy
from gpuplan.cli.discover import discover
from gpuplan.cli.drift_check import drift_check
from gpuplan.cli.errors import error_boundary
from gpuplan.cli.mig_parted import export_mig_parted, import_mig_parted
from gpuplan.cli.plan import plan
from gpuplan.cli.show import show
from gpuplan.cli.smoke import smoke
from gpuplan.cli.validate import schema, validate
from gpuplan.types.diagnostic import Diagnostic, Exit

PROGRAM = "gpuplan"
COMMANDS: Mapping[str, Callable[..., int]] = {
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
GROUPS: Mapping[str, tuple[str, Mapping[str, Callable[..., int]]]] = {
    "import": ("Convert files of other tools to parts of a plan file.", {"mig-parted": import_mig_parted}),
    "export": ("Convert a plan file to files of other tools.", {"mig-parted": export_mig_parted}),
}
"""Groups of commands: the help of the group, and its commands."""
HELP = "Terraform for GPU nodes: MIG slices, containers and Triton models from one plan file."
EPILOGUE = (
    "Exit codes: 0 done or in sync; 1 error; 2 changes or drift; 3 pending changes only; 4 a node could not be read; "
    "5 another apply holds the lock; 6 a guard refused; 7 the saved change set is stale; 64 wrong usage; "
    "129, 130, 143 interrupted."
)


def run_command_line(argv: Sequence[str]) -> int:
    """Parse and run a command line; never raises."""
    try:
        with writing(sys.stdout):
            return _run(argv)
    except BrokenPipeError:  # the reader of the pipe has closed it, as head does
        discard_output()
    except Unwritable as error:
        print_plain_error(str(error))
        discard_output()
    return int(Exit.ERROR)


def build_app() -> typer.Typer:
    """The parser. Help is plain text, because rich takes longer to import than everything else."""
    app = typer.Typer(
        name=PROGRAM,
        help=HELP,
        epilog=EPILOGUE,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(help=f"{HELP}\n\n--install-completion edits your shell's startup file, such as ~/.bashrc.")(_root)
    for name, command in COMMANDS.items():
        app.command(name)(error_boundary(command))
    for name, (group_help, commands) in GROUPS.items():
        group = typer.Typer(help=group_help, no_args_is_help=True, rich_markup_mode=None)
        group.callback()(_group)
        for tool, command in commands.items():
            group.command(tool)(error_boundary(command))
        app.add_typer(group, name=name)
    return app


def _run(argv: Sequence[str]) -> int:
    try:
        code = typer.main.get_command(build_app()).main(args=list(argv), prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        return _report_usage(error, "--json" in argv)
    return code if isinstance(code, int) else int(Exit.DONE)


def _report_usage(error: typer.TyperException, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", PROGRAM)
    message = error.format_message()
    is_help = message.startswith("Usage:")  # without a command, the message is the whole help
    if as_json and not is_help:
        from gpuplan.cli.console import Console
        from gpuplan.output.json import diagnostics_document

        console = Console(as_json=True)
        console.report([Diagnostic("Wrong usage", f"{command}: {message}", f"See {command} --help.")])
        console.print_document(diagnostics_document(), Exit.USAGE)
    else:
        with writing(sys.stderr):
            print(message if is_help else f"{command}: {message}\nTry '{command} --help'.", file=sys.stderr)
    return int(Exit.USAGE)


def _print_version(requested: bool) -> None:
    if requested:
        from gpuplan import __version__

        print(f"{PROGRAM} {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options before a command; the parser prints the version itself."""


def _group() -> None:
    """Makes typer keep the name of a group's only command, which it otherwise drops."""
