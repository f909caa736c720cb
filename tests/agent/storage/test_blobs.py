"""Blobs count only once they are whole and right, and a broken or killed delivery leaves nothing."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.agent.storage import blobs
from tests.agent.support import AgentCaller, FakeNode


def files_below(root: str) -> list[str]:
    """All but the file of hashes."""
    found = [os.path.join(directory, name) for directory, _, names in os.walk(root) for name in names]
    return [path for path in found if path != os.path.join(root, "hashes")]


def test_a_blob_arrives_and_is_no_longer_missing(agent: AgentCaller) -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    assert agent.ok("blob.missing", digests=[digest]) == {"missing": [digest], "arrived": {digest: 0}}
    assert agent.put(b"hello") == digest
    assert agent.ok("blob.missing", digests=[digest]) == {"missing": [], "arrived": {}}


@settings(max_examples=30, deadline=None)
@given(pieces=st.lists(st.binary(max_size=40), min_size=1, max_size=6))
def test_any_cut_gives_the_same_blob(tmp_path_factory: object, pieces: list[bytes]) -> None:
    agent = AgentCaller(FakeNode(tmp_path_factory.mktemp("blobs")))
    content = b"".join(pieces)
    digest = hashlib.sha256(content).hexdigest()
    offset = 0
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        agent.ok("blob.put", piece, digest=digest, size=len(content), offset=offset, last=last)
        offset += len(piece)
    (path,) = files_below(agent.node.root)
    assert Path(path).read_bytes() == content
    assert oct(os.stat(path).st_mode & 0o777) == "0o644"


def test_wrong_content_leaves_nothing(agent: AgentCaller) -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    arguments = {"digest": digest, "offset": 0, "last": True}
    assert agent.refused("blob.put", b"jello", size=5, **arguments) == "corrupt"
    assert agent.refused("blob.put", b"hello", size=6, **arguments) == "corrupt"
    assert files_below(agent.node.root) == []


def test_pieces_out_of_order_are_refused(agent: AgentCaller) -> None:
    digest = hashlib.sha256(b"hello").hexdigest()
    agent.ok("blob.put", b"he", digest=digest, size=5, offset=0, last=False)
    assert agent.refused("blob.put", b"lo", digest=digest, size=5, offset=3, last=True) == "invalid"
    assert agent.refused("blob.put", b"llo", digest=digest, size=5, offset=2, last=True) == "invalid"
    assert agent.ok("blob.begin", digest=digest, size=5) == {"have": 2, "whole": False}
    agent.ok("blob.put", b"llo", digest=digest, size=5, offset=2, last=True)
    assert agent.ok("blob.begin", digest=digest, size=5) == {"have": 5, "whole": True}


def test_a_digest_that_is_a_path_is_refused(agent: AgentCaller) -> None:
    for digest in ("../" * 21 + "x", "a" * 63 + "/", "A" * 64, "a" * 64 + "\n"):
        assert agent.refused("blob.put", b"", digest=digest, size=0, offset=0, last=True) == "invalid"
        assert agent.refused("blob.missing", digests=[digest]) == "invalid"


def test_a_blob_that_was_edited_counts_as_missing_and_goes(agent: AgentCaller) -> None:
    digest = agent.put(b"hello")
    (path,) = files_below(agent.node.root)
    Path(path).write_bytes(b"jello")
    assert agent.ok("blob.missing", digests=[digest])["missing"] == [digest]
    assert files_below(agent.node.root) == []


def test_collect_removes_only_what_no_repository_uses(agent: AgentCaller) -> None:
    agent.switch("m", {"config.pbtxt": b"used"})
    agent.put(b"unused")
    assert agent.ok("blob.collect") == {"removed": 1, "bytes": 6}
    assert agent.ok("blob.missing", digests=[hashlib.sha256(b"used").hexdigest()])["missing"] == []


def test_nothing_is_left_where_nothing_is_used(agent: AgentCaller) -> None:
    """Not even what was remembered of the content, once a destroyed plan file leaves a node."""
    hashes = os.path.join(agent.node.root, "hashes")
    agent.put(b"unused")
    assert os.path.exists(hashes)
    agent.ok("blob.collect")
    assert not os.path.exists(hashes)


def test_a_killed_delivery_is_gone_on_with(tmp_path: Path) -> None:
    content = b"half and the other half"
    digest = hashlib.sha256(content).hexdigest()
    script = f"""
