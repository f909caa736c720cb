"""Smoke-tests the loaded models of a plan file with inference requests. Takes no lock and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuplan.core.apply.context import NodeContext
from gpuplan.core.plan.desired import desired_state
from gpuplan.core.plan.observe import for_each_host
from gpuplan.core.plan.targets import Scope
from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.model.smoke.run import ONCE, RequestLoad
from gpuplan.resources.model.smoke.served import smoke_served_models
from gpuplan.resources.model.smoke.spec import SharedMemoryKind, SmokeProtocol, SmokeSpec
from gpuplan.resources.typed import decode
from gpuplan.transport.connect import connect
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, internal_error
from gpuplan.types.inventory import Host, Inventory
from gpuplan.types.outcome import Asked, Asking, Listener, silent
from gpuplan.types.report import NodeSmokeResults
from gpuplan.types.resource import Desired


@dataclass(frozen=True)
class SmokeSelection:
    """Which models are tested, and how; empty = as the plan file says."""

    targets: tuple[str, ...] = ()
    """Globs over addresses."""
    models: tuple[str, ...] = ()
    """Model names; one without a `smoke` section is tested with generated inputs."""
    everything: bool = False
    """Also test all models without a `smoke` section."""
    load: RequestLoad = ONCE
    protocol: SmokeProtocol = ""
    shared_memory: SharedMemoryKind | None = None

    def test_of(self, desired: Desired) -> SmokeSpec | None:
        """The test of a model; None if it is not selected."""
        if self.models and desired.address.name.partition("/")[2] not in self.models:
            return None
        if desired.proof is None and not (self.models or self.everything):
            return None
        stated = SmokeSpec() if desired.proof is None else decode(SmokeSpec, desired.proof)
        return replace(
            stated,
            protocol=self.protocol or stated.protocol,
            shared_memory=self.shared_memory or stated.shared_memory,
        )


Tests = Mapping[Address, tuple[Desired, SmokeSpec]]


def smoke(
    plan_file: PlanFile, inventory: Inventory, selection: SmokeSelection, *, base_dir: Path, listen: Listener = silent
) -> tuple[NodeSmokeResults, ...]:
    """Test all selected models: nodes in parallel, the models of one node one after the other.

    Raises:
        Problem: the plan file has errors, a selected model does not exist, or nothing is selected.
    """
    if unknown := [name for name in selection.models if name not in plan_file.models]:
        raise Problem([_unknown_model(name, plan_file) for name in unknown], Exit.USAGE)
    scope = Scope(selection.targets)
    hosts = [host for host in inventory.hosts if scope.has_node(host.name)]
    states = desired_state(plan_file, hosts)
    tests: dict[str, Tests] = {}
    for host in hosts:
        models = [
            resource
            for resource in states[host.name].desired
            if resource.address.kind == "model" and scope.has(resource.address)
        ]
        if selected := {model.address: (model, test) for model in models if (test := selection.test_of(model))}:
            tests[host.name] = selected
    if not tests:
        raise Problem(_nothing_selected(selection), Exit.USAGE)

    def test_node(host: Host) -> NodeSmokeResults:
        return _test_node(host, tests[host.name], plan_file.name, base_dir, selection.load, listen)

    return for_each_host([host for host in hosts if host.name in tests], test_node)


def smoke_exit_code(nodes: Sequence[NodeSmokeResults]) -> Exit:
    """1 if a model failed its test, 4 if a node or a server could not be read, else 0."""
    if any(proof.diagnostics for node in nodes for proof in node.proofs):
        return Exit.ERROR
    return Exit.UNREAD if any(node.unread for node in nodes) else Exit.DONE


def _test_node(
    host: Host, tests: Tests, plan: str, base: Path, load: RequestLoad, listen: Listener
) -> NodeSmokeResults:
    """The results of one node. Errors are part of them."""
    started = time.monotonic()
    listen(Asking(host.name))
    try:
        session = connect(host)
        try:
            results = smoke_served_models(NodeContext(session, plan, base, {}, lambda _: None), tests, load)
        finally:
            session.close()
    except Problem as problem:
        unread = tuple(replace(issue, address=issue.address or host.name) for issue in problem.diagnostics)
        results = NodeSmokeResults(host.name, unread=unread)
    except Exception as error:  # noqa: BLE001 - a bug met on one node must not hide the other nodes' results
        results = NodeSmokeResults(host.name, unread=(internal_error(host.name, error, f"Testing {host.name}"),))
    summary = results.unread[0].summary if results.unread else ""
    listen(Asked(host.name, time.monotonic() - started, summary))
    return results


def _unknown_model(name: str, plan: PlanFile) -> Diagnostic:
    models = ", ".join(plan.models) or "none"
    return Diagnostic(
        "The model does not exist", f"--model {name}: the plan file has no such model.", f"Its models are: {models}."
    )


def _nothing_selected(selection: SmokeSelection) -> Diagnostic:
    if selection.targets or selection.models:
        detail = "No model matches --target and --model, or the matching models have no smoke section."
        return Diagnostic("No model to test", detail, "The address of a model is NODE/model/CONTAINER/MODEL.")
    return Diagnostic(
        "No model to test",
        "No model of the plan file has a smoke section.",
        "Add smoke: true to a model, or test all models with generated inputs: --all",
    )
