"""Applying on simulated nodes: what is applied is so, what is cut off is finished by the next run."""

from collections.abc import Callable, Sequence

import pytest

from gpuplan.core.apply import apply as flow_apply
from gpuplan.core.plan import compare
from gpuplan.core.plan.compare import unreadable_node
from gpuplan.core.plan.targets import Scope
from gpuplan.transport.connect import connect
from gpuplan.transport.session import DEADLINES, Question
from gpuplan.types.change import Comparison, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Exit
from gpuplan.types.outcome import NodeOutcome, Status
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from tests.conftest import CutOffs
from tests.core.conftest import CACHE, PART, World


def summaries(outcome: NodeOutcome) -> set[str]:
    return {each.summary for each in outcome.diagnostics}


def test_after_an_apply_a_plan_shows_no_changes(world: World) -> None:
    first = world.plan()
    assert not first.empty
    (outcome,) = world.apply(first)
    assert outcome.exit_code == Exit.DONE
    assert {step.status for step in outcome.steps} == {Status.DONE}
    assert world.plan().empty


def test_an_apply_without_changes_does_nothing_and_succeeds(world: World) -> None:
    world.apply()
    assert world.apply() == (NodeOutcome("n1"),)


def test_a_destroy_leaves_the_node_as_it_was_found(world: World) -> None:
    world.apply()
    (outcome,) = world.apply(world.plan(destroy=True))
    assert outcome.exit_code == Exit.DONE
    (node,) = world.plan(destroy=True).nodes
    assert node.changes == ()
    (bare,) = world.plan().nodes
    assert {change.address.kind for change in bare.changes} == {"gpu", "repository", "image", "container", "model"}
    gpu = next(change for change in bare.changes if change.address.kind == "gpu")
    assert gpu.fields[0].before == "disabled"


@pytest.mark.faults
def test_a_run_that_is_cut_off_at_any_change_is_finished_by_the_next(
    make_world: Callable[[], World], cut_offs: CutOffs
) -> None:
    for cut in cut_offs(1):
        world = make_world()
        world.edit(CACHE, "")
        world.nodes({"n1": {"faults": f"[{{ drop_after: {cut} }}]"}})
        (outcome,) = world.apply()
        if outcome.exit_code == Exit.DONE:
            break
        assert "The connection to the node was lost" in summaries(outcome) | {
            each.summary for step in outcome.steps for each in step.diagnostics
        }
        world.nodes({"n1": {}})
        (again,) = world.apply()
        assert again.exit_code == Exit.DONE, f"cut off after {cut} changes: {again}"
        assert world.plan().empty, f"cut off after {cut} changes"
    assert cut > 20


def test_a_destroy_after_a_cut_off_run_leaves_nothing(world: World) -> None:
    world.nodes({"n1": {"faults": "[{ drop_after: 25 }]"}})
    assert world.apply()[0].exit_code == Exit.ERROR
    world.nodes({"n1": {}})
    assert world.apply(world.plan(destroy=True))[0].exit_code == Exit.DONE
    assert world.plan(destroy=True).empty


def test_a_node_that_fails_stops_no_other(world: World) -> None:
    world.nodes({"n1": {}, "n2": {"faults": "[{ without_effect: mig.create }]"}, "n3": {}})
    outcomes = world.apply()
    assert [outcome.exit_code for outcome in outcomes] == [Exit.DONE, Exit.ERROR, Exit.DONE]
    failed = [step for step in outcomes[1].steps if step.status is Status.FAILED]
    assert [step.step for step in failed] == ["n2/gpu/a100-0:create-left"]
    done = {step.step for step in outcomes[1].steps if step.status is Status.DONE}
    assert "n2/container/cache:create" in done


def test_an_unreachable_node_hides_no_other(world: World) -> None:
    world.apply()
    world.nodes({"n1": {}, "n2": {"faults": "[{ refuse: no route to host }]"}})
    reached, lost = world.plan().nodes
    assert reached.changes == ()
    assert reached.unknown == ()
    assert lost.changes == ()
    assert [each.diagnostic.address for each in lost.unknown] == ["n2"]


