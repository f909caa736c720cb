"""Drift and pending are told apart, root causes are told once, and strangers are named."""

import pytest

from gpuplan.core.plan import observe
from gpuplan.core.run import drift_exit_code
from gpuplan.transport.connect import connect
from gpuplan.types.diagnostic import Exit
from gpuplan.types.report import NodeFindings

from .conftest import World


def only_node(world: World) -> NodeFindings:
    (node,) = world.drift().nodes
    return node


def roots(world: World) -> dict[str, set[str]]:
    """Address of each root → what hangs on it."""
    return {str(each.change.address): {str(address) for address in each.dependants} for each in only_node(world).drift}


def test_a_node_as_it_was_applied_has_no_drift(world: World) -> None:
    world.apply()
    assert drift_exit_code(world.drift()) is Exit.DONE


def test_before_the_first_apply_everything_is_pending_and_nothing_drifts(world: World) -> None:
    node = only_node(world)
    assert node.drift == ()
    assert len(node.pending) == 6
    assert drift_exit_code(world.drift()) is Exit.PENDING


def test_a_changed_plan_file_is_pending_and_a_changed_node_is_drift(world: World) -> None:
    world.apply()
    world.edit("LOG: info", "LOG: debug")
    assert [str(address) for address in only_node(world).pending] == ["n1/container/triton"]
    assert roots(world) == {}
    session = connect(world.inventory.hosts[0])
    session.docker().stop("cache")
    session.close()
    assert roots(world) == {"n1/container/cache": set()}
    assert drift_exit_code(world.drift()) is Exit.CHANGES


def test_what_follows_from_a_stopped_server_hangs_on_it(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    session.docker().stop("triton")
    session.close()
    assert roots(world) == {"n1/container/triton": {"n1/model/triton/part", "n1/model/triton/whole"}}


def test_after_a_lost_slice_everything_hangs_on_the_gpu(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    session.docker().stop("triton")
    gpus = session.agent("ask", probes=["gpu"], plan="", deadlines={})["probes"]["gpu"]["value"]["gpus"]  # type: ignore[index, call-overload]
    left = next(each for each in gpus[0]["instances"] if each["start"] == 0)
    session.agent(
        "mig.destroy", uuid=gpus[0]["uuid"], instance=left["id"], profile_id=left["profile_id"], start=left["start"]
    )
    session.close()
    assert roots(world) == {"n1/gpu/a100-0": {"n1/container/triton", "n1/model/triton/part", "n1/model/triton/whole"}}
    world.apply()
    assert roots(world) == {}


def test_a_repository_deleted_by_hand_takes_its_server_along(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    session.agent("repository.remove", plan="story", container="triton", model=None)
    session.close()
    assert roots(world) == {
        "n1/repository/triton": {"n1/container/triton", "n1/model/triton/part", "n1/model/triton/whole"}
    }
    assert world.apply()[0].exit_code == Exit.DONE
    assert world.plan().empty


def test_a_stranger_that_sees_a_gpu_is_named_each_time(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    engine = session.docker()
    every = [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}]
    body = {"Image": "busybox:latest", "Cmd": ["sleep", "500"], "HostConfig": {"DeviceRequests": every}}
    engine.start(engine.create_container_from_config(body, "monitor")["Id"])
    session.close()
    for _ in range(2):
        (stranger,) = only_node(world).unmanaged
        assert str(stranger.address) == "n1/container/monitor"
        assert stranger.sees
        assert drift_exit_code(world.drift()) is Exit.CHANGES
        world.apply()


def test_a_stranger_is_named_once_and_then_known(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    made = session.docker().create_container("busybox:latest", ["sleep", "9"], name="foreign")
    session.docker().start(made["Id"])
    session.close()
    assert [str(each.address) for each in only_node(world).unmanaged] == ["n1/container/foreign"]
    assert world.apply()[0].exit_code == Exit.DONE
    assert only_node(world).unmanaged == ()


def test_a_lost_record_is_no_reason_to_call_everything_pending(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    session.agent("record.remove", plan="story")
    session.close()
    node = only_node(world)
    assert (node.drift, node.pending) == ((), ())
    assert [each.diagnostic.summary for each in node.unknown] == ["The node's record is missing"]
    assert [each.summary for each in world.plan().nodes[0].diagnostics] == ["The node's record is missing"]
    assert world.apply()[0].exit_code == Exit.DONE
    assert drift_exit_code(world.drift()) is Exit.DONE


def test_a_secret_that_is_not_at_hand_hides_nothing_else(world: World) -> None:
    world.edit("LOG: info", 'LOG: info, KEY: "${env:KEY}"')
    world.environ["KEY"] = "hunter2hunter2"
    world.apply()
    session = connect(world.inventory.hosts[0])
    session.docker().stop("cache")
    session.close()
    world.environ.clear()
    report = world.drift()
    assert [each.summary for each in report.diagnostics] == ["A secret is not to be had"]
    assert roots(world) == {"n1/container/cache": set()}
    assert drift_exit_code(report) is Exit.ERROR


def test_two_names_of_one_machine_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.nodes({"n1": {}, "n2": {}, "n3": {}})
    monkeypatch.setattr(observe, "boot_id", lambda snapshot: "same" if snapshot.node in ("n1", "n2") else "another")
    first, second, third = world.plan().nodes
    for node in (first, second):
        assert node.changes == ()
        assert node.unknown[0].diagnostic.summary == "Two nodes of the inventory are the same machine"
    assert third.changes


def test_what_a_rule_ignores_is_counted_and_not_told(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    session.docker().stop("cache")
    session.close()
    rule = 'drift: {{ ignore: [{{ address: "*/container/cache", field: state, reason: moving, until: "{}" }}] }}\n'
    world.write(world.plan_file.read_text() + rule.format("2999-01-01"))
    node = only_node(world)
    assert (node.drift, node.suppressed) == ((), 1)
    assert drift_exit_code(world.drift()) is Exit.DONE
    world.edit("2999-01-01", "2020-01-01")
    assert list(roots(world)) == ["n1/container/cache"]


def test_what_follows_from_something_ignored_stands_for_itself(world: World) -> None:
    world.apply()
    session = connect(world.inventory.hosts[0])
    session.docker().stop("triton")
    session.close()
    rule = 'drift: { ignore: [{ address: "*/container/triton", reason: moving }] }\n'
    world.write(world.plan_file.read_text() + rule)
    assert roots(world) == {"n1/model/triton/part": set(), "n1/model/triton/whole": set()}


def test_a_check_during_an_apply_says_busy_and_nothing_else(world: World) -> None:
    world.apply()
    holder = connect(world.inventory.hosts[0])
    holder.agent("lock.take", owner={"run": "r1", "who": "ann@bastion", "since": "now", "pid": 1})
    holder.docker().stop("cache")
    report = world.drift()
    holder.close()
    assert "ann@bastion" in report.nodes[0].busy
    assert report.nodes[0].drift == ()
    assert drift_exit_code(report) is Exit.BUSY
