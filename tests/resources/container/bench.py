"""A bench: the container room against one node that answers for itself, simulated or real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuplan.core.apply.context import NodeContext
from gpuplan.core.apply.record import to_json as record_json
from gpuplan.core.plan.order import order_steps
from gpuplan.resources.container.create_body import Owner, create_body
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.spec import ContainerSpec, to_json
from gpuplan.resources.kind import Facts
from gpuplan.transport.session import Question, Session
from gpuplan.types.address import Address
from gpuplan.types.change import Comparison
from gpuplan.types.resource import Desired, DiffContext, Record, Recorded
from gpuplan.types.value import JsonObject, KnownAfterApply, Secret, as_object, mapping, mappings

PLAN = "bench"
KEY = "${env:KEY}"
SECRETS = {KEY: Secret(KEY, "s3cret-v4lue")}


class Bench:
    """Wants containers on one node, and does what the room says."""

    def __init__(self, session: Session, base: Path, image: str) -> None:
        self.session = session
        self.image = image
        """An image that the node has."""
        self.node = session.node
        self.said: list[str] = []
        self.apply_context = NodeContext(session, PLAN, base, SECRETS, self.said.append, keeper=self)
        self.engine = session.docker()
        self.resources: dict[Address, Recorded] = {}
        self.remembered: dict[Address, JsonObject] = {}

    def write_facts(self, facts: Facts) -> None:
        """Keep the facts that a step writes before it acts."""
        self._remember([*facts])

    def seal(self, *_: str) -> str:
        """No seals: what is seen of a rotated secret is tested elsewhere."""
        return ""

    @property
    def gpus(self) -> Mapping[str, str]:
        """g0, g1, … → UUID of each GPU of the node."""
        probe = self.session.ask(Question(PLAN, ("gpu",))).probe("gpu")
        return {f"g{gpu['index']}": str(gpu["uuid"]) for gpu in mappings(mapping(probe.value).get("gpus"))}

    def want(self, name: str, spec: ContainerSpec) -> Desired:
        needs = [Address(self.node, "gpu", part) for part in spec.gpus]
        needs += [Address(self.node, "repository", name)] if spec.triton else []
        return Desired(Address(self.node, "container", name), to_json(spec), tuple(needs))

    def compare(self, *desired: Desired, bindings: Mapping[str, str | KnownAfterApply] | None = None) -> Comparison:
        bound = self.gpus if bindings is None else bindings
        return CONTAINER.compare(
            desired,
            self.session.ask(Question(PLAN, CONTAINER.probes)),
            DiffContext(
                self.node,
                PLAN,
                Record(PLAN, run="r" if self.resources else "", resources=self.resources, remembered=self.remembered),
                bindings={Address(self.node, "gpu", name): uuid for name, uuid in bound.items()},
                secrets=SECRETS,
            ),
        )

    def apply(self, *desired: Desired, bindings: Mapping[str, str | KnownAfterApply] | None = None) -> Sequence[str]:
        """Compare and run every step in the flow's order; the titles of those that ran."""
        changes = self.compare(*desired, bindings=bindings).changes
        steps = {step.id: step for change in changes for step in change.steps}
        ran = []
        for name in order_steps(changes):
            self._remember(list(CONTAINER.apply(steps[name], self.apply_context)))
            ran.append(steps[name].title)
        self.resources = {each.address: Recorded(each.digest, each.spec, each.needs) for each in desired}
        return ran

    def make_by_hand(self, name: str, role: str, spec: ContainerSpec, *, start: bool = True) -> str:
        """A container of ours that no run of the room made."""
        env = {key: value if isinstance(value, str) else "s3cret-v4lue" for key, value in spec.env.items()}
        devices = [self.gpus[part] for part in spec.gpus]
        body = create_body(spec, Owner(PLAN, role, "by-hand"), devices, env, "/tmp")
        container = str(self.engine.create_container_from_config(body, name)["Id"])
        if start:
            self.engine.start(container)
        return container

    def names(self) -> Mapping[str, str]:
        """Every container's name and state."""
        return {each["Names"][0].strip("/"): each["State"] for each in self.engine.containers(all=True)}

    def networks(self, *names: str) -> None:
        """Make those that are not there."""
        there = {each["Name"] for each in self.engine.networks()}
        for name in names:
            if name not in there:
                self.engine.create_network(name)

    def clear(self) -> None:
        for each in self.engine.containers(all=True):
            self.engine.remove_container(each["Id"], force=True, v=True)
        self.resources = {}

    def _remember(self, memory: Sequence[tuple[Address, JsonObject | None]]) -> None:
        for address, fact in memory:
            if fact is None:
                self.remembered.pop(address, None)
            else:
                self.remembered[address] = fact
        record = Record(PLAN, run="r", remembered=self.remembered)
        self.session.agent("record.write", plan=PLAN, record=as_object(record_json(record)))
