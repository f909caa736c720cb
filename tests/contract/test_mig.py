"""NVML and MIG: the simulated library refuses what the real one refuses."""

from __future__ import annotations

import pytest

from gpuplan.types.diagnostic import Refused
from tests.contract.node import Node

HALF, SEVENTH, WHOLE = 9, 19, 0
"""Profiles of an H100: 3g.40gb, 1g.10gb, 7g.80gb."""


def code(node: Node, operation: str, **arguments: object) -> str:
    """The word with which the agent refuses."""
    with pytest.raises(Refused) as refused:
        node.session.agent(operation, uuid=node.gpu()["uuid"], **arguments)
    return refused.value.code


def switch(node: Node, enabled: bool) -> object:
    return node.session.agent("mig.set_mode", uuid=node.gpu()["uuid"], enabled=enabled)


def places(node: Node) -> list[tuple[str, int, int]]:
    return [(one["profile"], one["start"], one["size"]) for one in node.gpu()["instances"]]


def test_mode_goes_on_and_off(node: Node) -> None:
    assert node.gpu()["mig"] == {"supported": True, "current": False, "pending": False}
    assert switch(node, True) == {"status": 0, "current": True, "pending": True}
    assert switch(node, True) == {"status": 0, "current": True, "pending": True}
    assert node.gpu()["mig"] == {"supported": True, "current": True, "pending": True}
    assert switch(node, False) == {"status": 0, "current": False, "pending": False}


def test_placements_are_told_only_while_mode_is_on(node: Node) -> None:
    assert {profile["placements"] for profile in node.gpu()["profiles"]} == {None}
    switch(node, True)
    told = {profile["name"]: profile["placements"] for profile in node.gpu()["profiles"]}
    assert told["3g.40gb"] == [[0, 4], [4, 4]]
    assert told["1g.10gb"] == [[start, 1] for start in range(7)]


def test_nothing_is_made_while_mode_is_off(node: Node) -> None:
    assert code(node, "mig.create", profile_id=HALF, start=0, size=4) == "not_supported"


def test_slices_stand_where_they_were_put(node: Node) -> None:
    switch(node, True)
    first, second = node.slice(HALF, 4, 4), node.slice(SEVENTH, 1, 1)
    assert places(node) == [("1g.10gb", 1, 1), ("3g.40gb", 4, 4)]
    uuids = [one["compute_instances"][0]["uuid"] for one in node.gpu()["instances"]]
    assert uuids == [second, first]
    assert [one["id"] for one in node.gpu()["instances"]] == [8, 2]


def test_a_full_gpu_has_no_room(node: Node) -> None:
    switch(node, True)
    node.slice(HALF, 0, 4)
    node.slice(HALF, 4, 4)
    assert code(node, "mig.create", profile_id=SEVENTH, start=0, size=1) == "insufficient_resources"
    assert code(node, "mig.create", profile_id=HALF, start=0, size=4) == "insufficient_resources"


def test_a_place_that_the_profile_does_not_have_is_invalid(node: Node) -> None:
    switch(node, True)
    assert code(node, "mig.create", profile_id=HALF, start=2, size=4) == "invalid"


def test_a_new_slice_has_a_new_uuid(node: Node) -> None:
    switch(node, True)
    first = node.slice(HALF, 0, 4)
    destroy(node, 0)
    assert node.slice(HALF, 0, 4) != first


def test_mode_stays_on_while_there_are_instances(node: Node) -> None:
    switch(node, True)
    node.slice(WHOLE, 0, 8)
    assert code(node, "mig.set_mode", enabled=False) == "in_use"
    destroy(node, 0)
    assert switch(node, False) == {"status": 0, "current": False, "pending": False}


def test_a_busy_slice_is_not_destroyed(node: Node) -> None:
    switch(node, True)
    uuid = node.slice(HALF, 0, 4)
    node.start_triton(uuid)
    (process,) = node.gpu()["processes"]
    (instance,) = node.gpu()["instances"]
    assert (process["gpu_instance"], process["compute_instance"]) == (instance["id"], 0)
    assert process["container"] == node.inspect("triton")["Id"]
    arguments = {"instance": instance["id"], "profile_id": HALF, "start": 0}
    assert code(node, "mig.destroy", **arguments) == "in_use"
    node.session.docker().stop("triton")
    assert node.gpu()["processes"] == []
    destroy(node, 0)
    assert places(node) == []


