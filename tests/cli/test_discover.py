"""`discover` on simulated nodes, through the real command: what it writes is a plan file without changes."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.transport.connect import connect
from gpuplan.transport.session import Session
from gpuplan.types.inventory import Connection, Host
from tests.cli.command import Command

IMAGE = "busybox:1.36"
HARDWARE: dict[str, Any] = {"gpus": [{"model": "A100-SXM4-80GB", "count": 1}], "images": [IMAGE]}
ON_NODES = ("-i", "hosts.yaml")
Hand = Callable[..., str]


@pytest.fixture
def nodes() -> Iterator[dict[str, Session]]:
    """Two nodes of a group, and an inventory of them."""
    known = {"ansible_connection": "simulated", "gpuplan_simulated": HARDWARE}
    Path("hosts.yaml").write_text(json.dumps({"pair": {"hosts": {"n1": known, "n2": known}}}))
    found = {name: connect(Host(name, Connection.SIMULATED, simulated=HARDWARE)) for name in ("n1", "n2")}
    yield found
    for session in found.values():
        session.close()


def run(session: Session, name: str, body: dict[str, Any] | None = None, **host: Any) -> str:
    """`docker run -d`."""
    whole = {"Image": IMAGE, "Cmd": ["sleep", "500"], **(body or {}), "HostConfig": host}
    container = str(session.docker().create_container_from_config(whole, name)["Id"])
    session.docker().start(container)
    return container


def slices(session: Session, *places: tuple[int, int, int]) -> list[str]:
    """Cut the GPU by hand; the UUIDs of what a container can be given."""
    uuid = gpu(session)["uuid"]
    session.agent("mig.set_mode", uuid=uuid, enabled=True)
    for profile, start, size in places:
        session.agent("mig.create", uuid=uuid, profile_id=profile, start=start, size=size)
    return [each["compute_instances"][0]["uuid"] for each in gpu(session)["instances"]]


def gpu(session: Session) -> dict[str, Any]:
    from gpuplan.transport.session import Question

    value: Any = session.ask(Question("found", ("gpu",))).probe("gpu").value
    found: dict[str, Any] = value["gpus"][0]
    return found


def written(command: Command, *more: str) -> tuple[dict[str, Any], str]:
    ran = command("discover", *ON_NODES, *more)
    assert (ran.code, ran.err) == (0, "")
    return yaml.safe_load(ran.out), ran.out


def is_without_changes(command: Command, text: str) -> None:
    Path("plan.yaml").write_text(text)
    ran = command("plan", "plan.yaml", *ON_NODES, "--detailed-exitcode")
    assert (ran.code, ran.err) == (0, "")


def test_bare_nodes_share_one_section(command: Command, nodes: dict[str, Session]) -> None:
    plan, text = written(command)
    assert plan["gpus"] == {
        "a100-0": {"nodes": "pair", "select": {"index": 0}, "mig": "disabled", "persistence_mode": True}
    }
    assert "containers" not in plan
    is_without_changes(command, text)


def test_what_differs_gets_the_name_of_its_node(command: Command, nodes: dict[str, Session]) -> None:
    uuids = slices(nodes["n1"], (9, 4, 4), (19, 0, 1))
    ask = [{"Driver": "", "Count": 0, "DeviceIDs": [uuids[1]], "Capabilities": [["gpu"]], "Options": {}}]
    run(nodes["n1"], "web", DeviceRequests=ask)
    run(nodes["n2"], "web", {"Env": ["A=${x}", "B=1:0", "C=off", "D=24.10", 'E="q" \'s', "F=two\nlines", "G=#no"]})
    for session in nodes.values():
        run(session, "same", PortBindings={"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]})
    plan, text = written(command)
    assert plan["gpus"]["a100-0"]["mig"] == {
        "1g-0": {"profile": "1g.10gb", "start": 0},
        "3g-4": {"profile": "3g.40gb", "start": 4},
    }
    found = plan["containers"]
    assert found["same"] == {
        "nodes": "pair", "image": IMAGE, "ports": ["127.0.0.1:8080:80"], "command": ["sleep", "500"],
    }  # fmt: skip
    assert (found["web"]["nodes"], found["web"]["gpus"]) == ("n1", ["a100-0/3g-4"])
    assert (found["web-n2"]["nodes"], found["web-n2"]["container_name"]) == ("n2", "web")
    assert found["web-n2"]["env"] == {
        "A": "$${x}", "B": "1:0", "C": "off", "D": "24.10", "E": "\"q\" 's", "F": "two\nlines", "G": "#no",
    }  # fmt: skip
    is_without_changes(command, text)


def test_apply_and_destroy_touch_nothing(command: Command, nodes: dict[str, Session]) -> None:
    slices(nodes["n1"], (9, 4, 4))
    container = run(nodes["n1"], "web")
    Path("plan.yaml").write_text(written(command)[1])
    on_plan = ("plan.yaml", *ON_NODES)
    assert command("apply", *on_plan, "--auto-approve").code == 0
    assert command("drift-check", *on_plan).out == ""
    nodes["n1"].docker().remove_container(container, force=True)
    other = run(nodes["n1"], "web", CapAdd=["SYS_NICE"])
    drifted = command("drift-check", *on_plan)
    assert drifted.code == 2
    assert "± container/web  changed" in drifted.out
    nodes["n1"].docker().remove_container(other, force=True)
    container = run(nodes["n1"], "web")
    assert command("destroy", *on_plan, "--auto-approve").code == 0
    assert [each["Id"] for each in nodes["n1"].docker().containers()] == [container]
    assert [each["profile"] for each in gpu(nodes["n1"])["instances"]] == ["3g.40gb"]


def test_no_secret_is_written(command: Command, nodes: dict[str, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("DB_PASSWORD", "api_token", "NGC_API_KEY", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "PGPASS")
    run(nodes["n1"], "web", {"Env": [f"{name}=hunter2" for name in names]})
    for more in ((), ("--json",)):
        ran = command("discover", *ON_NODES, *more)
        assert "hunter2" not in ran.out + ran.err
    plan, text = written(command)
    assert plan["containers"]["web"]["env"] == {name: f"${{env:{name}}}" for name in sorted(names)}
    assert "Looks like a secret" in text
    for name in names:
        monkeypatch.setenv(name, "hunter2")
    is_without_changes(command, text)


def test_a_secret_outside_of_variables_leaves_the_container_out(command: Command, nodes: dict[str, Session]) -> None:
    session = nodes["n1"]
    run(session, "flag", {"Cmd": ["sh", "-c", "sleep 500", "--api-key=hunter2"]})
    run(session, "address", {"Cmd": ["sh", "-c", "sleep 500", "postgres://ops:hunter2@db/x"]})
    run(session, "label", {"Labels": {"deploy.token": "hunter2"}})
    run(session, "logs", LogConfig={"Type": "json-file", "Config": {"splunk-token": "hunter2"}})
    run(
        session,
        "fine",
        {"Cmd": ["sh", "-c", "sleep 500", "--tokenizer=/m", "--max-tokens=5"], "Env": ["TOKENIZERS_PARALLELISM=true"]},
    )
    run(session, "link", {"Env": ["BROKER=amqp://ops:hunter2@mq"]})
    plan, text = written(command)
    assert "hunter2" not in text
    assert list(plan["containers"]) == ["fine", "link"]
    assert plan["containers"]["fine"]["env"] == {"TOKENIZERS_PARALLELISM": "true"}
    assert plan["containers"]["link"]["env"] == {"BROKER": "${env:BROKER}"}
    assert "container flag: its command (--api-key) looks like a secret" in text


def test_what_is_left_out_is_told(command: Command, nodes: dict[str, Session]) -> None:
    engine = nodes["n1"].docker()
    engine.stop(run(nodes["n1"], "ended"))
    engine.pause(run(nodes["n1"], "paused"))
    run(nodes["n1"], "passing", AutoRemove=True)
    run(nodes["n1"], "sharing", VolumesFrom=["ended"])
    plan, text = written(command)
    assert list(plan["containers"]) == ["sharing"]
    assert "volumes of another container" in text
    for words in ("container ended: not running (exited)", "container paused", "container passing: started with --rm"):
        assert words in text
    is_without_changes(command, text)


def test_a_file_is_private_and_never_written_over(command: Command, nodes: dict[str, Session]) -> None:
    assert command("discover", *ON_NODES, "--out", "found.yaml", "--name", "prod") == type(command("schema"))(0, "", "")
    file = Path("found.yaml")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert yaml.safe_load(file.read_text())["name"] == "prod"
    again = command("discover", *ON_NODES, "--out", "found.yaml")
    assert again.code == 64
    assert "found.yaml exists" in again.err
    assert command("discover", *ON_NODES, "--name", "a b").code == 64
    assert command("discover", *ON_NODES, "--node", "n3").code == 64


def test_one_node_alone(command: Command, nodes: dict[str, Session]) -> None:
    assert written(command, "--node", "n2")[0]["gpus"]["a100-0"]["nodes"] == "n2"


def test_json_has_the_file_and_what_is_not_in_it(command: Command, nodes: dict[str, Session]) -> None:
    nodes["n1"].docker().stop(run(nodes["n1"], "ended"))
    told = json.loads(command("discover", *ON_NODES, "--json").out)
    assert (told["kind"], told["format"], told["exit_code"], told["unread"]) == ("gpuplan discovery", 1, 0, [])
    assert yaml.safe_load(told["text"]) == told["plan"]
    assert [(each["node"], each["what"]) for each in told["left_out"]] == [("n1", "container ended")]


def test_a_node_that_cannot_be_read_is_named(command: Command, nodes: dict[str, Session]) -> None:
    known = json.loads(Path("hosts.yaml").read_text())
    known["pair"]["hosts"]["n3"] = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_user": "nobody"}
    Path("hosts.yaml").write_text(json.dumps(known))
    ran = command("discover", *ON_NODES)
    assert ran.code == 4
    assert "# n3 is missing, because it could not be read." in ran.out
    assert yaml.safe_load(ran.out)["gpus"]["a100-0"]["nodes"] == ["n1", "n2"]
