"""What an apply did, on a terminal: by node, each step with its end, its time, and the transcript where it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from gpuplan.output.changes import change_block
from gpuplan.output.escape import rows, visible
from gpuplan.output.page import BLANK, Block, Page, paragraph
from gpuplan.output.summary import outcome_summary
from gpuplan.output.words import count, duration
from gpuplan.types.diagnostic import Severity
from gpuplan.types.outcome import NodeOutcome, Status, StepOutcome

SIGNS = {Status.DONE: ("✓", "green"), Status.FAILED: ("✗", "bold red"), Status.SKIPPED: ("·", "dim")}
FEW = 3
"""Steps that were not done for one and the same reason and that are named one by one."""
TRANSCRIPT_ROWS = 40
"""Rows of a failed step's transcript that are shown, from its end; --json and the journal hold all."""


def outcomes(nodes: Sequence[NodeOutcome], brief: bool = False) -> Page:
    """Everything but the diagnostics, with the summary at the end.

    `brief` leaves out the steps that were done, for a reader who has just seen them go by.
    """
    for node in nodes:
        if node.exit_code or (node.steps and not brief):
            yield from _node(node, brief)
            yield BLANK
    yield paragraph(Text(outcome_summary(nodes), "bold"))


def step_line(step: StepOutcome) -> Text:
    """“✓ create slice cls-a (0.3 s)”."""
    sign, colour = SIGNS[step.status]
    end = _reason(step) if step.status is Status.SKIPPED else duration(step.seconds)
    return Text.assemble((sign, colour), f" {visible(step.title)} ", (f"({end})", "dim"))


def _node(node: NodeOutcome, brief: bool) -> Iterator[Block]:
    yield paragraph(Text(visible(node.node), "bold"))
    skipped = Counter(_reason(step) for step in node.steps if step.status is Status.SKIPPED)
    for step in node.steps:
        if (brief and step.status is Status.DONE) or (step.status is Status.SKIPPED and skipped[_reason(step)] > FEW):
            continue
        yield paragraph(step_line(step), "  ", "    ")
        if step.status is Status.FAILED:
            yield from _transcript(step)
    for reason, number in skipped.items():
        if number > FEW:
            sign, colour = SIGNS[Status.SKIPPED]
            body = Text.assemble(
                (sign, colour), f" {number} steps were not begun ", (f"({reason.removeprefix('skipped: ')})", "dim")
            )
            yield paragraph(body, "  ", "    ")
    yield from _wrong(node)


def _wrong(node: NodeOutcome) -> Iterator[Block]:
    """What was wrong outside the steps, by its summary; the whole of it is told as a diagnostic."""
    summaries = Counter(each.summary for each in node.diagnostics if each.severity is Severity.ERROR)
    for summary, number in summaries.items():
        errors = f" ({number} errors)" if number > 1 else ""
        yield paragraph(Text(f"{visible(summary)}{errors}", "red"), Text("  ✗ ", "bold red"))
    if node.remaining and all(step.status is Status.DONE for step in node.steps):
        yield paragraph(Text("A last look still finds:", "red"), "  ")
        for change in node.remaining:
            yield from change_block(node.node, change)


def _reason(step: StepOutcome) -> str:
    return visible(" ".join(step.transcript)) or "not done"


def _transcript(step: StepOutcome) -> Iterator[Block]:
    told = [row for text in step.transcript for row in rows(text)]
    if len(told) > TRANSCRIPT_ROWS:
        yield paragraph(Text(f"({count(len(told) - TRANSCRIPT_ROWS, 'earlier row')} left out)", "dim"), "    │ ")
    for row in told[-TRANSCRIPT_ROWS:]:
        yield paragraph(Text(row, "dim"), "    │ ", "    │   ")