def test_a_server_is_not_stopped_for_a_slice_whose_users_are_unknown(world: World) -> None:
    world.apply()
    world.edit("left: 3g.40gb", "left: 4g.40gb")
    world.nodes({"n1": {"faults": "[{ nvml: nvmlDeviceGetComputeRunningProcesses, code: 4 }]"}})
    (outcome,) = world.apply()
    assert outcome.exit_code != Exit.DONE
    session = connect(world.inventory.hosts[0])
    assert session.docker().inspect_container("triton")["State"]["Running"]
    session.close()


def test_a_last_look_that_fails_leaves_the_record_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.apply()
    world.edit(CACHE, "")
    looks: list[object] = []
    original = flow_apply.compare

    def blind_at_last(desired: Sequence[Desired], snapshot: Snapshot, *more: object) -> NodeChanges:
        looks.append(snapshot)
        if len(looks) < 2:
            return original(desired, snapshot, *more)  # type: ignore[arg-type]
        return unreadable_node("n1", [Diagnostic("not read")], desired)

    with monkeypatch.context() as patched:
        patched.setattr(flow_apply, "compare", blind_at_last)
        (outcome,) = world.apply()
    assert outcome.exit_code == Exit.UNREAD
    (node,) = world.plan(destroy=True).nodes
    assert {str(change.address) for change in node.changes} >= {"n1/gpu/a100-0", "n1/container/triton"}


def test_a_bug_met_on_one_node_does_not_hide_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.nodes({"n1": {}, "n2": {}})
    compare_kinds = compare._compare_kinds

    def fail_on_n1(desired: Sequence[Desired], snapshot: Snapshot, context: DiffContext) -> list[Comparison]:
        if snapshot.node == "n1":
            raise KeyError("a bug")
        return compare_kinds(desired, snapshot, context)

    monkeypatch.setattr(compare, "_compare_kinds", fail_on_n1)
    first, second = world.plan().nodes
    assert "a bug" in first.unknown[0].diagnostic.detail
    assert second.changes


def test_a_secret_that_a_node_says_aloud_is_not_repeated(world: World) -> None:
    world.edit("LOG: info", 'LOG: info, KEY: "${env:KEY}"')
    world.environ["KEY"] = "hunter2hunter2"
    image = '"nvcr.io/nvidia/tritonserver:hunter2hunter2"'
    world.edit("nvcr.io/nvidia/tritonserver:24.10-py3", image.strip('"'))
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.ERROR
    (said,) = [each.detail for step in outcome.steps for each in step.diagnostics]
    assert "manifest for nvcr.io/nvidia/tritonserver:(sensitive) not found" in said
    assert "hunter2" not in said


