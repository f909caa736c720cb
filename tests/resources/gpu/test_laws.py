"""Laws of GPUs on every board: applied means in sync, busy means protected by a guard, unreadable means unchanged."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.nvidia.boards import BOARDS
from gpuplan.resources.gpu.desired import GpuSelector, GpuSpec, SliceSpec, decode_spec
from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.read import read
from gpuplan.resources.gpu.steps import DestroyComputeInstance, DestroySlice, decode_payload
from gpuplan.resources.typed import encode
from gpuplan.types.record import Record
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import KnownAfterApply
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import changes, desired_gpus, run

ERROR = {"error": {"code": "unexpected", "text": "Unknown Error"}}


@st.composite
def cuts(draw: st.DrawFn, board: str) -> Any:
    """A `mig:` section of what the board has, by name, size, memory or with compute instances; it need not fit."""
    profiles = next(each for each in BOARDS if each.catalog_name == board).profiles
    by_name = st.sampled_from([each.name for each in profiles])
    by_size = st.sampled_from([f"{each.slices}g" for each in profiles])
    by_memory = st.sampled_from([{"memory": each.memory_mib * 1024**2} for each in profiles])
    sizes = st.lists(st.sampled_from(["1c", "2c", "3c"]), min_size=1, max_size=3)
    inside = st.builds(lambda profile, compute: {"profile": profile, "compute": compute}, by_name, sizes)
    chosen = draw(st.lists(st.one_of(by_name, by_size, by_memory, inside), min_size=1, max_size=4))
    return draw(st.sampled_from(["disabled", {f"s{number}": wish for number, wish in enumerate(chosen)}]))


@st.composite
def stories(draw: st.DrawFn) -> tuple[str, list[Any], list[tuple[str, int]], bool]:
    board = draw(st.sampled_from(BOARDS)).catalog_name
    strange = draw(st.lists(st.tuples(st.sampled_from(["1g", "2g"]), st.integers(0, 6)), max_size=2))
    return board, [draw(cuts(board)) for _ in range(3)], strange, draw(st.booleans())


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_names_may_move_between_gpus(data: st.DataObject) -> None:
    """Names of GPUs and slices that are renamed, exchanged or dropped converge, and no managed slice is left."""
    board = data.draw(st.sampled_from(["A100-SXM4-80GB", "A30"]))
    node, record = Node([{"board": board}, {"board": board}]), Record("prod")
    small, large = ("1g.10gb", "3g.40gb") if board != "A30" else ("1g.6gb", "2g.12gb")
    for _ in range(3):
        names = data.draw(st.permutations(["a", "b", "c"]))[:2]
        parts = st.dictionaries(st.sampled_from("xyz"), st.sampled_from([small, large]), min_size=1, max_size=3)
        wanted = desired_gpus(
            {name: {"select": {"uuid": f"GPU-{number}"}, "mig": data.draw(parts)} for number, name in enumerate(names)}
        )
        if diff(wanted, read(node.look()), DiffContext("n", "prod", record)).diagnostics:
            continue
        record = run(node, wanted, record)
        assert changes(node, wanted, record) == ()
        live = [sorted(one["profile"] for one in gpu["instances"]) for gpu in node.gpus]
        assert live == [sorted(each.profile for each in decode_spec(one.spec).slices) for one in wanted]
    run(node, (), record)
    assert [gpu["instances"] for gpu in node.gpus] == [[], []]


def gpus(mig: Any) -> Any:
    return {"g": {"select": {"index": 0}, "mig": mig}}


def compared(node: Node, mig: Any, record: Record) -> Any:
    return diff(desired_gpus(gpus(mig)), read(node.look()), DiffContext("n", "prod", record))


@given(stories())
@settings(max_examples=150, deadline=None)
def test_after_an_apply_nothing_differs(story: tuple[str, list[Any], list[tuple[str, int]], bool]) -> None:
    board, sections, _, on = story
    node, record = Node([{"board": board, "current": on}]), Record("prod")
    for mig in sections:
        if compared(node, mig, record).diagnostics:
            continue
        record = run(node, desired_gpus(gpus(mig)), record)
        assert changes(node, desired_gpus(gpus(mig)), record) == ()
    run(node, (), record)
    assert node.gpus[0]["instances"] == []
    assert node.gpus[0]["current"] == on or sections.count("disabled")


@given(stories(), st.data())
@settings(max_examples=200, deadline=None)
def test_nothing_busy_is_destroyed_without_a_guard(
    story: tuple[str, list[Any], list[tuple[str, int]], bool], data: st.DataObject
) -> None:
    board, sections, _, _ = story
    node, record = Node([{"board": board}]), Record("prod")
    before, after = sections[0], sections[1]
    if before == "disabled" or compared(node, before, record).diagnostics:
        return
    record = run(node, desired_gpus(gpus(before)), record)
    live = node.gpus[0]["instances"]
    busy = data.draw(st.lists(st.sampled_from([one["id"] for one in live]), unique=True))
    node.gpus[0]["processes"] = [
        {"pid": 100 + one["id"], "instance": one["id"], "compute": inside["id"]}
        for one in live
        for inside in one["compute_instances"]
        if one["id"] in busy
    ]
    found = compared(node, after, record)
    steps = [step for change in found.changes for step in change.steps]
    payloads = [decode_payload(step.payload) for step in steps]
    going = {payload.instance_id for payload in payloads if isinstance(payload, DestroySlice)}
    guarded = [each for each in found.unmanaged if each.guard == "busy-slice"]
    assert len([each for each in guarded if "compute instance" not in each.what]) == len(going & set(busy))
    ids = {(one["start"], inside["id"]) for one in live for inside in one["compute_instances"] if one["id"] in busy}
    inside = [payload for payload in payloads if isinstance(payload, DestroyComputeInstance)]
    hit = [payload for payload in inside if (payload.start, payload.compute_id) in ids]
    assert len(guarded) == len(going & set(busy)) + len(hit)


@given(stories(), st.sampled_from(["probe", "gpu", "instances", "processes", "docker"]))
@settings(max_examples=100, deadline=None)
def test_a_failed_probe_never_yields_a_change(
    story: tuple[str, list[Any], list[tuple[str, int]], bool], failing: str
) -> None:
    board, sections, _, on = story
    node, record = Node([{"board": board, "current": on}]), Record("prod")
    if not compared(node, sections[0], record).diagnostics:
        record = run(node, desired_gpus(gpus(sections[0])), record)
    if failing == "probe":
        node.probe_error = ERROR["error"]
    elif failing == "gpu":
        node.gpus[0] = {"index": 0, **ERROR}
    elif failing == "docker":
        node.docker_error = ERROR["error"]
    else:
        node.gpus[0][failing] = ERROR
    for mig in (sections[0], sections[1]):
        in_sync = not failing_hides_slices(failing) and not changes_if_read(node, mig, record, failing)
        found = compared(node, mig, record)
        assert found.changes == ()
        assert not [each for each, bound in found.bindings.items() if isinstance(bound, KnownAfterApply)]
        assert found.unknown or found.diagnostics or in_sync


def failing_hides_slices(failing: str) -> bool:
    return failing in ("probe", "gpu", "instances")


def changes_if_read(node: Node, mig: Any, record: Record, failing: str) -> Any:
    """What would change if everything could be read."""
    processes, docker = node.gpus[0]["processes"], node.docker_error
    node.docker_error = None
    node.gpus[0]["processes"] = [] if failing == "processes" else processes
    found = compared(node, mig, record)
    node.gpus[0]["processes"], node.docker_error = processes, docker
    return found.changes


@given(st.data())
def test_a_spec_survives_its_json_form(data: st.DataObject) -> None:
    name = st.text("abc01[]", min_size=1, max_size=5)
    keys = [("index", 0), ("uuid", "GPU-1"), ("pci", "0000:07:00.0"), ("model", "A100")]
    selectors = st.sampled_from([GpuSelector("all"), *(GpuSelector(key, value) for key, value in keys)])
    slices = st.lists(st.builds(SliceSpec, name, st.just("3g.40gb"))).map(tuple)
    stated = data.draw(st.builds(GpuSpec, selectors, st.none() | st.just("disabled") | slices))
    assert decode_spec(encode(stated)) == stated
