"""Listening: the ports of a node and whose they are, from files such as the kernel writes, and from a real socket."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuplan.agent.proc import listening, open_files
from gpuplan.agent.world import World

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0000 100 0 0 10 0\n"


def row(local: str, state: str, inode: int, remote: str = "") -> str:
    nobody = f"{'0' * len(local.partition(':')[0])}:0000"
    return ROW.format(local=local, remote=remote or nobody, state=state, inode=inode)


def proc(base: Path, tables: dict[str, str], holders: dict[int, int]) -> str:
    (base / "net").mkdir()
    for name, rows in tables.items():
        (base / "net" / name).write_text(HEAD + rows)
    for pid, inode in holders.items():
        directory = base / str(pid) / "fd"
        directory.mkdir(parents=True)
        (directory / "3").symlink_to(f"socket:[{inode}]")
    return str(base)


def about(pid: int) -> dict[str, Any]:
    return {"name": f"process-{pid}", "container": "c" * 64 if pid == 77 else None}


def test_who_listens_where(tmp_path: Path) -> None:
    tables = {
        "tcp": row("0100007F:1F90", "0A", 11) + row("00000000:1F91", "0A", 12) + row("0100007F:C350", "01", 13),
        "tcp6": row("00000000000000000000000000000000:1F92", "0A", 14)
        + row("0000000000000000FFFF00000100007F:1F93", "0A", 15),
        "udp": row("00000000:0035", "07", 16) + row("0100007F:9C40", "07", 17, remote="08080808:0035"),
    }
    found = listening(about, proc(tmp_path, tables, {5: 11, 77: 12}))
    assert {(each["address"], each["port"], each["protocol"]): each["pid"] for each in found} == {
        ("127.0.0.1", 8080, "tcp"): 5,
        ("0.0.0.0", 8081, "tcp"): 77,
        ("::", 8082, "tcp"): None,
        ("127.0.0.1", 8083, "tcp"): None,
        ("0.0.0.0", 53, "udp"): None,
    }
    assert next(each for each in found if each["port"] == 8081) == {
        "protocol": "tcp",
        "address": "0.0.0.0",
        "port": 8081,
        "pid": 77,
        "name": "process-77",
        "container": "c" * 64,
    }


def test_nobody_is_looked_for_that_has_a_socket_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def seen(directory: str, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
        looked.append(Path(directory).parent.name)
        return open_files(directory, form)

    monkeypatch.setattr("gpuplan.agent.proc.open_files", seen)
    tables = {"tcp": row("00000000:0801", "0A", 0) + row("00000000:1F90", "0A", 11)}
    found = listening(about, proc(tmp_path, tables, {5: 11, 77: 12}))
    assert {each["port"]: each["pid"] for each in found} == {2049: None, 8080: 5}
    assert looked == ["5"]


def test_a_socket_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (own,) = [each for each in listening(World().process) if each["port"] == port and each["protocol"] == "tcp"]
    assert (own["address"], own["pid"]) == ("127.0.0.1", os.getpid())
