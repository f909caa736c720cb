"""The Docker engine: the simulated one answers the SDK as the real one does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.contract.node import Node, refused, until


def start(node: Node, name: str) -> None:
    node.session.docker().start(name)


def state(node: Node, name: str) -> dict[str, Any]:
    return dict(node.inspect(name)["State"])


def gpus(*uuids: str, capability: str = "gpu") -> list[dict[str, Any]]:
    return [{"Driver": "", "Count": 0, "DeviceIDs": list(uuids), "Capabilities": [[capability]], "Options": {}}]


def test_a_life(node: Node) -> None:
    client = node.session.docker()
    node.create(node.sleeper("one"))
    assert (state(node, "one")["Status"], state(node, "one")["Running"]) == ("created", False)
    start(node, "one")
    assert (state(node, "one")["Status"], state(node, "one")["Running"]) == ("running", True)
    assert state(node, "one")["Pid"] > 0
    client.start("one")
    client.restart("one", timeout=0)
    assert state(node, "one")["Status"] == "running"
    client.stop("one", timeout=0)
    ended = state(node, "one")
    assert (ended["Status"], ended["Running"], ended["ExitCode"], ended["Pid"]) == ("exited", False, 137, 0)
    assert client.wait("one") == {"Error": None, "StatusCode": 137}
    client.stop("one")
    client.remove_container("one")
    assert refused(lambda: client.inspect_container("one")) == (404, "No such container: one")


def test_words_about_what_is_not_there(node: Node) -> None:
    client = node.session.docker()
    for act in (client.start, client.stop, client.restart, client.remove_container, client.inspect_container):
        assert refused(lambda act=act: act("nobody")) == (404, "No such container: nobody")
    body = {**node.sleeper("one"), "Image": "nowhere:1"}
    assert refused(lambda: node.create(body)) == (404, "No such image: nowhere:1")
    assert refused(lambda: client.inspect_image("nowhere:1")) == (
        404,
        "no such image: nowhere:1: No such image: nowhere:1",
    )
    assert refused(lambda: client.remove_image("nowhere:1")) == (404, "No such image: nowhere:1")


def test_a_name_belongs_to_one_container(node: Node) -> None:
    client = node.session.docker()
    first = node.create(node.sleeper("one"))
    node.create(node.sleeper("two"))
    conflict = (
        f'Conflict. The container name "/one" is already in use by container "{first}". '
        "You have to remove (or rename) that container to be able to reuse that name."
    )
    assert refused(lambda: node.create(node.sleeper("one"))) == (409, conflict)
    told = (409, f"Error when allocating new name: {conflict}")
    assert refused(lambda: client.rename("two", "one")) == told
    words = "Invalid container name (/x y), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"
    assert refused(lambda: client.rename("two", "x y")) == (400, f"Error when allocating new name: {words}")
    client.rename("one", "three")
    assert node.inspect("three")["Id"] == first
    assert node.inspect(first)["Name"] == "/three"
    assert node.inspect(first[:12])["Id"] == first
    status, words = refused(lambda: node.create(node.sleeper("x y")))
    assert (status, words) == (400, "Invalid container name (x y), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")


def test_a_running_container_is_not_removed_unless_forced(node: Node) -> None:
    client = node.session.docker()
    identity = node.create(node.sleeper("one"))
    start(node, "one")
    assert refused(lambda: client.remove_container("one")) == (
        409,
        f"You cannot remove a running container {identity}. "
        "Stop the container before attempting removal or force remove",
    )
    client.remove_container("one", force=True)
    assert client.containers(all=True) == []


def test_a_port_belongs_to_one_running_container(node: Node) -> None:
    bound = {"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]}}
    for name in ("one", "two"):
        node.create({**node.sleeper(name, **bound), "ExposedPorts": {"80/tcp": {}}})
    start(node, "one")
    shown = node.inspect("one")["NetworkSettings"]
    assert shown["Ports"] == {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]}
    assert shown["IPAddress"] == shown["Networks"]["bridge"]["IPAddress"] != ""
    status, words = refused(lambda: start(node, "two"))
    assert status == 500
    assert words.startswith("driver failed programming external connectivity on endpoint two (")
    assert words.endswith("): Bind for 127.0.0.1:8080 failed: port is already allocated")
    told = state(node, "two")
    assert (told["Status"], told["ExitCode"], told["Error"]) == ("created", 128, words)
    node.session.docker().stop("one", timeout=0)
    start(node, "two")
    assert node.inspect("one")["NetworkSettings"]["Ports"] == {}


def test_a_port_of_all_addresses(node: Node) -> None:
    client = node.session.docker()
    node.create(
        {**node.sleeper("one", PortBindings={"80/tcp": [{"HostPort": "8080"}]}), "ExposedPorts": {"80/tcp": {}}}
    )
    node.create({**node.sleeper("two", PublishAllPorts=True), "ExposedPorts": {"80/tcp": {}}})
    for name in ("one", "two"):
        start(node, name)
    sides = [{"HostIp": "0.0.0.0", "HostPort": "8080"}, {"HostIp": "::", "HostPort": "8080"}]
    assert node.inspect("one")["NetworkSettings"]["Ports"] == {"80/tcp": sides}
    assert int(node.inspect("two")["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"]) >= 32768
    (listed,) = client.containers(filters={"name": "one"})
    told = {"PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}
    assert listed["Ports"] == [{"IP": "0.0.0.0", **told}, {"IP": "::", **told}]


def test_pause(node: Node) -> None:
    client = node.session.docker()
    identity = node.create(node.sleeper("one"))
    assert refused(lambda: client.pause("one")) == (409, f"Container {identity} is not running")
    start(node, "one")
    assert refused(lambda: client.unpause("one")) == (500, f"Container {identity} is not paused")
    client.pause("one")
    shown = state(node, "one")
    assert (shown["Status"], shown["Running"], shown["Paused"]) == ("paused", True, True)
    assert refused(lambda: client.pause("one")) == (409, f"Container {identity} is already paused")
    client.unpause("one")
    assert state(node, "one")["Status"] == "running"


def test_a_program_that_ignores_a_signal(node: Node) -> None:
    client = node.session.docker()
    node.create(node.sleeper("one"))
    start(node, "one")
    client.kill("one", signal="SIGTERM")
    assert state(node, "one")["Status"] == "running"
    client.kill("one")
    assert client.wait("one") == {"Error": None, "StatusCode": 137}
    identity = node.inspect("one")["Id"]
    assert refused(lambda: client.kill("one")) == (
        409,
        f"Cannot kill container: one: Container {identity} is not running",
    )


def test_a_container_that_removes_itself(node: Node) -> None:
    client = node.session.docker()
    node.create(node.sleeper("one", AutoRemove=True))
    start(node, "one")
    client.stop("one", timeout=0)
    assert until(lambda: client.containers(all=True) == [])


def test_requests_for_devices(node: Node) -> None:
    every = {"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}
    node.create(node.sleeper("all", DeviceRequests=[every]))
    start(node, "all")
    assert node.inspect("all")["HostConfig"]["DeviceRequests"] == [{**every, "DeviceIDs": None, "Options": None}]
    node.create(node.sleeper("both", DeviceRequests=[{**every, "Count": 1, "DeviceIDs": ["0"]}]))
    words = "cannot set both Count and DeviceIDs on device request"
    assert refused(lambda: start(node, "both")) == (500, words)


def test_an_unknown_device_keeps_a_container_from_starting(node: Node) -> None:
    node.create(node.sleeper("one", DeviceRequests=gpus("MIG-dead")))
    status, words = refused(lambda: start(node, "one"))
    assert status == 500
    assert "error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'" in words
    assert "nvidia-container-cli: device error: MIG-dead: unknown device" in words
    assert (state(node, "one")["Status"], state(node, "one")["Error"]) == ("created", words)


def test_an_unknown_capability_has_no_driver(node: Node) -> None:
    node.create(node.sleeper("one", DeviceRequests=gpus("0", capability="bogus")))
    words = 'could not select device driver "" with capabilities: [[bogus]]'
    assert refused(lambda: start(node, "one")) == (500, words)


def test_known_devices_start(node: Node) -> None:
    uuid = node.gpu()["uuid"]
    node.create(node.sleeper("one", DeviceRequests=gpus(uuid)))
    start(node, "one")
    assert node.inspect("one")["HostConfig"]["DeviceRequests"] == gpus(uuid)


def test_a_program_that_the_image_lacks(node: Node) -> None:
    node.create({**node.sleeper("one"), "Cmd": ["tritonserver", "--help"]})
    status, words = refused(lambda: start(node, "one"))
    assert (status, state(node, "one")["ExitCode"]) == (400, 127)
    assert 'exec: "tritonserver": executable file not found in $PATH: unknown' in words


def test_exit_codes_and_logs(node: Node) -> None:
    client = node.session.docker()
    node.create({**node.sleeper("one"), "Cmd": ["sh", "-c", "exit 3"]})
    start(node, "one")
    assert client.wait("one") == {"Error": None, "StatusCode": 3}
    assert (state(node, "one")["Status"], state(node, "one")["ExitCode"]) == ("exited", 3)
    node.create({**node.sleeper("two"), "Cmd": ["sh", "-c", "echo hello"]})
    start(node, "two")
    client.wait("two")
    assert client.logs("two") == b"hello\n"


def test_a_restart_policy_brings_a_container_back(node: Node) -> None:
    policy = {"Name": "on-failure", "MaximumRetryCount": 2}
    node.create({**node.sleeper("one", RestartPolicy=policy), "Cmd": ["sh", "-c", "exit 3"]})
    start(node, "one")
    shown = until(lambda: one if (one := node.inspect("one"))["State"]["Status"] == "exited" else None)
    assert (shown["RestartCount"], shown["State"]["ExitCode"]) == (2, 3)


def test_a_container_that_keeps_failing_restarts(node: Node) -> None:
    client = node.session.docker()
    node.create({**node.sleeper("one", RestartPolicy={"Name": "always"}), "Cmd": ["sh", "-c", "exit 3"]})
    start(node, "one")
    until(lambda: node.inspect("one")["RestartCount"] >= 2)
    shown = until(lambda: one if (one := state(node, "one"))["Restarting"] else None)
    assert (shown["Status"], shown["Running"], shown["ExitCode"], shown["Pid"]) == ("restarting", True, 3, 0)
    client.stop("one")
    count = node.inspect("one")["RestartCount"]
    time.sleep(1.0)
    assert (state(node, "one")["Status"], node.inspect("one")["RestartCount"]) == ("exited", count)


def test_a_stopped_container_stays_stopped(node: Node) -> None:
    node.create(node.sleeper("one", RestartPolicy={"Name": "unless-stopped"}))
    start(node, "one")
    node.session.docker().stop("one", timeout=0)
    assert state(node, "one")["Status"] == "exited"
    assert node.inspect("one")["HostConfig"]["RestartPolicy"] == {"Name": "unless-stopped", "MaximumRetryCount": 0}


def test_exec(node: Node) -> None:
    client = node.session.docker()
    node.create(node.sleeper("one"))
    assert refused(lambda: client.exec_create("one", ["true"]))[0] == 409
    start(node, "one")
    for command, code in ((["true"], 0), (["false"], 1), (["sh", "-c", "exit 7"], 7)):
        identity = client.exec_create("one", command)["Id"]
        assert client.exec_start(identity) == b""
        assert client.exec_inspect(identity)["ExitCode"] == code


def test_update(node: Node) -> None:
    client = node.session.docker()
    identity = node.create(node.sleeper("one"))
    assert refused(lambda: client.update_container("one", mem_limit=64 << 20)) == (
        409,
        f"Cannot update container {identity}: Memory limit should be smaller than already set memoryswap limit, "
        "update the memoryswap at the same time",
    )
    policy = {"Name": "always", "MaximumRetryCount": 0}
    client.update_container("one", restart_policy=policy, mem_limit=64 << 20, memswap_limit=128 << 20)
    shown = node.inspect("one")["HostConfig"]
    assert (shown["RestartPolicy"]["Name"], shown["Memory"]) == ("always", 64 << 20)


def test_bad_requests(node: Node) -> None:
    for host_config, words in (
        ({"RestartPolicy": {"Name": "bogus"}}, "invalid restart policy 'bogus'"),
        ({"Runtime": "nothing"}, "Unknown runtime specified nothing"),
        ({"Memory": 1 << 20}, "Minimum memory limit allowed is 6MB"),
        ({"CapAdd": ["BOGUS"]}, 'invalid CapAdd: unknown capability: "CAP_BOGUS"'),
    ):
        assert refused(lambda stated=host_config: node.create(node.sleeper("one", **stated))) == (400, words)


def test_a_network_that_is_not_there(node: Node) -> None:
    node.create(node.sleeper("one", NetworkMode="nowhere"))
    assert refused(lambda: start(node, "one")) == (404, "network nowhere not found")


def aliases(node: Node, name: str, network: str) -> set[str]:
    """Further names on a network, without those that the engine gives."""
    told = node.inspect(name)
    own = {told["Id"][:12], told["Config"]["Hostname"]}
    return set(told["NetworkSettings"]["Networks"][network]["Aliases"]) - own


def test_networks(node: Node) -> None:
    engine = node.session.docker()
    ids = {name: engine.create_network(name)["Id"] for name in ("contract-a", "contract-b")}
    assert {each["Name"]: each["Id"] for each in engine.networks()}.items() >= ids.items()
    body = node.sleeper("one", NetworkMode="contract-a")
    node.create({**body, "NetworkingConfig": {"EndpointsConfig": {"contract-a": {"Aliases": ["api"]}}}})
    engine.connect_container_to_network("one", "contract-b", aliases=["more"])
    engine.start("one")
    assert (aliases(node, "one", "contract-a"), aliases(node, "one", "contract-b")) == ({"api"}, {"more"})
    engine.disconnect_container_from_network("one", "contract-b")
    assert set(node.inspect("one")["NetworkSettings"]["Networks"]) == {"contract-a"}
    node.create(node.sleeper("two", NetworkMode=ids["contract-b"]))
    two = node.inspect("two")
    assert (two["HostConfig"]["NetworkMode"], set(two["NetworkSettings"]["Networks"])) == (
        ids["contract-b"],
        {"contract-b"},
    )
    for name in ("one", "two"):
        engine.remove_container(name, force=True)
    for name in ids:
        engine.remove_network(name)
    assert not {each["Name"] for each in engine.networks()} & set(ids)


def test_more_processors_than_there_are(node: Node) -> None:
    status, words = refused(lambda: node.create(node.sleeper("one", NanoCpus=10**12)))
    assert (status, words.partition(" to ")[0]) == (400, "Range of CPUs is from 0.01")


def test_what_the_engine_makes_of_a_working_directory_and_a_health_check(node: Node) -> None:
    check = {"Test": ["CMD", "true"], "Interval": 10**9}
    node.create({**node.sleeper("one"), "WorkingDir": "/tmp//x/", "Healthcheck": check})
    config = node.inspect("one")["Config"]
    assert (config["WorkingDir"], config["Healthcheck"]) == ("/tmp/x", check)


def test_lists(node: Node) -> None:
    client = node.session.docker()
    node.create({**node.sleeper("one"), "Labels": {"gpuplan.plan": "a"}})
    node.create({**node.sleeper("two"), "Labels": {"gpuplan.plan": "b"}})
    start(node, "two")

    def names(**arguments: Any) -> set[str]:
        return {name for one in client.containers(**arguments) for name in one["Names"]}

    assert names() == {"/two"}
    assert names(all=True) == {"/one", "/two"}
    assert names(all=True, filters={"label": "gpuplan.plan=a"}) == {"/one"}
    assert names(all=True, filters={"label": "gpuplan.plan"}) == {"/one", "/two"}
    assert names(all=True, filters={"name": "on"}) == {"/one"}
    assert names(filters={"status": "created"}) == {"/one"}


def test_images(node: Node) -> None:
    client = node.session.docker()
    image = client.inspect_image(node.plain_image)
    assert node.plain_image in image["RepoTags"]
    assert client.inspect_image(image["Id"])["Id"] == image["Id"]
    client.tag(node.plain_image, "another", "1")
    assert sorted(client.inspect_image("another:1")["RepoTags"]) == sorted(["another:1", node.plain_image])
    assert client.remove_image("another:1") == [{"Untagged": "another:1"}]
    identity = node.create(node.sleeper("one"))
    assert refused(lambda: client.remove_image(node.plain_image)) == (
        409,
        f'conflict: unable to remove repository reference "{node.plain_image}" (must force) - '
        f"container {identity[:12]} is using its referenced image {image['Id'][7:19]}",
    )


def test_mounts(node: Node) -> None:
    node.create(node.sleeper("one", Binds=["/tmp/here:/there:ro", "kept:/data"]))
    bind, volume = sorted(node.inspect("one")["Mounts"], key=lambda mount: mount["Type"])
    assert bind == {
        "Type": "bind",
        "Source": "/tmp/here",
        "Destination": "/there",
        "Mode": "ro",
        "RW": False,
        "Propagation": "rprivate",
    }
    assert (volume["Name"], volume["Destination"], volume["Mode"], volume["RW"]) == ("kept", "/data", "z", True)


BODIES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "everything": {
        "Entrypoint": ["sleep"],
        "Cmd": ["1000000"],
        "Env": ["A=1", "PATH=/bin"],
        "Labels": {"l": "1"},
        "ExposedPorts": {"80/tcp": {}, "53/udp": {}},
        "Hostname": "h",
        "WorkingDir": "/tmp",
        "User": "1000",
        "StopTimeout": 5,
        "HostConfig": {
            "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]},
            "Binds": ["/tmp/here:/there:ro"],
            "ShmSize": 1 << 28,
            "RestartPolicy": {"Name": "unless-stopped"},
            "Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 2048}],
            "CapAdd": ["SYS_PTRACE"],
            "ExtraHosts": ["a:1.2.3.4"],
            "IpcMode": "host",
            "Memory": 1 << 30,
            "NanoCpus": 1500000000,
        },
    },
    "host network": {"HostConfig": {"NetworkMode": "host"}},
    "privileged": {"HostConfig": {"Init": True, "CapAdd": ["CAP_SYS_ADMIN"], "ReadonlyRootfs": True}},
}


@pytest.mark.parametrize("name", BODIES)
def test_inspect_of_a_request(node: Node, name: str, kept: Callable[[str, object], None]) -> None:
    """Both sides are compared with one file, and so with each other."""
    body = BODIES[name]
    node.create({**node.sleeper("one"), **body})
    kept(f"inspect {name}", comparable(node.inspect("one")))


def comparable(shown: Mapping[str, Any]) -> dict[str, Any]:
    """What inspect says that depends on the request, and not on the image."""
    config = {key: value for key, value in shown["Config"].items() if key not in ("Hostname", "Image")}
    env = [entry for entry in config["Env"] or [] if not entry.startswith("PATH=/usr")]
    told = {key: shown[key] for key in ("Path", "Args", "Mounts", "HostConfig")}
    directory = config["WorkingDir"] or "/"
    return {**told, "Config": {**config, "Env": env, "WorkingDir": directory}, "State": shown["State"]}
