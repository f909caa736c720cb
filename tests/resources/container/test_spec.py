"""Spec: what the plan file's containers become, and every fault that is found in them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.resources.container.spec import from_json
from gpuplan.types.diagnostic import Severity
from tests.resources.container.case import wishes

TRITON = "nvcr.io/nvidia/tritonserver:24.10-py3"
NOT_TAKEN = "This Triton release does not accept a flag"
IDLE = "Triton flag has no effect"
LIMITED = {"rate-limit": "execution_count"}


def faults(**stated: Any) -> list[tuple[str, str, str]]:
    _, found = wishes({"web": stated})
    return [(each.summary, each.detail, each.fix) for each in found]


def one(**stated: Any) -> Any:
    desired, found = wishes({"web": stated})
    assert [each for each in found if each.severity is Severity.ERROR] == []
    return from_json(desired[0].spec)


def test_the_command_of_a_model_server() -> None:
    spec = one(image=TRITON, triton={"cache": "1MiB", "flags": {"rate-limit": "execution_count", "log-info": False}})
    assert spec.command == (
        "sh",
        "-c",
        'exec tritonserver "$@" $(cat /gpuplan/load-models)',
        "tritonserver",
        "--model-repository=/gpuplan/models",
        "--model-control-mode=explicit",
        "--exit-on-error=false",
        "--strict-readiness=false",
        "--cache-config=local,size=1048576",
        "--rate-limit=execution_count",
        "--log-info=false",
    )


def test_a_switch_has_no_value() -> None:
    assert (
        "--disable-auto-complete-config"
        in one(image=TRITON, triton={"flags": {"disable-auto-complete-config": True}}).command
    )
    silent = one(image=TRITON, triton={"flags": {"disable-auto-complete-config": False}}).command
    assert not [word for word in silent if "auto-complete" in word]


def test_a_flag_that_may_be_repeated_takes_a_list() -> None:
    flags = {**LIMITED, "rate-limit-resource": ["R1:4", "R2:2:0"]}
    command = one(image=TRITON, triton={"flags": flags}).command
    assert command[-2:] == ("--rate-limit-resource=R1:4", "--rate-limit-resource=R2:2:0")
    assert faults(image=TRITON, triton={"flags": flags}) == []


def test_a_model_server_needs_its_devices_and_its_repository() -> None:
    desired, _ = wishes({"web": {"image": TRITON, "gpus": ["a100-0/cls-a"], "triton": {}}})
    assert [str(need) for need in desired[0].needs] == ["n/gpu/a100-0/cls-a", "n/repository/web"]


def test_ports_of_a_model_server_are_those_of_the_host() -> None:
    spec = one(image=TRITON, ports={"http": 9000, "metrics": 9002}, triton={})
    assert spec.ports == {"8000/tcp": ("9000",), "8002/tcp": ("9002",)}


@pytest.mark.parametrize(
    ("form", "ports"),
    [
        ("8080:80", {"80/tcp": ("8080",)}),
        ("127.0.0.1:8080:80/udp", {"80/udp": ("127.0.0.1:8080",)}),
        ("[::1]:8080:80", {"80/tcp": ("[::1]:8080",)}),
        ("0.0.0.0:8080:80", {"80/tcp": ("8080",)}),
        ("127.0.0.1::80", {"80/tcp": ("127.0.0.1:",)}),
        ("8080", {"8080/tcp": ("",)}),
        (8080, {"8080/tcp": ("",)}),
        ("8080-8081:80-81", {"80/tcp": ("8080",), "81/tcp": ("8081",)}),
    ],
)
def test_docker_forms_of_ports(form: str | int, ports: dict[str, tuple[str, ...]]) -> None:
    assert one(ports=[form]).ports == ports


@pytest.mark.parametrize("form", ["http", "80:80:80:80", "1:99999", "a:80", "0:x"])
def test_ports_that_are_none(form: str) -> None:
    assert [summary for summary, _, _ in faults(ports=[form])] == ["Port is not valid"]


@pytest.mark.parametrize(
    ("form", "mounts"),
    [
        ("/srv/cache/:/cache/", {"/cache": "/srv/cache"}),
        ("/srv:/cache:ro", {"/cache": "/srv:ro"}),
        ("/srv:/cache:rw,z", {"/cache": "/srv:z"}),
        ("data:/data", {"/data": "data"}),
    ],
)
def test_docker_forms_of_volumes(form: str, mounts: dict[str, str]) -> None:
    assert one(volumes=[form]).volumes == mounts


@pytest.mark.parametrize("form", ["/data", "./x:/x", "../x:/x", "a:b", "/a:/b:sometimes", "/a:/b:ro:z", ":/x"])
def test_volumes_that_are_none(form: str) -> None:
    assert [summary for summary, _, _ in faults(volumes=[form])] == ["Volume is not valid"]


def test_two_volumes_at_one_path() -> None:
    assert "two volumes are mounted at /x" in faults(volumes=["/a:/x", "/b:/x/"])[0][1]


def test_words_of_a_command() -> None:
    spec = one(command="serve --name 'two words'", entrypoint="")
    assert (spec.command, spec.entrypoint) == (("serve", "--name", "two words"), ())
    assert faults(command="serve 'open")[0][0] == "Command is not valid"


def test_values_of_variables_are_texts() -> None:
    env = one(env={"A": True, "B": 1.5, "C": 7, "D": "${env:D}", "E": "x-${file:/e}"}).env
    assert {name: env[name] for name in "ABCDE"} == {
        "A": "true",
        "B": "1.5",
        "C": "7",
        "D": {"secret": "${env:D}"},
        "E": {"secret": "x-${file:/e}"},
    }


def test_without_gpus_there_are_none_and_with_gpus_they_are_in_order() -> None:
    assert one().env == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert one(gpus=["a100-1"]).env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("stated", "summary"),
    [
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "GPUs cannot be given by an environment variable"),
        ({"labels": {"gpuplan.plan": "x"}}, "Label is reserved"),
        ({"network": "container:db"}, "Networks of other containers are not supported"),
        ({"network": "host", "ports": ["80:80"]}, "Ports with network: host"),
        ({"ready": {"http": "http://x/"}}, "Readiness probe is not valid"),
        ({"ready": {"tcp": 80, "exec": ["true"]}}, "Several readiness probes"),
        ({"image": TRITON, "triton": {}, "command": "x"}, "Model server cannot have its own command"),
        ({"image": TRITON, "triton": {}, "volumes": ["/a:/gpuplan/models"]}, "Path is taken"),
        ({"image": TRITON, "triton": {"flags": {"model-repository": "/x"}}}, NOT_TAKEN),
        ({"image": TRITON, "triton": {"flags": {"rate-limiter": "off"}}}, NOT_TAKEN),
        ({"image": TRITON, "triton": {"flags": {"log-verbose": "much"}}}, NOT_TAKEN),
        ({"image": TRITON, "triton": {"cache": 1, "flags": {"cache-config": "local,size=1"}}}, NOT_TAKEN),
        ({"image": TRITON, "triton": {"flags": {"strict-model-config": True}}}, "Triton flag is deprecated"),
        ({"image": TRITON, "triton": {"flags": {"rate-limit": "bogus"}}}, NOT_TAKEN),
        ({"image": TRITON, "triton": {"flags": {"log-verbose": [1, 2]}}}, NOT_TAKEN),
        ({"image": TRITON, "triton": {"flags": {"rate-limit-resource": ["R1:4", "R2"], **LIMITED}}}, NOT_TAKEN),
        ({"image": TRITON, "triton": {"flags": {"rate-limit-resource": "R1:4"}}}, IDLE),
        ({"image": None}, "Container without an image"),
    ],
)  # fmt: skip
def test_faults(stated: dict[str, Any], summary: str) -> None:
    assert [found for found, _, _ in faults(**stated)] == [summary]


def test_a_faulty_container_is_not_wanted_and_a_deprecated_flag_is_no_fault() -> None:
    assert wishes({"web": {"image": TRITON, "triton": {"flags": {"http-port": 1}}}})[0] == ()
    assert len(wishes({"web": {"image": TRITON, "triton": {"flags": {"strict-model-config": True}}}})[0]) == 1


def test_all_faults_at_once() -> None:
    assert len(faults(ports=["x"], volumes=["x"], network="container:x", labels={"gpuplan.x": "y"})) == 4


@pytest.mark.parametrize(
    ("one_port", "other", "clash"),
    [
        ("8080:80", "8080:81", True),
        ("8080:80", "127.0.0.1:8080:81", True),
        ("127.0.0.1:8080:80", "127.0.0.2:8080:80", False),
        ("8080:80", "8080:80/udp", False),
        ("80", "80", False),
    ],
)
def test_two_containers_on_one_port(one_port: str, other: str, clash: bool) -> None:
    _, found = wishes({"aa": {"ports": [one_port]}, "bb": {"ports": [other]}})
    assert [each.summary for each in found] == (["Two containers publish one port"] if clash else [])


def test_each_slice_has_a_container_with_ports_of_its_own() -> None:
    each = {"image": TRITON, "each": "a100-0/cls-*", "ports": {"http": 8000, "step": 10}, "triton": {}}
    desired, found = wishes({"per": each})
    assert found == ()
    assert [(d.address.name, from_json(d.spec).gpus, from_json(d.spec).ports) for d in desired] == [
        ("per-0", ("a100-0/cls-a",), {"8000/tcp": ("8000",)}),
        ("per-1", ("a100-0/cls-b",), {"8000/tcp": ("8010",)}),
    ]


@pytest.mark.parametrize("image", ["a//b", "/a", "a/", "a b", "", "-a", "a@", "a/-b"])
def test_images_that_are_no_references(image: str) -> None:
    assert faults(image=image)[0][0] in ("Invalid image reference", "Container without an image")


@pytest.mark.parametrize(
    "image", ["busybox", "lab/pause:1", "r.io:5000/a/b-c_d.e:1.2-py3", f"a@sha256:{'0' * 64}", f"sha256:{'0' * 64}"]
)
def test_images_that_are(image: str) -> None:
    assert one(image=image).image == image
