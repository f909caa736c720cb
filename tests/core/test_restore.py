"""After a reboot: one finding for each GPU, and a node restored from its own record, without a plan file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gpuplan.core import run
from gpuplan.core.drift import restart_time
from gpuplan.core.plan.targets import Scope
from gpuplan.core.restore import RestorePlan, follower_warnings, plan_restore, recorded_plans
from gpuplan.planfile.load import load_plan
from gpuplan.simulator.hardware import open_store
from gpuplan.simulator.world import reboot
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem
from gpuplan.types.inventory import Host, Inventory
from gpuplan.types.outcome import NodeOutcome
from gpuplan.types.report import Drift
from gpuplan.types.resource import Record
from gpuplan.types.snapshot import Probe, Snapshot

from .conftest import World

EVERYTHING_ELSE = {"n1/container/triton", "n1/model/triton/part", "n1/model/triton/whole"}


def board(world: World, name: str) -> None:
    """Another board than the A100 of the world."""
    inventory = world.folder / "inventory.yaml"
    inventory.write_text(inventory.read_text().replace("A100-SXM4-80GB", name))


def switch_off_and_on(world: World) -> None:
    for host in world.inventory.hosts:
        reboot(open_store(host), host.name)


def drift(world: World) -> Sequence[Drift]:
    (node,) = world.drift().nodes
    assert (node.unknown, node.diagnostics) == ((), ())
    return node.drift


def here(world: World) -> Host:
    """The node as it sees itself: another name than the inventory's is not known to the simulation, so the same."""
    return world.inventory.hosts[0]


def restore(world: World, *kinds: str) -> tuple[NodeOutcome, ...]:
    found = [plan_restore(here(world), plan, kinds, {}) for plan in recorded_plans(here(world))]
    return tuple(carried_out(world, each) for each in found)


def carried_out(world: World, found: RestorePlan) -> NodeOutcome:
    (outcome,) = run.apply(
        found.change_set, Inventory((found.host,)), environ={}, base_dir=world.folder / "nowhere", who="root@n1"
    )
    return outcome


def slices(world: World) -> list[tuple[str, int]]:
    session = connect(here(world))
    gpus = session.ask(Question("", ("gpu",))).probe("gpu").value["gpus"]  # type: ignore[call-overload,index]
    session.close()
    return sorted((each["profile"], each["start"]) for gpu in gpus for each in gpu["instances"])


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("A100-SXM4-80GB", ["slices.left", "slices.right"]),
        ("H100-SXM5-80GB", ["mig", "slices.left", "slices.right"]),
    ],
)
def test_a_reboot_is_one_finding_for_each_gpu(world: World, name: str, fields: list[str]) -> None:
    board(world, name)
    world.apply()
    before = slices(world)
    switch_off_and_on(world)
    (gpu, cache) = drift(world)
    assert [field.path for field in gpu.change.fields] == fields
    assert str(gpu.change.address) == "n1/gpu/a100-0"
    assert {str(each) for each in gpu.dependants} == EVERYTHING_ELSE
    assert gpu.change.reasons[0].startswith("the node was restarted at 20")
    assert any("slices never survive a reboot" in reason for reason in gpu.change.reasons)
    assert str(cache.change.address) == "n1/container/cache"  # it has no restart policy, and no GPU

    assert [each.exit_code for each in restore(world, "gpu")] == [Exit.DONE]
    assert slices(world) == before == [("3g.40gb", 0), ("3g.40gb", 4)]
    assert "n1/gpu/a100-0" not in {str(each.change.address) for each in drift(world)}
    assert world.apply()[0].exit_code == Exit.DONE
    assert world.plan().empty
    assert drift(world) == ()


SEVEN = """
version: 1
name: story
gpus: { g: { nodes: all, select: { index: 0 }, mig: { s: { profile: 1g.10gb, count: 7 } } } }
containers:
  each: { nodes: all, each: g/s*, image: "busybox:latest", command: [sleep, "9999"], restart: always }
"""


def test_seven_slices_and_seven_containers_are_one_finding(world: World) -> None:
    world.write(SEVEN)
    world.apply()
    switch_off_and_on(world)
    (found,) = drift(world)
    assert str(found.change.address) == "n1/gpu/g"
    assert {str(each) for each in found.dependants} == {f"n1/container/each-{number}" for number in range(7)}


