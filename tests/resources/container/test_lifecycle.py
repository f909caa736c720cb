"""The life of one container, on the simulation and on a real engine: made, changed, failed, interrupted, removed."""

from __future__ import annotations

from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from gpuplan.core.plan.targets import only
from gpuplan.resources.container.apply import lifecycle
from gpuplan.resources.container.images import image_address
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.spec import ContainerSpec, Readiness
from gpuplan.types.change import Action
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.diagnostic import Problem
from gpuplan.types.resource import Desired
from gpuplan.types.value import KnownAfterApply
from tests.resources.container.bench import Bench

STAYS = ("sleep", "500")
ENDS = ("sh", "-c", "exit 3")
SPEAKS = ("sh", "-c", "echo the last word; exit 3")


def spec(bench: Bench, **stated: Any) -> ContainerSpec:
    return ContainerSpec(**{"image": bench.image, "command": STAYS, "stop_timeout": 1, **stated})


def test_made_and_then_nothing_to_do(bench: Bench) -> None:
    web = bench.want("web", spec(bench))
    assert bench.apply(web) == ["create container web"]
    assert bench.names() == {"web": "running"}
    assert bench.apply(web) == []


def test_a_replaced_one_goes_when_the_new_one_is_ready(bench: Bench) -> None:
    bench.apply(bench.want("web", spec(bench)))
    newer = bench.want("web", spec(bench, labels={"a": "b"}))
    assert bench.apply(newer) == ["stop container web", "replace container web"]
    assert bench.names() == {"web": "running"}
    assert bench.compare(newer).changes == ()


def test_one_that_does_not_stay_up_gives_the_old_one_back(bench: Bench) -> None:
    old = bench.want("web", spec(bench))
    bench.apply(old)
    broken = bench.want("web", spec(bench, command=ENDS, ready=Readiness(5.0, exec=("true",))))
    with pytest.raises(Problem) as raised:
        bench.apply(broken)
    told = "\n".join(each.detail for each in raised.value.diagnostics)
    assert "exit code 3" in told
    assert bench.names() == {"web": "running", "web.gpuplan-failed": "exited"}
    assert bench.compare(old).changes == ()
    assert bench.compare(broken).changes[0].action is Action.REPLACE


