"""What a container's steps make, use, release and free, as far as other rooms' steps wait for it."""

from __future__ import annotations

import pytest

from gpuplan.core.plan.order import in_order
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Step, Verb
from gpuplan.types.record import Record
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import JsonObject, KnownAfterApply
from tests.resources.container.case import PAUSE, wishes
from tests.resources.container.node import snapshot

GPU, SLICE = Address("n", "gpu", "a100-0"), Address("n", "gpu", "a100-0/cls-a")
ASKS = {"DeviceRequests": [{"Driver": "", "Count": 0, "DeviceIDs": ["MIG-a1"], "Capabilities": [["gpu"]]}]}
LIVE = {"name": "web", "plan": "prod", "env": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "host": ASKS}
CUT = Change(
    GPU,
    Action.UPDATE,
    steps=(
        Step("create", GPU, Verb.CREATE, "create slices", makes=(SLICE,)),
        Step("destroy", GPU, Verb.DELETE, "destroy slices", frees=(SLICE,)),
    ),
)


def order(gpus: list[str], wanted: bool = True, bound: bool = True) -> tuple[str, ...]:
    """The order of a container's steps among those of a slice that is made anew; nothing is recorded of either.

    Without `bound` the plan file names no GPU any more, and only the node's memory of the slice tells whose it is.
    """
    desired, _ = wishes({"web": {"gpus": gpus}} if wanted else {})
    slice_fact: JsonObject = {"gpu": "GPU-a", "profile": "3g.40gb", "start": 0, "size": 4}
    context = DiffContext(
        "n",
        "prod",
        Record("prod") if bound else Record("prod", remembered={SLICE: slice_fact}),
        bindings={GPU: "GPU-a", SLICE: KnownAfterApply("UUID of cls-a"), Address("n", "gpu", "a100-1"): "GPU-b"}
        if bound
        else {},
        disturbed={SLICE: "slice cls-a is created"},
    )
    changes = CONTAINER.compare(desired, snapshot([LIVE], [PAUSE]), context).changes
    return in_order((*changes, CUT))


def test_stopped_before_its_slice_goes_and_made_after_it_is_there() -> None:
    assert order(["a100-0/cls-a"]) == (
        "n/container/web:stop",
        "n/gpu/a100-0:destroy",
        "n/gpu/a100-0:create",
        "n/container/web:replace",
    )


def test_stopped_before_the_slice_goes_that_it_leaves() -> None:
    found = order(["a100-1"])
    assert found.index("n/container/web:stop") < found.index("n/gpu/a100-0:destroy")


@pytest.mark.parametrize("bound", [True, False])
def test_removed_before_its_slice_goes(bound: bool) -> None:
    found = order([], wanted=False, bound=bound)
    assert found.index("n/container/web:remove") < found.index("n/gpu/a100-0:destroy")


def test_an_image_is_brought_before_anything_stops() -> None:
    desired, _ = wishes({"web": {"image": "app:2", "gpus": ["a100-1"]}})
    context = DiffContext("n", "prod", Record("prod"), bindings={Address("n", "gpu", "a100-1"): "GPU-b"})
    changes = CONTAINER.compare(desired, snapshot([LIVE], [PAUSE]), context).changes
    assert [name.rpartition(":")[2] for name in in_order(changes)] == ["fetch", "stop", "replace"]


def test_what_is_left_goes_only_when_the_new_one_has_its_name_and_serves() -> None:
    desired, _ = wishes({"web": {"memory": "64MiB", "gpus": ["a100-1"]}})
    asks = {"DeviceRequests": [{**ASKS["DeviceRequests"][0], "DeviceIDs": ["GPU-b"]}]}
    live = [
        {**LIVE, "name": "web.x", "role": "web", "state": {"Status": "exited"}, "host": asks},
        {**LIVE, "name": "web.y", "role": "web", "state": {"Status": "exited"}, "host": asks},
    ]
    gpu = Address("n", "gpu", "a100-1")
    context = DiffContext("n", "prod", Record("prod"), bindings={gpu: "GPU-b"})
    changes = CONTAINER.compare(desired, snapshot(live, [PAUSE]), context).changes
    late = Change(gpu, Action.UPDATE, steps=(Step("mode", gpu, Verb.UPDATE, "set the mode", makes=(gpu,)),))
    found = [name.rpartition(":")[2] for name in in_order((*changes, late))]
    assert found == ["update", "mode", "start", "remove-leftovers"]


def test_an_image_goes_after_the_containers_that_were_made_from_it() -> None:
    image = Address("n", "image", "lab/pause:1")
    record = Record("prod", remembered={image: {"fetched": True}})
    for wanted, last in (({}, "remove"), ({"web": {"image": "app:2"}}, "replace")):
        desired, _ = wishes(wanted)
        changes = CONTAINER.compare(
            desired, snapshot([LIVE], [PAUSE, {"tags": ["app:2"]}]), DiffContext("n", "prod", record)
        )
        assert in_order(changes.changes)[-2:] == (f"n/container/web:{last}", f"{image}:remove-image")
