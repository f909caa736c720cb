"""Hypothesis strategies for the nouns of a change set."""

from hypothesis import strategies as st

from gpuplan.types.address import Address
from gpuplan.types.change import (
    Action,
    Change,
    ChangeSet,
    FieldChange,
    NodeChanges,
    Origin,
    Step,
    Unmanaged,
    Unreadable,
    Verb,
)
from gpuplan.types.diagnostic import Diagnostic, Location, Severity
from gpuplan.types.resource import Desired
from gpuplan.types.value import KnownAfterApply

names = st.text("abcdefgh-0123", min_size=1, max_size=8)
text = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, json_values, max_size=3)
addresses = st.builds(Address, names, st.sampled_from(["gpu", "container", "model", "repository"]), names)
some_addresses = st.lists(addresses, max_size=2).map(tuple)
locations = st.builds(Location, text, st.integers(0, 99), st.integers(0, 99))
diagnostics = st.builds(Diagnostic, text, text, text, st.none() | locations, text, st.sampled_from(list(Severity)))
fields = st.builds(FieldChange, text, json_values, json_values | st.builds(KnownAfterApply, text), st.booleans())


@st.composite
def changes(draw: st.DrawFn) -> Change:
    address = draw(addresses)
    step_names = draw(st.lists(names, max_size=3, unique=True))
    steps = tuple(
        Step(
            name,
            address,
            draw(st.sampled_from(list(Verb))),
            draw(text),
            draw(objects),
            makes=draw(some_addresses),
            uses=draw(some_addresses),
            releases=draw(some_addresses),
            frees=draw(some_addresses),
            sequence=draw(names),
        )
        for name in step_names
    )
    return Change(
        address,
        draw(st.sampled_from(list(Action))),
        draw(st.lists(fields, max_size=2).map(tuple)),
        draw(st.lists(text, max_size=2).map(tuple)),
        draw(st.lists(text, max_size=2).map(tuple)),
        draw(st.dictionaries(addresses, text, max_size=2)),
        draw(st.none() | addresses),
        steps,
        draw(st.none() | st.sampled_from(list(Origin))),
    )


nodes = st.builds(
    NodeChanges,
    names,
    st.lists(changes(), max_size=3).map(tuple),
    st.lists(text, max_size=3).map(tuple),
    st.lists(st.builds(Unmanaged, addresses, text, st.none() | addresses, text), max_size=2).map(tuple),
    st.lists(st.builds(Unreadable, addresses, diagnostics, st.none() | addresses), max_size=2).map(tuple),
    st.lists(diagnostics, max_size=2).map(tuple),
    st.dictionaries(addresses, text, max_size=3),
    st.lists(st.builds(Desired, addresses, objects, some_addresses), max_size=3).map(tuple),
    st.integers(0, 99),
)
change_sets = st.builds(
    ChangeSet,
    names,
    text,
    names,
    text,
    st.lists(nodes, max_size=3).map(tuple),
    st.booleans(),
    st.lists(names, max_size=2).map(tuple),
)
