"""What a config leaves to the server: as long as it leaves something, every load of the server's Python models waits.

With auto-completion on, a server starts each Python model once more just to ask it for its config, which takes 1.2 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.pythonsource import sources
from gpuplan.triton.lint.repository import Repository, Subject, listed, number, text
from gpuplan.triton.lint.tensors import SELF_DESCRIBING
from gpuplan.types.diagnostic import Severity

INCOMPLETE = Check("config-incomplete", "A config leaves something to the server", Effect.LATE, Severity.WARNING)


def lacking(subject: Subject) -> tuple[str, ...]:
    """What a server would complete in the model's config, in words; nothing where the config says all.

    Of a backend that reads models by itself a `max_batch_size` of 0 may become another one (model_configuration.md,
    “Default Max Batch Size”).
    """
    return () if subject.ensemble else tuple(_lacking(subject))


def _lacking(subject: Subject) -> Iterator[str]:
    if not text(subject.config.get("backend")) and not text(subject.config.get("platform")):
        yield "backend"
    for kind in ("input", "output"):
        stated = listed(subject.config, kind)
        if not stated:
            yield kind
        for tensor in stated:
            absent = [name for name in ("data_type", "dims") if tensor.get(name) in (None, [], "TYPE_INVALID")]
            yield from (f"{name} of {kind} {text(tensor.get('name'))}" for name in absent)
    if subject.backend in SELF_DESCRIBING and not number(subject.config.get("max_batch_size")):
        yield "max_batch_size"
    if any(source.method("auto_complete_config") for source in sources(subject)):
        yield "what auto_complete_config of its model.py adds"


def _incomplete(subject: Subject, repository: Repository) -> Findings:
    """Only where it costs something and nobody has decided it. Of tensors that nobody knows another check tells."""
    server = repository.server
    absent = lacking(subject)
    python = [name for name, each in repository.models.items() if each.backend == "python"]
    own = "what auto_complete_config" in (absent[-1] if absent else "")
    if not absent or not python or not server.completes_configs or server.completion_is_stated:
        return
    if subject.backend == "python" and not own:
        return
    slow = f"{len(python)} Python models" if len(python) > 1 else f"the Python model {python[0]}"
    yield INCOMPLETE.at(
        subject.where(),
        f"{subject.name} leaves out {', '.join(absent)}, so {server.name} keeps auto-completion on, and each load of "
        f"{slow} takes about a second longer.",
        "State it in config.pbtxt"
        + (", and take auto_complete_config out of model.py" if own else "")
        + "; or decide it for the whole server: triton: { auto_complete: false } takes every config as it stands.",
    )


FAMILY = Family((INCOMPLETE,), (_incomplete,))