@pytest.mark.parametrize("probe", ["gpu", "docker", "triton"])
def test_what_could_not_be_read_is_never_changed(world: World, probe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world.apply()
    if probe == "triton":
        world.model(
            "part", PART + "max_batch_size: 2", "class TritonPythonModel:\n    def execute(self, requests): ...\n"
        )
    else:
        world.edit("LOG: info", "LOG: debug")
        world.edit("left: 3g.40gb", "left: 4g.40gb")
    monkeypatch.setattr("gpuplan.transport.session.DEADLINES", dict.fromkeys(DEADLINES, 0.3))
    world.nodes({"n1": {"faults": f"[{{ hang: {probe} }}]"}})
    (node,) = world.plan().nodes
    unread = {"gpu": {"gpu", "container"}, "docker": {"gpu", "container", "model"}, "triton": {"model"}}[probe]
    assert node.unknown
    assert not {change.address.kind for change in node.changes if change.cause is None} & unread


def test_what_can_be_read_only_at_last_is_no_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model server that comes up meanwhile: its files were brought, and nothing was planned for its models."""
    world.apply()
    sound = world.inventory.hosts[0]
    code = "class TritonPythonModel:\n    def execute(self, requests): ...\n"
    world.model("part", PART + "max_batch_size: 2", code)
    monkeypatch.setattr("gpuplan.transport.session.DEADLINES", dict.fromkeys(DEADLINES, 0.3))
    world.nodes({"n1": {"faults": "[{ hang: triton }]"}})
    looks: list[object] = []
    original = flow_apply.compare

    def up_at_last(desired: Sequence[Desired], snapshot: Snapshot, plan: str, *more: object) -> NodeChanges:
        looks.append(snapshot)
        if len(looks) == 2:
            session = connect(sound)
            snapshot = session.ask(Question(plan))
            session.close()
        return original(desired, snapshot, plan, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(flow_apply, "compare", up_at_last)
    (outcome,) = world.apply()
    assert [step.status for step in outcome.steps] == [Status.DONE]
    assert outcome.exit_code == Exit.UNREAD
    assert summaries(outcome) == {"A resource became readable during the apply"}
    world.nodes({"n1": {}})
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.DONE


def test_a_change_set_that_was_applied_is_stale(world: World) -> None:
    change_set = world.plan()
    world.apply(change_set)
    (outcome,) = world.apply(change_set)
    assert outcome.exit_code == Exit.STALE
    assert outcome.steps == ()


def test_a_change_set_is_stale_when_the_node_moved(world: World) -> None:
    world.apply()
    world.edit("LOG: info", "LOG: debug")
    change_set = world.plan()
    session = connect(world.inventory.hosts[0])
    session.docker().stop("triton")
    session.close()
    (outcome,) = world.apply(change_set)
    assert outcome.exit_code == Exit.STALE
    assert "n1/container/triton" in {each.address for each in outcome.diagnostics}


def test_a_target_leaves_everything_else_as_it_was(world: World) -> None:
    world.nodes({"n1": {}, "n2": {"faults": "[{ refuse: no route to host }]"}})
    confined = world.plan(scope=Scope(("n1/container/cache",)))
    assert [node.node for node in confined.nodes] == ["n1"]
    (outcome,) = world.apply(confined)
    assert outcome.exit_code == Exit.DONE
    world.nodes({"n1": {}})
    assert {str(each.address) for each in world.plan().nodes[0].changes} == {
        "n1/gpu/a100-0",
        "n1/image/nvcr.io/nvidia/tritonserver:24.10-py3",
        "n1/repository/triton",
        "n1/container/triton",
        "n1/model/triton/part",
        "n1/model/triton/whole",
    }
    world.apply()
    confined = world.plan(scope=Scope(("n1/container/cache",)), destroy=True)
    assert world.apply(confined)[0].exit_code == Exit.DONE
    left = {str(each.address) for each in world.plan(destroy=True).nodes[0].changes}
    assert left >= {"n1/gpu/a100-0", "n1/repository/triton", "n1/container/triton"}
    assert [str(address) for address in world.drift().nodes[0].pending] == ["n1/container/cache"]


def test_nothing_is_begun_on_a_node_without_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    change_set = world.plan()
    monkeypatch.setattr(flow_apply, "MIN_FREE_BYTES", 1 << 60)
    (outcome,) = world.apply(change_set)
    assert [each.summary for each in outcome.diagnostics] == ["The node's disk is full"]
    assert outcome.steps == ()


def test_a_node_that_another_run_holds_is_left_alone(world: World) -> None:
    holder = connect(world.inventory.hosts[0])
    holder.agent("lock.take", owner={"run": "1", "who": "ann@bastion", "since": "now", "pid": 1})
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.BUSY
    assert "ann@bastion" in outcome.diagnostics[0].detail
    holder.close()
    assert world.apply()[0].exit_code == Exit.DONE


def test_a_resource_that_left_the_plan_file_is_removed(world: World) -> None:
    world.apply()
    world.edit(CACHE, "")
    world.edit("  whole: { source: models/whole, containers: [triton] }\n", "")
    assert {(str(change.address), change.action.value) for change in world.plan().nodes[0].changes} == {
        ("n1/container/cache", "-"),
        ("n1/image/busybox:latest", "-"),
        ("n1/model/triton/whole", "-"),
        ("n1/repository/triton", "~"),
    }
    assert world.apply()[0].exit_code == Exit.DONE
    assert world.plan().empty
