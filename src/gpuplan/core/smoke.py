"""Smoke: asks the loaded models of a plan file for inferences. Takes no lock and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from gpuplan.types.outcome import Asked as Heard
from gpuplan.types.outcome import Asking, Listener, silent
from gpuplan.types.report import NodeSmokeResults
from gpuplan.types.resource import Desired


@dataclass(frozen=True)
class SmokeSelection:
    """Which models are asked, and how; what is empty is as the plan file says."""

    targets: tuple[str, ...] = ()
    """Globs over addresses."""
    models: tuple[str, ...] = ()
    """Names; such a model is asked with generated inputs where it has no `smoke`."""
    everything: bool = False
    """Also all models without a `smoke`."""
    load: RequestLoad = ONCE
    protocol: SmokeProtocol = ""
    shared_memory: SharedMemoryKind | None = None

    def asked(self, desired: Desired) -> SmokeSpec | None:
        """What a model is asked; None where it is not."""
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


def smoke(
    plan_file: PlanFile, inventory: Inventory, choice: SmokeSelection, *, base_dir: Path, listen: Listener = silent
) -> tuple[NodeSmokeResults, ...]:
    """Ask all chosen models, all nodes at once and the models of one node one after the other.

    Raises:
        Problem: the plan file is at fault, a model is chosen that it has not, or nothing is chosen.
    """
    if unknown := [name for name in choice.models if name not in plan_file.models]:
        raise Problem([_not_known(name, plan_file) for name in unknown], Exit.USAGE)
    scope = Scope(choice.targets)
    hosts = [host for host in inventory.hosts if scope.has_node(host.name)]
    wishes = desired_state(plan_file, hosts)
    chosen: dict[str, Mapping[Address, tuple[Desired, SmokeSpec]]] = {}
    for host in hosts:
        models = [
            each for each in wishes[host.name].desired if each.address.kind == "model" and scope.has(each.address)
        ]
        found = {each.address: (each, asked) for each in models if (asked := choice.asked(each)) is not None}
        if found:
            chosen[host.name] = found
    if not chosen:
        raise Problem(_nothing(choice), Exit.USAGE)
    asked_hosts = [host for host in hosts if host.name in chosen]
    ask = partial(_node, plan=plan_file.name, base=base_dir, load=choice.load, listen=listen)
    return for_each_host(asked_hosts, lambda host: ask(host, chosen[host.name]))


def smoke_exit_code(nodes: Sequence[NodeSmokeResults]) -> Exit:
    """1 where a model did not answer as it should, 4 where a node or a server could not be read, else 0."""
    if any(proof.diagnostics for node in nodes for proof in node.proofs):
        return Exit.ERROR
    return Exit.UNREAD if any(node.unread for node in nodes) else Exit.DONE


def _node(
    host: Host,
    chosen: Mapping[Address, tuple[Desired, SmokeSpec]],
    *,
    plan: str,
    base: Path,
    load: RequestLoad,
    listen: Listener,
) -> NodeSmokeResults:
    """What one node's models answer. Never raises for what the node did."""
    started = time.monotonic()
    listen(Asking(host.name))
    try:
        session = connect(host)
        try:
            found = smoke_served_models(NodeContext(session, plan, base, {}, lambda _: None), chosen, load)
        finally:
            session.close()
    except Problem as problem:
        diagnostics = tuple(replace(each, address=each.address or host.name) for each in problem.diagnostics)
        found = NodeSmokeResults(host.name, unread=diagnostics)
    except Exception as fault:  # noqa: BLE001 - one node's fault must not hide what the others answer
        found = NodeSmokeResults(host.name, unread=(internal_error(host.name, fault, f"Asking {host.name}"),))
    listen(Heard(host.name, time.monotonic() - started, found.unread[0].summary if found.unread else ""))
    return found


def _not_known(name: str, plan: PlanFile) -> Diagnostic:
    there = ", ".join(plan.models) or "none"
    detail = f"--model was given “{name}”, which is not under models:."
    return Diagnostic("A model is not known", detail, f"The models are: {there}.")


def _nothing(choice: SmokeSelection) -> Diagnostic:
    if choice.targets or choice.models:
        detail = "No model on these nodes is meant by --target and --model, or it has no smoke section."
        return Diagnostic("There is no model to ask", detail, "An address is node/model/CONTAINER/MODEL.")
    return Diagnostic(
        "There is no model to ask",
        "No model of the plan file has a smoke section.",
        "Add smoke: true to a model, or ask all of them with generated inputs: --all",
    )
