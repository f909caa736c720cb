"""The kinds that `--only` takes."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.types.diagnostic import Diagnostic, Exit, Problem


def checked_kinds(names: Sequence[str] | None) -> tuple[str, ...]:
    """The kinds, each once.

    Raises:
        Problem: there is no kind of that name.
    """
    from gpuplan.resources.kinds import KINDS

    known = [room.name for room in KINDS]
    if unknown := [name for name in names or () if name not in known]:
        raise Problem([_unknown(name, known) for name in unknown], Exit.USAGE)
    return tuple(dict.fromkeys(names or ()))


def _unknown(name: str, known: Sequence[str]) -> Diagnostic:
    detail = f"--only was given “{name}”; the kinds are {', '.join(known)}."
    return Diagnostic("There is no kind of that name", detail, "Write the kind as it stands in an address.")
