"""Concrete containers and the models on them."""

from __future__ import annotations

from pathlib import Path

from gpuplan.planfile.expand import containers_on, models_on
from gpuplan.resources.container.fields.networking import ServerPorts
from gpuplan.types.inventory import Host
from tests.plan_files import PlanOf

PLAN = """
gpus:
  g0: { nodes: [a100, one], select: { index: 0 }, mig: { big: 3g.40gb, small: { profile: 1g.10gb, count: 2 } } }
  g1: { nodes: a100, select: { index: 1 }, mig: { small: 1g.10gb } }
containers:
  plain: { nodes: a100, image: x, gpus: [g0/big], triton: {} }
  every: { nodes: all, image: x, each: "g*/small*", ports: { http: 9000, metrics: 9002, step: 10 }, triton: {} }
  exact: { nodes: all, image: x, each: "g0/small[1]", ports: { http: 7000 }, triton: {} }
models:
  m: { source: m, containers: [plain, every], overrides: { every: { max_batch_size: 4 } } }
  n: { source: m, containers: [exact] }
"""
A100, ONE, OTHER = Host("x", groups=("a100",)), Host("one"), Host("other")


def test_each_gives_a_container_for_each_slice_with_ports_of_its_own(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    plan = plan_of(PLAN)
    assert [(each.name, each.container.gpus, each.container.each) for each in containers_on(plan, A100)] == [
        ("plain", ("g0/big",), None),
        ("every-0", ("g0/small[0]",), None),
        ("every-1", ("g0/small[1]",), None),
        ("every-2", ("g1/small",), None),
        ("exact-0", ("g0/small[1]",), None),
    ]
    assert [each.container.ports for each in containers_on(plan, ONE)] == [
        ServerPorts(http=9000, metrics=9002),
        ServerPorts(http=9010, metrics=9012),
        ServerPorts(http=7000),
    ]
    assert containers_on(plan, OTHER) == ()
    assert containers_on(plan, ONE)[1].path == ("containers", "every")


def test_models_are_on_every_container_of_an_each(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    plan = plan_of(PLAN)
    ((name, model),) = models_on(plan, A100, "every-2")
    assert (name, model.containers) == ("m", ("every-2",))
    assert model.overrides == {"every-2": {"max_batch_size": 4}}
    ((name, model),) = models_on(plan, A100, "plain")
    assert (name, model.overrides) == ("m", {})
    assert [name for name, _ in models_on(plan, ONE, "exact-0")] == ["n"]
    assert models_on(plan, ONE, "every") == models_on(plan, ONE, "plain") == models_on(plan, OTHER, "every-0") == ()
