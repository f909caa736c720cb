"""Sessions with real nodes: OpenSSH, sudo, NVML's C interface and a Docker engine."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
import requests

from gpuplan.transport.connect import connect
from gpuplan.transport.session import PROBES, Question, Session
from gpuplan.transport.ssh import dial
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Refused
from gpuplan.types.inventory import Host
from tests.contents import bring, content_of
from tests.lab.fixtures import Lab

pytestmark = pytest.mark.lab
OWNER = {"run": "r1", "who": "ops@bastion", "since": "2026-11-30T09:00:00Z", "pid": 1}
TRITON = "lab/tritonserver:24.10-py3"
NODE = "gpu-a1"


def replaced(host: Host, **changes: object) -> Host:
    return Host(**{**{name: getattr(host, name) for name in Host.__dataclass_fields__}, **changes})


def told(act: Callable[[], object]) -> Diagnostic:
    with pytest.raises(Problem) as caught:
        act()
    (diagnostic,) = caught.value.diagnostics
    assert caught.value.exit_code is Exit.UNREAD
    return diagnostic


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def session(lab: Lab) -> Iterator[Session]:
    lab.wipe(NODE)
    opened = connect(lab.hosts[NODE])
    yield opened
    opened.close()


@pytest.mark.parametrize(("node", "gpus"), [("gpu-a1", 2), ("gpu-h1", 1), ("gpu-t1", 1)])
def test_a_node_answers_everything_at_once(lab: Lab, node: str, gpus: int) -> None:
    lab.wipe(node)
    opened = connect(lab.hosts[node])
    snapshot = opened.ask(Question("prod"))
    opened.close()
    assert {name: snapshot.probe(name).error for name in PROBES} == dict.fromkeys(PROBES)
    assert snapshot.probe("host").value["hostname"] == node
    assert snapshot.probe("host").value["uid"] == 0
    assert len(snapshot.probe("gpu").value["gpus"]) == gpus
    assert all(gpu["mig"]["supported"] and gpu["profiles"] for gpu in snapshot.probe("gpu").value["gpus"])
    assert snapshot.probe("docker").value["version"]["ApiVersion"] == "1.41"
    assert snapshot.probe("docker").value["containers"] == []


def test_slices_are_made_and_destroyed_through_the_c_library(session: Session) -> None:
    def gpu() -> dict[str, object]:
        return session.ask(Question("prod", ["gpu"])).probe("gpu").value["gpus"][0]

    uuid = gpu()["uuid"]
    assert session.agent("mig.set_mode", uuid=uuid, enabled=True) == {"status": 0, "current": True, "pending": True}
    profile = next(each for each in gpu()["profiles"] if each["name"] == "3g.40gb")
    assert profile["placements"] == [[0, 4], [4, 4]]
    made = session.agent("mig.create", uuid=uuid, profile_id=profile["id"], start=4, size=4)
    (instance,) = gpu()["instances"]
    assert (instance["profile"], instance["start"], instance["size"]) == ("3g.40gb", 4, 4)
    assert [each["uuid"] for each in instance["compute_instances"]] == [made["mig_uuid"]]
    with pytest.raises(Refused) as caught:
        session.agent("mig.create", uuid=uuid, profile_id=profile["id"], start=4, size=4)
    assert caught.value.code == "insufficient_resources"
    place = {"uuid": uuid, "instance": instance["id"], "profile_id": profile["id"]}
    with pytest.raises(Refused) as caught:
        session.agent("mig.destroy", start=0, **place)
    assert caught.value.code == "moved"
    session.agent("mig.destroy", start=4, **place)
    assert gpu()["instances"] == []


def test_the_engine_over_a_channel(session: Session) -> None:
    engine = session.docker()
    assert engine is session.docker()
    assert engine.api_version == "1.41"
    created = engine.create_container(TRITON, ["sh", "-c", "echo one; echo two >&2; exec sleep 60"], name="channel")
    engine.start(created)
    assert engine.inspect_container("channel")["State"]["Running"]
    wait_for(lambda: sorted(engine.logs("channel").split()) == [b"one", b"two"])  # two streams, in any order
    stream = engine.logs("channel", stream=True, follow=True)
    first = next(stream)
    running = engine.exec_create("channel", ["sh", "-c", "echo out; exit 3"])
    assert engine.exec_start(running) == b"out\n"
    assert engine.exec_inspect(running)["ExitCode"] == 3
    with pytest.raises(docker.errors.NotFound):
        engine.inspect_container("nobody")
    engine.remove_container("channel", force=True)
    assert sorted([first, *stream]) == [b"one\n", b"two\n"]


def test_a_pull_that_fails_says_so_in_its_stream(session: Session) -> None:
    with pytest.raises(docker.errors.APIError, match=r"refused|lookup|dial"):
        list(session.docker().pull("127.0.0.1:1/nothing", tag="1", stream=True, decode=True))


def test_an_archive_is_loaded_through_the_channel(lab: Lab, session: Session) -> None:
    archive = Path(lab.archive).parent / "pause.tar"
    with archive.open("rb") as content:
        said = list(session.docker().load_image(content))
    assert any("Loaded image" in str(each) for each in said)


def test_connections_to_the_engine_are_used_again_and_closed(lab: Lab) -> None:
    opened = connect(lab.hosts[NODE])
    for _ in range(20):
        opened.docker().version()

    def programs() -> int:
        listed = lab.run(NODE, ["pgrep", "-fc", "sys.path.pop"], check=False).stdout
        return int(listed)

    assert programs() <= 6  # sudo and Python, for the agent and for one or two bridges
    opened.close()
    wait_for(lambda: programs() == 0)


def test_a_server_is_asked_and_reached_through_a_forwarded_port(lab: Lab, session: Session) -> None:
    session.agent("repository.prepare", plan="prod", container="triton")
    engine = session.docker()
    settings = engine.create_host_config(
        binds=["/var/lib/gpuplan/plans/prod/triton/triton:/gpuplan:ro"], port_bindings={8000: ("127.0.0.1", 8000)}
    )
    command = ["tritonserver", "--model-repository=/gpuplan/models", "--model-control-mode=explicit"]
    created = engine.create_container(TRITON, command, name="triton", ports=[8000], host_config=settings)
    engine.start(created)
    with session.forward(8000) as address:

        def live() -> bool:
            try:
                return requests.get(f"http://{address}/v2/health/live", timeout=5).status_code == 200
            except requests.ConnectionError:
                return False

        wait_for(live)
    (server,) = session.ask(Question("prod", ["triton"])).probe("triton").value["servers"]
    assert server["name"] == "triton"
    assert server["address"] == "127.0.0.1:8000"
    assert server["live"] is True
    assert server["metadata"]["name"] == "triton"
    assert server["index"] == []


def test_the_lock_excludes_a_second_session_and_falls_with_the_connection(lab: Lab, session: Session) -> None:
    assert session.agent("lock.take", owner=OWNER) == {"taken": True}
    other = connect(lab.hosts[NODE])
    assert other.agent("lock.take", owner={}) == {"taken": False, "holder": OWNER}
    assert other.ask(Question("", ["host"])).probe("host").value["lock"] == OWNER
    lab.run(NODE, ["pkill", "-o", "-u", "ops", "-x", "sshd"])  # the older of the two connections drops
    wait_for(lambda: other.agent("lock.take", owner={"run": "r2"}) == {"taken": True})
    assert told(lambda: session.agent("lock.release")).summary == "The connection to the node was lost"
    other.close()


def test_content_is_brought_and_switched(session: Session) -> None:
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert session.agent("blob.missing", digests=[digest])["missing"] == [digest]
    bring(session, content_of(b"hello"))
    place = {"plan": "prod", "container": "triton", "model": "m"}
    session.agent("repository.switch", content="c" * 64, files={"1/model.py": digest}, **place)
    told_of = session.ask(Question("prod", ["repository"])).probe("repository").value
    model = told_of["repositories"]["triton"]["models"]["m"]
    assert model == {"content": "c" * 64, "files": {"1/model.py": {"size": 5, "sha256": digest}}}


def test_an_unknown_host_key(lab: Lab, tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    diagnostic = told(lambda: connect(replaced(lab.hosts[NODE], ssh_arguments=f"-o UserKnownHostsFile={empty}")))
    assert diagnostic.summary == "The node's host key is unknown"
    scanned = lab.run(NODE, ["ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key"]).stdout
    assert scanned.split()[1] in diagnostic.detail


def test_a_wrong_key(lab: Lab, tmp_path: Path) -> None:
    import paramiko

    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"))
    diagnostic = told(lambda: connect(replaced(lab.hosts[NODE], private_key=str(tmp_path / "key"))))
    assert diagnostic.summary == "SSH authentication failed"


def test_a_user_without_sudo(lab: Lab) -> None:
    diagnostic = told(lambda: connect(replaced(lab.hosts[NODE], user="guest")))
    assert diagnostic.summary in ("sudo asks for a password", "sudo denied the command")
    assert "NOPASSWD" in diagnostic.fix


def test_a_user_without_rights_is_told_for_each_part(lab: Lab, session: Session) -> None:
    session.agent("record.write", plan="prod", record={"run": "r"})
    guest = connect(replaced(lab.hosts[NODE], user="guest", become=False))
    snapshot = guest.ask(Question("prod"))
    assert snapshot.probe("host").value["uid"] != 0
    assert snapshot.probe("docker").error.code == "no_permission"
    assert snapshot.probe("record").error.code == "no_permission"
    assert snapshot.probe("repository").error.code == "no_permission"
    assert snapshot.probe("others").error.code == "no_permission"
    assert told(guest.docker).summary == "No permission to use the Docker engine"
    guest.close()


def test_a_node_that_is_cut_off(lab: Lab) -> None:
    lab.partition(NODE)
    try:
        host = replaced(lab.hosts[NODE], ssh_arguments=lab.hosts[NODE].ssh_arguments + " -o ConnectTimeout=1")
        assert told(lambda: connect(host)).summary == "Cannot reach the node"
    finally:
        lab.heal(NODE)


@pytest.mark.usefixtures("impatient")
def test_a_session_that_is_cut_off_loses_the_lock_to_another(lab: Lab) -> None:
    lab.wipe(NODE)
    cut_off = connect(lab.hosts[NODE])
    assert cut_off.agent("lock.take", owner=OWNER) == {"taken": True}
    lab.partition(NODE)  # neither side hears of it: for the node the connection stands
    try:
        free = ["flock", "--nonblock", "/var/lib/gpuplan/lock", "true"]
        assert lab.run(NODE, free, check=False).returncode == 1
        wait_for(lambda: lab.run(NODE, free, check=False).returncode == 0)
        assert int(lab.run(NODE, ["pgrep", "-c", "-u", "ops", "-x", "sshd"]).stdout) >= 1
    finally:
        lab.heal(NODE)
    other = connect(lab.hosts[NODE])
    assert other.agent("lock.take", owner={"run": "r2"}) == {"taken": True}
    assert (
        told(lambda: cut_off.agent("record.write", plan="p", record={})).summary
        == "The connection to the node was lost"
    )
    cut_off.close()
    other.close()


def test_an_engine_that_is_stopped(lab: Lab, session: Session) -> None:
    engine = session.docker()
    lab.run(NODE, ["pkill", "-x", "dockerd"])
    try:
        wait_for(lambda: lab.run(NODE, ["pgrep", "-x", "dockerd"], check=False).returncode != 0)
        error = session.ask(Question("prod", ["docker"])).probe("docker").error
        assert error.code in ("no_docker", "docker_refused")
        with pytest.raises(Problem) as caught:
            engine.version()
        (diagnostic,) = caught.value.diagnostics
        assert "Docker" in diagnostic.summary
        assert "systemctl" in diagnostic.fix
    finally:
        session.close()
        lab.reboot(NODE)


@pytest.mark.parametrize(("fault", "code"), [("9", "no_driver"), ("18", "driver_mismatch")])
def test_what_nvml_says(lab: Lab, session: Session, fault: str, code: str) -> None:
    lab.nvml(NODE, "fault", "nvmlInit", fault)
    assert session.ask(Question("prod", ["gpu"])).probe("gpu").error.code == code
    lab.wipe(NODE)
    assert session.ask(Question("prod", ["gpu"])).probe("gpu").error is None


def test_a_full_disk_is_told_and_leaves_nothing_half_written(lab: Lab, session: Session) -> None:
    root = "/var/lib/gpuplan"
    lab.run(NODE, ["mkdir", "-p", root])
    lab.run(NODE, ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", root])
    try:
        session.agent("record.write", plan="prod", record={"run": "old"})
        content = bytes(1 << 20)
        with pytest.raises(Refused) as caught:
            bring(session, content_of(content))
        assert caught.value.code == "disk_full"
        with pytest.raises(Refused) as caught:
            session.agent("record.write", plan="prod", record={"run": "n" * (1 << 19)})
        assert caught.value.code == "disk_full"
        assert session.ask(Question("prod", ["record"])).probe("record").value == {"run": "old"}
        assert lab.run(NODE, ["find", root, "-type", "f"]).stdout.split() == [f"{root}/plans/prod/record.json"]
    finally:
        lab.run(NODE, ["umount", "-l", root])


def test_an_ssh_server_that_hangs(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "BANNER_TIMEOUT", 1.0)
    with lab.frozen(NODE):
        assert told(lambda: connect(lab.hosts[NODE])).summary == "The SSH server does not answer"
