"""Blobs count only once they are whole and right, and a broken or killed delivery leaves nothing."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reach.conftest import Asking, Node


def files_below(root: str) -> list[str]:
    return [os.path.join(directory, name) for directory, _, names in os.walk(root) for name in names]


def test_a_blob_arrives_and_is_no_longer_missing(asking: Asking) -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    assert asking.ok("blob.missing", digests=[digest]) == {"missing": [digest]}
    assert asking.put(b"hello") == digest
    assert asking.ok("blob.missing", digests=[digest]) == {"missing": []}


@settings(max_examples=30, deadline=None)
@given(pieces=st.lists(st.binary(max_size=40), min_size=1, max_size=6))
def test_any_cut_gives_the_same_blob(tmp_path_factory: object, pieces: list[bytes]) -> None:
    asking = Asking(Node(tmp_path_factory.mktemp("blobs")))
    content = b"".join(pieces)
    digest = hashlib.sha256(content).hexdigest()
    offset = 0
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        asking.ok("blob.put", piece, digest=digest, size=len(content), offset=offset, last=last)
        offset += len(piece)
    (path,) = files_below(asking.node.root)
    assert Path(path).read_bytes() == content
    assert oct(os.stat(path).st_mode & 0o777) == "0o644"


def test_wrong_content_leaves_nothing(asking: Asking) -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    arguments = {"digest": digest, "offset": 0, "last": True}
    assert asking.refused("blob.put", b"jello", size=5, **arguments) == "corrupt"
    assert asking.refused("blob.put", b"hello", size=6, **arguments) == "corrupt"
    assert files_below(asking.node.root) == []


def test_pieces_out_of_order_are_refused(asking: Asking) -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    asking.ok("blob.put", b"he", digest=digest, size=5, offset=0, last=False)
    assert asking.refused("blob.put", b"lo", digest=digest, size=5, offset=3, last=True) == "invalid"
    assert asking.refused("blob.put", b"llo", digest=digest, size=5, offset=2, last=True) == "invalid"
    assert files_below(asking.node.root) == []


def test_a_digest_that_is_a_path_is_refused(asking: Asking) -> None:
    for digest in ("../" * 21 + "x", "a" * 63 + "/", "A" * 64, "a" * 64 + "\n"):
        assert asking.refused("blob.put", b"", digest=digest, size=0, offset=0, last=True) == "invalid"
        assert asking.refused("blob.missing", digests=[digest]) == "invalid"


def test_a_blob_that_was_edited_counts_as_missing_and_goes(asking: Asking) -> None:
    digest = asking.put(b"hello")
    (path,) = files_below(asking.node.root)
    Path(path).write_bytes(b"jello")
    assert asking.ok("blob.missing", digests=[digest]) == {"missing": [digest]}
    assert files_below(asking.node.root) == []


def test_collect_removes_only_what_no_repository_uses(asking: Asking) -> None:
    asking.switch("m", {"config.pbtxt": b"used"})
    asking.put(b"unused")
    assert asking.ok("blob.collect") == {"removed": 1, "bytes": 6}
    assert asking.ok("blob.missing", digests=[hashlib.sha256(b"used").hexdigest()]) == {"missing": []}


def test_a_killed_delivery_leaves_nothing(tmp_path: Path) -> None:
    script = f"""
import sys
from gpuplan.reach.agent.agent import Agent
from gpuplan.reach.agent.world import World
agent = Agent(World({str(tmp_path)!r}))
request = {{"op": "blob.put", "digest": "a" * 64, "size": 9, "offset": 0, "last": False}}
print(agent.handle(request, b"half"), flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"{'ok': {}}\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert files_below(str(tmp_path)) == []
