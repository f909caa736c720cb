"""What a container's steps make, use, release and free, as far as other rooms' steps wait for it."""

from __future__ import annotations

from gpuplan.flow.order import in_order
from gpuplan.kinds.container import ROOM
from gpuplan.model.address import Address
from gpuplan.model.change import Action, Change, Step, Verb
from gpuplan.model.record import Record
from gpuplan.model.resource import Circumstances
from gpuplan.model.value import Later
from tests.kinds.container.case import PAUSE, wishes
from tests.kinds.container.node import snapshot

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


def order(gpus: list[str], wanted: bool = True) -> tuple[str, ...]:
    """The order of a container's steps among those of a slice that is made anew; nothing is recorded of either."""
    desired, _ = wishes({"web": {"gpus": gpus}} if wanted else {})
    circumstances = Circumstances(
        "n",
        "prod",
        Record("prod"),
        bindings={GPU: "GPU-a", SLICE: Later("UUID of cls-a"), Address("n", "gpu", "a100-1"): "GPU-b"},
        disturbed={SLICE: "slice cls-a is created"},
    )
    changes = ROOM.compare(desired, snapshot([LIVE], [PAUSE]), circumstances).changes
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


def test_removed_before_its_slice_goes() -> None:
    found = order([], wanted=False)
    assert found.index("n/container/web:remove") < found.index("n/gpu/a100-0:destroy")


def test_an_image_is_brought_before_anything_stops() -> None:
    desired, _ = wishes({"web": {"image": "app:2", "gpus": ["a100-1"]}})
    circumstances = Circumstances("n", "prod", Record("prod"), bindings={Address("n", "gpu", "a100-1"): "GPU-b"})
    changes = ROOM.compare(desired, snapshot([LIVE], [PAUSE]), circumstances).changes
    assert [name.rpartition(":")[2] for name in in_order(changes)] == ["bring", "stop", "replace"]