def test_two_gpus_are_two_findings(world: World) -> None:
    world.edit(
        "containers:\n", "  a100-1: { nodes: all, select: { index: 1 }, mig: { whole: 7g.80gb } }\ncontainers:\n"
    )
    inventory = world.folder / "inventory.yaml"
    inventory.write_text(inventory.read_text().replace("count: 1", "count: 2"))
    world.apply()
    switch_off_and_on(world)
    found = [str(each.change.address) for each in drift(world)]
    assert found == ["n1/gpu/a100-0", "n1/gpu/a100-1", "n1/container/cache"]


def test_the_engine_is_not_asked_while_the_node_boots(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.apply()
    switch_off_and_on(world)
    monkeypatch.setattr("gpuplan.agent.docker.probe", lambda world: pytest.fail("the engine was asked"))
    (outcome,) = restore(world, "gpu")
    assert outcome.exit_code == Exit.DONE
    assert [step.title for step in outcome.steps] == [
        "create slice left (3g.40gb at 0)",
        "create slice right (3g.40gb at 4)",
    ]


def test_what_has_to_follow_is_named(world: World) -> None:
    world.apply()
    switch_off_and_on(world)
    (diagnostic,) = follower_warnings(plan_restore(here(world), "story", ("gpu",), {}))
    assert "container/triton " in diagnostic.detail
    assert follower_warnings(plan_restore(here(world), "story", (), {})) == ()


def test_restoring_all_kinds_needs_no_plan_file_and_no_sources(world: World) -> None:
    world.apply()
    switch_off_and_on(world)
    world.plan_file.rename(world.folder / "elsewhere.yaml")
    (world.folder / "models").rename(world.folder / "gone")
    assert [each.exit_code for each in restore(world)] == [Exit.DONE]
    assert plan_restore(here(world), "story", (), {}).change_set.empty


def test_the_record_keeps_what_was_not_looked_at(world: World) -> None:
    world.apply()
    session = connect(here(world))
    made = session.docker().create_container("busybox:latest", ["sleep", "9"], name="foreign")
    session.docker().start(made["Id"])
    session.close()
    world.apply()
    before = record(world)
    assert before["bystanders"] == ["container/foreign"]
    switch_off_and_on(world)
    restore(world, "gpu")
    after = record(world)
    assert after["bystanders"] == before["bystanders"]
    assert after["resources"] == before["resources"]
    assert after["boot"] == before["boot"]  # not all is as it was before the reboot
    world.apply()
    assert record(world)["boot"] != before["boot"]


def test_every_recorded_plan_is_restored_in_the_order_of_their_names(world: World) -> None:
    inventory = world.folder / "inventory.yaml"
    inventory.write_text(inventory.read_text().replace("count: 1", "count: 2"))
    world.apply()
    world.write("version: 1\nname: another\ngpus: { g: { nodes: all, select: { index: 1 }, mig: { a: 1g.10gb } } }\n")
    world.apply()
    before = slices(world)
    switch_off_and_on(world)
    assert slices(world) == []
    assert recorded_plans(here(world)) == ("another", "story")
    assert [each.exit_code for each in restore(world, "gpu")] == [Exit.DONE, Exit.DONE]
    assert slices(world) == before


def test_secrets_of_containers_are_not_needed_for_gpus(world: World) -> None:
    world.edit("LOG: info", 'LOG: "${env:TOKEN}"')
    plan_file = load_plan(str(world.plan_file), environ={})
    secrets = {"TOKEN": "t0p"}
    planned = run.plan(plan_file, world.inventory, environ=secrets, base_dir=world.folder)
    run.apply(planned, world.inventory, environ=secrets, base_dir=world.folder, who="tester@here")
    switch_off_and_on(world)
    assert [each.exit_code for each in restore(world, "gpu")] == [Exit.DONE]
    with pytest.raises(Problem, match="TOKEN is not set"):
        restore(world)
    found = plan_restore(here(world), "story", (), secrets)
    (outcome,) = run.apply(found.change_set, Inventory((found.host,)), environ=secrets, base_dir=world.folder, who="me")
    assert outcome.exit_code == Exit.DONE


def test_a_node_without_records_has_nothing_to_restore(world: World) -> None:
    assert recorded_plans(here(world)) == ()


def test_a_second_restore_changes_nothing(world: World) -> None:
    world.apply()
    switch_off_and_on(world)
    restore(world, "gpu")
    (outcome,) = restore(world, "gpu")
    assert (outcome.exit_code, outcome.steps) == (Exit.DONE, ())


def test_somebody_elses_slice_in_the_way_is_left_alone(world: World) -> None:
    world.apply()
    switch_off_and_on(world)
    session = connect(here(world))
    (gpu,) = session.ask(Question("", ("gpu",))).probe("gpu").value["gpus"]  # type: ignore[call-overload,index]
    session.agent("mig.create", uuid=gpu["uuid"], profile_id=0, start=0, size=8)
    session.close()
    (outcome,) = restore(world, "gpu")
    assert outcome.exit_code == Exit.REFUSED
    assert [each.summary for each in outcome.diagnostics] == ["Refused by guard unmanaged-slice"]
    assert slices(world) == [("7g.80gb", 0)]


def record(world: World) -> Mapping[str, object]:
    session = connect(here(world))
    found = session.ask(Question("story", ("record",))).probe("record").value
    session.close()
    assert isinstance(found, Mapping)
    return found


def test_only_one_kind_of_a_plan_file(world: World) -> None:
    plan_file = load_plan(str(world.plan_file), environ={})

    def planned(*kinds: str) -> list[str]:
        made = run.plan(plan_file, world.inventory, environ={}, base_dir=world.folder, scope=Scope(kinds=kinds))
        return [str(change.address) for change in made.nodes[0].changes]

    assert planned("gpu") == ["n1/gpu/a100-0"]
    assert planned("gpu", "container") == [
        "n1/gpu/a100-0",
        "n1/image/nvcr.io/nvidia/tritonserver:24.10-py3",
        "n1/image/busybox:latest",
        "n1/container/triton",
        "n1/container/cache",
    ]
    world.apply(run.plan(plan_file, world.inventory, environ={}, base_dir=world.folder, scope=Scope(kinds=("gpu",))))
    assert planned() == planned("repository", "container", "model")
    assert list(record(world)["resources"]) == ["n1/gpu/a100-0"]  # type: ignore[call-overload]


def test_a_gpu_cannot_change_alone_under_a_container_that_runs(world: World) -> None:
    world.apply()
    world.edit("left: 3g.40gb, right: 3g.40gb", "left: 7g.80gb")
    plan_file = load_plan(str(world.plan_file), environ={})
    made = run.plan(plan_file, world.inventory, environ={}, base_dir=world.folder, scope=Scope(kinds=("gpu",)))
    told: list[Diagnostic] = [
        each for each in made.nodes[0].diagnostics if each.summary == "A change needs a change of another kind"
    ]
    assert [each.address for each in told] == ["n1/gpu/a100-0"]
    assert "container triton stops" in told[0].detail
    (outcome,) = world.apply(made)
    assert (outcome.exit_code, outcome.steps) == (Exit.ERROR, ())


APPLIED = "2026-11-30T09:00:00Z"


@pytest.mark.parametrize(
    ("boot", "host", "told"),
    [
        ("b1", {"boot_id": "b1", "uptime_seconds": 60.0}, ""),
        ("b1", {"boot_id": "b2", "uptime_seconds": 60.0}, "2026-11-30T09:59:00Z"),
        ("b1", {"boot_id": "", "uptime_seconds": 60.0}, ""),
        ("", {"boot_id": "b2", "uptime_seconds": 60.0}, "2026-11-30T09:59:00Z"),
        ("", {"boot_id": "b2", "uptime_seconds": 3600.0}, ""),
        ("", {"boot_id": "b2", "uptime_seconds": 86400}, ""),
        ("b1", {"boot_id": "b2"}, ""),
        ("b1", None, ""),
    ],
)
def test_a_restart_is_told_by_boot_id_and_else_by_the_clock(boot: str, host: dict[str, object], told: str) -> None:
    snapshot = Snapshot("n1", {"host": Probe(host)}, "2026-11-30T10:00:00Z")  # type: ignore[arg-type]
    assert restart_time(snapshot, Record("story", run="r", when=APPLIED, boot=boot)) == told
    assert restart_time(snapshot, Record("story")) == ""
