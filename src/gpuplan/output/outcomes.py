"""What an apply did, on a terminal: by node, each step with its result and time, and the transcript if it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from gpuplan.output.change_set import render_change
from gpuplan.output.page import BLANK, Block, Page, paragraph
from gpuplan.output.summary import outcome_summary
from gpuplan.output.text import count, duration, rows, visible
from gpuplan.types.diagnostic import Severity
from gpuplan.types.outcome import NodeOutcome, Status, StepOutcome

SIGNS = {Status.DONE: ("✓", "green"), Status.FAILED: ("✗", "bold red"), Status.SKIPPED: ("·", "dim")}
MAX_SKIPPED = 3
"""Steps skipped for the same reason that are listed; more are counted."""
TRANSCRIPT_ROWS = 40
"""The last rows of a failed step's transcript that are shown; --json and the journal have all of them."""


def render_outcomes(nodes: Sequence[NodeOutcome], brief: bool = False) -> Page:
    """Everything but the diagnostics, with the summary at the end.

    `brief` omits successful steps, if they were just shown live.
    """
    for node in nodes:
        if node.exit_code or (node.steps and not brief):
            yield from _node(node, brief)
            yield BLANK
    yield paragraph(Text(outcome_summary(nodes), "bold"))


def step_line(step: StepOutcome) -> Text:
    """“✓ create slice cls-a (0.3 s)”."""
    sign, colour = SIGNS[step.status]
    result = _reason(step) if step.status is Status.SKIPPED else duration(step.seconds)
    return Text.assemble((sign, colour), f" {visible(step.title)} ", (f"({result})", "dim"))


def _node(node: NodeOutcome, brief: bool) -> Iterator[Block]:
    yield paragraph(Text(visible(node.node), "bold"))
    skipped = Counter(_reason(step) for step in node.steps if step.status is Status.SKIPPED)
    for step in node.steps:
        if (brief and step.status is Status.DONE) or (
            step.status is Status.SKIPPED and skipped[_reason(step)] > MAX_SKIPPED
        ):
            continue
        yield paragraph(step_line(step), "  ", "    ")
        if step.status is Status.FAILED:
            yield from _transcript(step)
    for reason, number in skipped.items():
        if number > MAX_SKIPPED:
            sign, colour = SIGNS[Status.SKIPPED]
            body = Text.assemble(
                (sign, colour), f" {number} steps skipped ", (f"({reason.removeprefix('skipped: ')})", "dim")
            )
            yield paragraph(body, "  ", "    ")
    yield from _errors(node)


def _errors(node: NodeOutcome) -> Iterator[Block]:
    """Errors outside the steps, by summary; the diagnostics follow in full."""
    summaries = Counter(diagnostic.summary for diagnostic in node.diagnostics if diagnostic.severity is Severity.ERROR)
    for summary, number in summaries.items():
        repeated = f" ({number} errors)" if number > 1 else ""
        yield paragraph(Text(f"{visible(summary)}{repeated}", "red"), Text("  ✗ ", "bold red"))
    if node.remaining and all(step.status is Status.DONE for step in node.steps):
        yield paragraph(Text("Still different after the apply:", "red"), "  ")
        for change in node.remaining:
            yield from render_change(node.node, change)


def _reason(step: StepOutcome) -> str:
    return visible(" ".join(step.transcript)) or "skipped"


def _transcript(step: StepOutcome) -> Iterator[Block]:
    transcript = [row for text in step.transcript for row in rows(text)]
    if len(transcript) > TRANSCRIPT_ROWS:
        yield paragraph(Text(f"({count(len(transcript) - TRANSCRIPT_ROWS, 'earlier row')} omitted)", "dim"), "    │ ")
    for row in transcript[-TRANSCRIPT_ROWS:]:
        yield paragraph(Text(row, "dim"), "    │ ", "    │   ")
