"""Laws of what is read of a node's toolkit and device access, and of specifications against devices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuplan.resources.container.cdi import compare_specification, position_names
from gpuplan.resources.container.gpu_access import HOOK, GpuMethod, Specification, Toolkit, read_access, read_toolkit
from gpuplan.resources.snapshot.devices import MigDevice, NodeGpu, NodeGpus
from gpuplan.types.snapshot import Probe, Snapshot
from gpuplan.types.value import Json

KEYS = ("tools", "cdi", "char_links", "containers", "nodes", "denied", "path", "devices", "error", "info", "version",
        "Components", "Name", "CDISpecDirs", "Runtimes", HOOK)  # fmt: skip
odd: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def nodes(draw: st.DrawFn) -> NodeGpus:
    """GPUs with MIG on and off, each slice with a UUID of its own."""
    found = []
    for index in range(draw(st.integers(1, 4))):
        mig = draw(st.booleans())
        count = draw(st.integers(0, 3)) if mig else 0
        slices = tuple(MigDevice(f"MIG-{index}-{number}", number, 0) for number in range(count))
        found.append(NodeGpu(index, f"GPU-{index}", f"0000:{index:02x}:00.0", mig, slices))
    return NodeGpus(tuple(found), known=True)


def by_uuid(gpus: NodeGpus) -> list[str]:
    return [uuid for gpu in gpus.gpus for uuid in gpu.usable]


def by_place(gpus: NodeGpus) -> list[str]:
    return [place for gpu in gpus.gpus for place in position_names(gpu.index, gpu.mig, len(gpu.slices))]


@given(odd, odd, odd)
def test_an_odd_answer_is_no_finding_and_no_traceback(docker: Json, toolkit: Json, access: Json) -> None:
    snapshot = Snapshot("n", {"docker": Probe(docker), "toolkit": Probe(toolkit), "access": Probe(access)})
    assert read_toolkit(snapshot).method in GpuMethod
    assert all(denied for denied in read_access(snapshot).values())


def test_a_node_that_was_not_asked_is_unknown() -> None:
    assert read_toolkit(Snapshot("n", {})).method is GpuMethod.UNKNOWN
    assert not read_toolkit(Snapshot("n", {})).reads_specifications


@given(nodes())
def test_a_specification_of_what_is_there_is_not_stale(gpus: NodeGpus) -> None:
    for names in (by_uuid(gpus), by_place(gpus), by_uuid(gpus) + by_place(gpus)):
        assert not compare_specification(Specification("p", (*names, "all")), gpus)


@given(nodes(), st.data())
def test_one_device_more_or_less_makes_it_stale(gpus: NodeGpus, data: st.DataObject) -> None:
    for names in (by_uuid(gpus), by_place(gpus)):
        if len(names) > 1:
            gone = data.draw(st.sampled_from(names))
            stale = compare_specification(Specification("p", tuple(name for name in names if name != gone)), gpus)
            assert (stale.gone, stale.missing) == ((), (gone,))
    more = compare_specification(Specification("p", (*by_uuid(gpus), "MIG-gone")), gpus)
    assert (more.gone, more.missing) == (("MIG-gone",), ())


@given(
    st.frozensets(st.sampled_from((HOOK, "nvidia-cdi-hook", "nvidia-ctk"))),
    st.booleans(),
    st.sampled_from(("20.10.24", "25.0.3", "28.5.0", "29.1.3", "")),
)
def test_who_has_no_cdi_reads_no_specification(tools: frozenset[str], cdi: bool, version: str) -> None:
    toolkit = Toolkit(known=True, tools=tools, cdi=cdi, version=version)
    assert cdi or not toolkit.reads_specifications
    assert (toolkit.method is GpuMethod.NONE) == (not cdi and HOOK not in tools)
