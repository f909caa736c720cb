"""`gpuplan apply --local`: restores this node from the records that it keeps, one plan after the other."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuplan.cli import INTERRUPTED, carrying_out
from gpuplan.cli.voice import Voice
from gpuplan.types.diagnostic import Exit, Problem
from gpuplan.types.inventory import Connection, Host, Inventory
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from gpuplan.cli.carrying_out import Consent

NOTHING = "Nothing to restore: no plan file was applied to this node."


class _Gathering(Voice):
    """A voice whose answers are kept until the last plan is done."""

    def __init__(self, as_json: bool) -> None:
        super().__init__(as_json)
        self.answers: list[JsonObject] = []

    def answer(self, result: JsonObject, code: int) -> None:
        self.answers.append({**result, "exit_code": int(code)})

    def answer_all(self, code: int) -> None:
        """The one document for all plans."""
        super().answer({"kind": "gpuplan restore", "format": 1, "plans": self.answers}, code)


def restore_here(kinds: Sequence[str], given: Consent, as_json: bool, host: Host | None = None) -> int:
    """Restore every recorded plan; one that fails does not stop the next.

    `host` is this machine. As root it needs no sudo, otherwise it asks for it.
    """
    from gpuplan.core.restore import recorded_plans

    voice = _Gathering(as_json)
    here = host or Host(socket.gethostname(), Connection.LOCAL, become=True)
    plans = recorded_plans(here)
    if not plans:
        from gpuplan.output.page import paragraph

        voice.show([paragraph(NOTHING)])
    code = _worst([_one(here, plan, kinds, given, voice) for plan in plans])
    voice.answer_all(code)
    return code


def _one(here: Host, plan: str, kinds: Sequence[str], given: Consent, voice: Voice) -> int:
    from gpuplan.core.restore import follow, restoring
    from gpuplan.output.page import paragraph

    voice.show([paragraph(f"Plan {plan}, as last applied:")])
    try:
        found = restoring(here, plan, kinds, os.environ)
        inventory = Inventory((found.host,))
        code = carrying_out.carry_out(found.change_set, inventory, given, voice, partial=bool(kinds))
    except Problem as problem:
        voice.tell(problem.diagnostics)
        return int(problem.exit_code)
    voice.tell(follow(found))
    return code


def _worst(codes: Sequence[int]) -> int:
    order = (INTERRUPTED, Exit.ERROR, Exit.STALE, Exit.BUSY, Exit.REFUSED, Exit.UNREAD)
    return next((int(code) for code in order if code in codes), max(codes, default=0))
