"""Laws, held on the simulation and on a real engine: what was made as stated does not differ, and one change is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuplan.kinds.container.shape import ContainerSpec
from gpuplan.kinds.container.steps import to_json as step_json
from gpuplan.model.value import canonical
from tests.kinds.container.bench import KEY, SECRETS, Bench
from tests.kinds.container.strategies import specs

ALTERED: dict[str, tuple[str, Any]] = {
    "ports": ("ports.80/tcp", {"80/tcp": ("30999",)}),
    "env": ("env.ALTERED_ENV", {"ALTERED_ENV": "1"}),
    "mounts": ("mounts./altered", {"/altered": "vol-c"}),
    "command": ("command", ("sleep", "999")),
    "entrypoint": ("entrypoint", ("/bin/sh", "-c", "sleep 999")),
    "user": ("user", "65534"),
    "workdir": ("workdir", "/var"),
    "hostname": ("hostname", "other"),
    "ipc": ("ipc", "none"),
    "shm_size": ("shm_size", 1 << 27),
    "memory": ("memory", 1 << 27),
    "cpus": ("cpus", 0.75),
    "ulimits": ("ulimits.core", {"core": (7, 7)}),
    "cap_add": ("cap_add", ("SYS_CHROOT",)),
    "labels": ("labels.altered", {"altered": "yes"}),
    "extra_hosts": ("extra_hosts.altered", {"altered": "10.9.9.9"}),
    "restart": ("restart", "on-failure:7"),
    "stop_timeout": ("stop_timeout", 3),
}
"""Field → the path that differs, and a value that no strategy draws."""

few = settings(
    max_examples=6,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
more = settings(few, max_examples=40)


def holds(bench: Bench, spec: ContainerSpec) -> None:
    """Made as stated → nothing differs, and the secret is nowhere in what was said of it."""
    bench.clear()
    desired = bench.want("law", spec)
    comparison = bench.compare(desired)
    bench.apply(desired)
    assert bench.compare(desired).changes == ()
    told = repr(comparison) + "".join(bench.said) + canonical(step_json(spec))
    assert SECRETS[KEY].reveal() not in told


def finds(bench: Bench, spec: ContainerSpec, field: str) -> None:
    """One field was stated otherwise when it was made → exactly that field differs."""
    bench.clear()
    path, value = ALTERED[field]
    stated = getattr(spec, field)
    altered = {**stated, **value} if isinstance(value, dict) else value
    bench.make_by_hand("law", "law", spec, start=field not in ("entrypoint", "ipc"))
    found = bench.compare(bench.want("law", replace(spec, **{field: altered}))).changes
    assert [change.address.name for change in found] == ["law"]
    assert {each.path for each in found[0].fields} - {"state"} == {path}


@more
@given(spec=specs("busybox:1.36"))
def test_made_as_stated_in_the_simulation(simulated: Bench, spec: ContainerSpec) -> None:
    holds(simulated, spec)


@more
@given(spec=specs("busybox:1.36"), field=st.sampled_from(sorted(ALTERED)))
def test_one_change_is_one_in_the_simulation(simulated: Bench, spec: ContainerSpec, field: str) -> None:
    finds(simulated, spec, field)


@pytest.mark.lab
@few
@given(spec=specs("lab/pause:1"))
def test_made_as_stated_on_an_engine(real: Bench, spec: ContainerSpec) -> None:
    holds(real, spec)


@pytest.mark.lab
@few
@given(spec=specs("lab/pause:1"), data=st.data())
def test_one_change_is_one_on_an_engine(real: Bench, spec: ContainerSpec, data: st.DataObject) -> None:
    for field in data.draw(st.permutations(sorted(ALTERED)))[:3]:
        finds(real, spec, field)
