"""Containers as hypothesis draws them: all that a plan file can state, within what one engine can run at once."""

from __future__ import annotations

from hypothesis import strategies as st

from gpuplan.kinds.container.shape import ContainerSpec
from tests.kinds.container.bench import KEY

NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,6}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
SIDES = st.one_of(
    st.just(""),
    st.integers(31000, 31999).map(str),
    st.integers(32000, 32399).map(lambda port: f"127.0.0.1:{port}"),
)
VALUES = st.one_of(TEXTS, st.just({"secret": KEY}))


def specs(image: str) -> st.SearchStrategy[ContainerSpec]:
    """Containers that stay up."""
    return st.builds(
        ContainerSpec,
        image=st.just(image),
        devices=st.sampled_from([(), ("g0",), ("g1", "g0")]),
        ports=st.dictionaries(
            st.sampled_from(["80/tcp", "81/tcp", "53/udp"]), SIDES.map(lambda side: (side,)), max_size=2
        ).filter(_distinct),
        env=st.dictionaries(NAMES, VALUES, max_size=3),
        mounts=st.dictionaries(
            st.sampled_from(["/data", "/srv/x", "/opt"]),
            st.sampled_from(["vol-a", "vol-b:ro", "/tmp/gpuplan-test", "/tmp/gpuplan-test:ro"]),
            max_size=2,
        ),
        command=st.sampled_from([("sleep", "500"), ("sh", "-c", "exec sleep 600")]),
        entrypoint=st.sampled_from([None, (), ("env",)]),
        user=st.sampled_from([None, "1000", "0:0"]),
        workdir=st.sampled_from([None, "/tmp"]),
        hostname=st.sampled_from([None, "box"]),
        network=st.sampled_from([None, "bridge"]),
        ipc=st.sampled_from([None, "private", "shareable"]),
        shm_size=st.sampled_from([None, 1 << 26, 1 << 28]),
        memory=st.sampled_from([None, 1 << 26, 1 << 28]),
        cpus=st.sampled_from([None, 0.25, 1.5]),
        ulimits=st.sampled_from([{}, {"nofile": (128, 256)}, {"msgqueue": (1000, 1000), "nofile": (64, 64)}]),
        cap_add=st.sampled_from([(), ("NET_ADMIN", "SYS_PTRACE")]),
        labels=st.dictionaries(NAMES.map(str.lower), TEXTS, max_size=2),
        extra_hosts=st.sampled_from([{}, {"metrics": "10.0.0.1"}]),
        restart=st.sampled_from([None, "no", "always", "unless-stopped", "on-failure", "on-failure:3"]),
        stop_timeout=st.just(1),
    )


def _distinct(ports: dict[str, tuple[str, ...]]) -> bool:
    sides = [side for (side,) in ports.values() if side]
    return len(set(sides)) == len(sides)
