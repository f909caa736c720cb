"""Sessions over SSH against a server in this process: what works, and every way in which it does not."""

import errno
import hashlib
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from gpuplan.transport import bundle, pipe
from gpuplan.transport.connect import connect
from gpuplan.transport.session import PROBES, Question, Session
from gpuplan.transport.ssh import config, dial
from gpuplan.transport.ssh.channels import MAX_CHANNELS
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Refused
from gpuplan.types.inventory import Host
from tests.contents import bring, content_of
from tests.transport.ssh_server import SshServer, echo_server

OWNER = {"run": "r1", "who": "ops@bastion", "since": "2026-11-30T09:00:00Z", "pid": 1}
PASSWORD_REQUIRED = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"


@pytest.fixture(scope="module")
def keys() -> dict[str, paramiko.PKey]:
    return {name: paramiko.ECDSAKey.generate() for name in ("host", "other-host", "ops", "wrong")}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, paramiko.PKey]) -> Path:
    """An operator's home: no ssh-agent, two key files."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(config, "SYSTEM_CONFIG", tmp_path / "none")
    (tmp_path / ".ssh").mkdir()
    for name in ("ops", "wrong"):
        keys[name].write_private_key_file(str(tmp_path / name))
    return tmp_path


@pytest.fixture
def server(home: Path, keys: dict[str, paramiko.PKey], monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    monkeypatch.setattr(bundle, "DOCKER_SOCKET", str(home / "no-engine.sock"))
    bundle.bridge_program.cache_clear()
    programs = home / "bin"
    programs.mkdir()
    for name in ("env", "sh"):
        (programs / name).symlink_to(shutil.which(name))
    (programs / "python3").symlink_to(sys.executable)
    running = SshServer(keys["host"], keys["ops"], str(programs))
    running.environment["GPUPLAN_ROOT"] = str(home / "root")
    know(home, running.port, keys["host"])
    yield running
    running.close()
    bundle.bridge_program.cache_clear()


@pytest.fixture
def host(server: SshServer, home: Path) -> Host:
    return Host("gpu-a1", address="127.0.0.1", user="ops", port=server.port, private_key=str(home / "ops"))


@pytest.fixture
def session(host: Host) -> Iterator[Session]:
    opened = connect(host)
    yield opened
    opened.close()


def know(home: Path, port: int, key: paramiko.PKey) -> None:
    line = f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n"
    (home / ".ssh/known_hosts").write_text(line)


def program(server: SshServer, name: str, text: str) -> None:
    path = Path(server.environment["PATH"], name)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def told(act: Callable[[], object]) -> Diagnostic:
    with pytest.raises(Problem) as caught:
        act()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.address == "gpu-a1"
    assert diagnostic.detail
    assert caught.value.exit_code is Exit.UNREAD
    return diagnostic


def replaced(host: Host, **changes: object) -> Host:
    return Host(**{**{name: getattr(host, name) for name in Host.__dataclass_fields__}, **changes})


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_question_is_answered_whole(session: Session) -> None:
    snapshot = session.ask(Question("prod"))
    assert snapshot.node == "gpu-a1"
    assert set(snapshot.probes) == set(PROBES)
    assert snapshot.probe("host").value["uid"] == os.geteuid()
    assert snapshot.probe("record").error is None
    assert snapshot.probe("weather").error.code == "not_asked"


def test_content_arrives_in_pieces_and_is_checked(session: Session) -> None:
    content = os.urandom(9_000_000)
    digest = hashlib.sha256(content).hexdigest()
    bring(session, content_of(content))
    assert session.agent("blob.missing", digests=[digest])["missing"] == []
    with pytest.raises(Refused) as caught:
        bring(session, content_of(b"abc", "0" * 64))
    assert caught.value.code == "corrupt"
    empty = hashlib.sha256(b"").hexdigest()
    bring(session, content_of(b""))
    assert session.agent("blob.missing", digests=[empty])["missing"] == []


def test_what_the_agent_refuses_keeps_the_session(session: Session) -> None:
    with pytest.raises(Refused) as caught:
        session.agent("repository.prepare", plan="../x", container="c")
    assert (caught.value.code, caught.value.operation) == ("invalid", "repository.prepare")
    assert session.agent("lock.release") == {}


def test_the_lock_falls_with_the_session(host: Host) -> None:
    first, second = connect(host), connect(host)
    assert first.agent("lock.take", owner=OWNER) == {"taken": True}
    assert second.agent("lock.take", owner={}) == {"taken": False, "holder": OWNER}
    first.close()
    wait_for(lambda: second.agent("lock.take", owner=OWNER) == {"taken": True})
    second.close()


@pytest.mark.usefixtures("impatient")
def test_a_session_that_falls_silent_loses_the_lock_though_its_connection_stands(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = connect(host)
    alive = connect(host)
    assert alive.agent("lock.take", owner=OWNER) == {"taken": True}
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert second.agent("lock.take", owner={}) == {"taken": False, "holder": OWNER}
    alive.close()
    monkeypatch.setattr(pipe, "KEEPALIVE_INTERVAL", 3600.0)
    silent = connect(host)
    wait_for(lambda: silent.agent("lock.take", owner=OWNER) == {"taken": True})
    assert second.agent("lock.take", owner={}) == {"taken": False, "holder": OWNER}
    wait_for(lambda: second.agent("lock.take", owner={"run": "r2"}) == {"taken": True})
    assert (
        told(lambda: silent.agent("record.write", plan="p", record={})).summary == "The connection to the node was lost"
    )
    silent.close()
    second.close()


def test_nothing_stays_on_the_node_after_closing(host: Host, server: SshServer) -> None:
    opened = connect(host)
    opened.ask(Question("prod"))
    opened.close()
    opened.close()
    wait_for(lambda: all(process.poll() is not None for process in server.processes))
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("forward")])


def test_a_forwarded_port_leads_to_the_nodes_port(session: Session) -> None:
    with echo_server() as port, session.forward(port) as address:
        name, _, number = address.partition(":")
        for word in (b"one", b"two"):
            with socket.create_connection((name, int(number)), timeout=5) as link:
                link.sendall(word)
                assert link.recv(10) == word
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((name, int(number)), timeout=5)


def test_a_forwarded_port_outlives_a_moment_without_open_files(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, failed = socket.socket.accept, threading.Event()

    def scarce(listener: socket.socket) -> tuple[socket.socket, object]:
        if threading.current_thread().name.startswith("forward") and not failed.is_set():
            failed.set()
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    with echo_server() as port, session.forward(port) as address:
        assert failed.wait(5)
        host, _, number = address.rpartition(":")
        with socket.create_connection((host, int(number)), timeout=5) as stream:
            stream.sendall(b"hello")
            assert stream.recv(5) == b"hello"


def test_a_forwarded_port_where_nothing_listens_closes(session: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with session.forward(port) as address:
        name, _, number = address.partition(":")
        with socket.create_connection((name, int(number)), timeout=5) as link:
            assert link.recv(10) == b""


def test_more_streams_than_channels_are_never_open(session: Session, server: SshServer) -> None:
    with echo_server() as port, session.forward(port) as address:
        name, _, number = address.partition(":")
        for _ in range(3 * MAX_CHANNELS):
            with socket.create_connection((name, int(number)), timeout=5) as link:
                link.sendall(b"x")
                assert link.recv(1) == b"x"


def test_an_unknown_host_key_is_shown_with_the_command_to_run(host: Host, home: Path, server: SshServer) -> None:
    (home / ".ssh/known_hosts").unlink()
    diagnostic = told(lambda: connect(host))
    assert diagnostic.summary == "The node's host key is unknown"
    assert server.host_key.fingerprint in diagnostic.detail
    assert f"ssh-keyscan -p {server.port} 127.0.0.1 >> {home}/.ssh/known_hosts" in diagnostic.fix
    assert not (home / ".ssh/known_hosts").exists()
    assert server.offered == []


def test_a_changed_host_key_is_shown_beside_the_known_one(
    host: Host, home: Path, server: SshServer, keys: dict[str, paramiko.PKey]
) -> None:
    know(home, server.port, keys["other-host"])
    diagnostic = told(lambda: connect(host))
    assert diagnostic.summary == "The node's host key has changed"
    assert server.host_key.fingerprint in diagnostic.detail
    assert keys["other-host"].fingerprint in diagnostic.detail
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in diagnostic.fix
    assert server.offered == []


def test_a_revoked_host_key_is_refused_though_it_is_known(host: Host, home: Path, server: SshServer) -> None:
    file = home / ".ssh/known_hosts"
    file.write_text(f"@revoked * {server.host_key.get_name()} {server.host_key.get_base64()}\n" + file.read_text())
    assert told(lambda: connect(host)).summary == "The node's host key is revoked"


def test_hashed_names_and_other_files_are_known_too(host: Host, home: Path, server: SshServer) -> None:
    key = server.host_key
    name = paramiko.HostKeys.hash_host(f"[127.0.0.1]:{server.port}")
    (home / ".ssh/known_hosts").write_text("")
    (home / "elsewhere").write_text(f"not a line\n{name} {key.get_name()} {key.get_base64()} a comment\n")
    connect(replaced(host, ssh_arguments=f"-o UserKnownHostsFile={home}/elsewhere")).close()


def test_a_key_known_without_the_port_counts_but_another_one_is_no_change(
    host: Host, home: Path, server: SshServer, keys: dict[str, paramiko.PKey]
) -> None:
    file = home / ".ssh/known_hosts"
    file.write_text(f"127.0.0.1 {server.host_key.get_name()} {server.host_key.get_base64()}\n")
    connect(host).close()
    other = keys["other-host"]
    file.write_text(f"127.0.0.1 {other.get_name()} {other.get_base64()}\n")
    assert told(lambda: connect(host)).summary == "The node's host key is unknown"


def test_an_ssh_agent_is_asked_only_where_no_key_is_named(
    host: Host, server: SshServer, keys: dict[str, paramiko.PKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [paramiko.ECDSAKey.generate() for _ in range(3)]
    monkeypatch.setattr(paramiko.Agent, "get_keys", lambda _: (*others, keys["ops"]))
    connect(host).close()
    assert set(server.offered) == {keys["ops"].fingerprint}
    server.offered.clear()
    connect(replaced(host, private_key="")).close()
    assert list(dict.fromkeys(server.offered)) == [key.fingerprint for key in (*others, keys["ops"])]


def test_a_wrong_key_says_who_and_which(host: Host, home: Path, keys: dict[str, paramiko.PKey]) -> None:
    diagnostic = told(lambda: connect(replaced(host, private_key=str(home / "wrong"))))
    assert diagnostic.summary == "SSH authentication failed"
    assert "rejected the login of ops" in diagnostic.detail
    assert str(home / "wrong") in diagnostic.detail


def test_a_named_key_is_the_only_one_offered(
    host: Host, home: Path, server: SshServer, keys: dict[str, paramiko.PKey]
) -> None:
    keys["ops"].write_private_key_file(str(home / ".ssh/id_ecdsa"))
    told(lambda: connect(replaced(host, private_key=str(home / "wrong"))))
    assert server.offered == [keys["wrong"].fingerprint]


def test_the_usual_keys_are_tried_where_none_is_named(host: Host, home: Path, keys: dict[str, paramiko.PKey]) -> None:
    nothing = replaced(host, private_key="")
    assert "no key file in ~/.ssh" in told(lambda: connect(nothing)).detail
    keys["ops"].write_private_key_file(str(home / ".ssh/id_ecdsa"))
    connect(nothing).close()


def test_an_encrypted_key_is_told_and_never_asked_for(
    host: Host, home: Path, server: SshServer, keys: dict[str, paramiko.PKey]
) -> None:
    keys["ops"].write_private_key_file(str(home / "locked"), password="secret")
    diagnostic = told(lambda: connect(replaced(host, private_key=str(home / "locked"))))
    assert "encrypted with a passphrase" in diagnostic.detail
    assert "ssh-add" in diagnostic.fix
    (home / "locked").rename(home / ".ssh/id_ecdsa")
    assert "was not offered" in told(lambda: connect(replaced(host, private_key=""))).detail


@pytest.mark.parametrize(("text", "words"), [(None, "does not exist"), ("hello", "is not a supported private key")])
def test_a_key_file_that_is_none(host: Host, home: Path, text: str | None, words: str) -> None:
    if text is not None:
        (home / "odd").write_text(text)
    diagnostic = told(lambda: connect(replaced(host, private_key=str(home / "odd"))))
    assert words in diagnostic.detail
    assert diagnostic.summary == "Cannot use the private key"


def test_nothing_listens(host: Host, server: SshServer) -> None:
    server.close()
    assert told(lambda: connect(host)).summary == "The node refused the SSH connection"


def test_a_name_that_does_not_resolve(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", fail)
    assert told(lambda: connect(replaced(host, address="n.invalid"))).summary == "Cannot resolve the node's address"


@pytest.mark.parametrize("error", [TimeoutError("timed out"), OSError(113, "No route to host")])
def test_no_way_there(host: Host, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", fail)
    assert told(lambda: connect(host)).summary == "Cannot reach the node"


def test_a_server_that_drops_logins_is_tried_again(host: Host, server: SshServer) -> None:
    server.dropping = 3
    connect(host).close()
    assert server.connections == 4


def test_a_server_that_always_drops_is_given_up(host: Host, server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "ATTEMPTS", 2)
    server.dropping = 99
    diagnostic = told(lambda: connect(host))
    assert "MaxStartups" in diagnostic.fix
    assert server.connections == 2


def test_a_server_that_says_nothing(host: Host, server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "BANNER_TIMEOUT", 0.5)
    server.silent = True
    assert told(lambda: connect(host)).summary == "The SSH server does not answer"
    assert server.connections == 1


def test_authentication_and_host_keys_are_not_tried_twice(host: Host, home: Path, server: SshServer) -> None:
    told(lambda: connect(replaced(host, private_key=str(home / "wrong"))))
    (home / ".ssh/known_hosts").unlink()
    told(lambda: connect(host))
    assert server.connections == 2


def test_sudo_that_asks_for_a_password(host: Host, server: SshServer) -> None:
    program(server, "sudo", PASSWORD_REQUIRED)
    diagnostic = told(lambda: connect(replaced(host, become=True)))
    assert diagnostic.summary == "sudo asks for a password"
    assert "NOPASSWD" in diagnostic.fix


def test_sudo_that_lets_through(host: Host, server: SshServer) -> None:
    program(server, "sudo", '#!/bin/sh\n[ "$1 $2" = "-n --" ] || exit 3\nshift 2\nexec "$@"\n')
    opened = connect(replaced(host, become=True))
    assert opened.agent("lock.release") == {}
    opened.close()


def test_python_is_missing(host: Host) -> None:
    assert told(lambda: connect(replaced(host, python="/not/python"))).summary == "Python is missing on the node"


def test_python_is_too_old(host: Host, server: SshServer) -> None:
    program(server, "python3", '#!/bin/sh\necho \'{"hello": "gpuplan-agent", "too_old": "3.6.8"}\'\n')
    diagnostic = told(lambda: connect(host))
    assert diagnostic.summary == "The node's Python is too old"
    assert "3.6.8" in diagnostic.detail


def test_a_login_shell_may_be_chatty(host: Host, server: SshServer) -> None:
    program(server, "python3", f'#!/bin/sh\necho Welcome to gpu-a1\necho 5\nexec {sys.executable} "$@"\n')
    opened = connect(host)
    assert opened.agent("lock.release") == {}
    assert told(opened.docker).summary == "No Docker engine on the node"
    opened.close()


def test_a_program_that_is_not_the_agent(host: Host, server: SshServer) -> None:
    program(server, "python3", "#!/bin/sh\necho Welcome to gpu-a1\necho 'out of order' >&2\n")
    diagnostic = told(lambda: connect(host))
    assert diagnostic.summary == "The agent did not start"
    assert "out of order" in diagnostic.detail


def test_a_server_that_runs_no_commands(host: Host, server: SshServer) -> None:
    server.runs_commands = False
    assert told(lambda: connect(host)).summary == "The SSH server refused to run a command"


def test_no_further_channel(host: Host, server: SshServer) -> None:
    server.most_sessions = 1
    opened = connect(host)
    diagnostic = told(opened.docker)
    opened.close()
    assert diagnostic.summary == "The SSH server refused another channel"
    assert "MaxSessions" in diagnostic.fix


def test_the_connection_breaks_in_the_middle(session: Session, server: SshServer) -> None:
    session.agent("lock.release")
    server.cut()
    diagnostic = told(lambda: session.agent("lock.release"))
    assert diagnostic.summary == "The connection to the node was lost"
    assert "lock.release" in diagnostic.detail
    assert "gpuplan plan" in diagnostic.fix


def test_over_a_hop(host: Host, home: Path, server: SshServer, keys: dict[str, paramiko.PKey]) -> None:
    (home / ".ssh/config").write_text(
        f"Host hop\n  HostName 127.0.0.1\n  Port {server.port}\n  User ops\n  IdentityFile {home}/ops\n"
    )
    opened = connect(replaced(host, ssh_arguments="-J hop"))
    assert opened.agent("lock.release") == {}
    opened.close()
    assert server.connections == 2


def test_a_hop_that_cannot_lead_on(host: Host, home: Path, server: SshServer) -> None:
    (home / ".ssh/config").write_text(
        f"Host hop\n  HostName 127.0.0.1\n  Port {server.port}\n  User ops\n  IdentityFile {home}/ops\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    diagnostic = told(lambda: connect(replaced(host, port=port, ssh_arguments="-J hop")))
    assert diagnostic.summary == "Cannot reach the node"
    assert "jump host" in diagnostic.detail
