"""`gpuplan boot-unit`: the systemd unit that restores this node at boot, printed or installed."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.types.diagnostic import Diagnostic, Exit, Location, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuplan.convert.boot_units import BootUnit

UNIT_DIRECTORY = "etc/systemd/system"


def boot_unit(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="What to restore: gpus or containers.")] = "gpus",
    program: Annotated[
        str,
        typer.Option("--program", metavar="PATH", help="Absolute path of gpuplan on the node. Default: this gpuplan."),
    ] = "",
    install: Annotated[
        bool, typer.Option("--install", help="Install the unit below --root instead of printing it.")
    ] = False,
    root: Annotated[str, typer.Option("--root", metavar="DIR", help="Root directory of the node.")] = "/",
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="With --install: environment variable of the unit. Repeatable."
        ),
    ] = None,
) -> Exit:
    """Print the systemd unit that restores this node at boot, or install it.

    The unit for gpus runs before Docker starts, the unit for containers after it (see docs/boot.md).
    """
    from gpuplan.convert.boot_units import ENVIRONMENT, UNITS

    unit = UNITS.get(what)
    if unit is None:
        raise Problem(_no_such_unit(what, tuple(UNITS)), Exit.USAGE)
    if variables and not install:
        raise Problem(
            Diagnostic("--set needs --install", "--set writes the environment file of the unit.", "Add --install."),
            Exit.USAGE,
        )
    text = _text(unit, program)
    if not install:
        print(text, end="")
        return Exit.DONE
    path = Path(root) / UNIT_DIRECTORY / unit.name
    if variables:
        _set(Path(root) / ENVIRONMENT.lstrip("/"), variables)
    _write(_check_free(path), text, 0o644)
    print(f"Installed {path}. To run it at boot: systemctl daemon-reload && systemctl enable {unit.name}")
    return Exit.DONE


def _text(unit: BootUnit, program: str) -> str:
    try:
        return unit.text([program] if program else _own_command())
    except ValueError as error:
        raise Problem(
            Diagnostic(
                "Cannot use this path in a systemd unit",
                f"{program or sys.argv[0]}: {error}.",
                "Set another path with --program.",
            ),
            Exit.USAGE,
        ) from None


def _own_command() -> Sequence[str]:
    """The command line that runs this gpuplan."""
    started = Path(sys.argv[0]).absolute()
    if started.name == "gpuplan" and os.access(started, os.X_OK):
        return [str(started)]
    return [sys.executable, "-m", "gpuplan"]


def _set(file: Path, variables: Sequence[str]) -> None:
    from gpuplan.convert.boot_units import with_variables

    try:
        text = file.read_text("utf-8") if file.exists() else ""
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        pairs = [variable.partition("=") for variable in variables]
        _write(file, with_variables(text, {name: value for name, _, value in pairs}), mode)
    except ValueError as error:
        raise Problem(
            Diagnostic("Cannot set the environment variables", f"{file}: {error}.", where=Location(str(file)))
        ) from None


def _check_free(path: Path) -> Path:
    """The path, if it is free or holds a unit written by gpuplan."""
    from gpuplan.convert.boot_units import MARK

    if path.is_symlink() or (path.exists() and not path.read_text("utf-8", "repath").startswith(MARK)):
        raise Problem(
            Diagnostic(
                "Refusing to overwrite a unit",
                f"{path} is masked, or was not written by gpuplan.",
                f"Review it with systemctl cat {path.name}, and remove it if it is not needed.",
                Location(str(path)),
            )
        )
    return path


def _write(file: Path, text: str, mode: int) -> None:
    """Write the file atomically."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                os.fchmod(out.fileno(), mode)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        detail = f"{file}: {error.strerror or error}."
        fix = "Run gpuplan as root, or set --root."
        raise Problem(Diagnostic("Cannot write file", detail, fix, Location(str(file)))) from error


def _no_such_unit(what: str, known: Sequence[str]) -> Diagnostic:
    return Diagnostic("Unknown boot unit", f"WHAT was given “{what}”.", f"Use {' or '.join(known)}.")
