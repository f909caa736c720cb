"""`gpuplan boot-unit`: the systemd unit that restores this node at boot, printed or put in its place."""

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
    what: Annotated[str, typer.Argument(metavar="WHAT", help="What is restored: gpus or containers.")] = "gpus",
    program: Annotated[
        str, typer.Option("--program", metavar="PATH", help="gpuplan's absolute path on the node.")
    ] = "",
    install: Annotated[bool, typer.Option("--install", help="Write it below --root instead of printing it.")] = False,
    root: Annotated[str, typer.Option("--root", metavar="DIR", help="The node's root directory.")] = "/",
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="With --install: an environment variable of the unit."),
    ] = None,
) -> Exit:
    """Print the systemd unit that restores this node at boot, or install it.

    The unit for gpus runs before Docker starts, the one for containers after it (docs/boot.md).
    """
    from gpuplan.convert.boot_units import ENVIRONMENT, UNITS

    unit = UNITS.get(what)
    if unit is None:
        raise Problem(_no_such_unit(what, tuple(UNITS)), Exit.USAGE)
    if variables and not install:
        raise Problem(Diagnostic("Nothing is written without --install", "--set changes a file.", ""), Exit.USAGE)
    text = _text(unit, program)
    if not install:
        print(text, end="")
        return Exit.DONE
    place = Path(root) / UNIT_DIRECTORY / unit.name
    if variables:
        _set(Path(root) / ENVIRONMENT.lstrip("/"), variables)
    _write(_checked(place), text, 0o644)
    print(f"{place} is written. To have it run at boot: systemctl daemon-reload && systemctl enable {unit.name}")
    return Exit.DONE


def _text(unit: BootUnit, program: str) -> str:
    try:
        return unit.text([program] if program else _own_command())
    except ValueError as error:
        raise Problem(
            Diagnostic(
                "gpuplan's path does not go into a unit",
                f"{program or sys.argv[0]}: {error}.",
                "Name another with --program.",
            ),
            Exit.USAGE,
        ) from None


def _own_command() -> Sequence[str]:
    """The command line by which this very gpuplan was started."""
    started = Path(sys.argv[0]).absolute()
    if started.name == "gpuplan" and os.access(started, os.X_OK):
        return [str(started)]
    return [sys.executable, "-m", "gpuplan"]


def _set(file: Path, variables: Sequence[str]) -> None:
    from gpuplan.convert.boot_units import with_variables

    try:
        text = file.read_text("utf-8") if file.exists() else ""
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        pairs = [each.partition("=") for each in variables]
        _write(file, with_variables(text, {name: value for name, _, value in pairs}), mode)
    except ValueError as error:
        raise Problem(
            Diagnostic("The variables cannot be set", f"{file}: {error}.", where=Location(str(file)))
        ) from None


def _checked(place: Path) -> Path:
    """The place, where nothing of anybody else's stands."""
    from gpuplan.convert.boot_units import MARK

    if place.is_symlink() or (place.exists() and not place.read_text("utf-8", "replace").startswith(MARK)):
        raise Problem(
            Diagnostic(
                "A unit of that name is there",
                f"{place} was not written by gpuplan, or is masked.",
                "Look at it, and remove it if it is not needed.",
                Location(str(place)),
            )
        )
    return place


def _write(file: Path, text: str, mode: int) -> None:
    """Whole or not at all."""
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
    except OSError as fault:
        detail = f"{file}: {fault.strerror or fault}."
        fix = "Run it as root, or give --root."
        raise Problem(Diagnostic("A file cannot be written", detail, fix, Location(str(file)))) from fault


def _no_such_unit(what: str, known: Sequence[str]) -> Diagnostic:
    return Diagnostic("There is no boot unit of that name", f"“{what}” was given.", f"Write {' or '.join(known)}.")
