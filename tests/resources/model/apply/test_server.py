"""The restart of a server's container."""

from __future__ import annotations

import pytest

from gpuplan.resources.model import MODEL
from gpuplan.resources.model.steps import restart_server
from gpuplan.types.address import Address
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Problem
from tests.resources.model.triton_node import SERVER, TritonNode


def restart(triton: TritonNode) -> Step:
    node = triton.session.node
    return restart_server(Address(node, "model", SERVER), Address(node, "container", SERVER))


def test_a_restarted_container_has_its_models_again(triton: TritonNode) -> None:
    triton.write_model("a")
    wanted = triton.plan(a={})
    triton.apply(wanted)
    MODEL.apply(restart(triton), triton.apply_context)
    assert triton.progress[-1] == "triton is restarted; READY: a"
    assert triton.states() == {"a": "READY"}
    assert triton.compare(wanted) == ()


def test_a_stopped_container_is_not_started(simulated: TritonNode) -> None:
    simulated.session.docker().stop(SERVER)
    with pytest.raises(Problem, match="its container is not running"):
        MODEL.apply(restart(simulated), simulated.apply_context)