import sys
from gpuplan.agent.agent import Agent
from gpuplan.agent.world import World
agent = Agent(World({str(tmp_path)!r}))
request = {{"op": "blob.put", "digest": {digest!r}, "size": {len(content)}, "offset": 0, "last": False}}
print(agent.handle(request, b"half"), flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"{'ok': {}}\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    (part,) = files_below(str(tmp_path))
    assert os.stat(part).st_mode & 0o777 == 0o600
    agent = AgentCaller(FakeNode(tmp_path))
    assert agent.ok("blob.missing", digests=[digest]) == {"missing": [digest], "arrived": {digest: 4}}
    assert agent.ok("blob.begin", digest=digest, size=len(content)) == {"have": 4, "whole": False}
    agent.ok("blob.put", content[4:], digest=digest, size=len(content), offset=4, last=True)
    assert agent.ok("blob.missing", digests=[digest])["missing"] == []


def half(agent: AgentCaller) -> tuple[str, Path]:
    """A content of five bytes of which two have arrived, and nobody is bringing it any more."""
    digest = hashlib.sha256(b"hello").hexdigest()
    agent.ok("blob.put", b"he", digest=digest, size=5, offset=0, last=False)
    agent.agent.close()
    return digest, Path(agent.node.root, "blobs/incoming", digest)


def test_what_was_damaged_meanwhile_is_dropped_and_begun_anew(agent: AgentCaller) -> None:
    digest, part = half(agent)
    part.write_bytes(b"ha")
    assert agent.ok("blob.begin", digest=digest, size=5)["have"] == 2
    assert agent.refused("blob.put", b"llo", digest=digest, size=5, offset=2, last=True) == "corrupt"
    assert not part.exists()
    part.write_bytes(b"longer than it can be")
    assert agent.ok("blob.begin", digest=digest, size=5)["have"] == 0


def test_two_that_bring_the_same_spoil_nothing(agent: AgentCaller) -> None:
    digest, part = half(agent)
    other = AgentCaller(agent.node)
    assert other.ok("blob.begin", digest=digest, size=5)["have"] == 2
    agent.ok("blob.begin", digest=digest, size=5)
    agent.ok("blob.put", b"l", digest=digest, size=5, offset=2, last=False)
    assert other.refused("blob.put", b"l", digest=digest, size=5, offset=2, last=False) == "busy"
    part.unlink()
    part.write_bytes(b"another file")
    assert agent.refused("blob.put", b"lo", digest=digest, size=5, offset=3, last=True) == "busy"
    assert agent.ok("blob.missing", digests=[digest])["missing"] == [digest]


def test_a_link_in_the_place_of_what_arrives_is_not_followed(agent: AgentCaller, tmp_path: Path) -> None:
    digest, part = half(agent)
    precious = tmp_path / "precious"
    precious.write_text("x")
    part.unlink()
    part.symlink_to(precious)
    assert agent.refused("blob.begin", digest=digest, size=5) == "unexpected"
    assert agent.refused("blob.pack", b"hello", contents={digest: 5}) == "unexpected"
    assert precious.read_text() == "x"


def test_many_small_ones_come_in_one_request(agent: AgentCaller) -> None:
    contents = [b"", b"a", b"bb" * 1000]
    digests = {hashlib.sha256(each).hexdigest(): len(each) for each in contents}
    agent.ok("blob.pack", b"".join(contents), contents=digests)
    assert agent.ok("blob.missing", digests=list(digests)) == {"missing": [], "arrived": {}}
    assert {os.stat(path).st_mode & 0o777 for path in files_below(agent.node.root)} == {0o644}


def test_a_pack_with_a_fault_is_taken_as_a_whole_or_not_at_all(agent: AgentCaller) -> None:
    digests = {hashlib.sha256(each).hexdigest(): len(each) for each in (b"one", b"two")}
    for body in (b"onetwx", b"onetw", b"onetwo!", b""):
        assert agent.refused("blob.pack", body, contents=digests) == "corrupt"
    assert agent.refused("blob.pack", b"one", contents={"../x": 3}) == "invalid"
    for size in (-1, "3", None):
        assert agent.refused("blob.pack", b"one", contents={"a" * 64: size}) == "invalid"
    assert files_below(agent.node.root) == []


def test_what_nobody_goes_on_with_is_collected_after_days(agent: AgentCaller) -> None:
    digest, part = half(agent)
    assert agent.ok("blob.collect") == {"removed": 0, "bytes": 0}
    assert part.exists()
    old = time.time() - blobs.GIVEN_UP - 1
    os.utime(part, (old, old))
    agent.ok("blob.begin", digest=digest, size=5)
    assert agent.ok("blob.collect") == {"removed": 0, "bytes": 0}  # it is under way again
    agent.agent.close()
    assert agent.ok("blob.collect") == {"removed": 1, "bytes": 2}


def test_what_was_asked_for_is_not_collected_before_it_is_used(agent: AgentCaller) -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    agent.ok("blob.missing", digests=[digest])
    agent.put(b"x")
    assert agent.ok("blob.collect")["removed"] == 0
    assert AgentCaller(agent.node).ok("blob.collect")["removed"] == 1


@settings(max_examples=40, deadline=None)
@given(content=st.binary(min_size=1, max_size=200), data=st.data())
def test_any_number_of_cuts_gives_the_same_blob(tmp_path_factory: object, content: bytes, data: st.DataObject) -> None:
    node = FakeNode(tmp_path_factory.mktemp("cuts"))
    digest = hashlib.sha256(content).hexdigest()
    for _ in range(data.draw(st.integers(0, 5))):
        agent = AgentCaller(node)
        have = agent.ok("blob.begin", digest=digest, size=len(content))["have"]
        piece = content[have : have + data.draw(st.integers(0, 50))]
        agent.ok("blob.put", piece, digest=digest, size=len(content), offset=have, last=False)
        agent.agent.close()
    agent = AgentCaller(node)
    have = agent.ok("blob.begin", digest=digest, size=len(content))["have"]
    agent.ok("blob.put", content[have:], digest=digest, size=len(content), offset=have, last=True)
    (path,) = files_below(node.root)
    assert Path(path).read_bytes() == content
