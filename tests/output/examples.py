"""Values made by hand that the view tests draw."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from gpuplan.output.page import Page, draw
from gpuplan.types.address import Address, parse_address
from gpuplan.types.change import Action, Change, FieldChange, Origin, Step, Unmanaged, Unreadable, Verb
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Location, Severity
from gpuplan.types.finding import Drift, NodeFindings, Report
from gpuplan.types.outcome import NodeOutcome, Status, StepOutcome
from gpuplan.types.smoke import NodeSmokeResults, SmokeResult
from gpuplan.types.value import KnownAfterApply

GPU = parse_address("gpu-a1/gpu/a100-0")
TRITON = parse_address("gpu-a1/container/triton-cls")
MODEL = parse_address("gpu-a1/model/triton-cls/tokenizer")


def drawn(page: Page, width: int = 100) -> str:
    """The page as it comes out of a pipe."""
    out = StringIO()
    draw(page, Console(file=out, width=width, color_system=None, highlight=False, legacy_windows=False))
    return out.getvalue()


UNREACHABLE = Diagnostic(
    "The node cannot be reached",
    "ops@gpu-t1:22 did not answer within 10 s.",
    "Try it by hand: ssh ops@gpu-t1",
    address="gpu-t1",
)

SLICES = Change(
    GPU,
    Action.UPDATE,
    fields=(
        FieldChange("mig", before="disabled", after="enabled"),
        FieldChange("slices.cls-a", before=None, after="3g.40gb"),
        FieldChange("slices.old", before="1g.10gb", after=None),
    ),
    reasons=("slice cls-a is not there",),
    steps=(
        Step("mode", GPU, Verb.UPDATE, "turn MIG mode on"),
        Step("create-slices", GPU, Verb.CREATE, "create slice cls-a (3g.40gb at 4)"),
    ),
)
SERVER = Change(
    TRITON,
    Action.REPLACE,
    fields=(
        FieldChange("image", "nvcr.io/nvidia/tritonserver:24.10-py3", "nvcr.io/nvidia/tritonserver:25.02-py3"),
        FieldChange("gpus.0", "MIG-5a1e2b3c-0000-5555-8888-000000000001", KnownAfterApply("slice cls-a")),
        FieldChange("env.NGC_API_KEY", None, None, sensitive=True),
        FieldChange("shm_size", 67108864, 1073741824),
        FieldChange("command", None, ["tritonserver", "--id=a"]),
    ),
    reasons=("Docker cannot change these fields of a container in place",),
    interrupts=("container triton-cls is stopped and made anew",),
    cause=GPU,
    steps=(Step("replace", TRITON, Verb.UPDATE, "replace container triton-cls"),),
    origin=Origin.DRIFT,
)
LOAD = Change(
    MODEL,
    Action.CREATE,
    fields=(
        FieldChange("content", None, "ab" * 32),
        FieldChange("max_batch_size", None, 8),
        FieldChange("note", None, "true"),
    ),
    steps=(Step("load", MODEL, Verb.CREATE, "load model tokenizer"),),
)
GONE = Change(
    Address("gpu-a1", "container", "old"),
    Action.DELETE,
    fields=(FieldChange("image", "nginx:1.27", None),),
    reasons=("the plan file no longer names it",),
    interrupts=("container old stops",),
)
FOREIGN = Unmanaged(Address("gpu-a1", "container", "grafana"), "container grafana of image grafana/grafana:10.4")
IN_THE_WAY = Unmanaged(
    Address("gpu-a1", "gpu", "a100-0/1g.10gb@0"),
    "slice 1g.10gb at 0",
    Address("gpu-a1", "gpu", "a100-0/cls-a"),
    guard="unmanaged-slice",
)
UNREAD = Unreadable(
    MODEL, Diagnostic("A server does not answer", "triton-cls does not answer on 127.0.0.1:8000.", address=str(MODEL))
)

NODE = NodeChanges(
    "gpu-a1",
    changes=(SLICES, SERVER, LOAD, GONE),
    order=tuple(step.id for change in (SLICES, SERVER, LOAD) for step in change.steps),
    unmanaged=(FOREIGN, IN_THE_WAY),
    unknown=(UNREAD,),
    resources=5,
)
QUIET = NodeChanges("gpu-h1", resources=7)
UNREAD_NODE = NodeChanges("gpu-t1", unknown=(Unreadable(Address("gpu-t1", "node", "connection"), UNREACHABLE),))
FAULTY = NodeChanges("gpu-t2", diagnostics=(UNREACHABLE,))


def change_set_of(*nodes: NodeChanges, destroy: bool = False) -> ChangeSet:
    return ChangeSet("prod", "plans/prod.yaml", "0123456789ab", "2026-11-30T09:00:00Z", nodes, destroy)


WARNING = Diagnostic("An ignore rule has expired", "It ended on 2026-01-01.", severity=Severity.WARNING)
UNKNOWN_KEY = Diagnostic(
    "A key is not known here",
    "“profil” is not a key of a slice. Known are profile and count.",
    "Did you mean profile?",
    where=Location("plans/prod.yaml", 12, 15),
)

OUTCOMES = (
    NodeOutcome(
        "gpu-a1",
        steps=(
            StepOutcome("a", "create slice cls-a (3g.40gb at 4)", Status.DONE, 0.31),
            StepOutcome(
                "b",
                "load model tokenizer",
                Status.FAILED,
                125.2,
                ("loading", "server says:\n  failed to load\n  \x1b[2Jpoll"),
                (Diagnostic("The model did not load", "It is UNAVAILABLE.", address=str(MODEL)),),
            ),
            StepOutcome("c", "load model sentiment", Status.SKIPPED, transcript=("skipped: it waits for “x”",)),
        ),
        exit_code=1,
    ),
    NodeOutcome("gpu-h1", steps=(StepOutcome("a", "start container x", Status.DONE, 2.0),)),
    NodeOutcome("gpu-t1", diagnostics=(UNREACHABLE,), exit_code=4),
)

REPORT = Report(
    "prod",
    "2026-11-30T09:00:00Z",
    0.42,
    (
        NodeFindings(
            "gpu-a1",
            drift=(
                Drift(
                    Change(TRITON, Action.UPDATE, (FieldChange("state", "exited", "running"),), ("it was stopped",)),
                    (MODEL,),
                ),
            ),
            unmanaged=(FOREIGN,),
            pending=(GPU,),
            suppressed=1,
        ),
        NodeFindings("gpu-h1"),
        NodeFindings("gpu-t1", unknown=UNREAD_NODE.unknown),
        NodeFindings("gpu-t2", busy="ops@bastion (run 77)"),
    ),
)
IN_SYNC = Report("prod", "2026-11-30T09:00:00Z", 0.42, (NodeFindings("gpu-a1", suppressed=2), NodeFindings("gpu-h1")))
NOT_CONVERGED = (
    NodeOutcome(
        "gpu-a1",
        steps=(StepOutcome("a", "start container triton-cls", Status.DONE, 1.0),),
        diagnostics=(Diagnostic("A resource did not converge", "It still differs.", address=str(TRITON)),),
        exit_code=1,
        remaining=(Change(TRITON, Action.UPDATE, (FieldChange("state", "exited", "running"),)),),
    ),
)

NOT_BEGUN = tuple(
    StepOutcome(f"s{number}", f"load model m{number}", Status.SKIPPED, transcript=("skipped: interrupted",))
    for number in range(75)
)
INTERRUPTED = tuple(
    NodeOutcome(node, steps, (Diagnostic("Interrupted", "No further step was begun.", address=node),), exit_code=1)
    for node, steps in (
        ("gpu-a1", (StepOutcome("a", "create slice cls-a", Status.DONE, 0.31), *NOT_BEGUN)),
        ("gpu-a2", NOT_BEGUN[:3]),
        *((f"gpu-h{number}", NOT_BEGUN[:4]) for number in range(3)),
    )
)

MANY = (
    NodeChanges("gpu-a1", changes=(LOAD,), resources=5),
    *(NodeChanges(f"gpu-h{number}", resources=7) for number in range(190)),
    NodeChanges("gpu-h190", resources=7, unmanaged=(FOREIGN,)),
    NodeChanges("gpu-h191", resources=7, unmanaged=(IN_THE_WAY,)),
    UNREAD_NODE,
    FAULTY,
    *(NodeChanges(f"cpu-{number}") for number in range(2)),
)

SILENT = Diagnostic("A model does not answer as it should", "Version 1 of tokenizer was asked: no answer within 30 s.")
PROVED = SmokeResult(
    Address("gpu-a1", "model", "triton-cls/classifier"),
    2,
    "http",
    "none",
    400,
    8,
    tuple(n / 1e5 for n in range(400)),
    2.5,
)
PROOFS = (
    NodeSmokeResults(
        "gpu-a1",
        (
            PROVED,
            replace(PROVED, version=1, latencies=PROVED.latencies[:3], diagnostics=(SILENT,)),
            SmokeResult(
                Address("gpu-a1", "model", "triton-cls/tokenizer"), 1, "http", "none", 8, 8, diagnostics=(SILENT,)
            ),
            SmokeResult(Address("gpu-a1", "model", "triton-cls/away"), None, diagnostics=(SILENT,)),
        ),
    ),
    NodeSmokeResults("gpu-h1", unread=(replace(UNREACHABLE, address="gpu-h1"),)),
)
PROVED_ONCE = (
    NodeSmokeResults("gpu-a1", (replace(PROVED, requests=1, concurrency=1, latencies=(0.0123,), seconds=0.013),)),
)