@pytest.mark.parametrize("where", ["create", "start_created", "wait_ready", "stop_previous"])
def test_whatever_fails_brings_the_old_one_back(bench: Bench, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("unforeseen")

    old = bench.want("web", spec(bench))
    bench.apply(old)
    monkeypatch.setattr(lifecycle, where, fails)
    with pytest.raises(RuntimeError, match="unforeseen"):
        bench.apply(bench.want("web", spec(bench, labels={"a": "b"})))
    assert bench.names()["web"] == "running"
    assert bench.compare(old).changes == ()
    assert "Rolled back: the previous container was started again" in "\n".join(bench.said)


def test_a_failure_while_it_steps_aside_brings_the_old_one_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise ProtocolError("Connection broken")

    old = bench.want("web", spec(bench))
    bench.apply(old)
    with monkeypatch.context() as patched:
        patched.setattr(bench.engine, "rename", refused)
        with pytest.raises(Problem) as raised:
            bench.apply(bench.want("web", spec(bench, labels={"a": "b"})))
    told = [each.summary for each in raised.value.diagnostics]
    assert told == ["The Docker engine did not answer", "Rolled back: the previous container was started again"]
    assert bench.names() == {"web": "running"}
    assert bench.compare(old).changes == ()


@pytest.mark.lab
def test_the_last_words_are_told(real: Bench) -> None:
    with pytest.raises(Problem) as raised:
        real.apply(real.want("web", spec(real, command=SPEAKS, ready=Readiness(5.0, exec=("true",)))))
    assert "the last word" in raised.value.diagnostics[0].detail
    assert real.names() == {"web.gpuplan-failed": "exited"}


def test_what_failed_goes_with_the_next_success(bench: Bench) -> None:
    with pytest.raises(Problem):
        bench.apply(bench.want("web", spec(bench, command=("false",))))
    bench.apply(bench.want("web", spec(bench)))
    assert bench.names() == {"web": "running"}


def test_started_again(bench: Bench) -> None:
    web = bench.want("web", spec(bench))
    bench.apply(web)
    bench.engine.stop("web", timeout=1)
    assert bench.apply(web) == ["start container web"]
    assert bench.compare(web).changes == ()


def test_a_paused_one_goes_on(bench: Bench) -> None:
    web = bench.want("web", spec(bench))
    bench.apply(web)
    before = bench.engine.inspect_container("web")["State"]["StartedAt"]
    bench.engine.pause("web")
    bench.apply(web)
    after = bench.engine.inspect_container("web")["State"]
    assert (after["Status"], after["StartedAt"]) == ("running", before)


def test_limits_change_while_it_runs(bench: Bench) -> None:
    bench.apply(bench.want("web", spec(bench)))
    before = bench.engine.inspect_container("web")["Id"]
    for stated in ({"memory": 1 << 28, "cpus": 0.5, "restart": "always"}, {"memory": 1 << 29, "cpus": 1.0}):
        web = bench.want("web", spec(bench, **stated))
        bench.resources = {}
        assert bench.apply(web) == ["update container web"]
        assert bench.compare(web).changes == ()
    assert bench.engine.inspect_container("web")["Id"] == before


@pytest.mark.parametrize("newer", [False, True])
def test_a_run_that_was_killed_before_the_new_one_is_finished(bench: Bench, newer: bool) -> None:
    bench.apply(bench.want("web", spec(bench)))
    bench.engine.stop("web", timeout=1)
    bench.engine.rename("web", "web.gpuplan-old")
    web = bench.want("web", spec(bench, labels={"a": "b"} if newer else {}))
    bench.apply(web)
    assert bench.names() == {"web": "running"}
    assert bench.compare(web).changes == ()


@pytest.mark.parametrize("start", [False, True])
def test_a_run_that_was_killed_after_the_new_one_is_finished(bench: Bench, start: bool) -> None:
    bench.make_by_hand("web.gpuplan-old", "web", spec(bench), start=False)
    bench.make_by_hand("web", "web", spec(bench), start=start)
    web = bench.want("web", spec(bench))
    bench.apply(web)
    assert bench.names() == {"web": "running"}
    assert bench.compare(web).changes == ()


def test_a_run_that_was_killed_and_whose_new_one_is_broken_is_taken_back(bench: Bench) -> None:
    bench.make_by_hand("web.gpuplan-old", "web", spec(bench), start=False)
    bench.make_by_hand("web", "web", spec(bench, command=("false",)), start=False)
    with pytest.raises(Problem):
        bench.apply(bench.want("web", spec(bench, command=("false",), ready=Readiness(5.0, exec=("true",)))))
    assert bench.names() == {"web": "running", "web.gpuplan-failed": "exited"}


def test_renamed_by_hand(bench: Bench) -> None:
    web = bench.want("web", spec(bench))
    bench.apply(web)
    bench.engine.rename("web", "elsewhere")
    assert bench.apply(web) == ["update container web"]
    assert bench.names() == {"web": "running"}


def test_a_stranger_of_that_name_is_left_alone(bench: Bench) -> None:
    theirs = bench.engine.create_container(bench.image, command=list(STAYS), name="web")["Id"]
    web = bench.want("web", spec(bench))
    (told,) = bench.compare(web).diagnostics
    assert told.summary == "Container name already in use"
    assert "differs from the plan file: state" in told.detail
    assert bench.apply(web) == []
    assert bench.apply() == []
    assert bench.engine.inspect_container("web")["Id"] == theirs


def test_the_holder_of_a_port_is_named(bench: Bench) -> None:
    host = bench.engine.create_host_config(port_bindings={80: 31234})
    theirs = bench.engine.create_container(
        bench.image, command=list(STAYS), name="theirs", ports=[80], host_config=host
    )
    bench.engine.start(theirs)
    web = bench.want("web", spec(bench, ports={"80/tcp": ("31234",)}))
    with pytest.raises(Problem) as raised:
        bench.apply(web)
    assert raised.value.diagnostics[0].summary == "Host port already in use"
    assert "theirs" in raised.value.diagnostics[0].detail
    assert bench.names() == {"theirs": "running"}


def test_two_containers_swap_their_ports(bench: Bench) -> None:
    def pair(one: str, other: str) -> list[Desired]:
        ports = {"aa": one, "bb": other}
        return [bench.want(name, spec(bench, ports={"80/tcp": (port,)})) for name, port in ports.items()]

    bench.apply(*pair("31001", "31002"))
    swapped = pair("31002", "31001")
    assert bench.apply(*swapped)[:2] == ["stop container aa", "stop container bb"]
    assert bench.compare(*swapped).changes == ()


def test_a_port_moves_to_another_container(bench: Bench) -> None:
    ports = {"80/tcp": ("31001",)}
    bench.apply(bench.want("zz", spec(bench, ports=ports)))
    moved = bench.want("aa", spec(bench, ports=ports))
    assert bench.apply(moved) == ["remove container zz", "create container aa"]


def test_what_went_away_meanwhile_is_not_stopped(bench: Bench) -> None:
    bench.apply(bench.want("web", spec(bench)))
    stop = bench.compare(bench.want("web", spec(bench, labels={"a": "b"}))).changes[0].steps[0]
    bench.engine.remove_container("web", force=True)
    assert list(CONTAINER.apply(stop, bench.apply_context)) == []


def test_a_device_is_looked_up_when_the_container_is_made(bench: Bench) -> None:
    uuid = bench.gpus["g1"]
    bench.remembered = {bench.want("x", spec(bench, gpus=("g1",))).needs[0]: {"uuid": uuid}}
    bench._remember([])
    web = bench.want("web", spec(bench, gpus=("g1",)))
    bench.apply(web, bindings={"g1": KnownAfterApply("UUID of g1")})
    assert bench.compare(web).changes == ()


def test_a_device_that_is_gone_is_told_before_anything_is_stopped(bench: Bench) -> None:
    bench.apply(bench.want("web", spec(bench)))
    gone = bench.want("web", spec(bench, gpus=("g9",)))
    replace = bench.compare(gone, bindings={"g9": KnownAfterApply("UUID of g9")}).changes[0].steps[-1]
    with pytest.raises(Problem) as raised:
        CONTAINER.apply(replace, bench.apply_context)
    assert "g9 does not exist" in raised.value.diagnostics[0].detail
    assert bench.names() == {"web": "running"}


def test_a_registry_that_is_not_there(bench: Bench) -> None:
    web = bench.want("web", spec(bench, image="registry.invalid/nothing:1"))
    with pytest.raises(Problem) as raised:
        bench.apply(web)
    assert raised.value.diagnostics[0].summary == "Cannot reach the registry"
    assert bench.names() == {}


def test_the_one_thing_that_went_wrong_is_told_of_an_image(simulated: Bench) -> None:
    with pytest.raises(Problem) as raised:
        simulated.apply(simulated.want("web", spec(simulated, image="busybox:0.1")))
    assert raised.value.diagnostics[0].summary == "Image not found"


def test_a_pulled_image_goes_with_its_last_user(simulated: Bench) -> None:
    two = [simulated.want(name, spec(simulated, image="busybox:1.37")) for name in ("aa", "bb")]
    made = ["create container aa", "create container bb"]
    assert simulated.apply(*two) == ["pull image busybox:1.37", *made]
    simulated.apply(two[1])
    assert simulated.engine.images("busybox:1.37")
    assert simulated.apply() == ["remove container bb", "remove image busybox:1.37"]
    assert not simulated.engine.images("busybox:1.37")
    assert simulated.engine.images("busybox:1.36")
    assert simulated.remembered == {}


def test_a_pulled_image_goes_when_its_containers_went_by_hand(simulated: Bench) -> None:
    simulated.apply(simulated.want("web", spec(simulated, image="busybox:1.37")))
    simulated.clear()
    assert simulated.apply() == ["remove image busybox:1.37"]
    assert not simulated.engine.images("busybox:1.37")


def test_a_pulled_image_that_went_by_hand_is_forgotten(simulated: Bench) -> None:
    simulated.apply(simulated.want("web", spec(simulated, image="busybox:1.37")))
    simulated.clear()
    simulated.engine.remove_image("busybox:1.37")
    assert simulated.apply() == ["remove image busybox:1.37 from the node's record"]
    assert simulated.remembered == {}


def test_a_pulled_image_goes_after_a_failed_create(simulated: Bench) -> None:
    with pytest.raises(Problem):
        simulated.apply(simulated.want("web", spec(simulated, image="busybox:1.37", command=("false",))))
    assert simulated.apply() == ["remove container web", "remove image busybox:1.37"]
    assert simulated.names() == {}
    assert not simulated.engine.images("busybox:1.37")


def test_the_image_before_goes_with_a_replacement(simulated: Bench) -> None:
    simulated.apply(simulated.want("web", spec(simulated, image="busybox:1.37")))
    newer = simulated.want("web", spec(simulated))
    steps = ["stop container web", "replace container web", "remove image busybox:1.37"]
    assert simulated.apply(newer) == steps
    assert simulated.compare(newer).changes == ()


def test_an_image_that_is_used_by_now_stays_and_is_told(bench: Bench) -> None:
    bench.remembered = {image_address(bench.node, bench.image): {"fetched": True}}
    (change,) = bench.compare().changes
    bench.engine.create_container(bench.image, command=list(STAYS), name="theirs")
    with pytest.raises(Problem):
        CONTAINER.apply(change.steps[0], bench.apply_context)
    assert bench.engine.images(bench.image)
    assert bench.compare().changes == ()


def test_a_target_takes_its_image_along_and_no_other_container(simulated: Bench) -> None:
    two = [simulated.want(name, spec(simulated, image="busybox:1.37")) for name in ("aa", "bb")]
    node = NodeChanges("n", changes=simulated.compare(*two).changes)
    addresses = [str(change.address) for change in only(node, ["n/container/bb"]).changes]
    assert addresses == ["n/image/busybox:1.37", "n/container/bb"]


@pytest.mark.lab
def test_an_image_is_loaded_from_an_archive(real: Bench, lab: Any) -> None:
    real.engine.remove_image("lab/pause:1")
    archive = str(lab.archive.with_name("pause.tar"))
    web = real.want("web", spec(real, archive=archive))
    assert real.apply(web)[0] == f"load image lab/pause:1 from {archive}"
    assert real.compare(web).changes == ()
    assert "loading" in "\n".join(real.said)


@pytest.mark.parametrize(
    ("ready", "command"),
    [
        (Readiness(10.0, http="8080/there"), ("httpd", "-f", "-p", "8080", "-h", "/bin")),
        (Readiness(1.0, tcp=8081), ("httpd", "-f", "-p", "8080")),
        (Readiness(1.0, exec=("false",)), STAYS),
        (Readiness(1.0, exec=("/no/such/program",)), STAYS),
    ],
)
@pytest.mark.lab
def test_never_ready(real: Bench, ready: Readiness, command: tuple[str, ...]) -> None:
    with pytest.raises(Problem) as raised:
        real.apply(
            real.want("web", spec(real, command=command, ready=Readiness(1.0, ready.http, ready.tcp, ready.exec)))
        )
    assert raised.value.diagnostics[0].summary == "Container is not ready"


@pytest.mark.parametrize(
    ("ready", "ports"),
    [
        (Readiness(10.0, http="8080/sh"), {}),
        (Readiness(10.0, http="8080/sh"), {"8080/tcp": ("127.0.0.1:31777",)}),
        (Readiness(10.0, tcp=8080), {"8080/tcp": ("",)}),
        (Readiness(10.0, exec=("true",)), {}),
    ],
)
@pytest.mark.lab
def test_ready(real: Bench, ready: Readiness, ports: dict[str, tuple[str, ...]]) -> None:
    command = ("httpd", "-f", "-p", "8080", "-h", "/bin")
    real.apply(real.want("web", spec(real, command=command, ready=ready, ports=ports)))
    assert real.names() == {"web": "running"}