def test_mode_waits_for_a_process_on_the_gpu(node: Node) -> None:
    node.start_triton(node.gpu()["uuid"])
    assert switch(node, True) == {"status": 19, "current": False, "pending": True}
    node.session.docker().stop("triton")
    assert switch(node, True) == {"status": 0, "current": True, "pending": True}


def test_an_instance_that_is_another_now_is_left_alone(node: Node) -> None:
    switch(node, True)
    node.slice(HALF, 0, 4)
    (instance,) = node.gpu()["instances"]
    assert code(node, "mig.destroy", instance=instance["id"], profile_id=SEVENTH, start=0) == "moved"
    assert places(node) == [("3g.40gb", 0, 4)]


def compute(node: Node) -> dict[str, int]:
    """MIG UUID → compute slices, of the only GPU instance."""
    (instance,) = node.gpu()["instances"]
    return {one["uuid"]: one["slices"] for one in instance["compute_instances"]}


def test_compute_instances_are_made_in_the_order_that_was_asked(node: Node) -> None:
    switch(node, True)
    uuid = node.gpu()["uuid"]
    made = node.session.agent("mig.create", uuid=uuid, profile_id=HALF, start=0, size=4, compute=[1, 2])
    first, second = made["mig_uuids"]
    assert made["mig_uuid"] == first
    assert compute(node) == {first: 1, second: 2}


def test_one_compute_instance_goes_and_others_come_while_the_slice_stays(node: Node) -> None:
    switch(node, True)
    uuid = node.gpu()["uuid"]
    small, large = node.session.agent("mig.create", uuid=uuid, profile_id=HALF, start=0, size=4, compute=[1, 2])[
        "mig_uuids"
    ]
    (instance,) = node.gpu()["instances"]
    number = next(one["id"] for one in instance["compute_instances"] if one["uuid"] == large)
    place = {"instance": instance["id"], "profile_id": HALF, "start": 0}
    node.session.agent("mig.destroy_compute", uuid=uuid, **place, compute=number)
    assert compute(node) == {small: 1}
    assert code(node, "mig.destroy_compute", **place, compute=number) == "not_found"
    assert code(node, "mig.create_compute", instance=instance["id"], compute=[1, 2]) == "insufficient_resources"
    assert compute(node) == {small: 1}
    more = node.session.agent("mig.create_compute", uuid=uuid, instance=instance["id"], compute=[1, 1])["mig_uuids"]
    assert compute(node) == {small: 1, more[0]: 1, more[1]: 1}


def test_without_its_compute_instances_no_slice_is_made(node: Node) -> None:
    switch(node, True)
    place = {"profile_id": HALF, "start": 0, "size": 4}
    assert code(node, "mig.create", **place, compute=[2, 2]) == "insufficient_resources"
    assert code(node, "mig.create", **place, compute=[4]) == "not_supported"
    assert places(node) == []


def test_a_busy_compute_instance_is_not_destroyed(node: Node) -> None:
    switch(node, True)
    uuid = node.gpu()["uuid"]
    _, large = node.session.agent("mig.create", uuid=uuid, profile_id=HALF, start=0, size=4, compute=[1, 2])[
        "mig_uuids"
    ]
    node.start_triton(large)
    (instance,) = node.gpu()["instances"]
    ids = {one["uuid"]: one["id"] for one in instance["compute_instances"]}
    place = {"instance": instance["id"], "profile_id": HALF, "start": 0}
    assert code(node, "mig.destroy_compute", **place, compute=ids[large]) == "in_use"
    (free,) = [id_ for one, id_ in ids.items() if one != large]
    node.session.agent("mig.destroy_compute", uuid=uuid, **place, compute=free)
    assert compute(node) == {large: 2}


def destroy(node: Node, start: int) -> None:
    gpu = node.gpu()
    (instance,) = [one for one in gpu["instances"] if one["start"] == start]
    node.session.agent(
        "mig.destroy",
        uuid=gpu["uuid"],
        instance=instance["id"],
        profile_id=instance["profile_id"],
        start=start,
    )
