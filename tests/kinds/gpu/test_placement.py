"""The solver against exhaustive search on every board, and the layouts that naive tools get wrong."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.catalog.boards import BOARDS, Board, find_board
from gpuplan.kinds.gpu.placement import Geometry, Hold, Layout, Live, Place, Shape, Shortage, Wanted, place, solve


def geometry(board: Board) -> Geometry:
    return Geometry(tuple(Shape(each.name, each.slices, each.instances, each.placements) for each in board.profiles))


def named(name: str) -> Geometry:
    board = find_board(name)
    assert board is not None
    return geometry(board)


A100 = named("A100-SXM4-40GB")


def wanted(*profiles: str) -> list[Wanted]:
    return [Wanted(f"s{number}", profile) for number, profile in enumerate(profiles)]


def cells(placed: Place) -> frozenset[int]:
    return frozenset(range(placed[0], placed[0] + placed[1]))


def stands(where: Geometry, all_of_it: Sequence[tuple[str, Place]]) -> bool:
    """By NVML's rules: places of the table, none over another, no count or compute slice too many."""
    counts = Counter(profile for profile, _ in all_of_it)
    apart = sum(len(cells(placed)) for _, placed in all_of_it)
    return (
        all(placed in where.by_name[profile].placements for profile, placed in all_of_it)
        and len(frozenset().union(*(cells(placed) for _, placed in all_of_it))) == apart
        and all(count <= where.by_name[profile].instances for profile, count in counts.items())
        and sum(where.by_name[profile].slices for profile, _ in all_of_it) <= where.compute
    )


def layouts(where: Geometry, live: Sequence[Live], want: Sequence[Wanted]) -> Iterator[Layout]:
    """Every possible answer, by trying everything."""
    staying = [each for each in live if not each.leaves]
    leaving = tuple(each for each in live if each.leaves)
    for count in range(len(staying) + 1):
        for going in itertools.combinations(staying, count):
            stay = [each for each in staying if each not in going]
            missing = [each for each in want if each.name not in {one.name for one in stay}]
            for places in itertools.product(*(where.by_name[each.profile].placements for each in missing)):
                new = [(each.profile, placed) for each, placed in zip(missing, places, strict=True)]
                if stands(where, [*((each.profile, (each.start, each.size)) for each in stay), *new]):
                    create = {each.name: placed for each, placed in zip(missing, places, strict=True)}
                    yield Layout(leaving + going, create)


def after(live: Sequence[Live], want: Sequence[Wanted], layout: Layout) -> list[tuple[str, Place]]:
    profiles = {each.name: each.profile for each in want}
    stay = [(each.profile, (each.start, each.size)) for each in live if each not in layout.destroy]
    return stay + [(profiles[name], placed) for name, placed in layout.create.items()]


def room(where: Geometry, full: list[tuple[str, Place]]) -> tuple[int, ...]:
    """For each profile, the largest first, how many more could stand: again by trying everything."""
    shapes = sorted(where.shapes, key=lambda shape: (-shape.size, -shape.slices, shape.name))
    return tuple(
        max(
            count
            for count in range(shape.instances + 1)
            for more in itertools.combinations(shape.placements, count)
            if stands(where, full + [(shape.name, placed) for placed in more])
        )
        for shape in shapes
    )


def price(live: Sequence[Live], want: Sequence[Wanted], layout: Layout) -> tuple[object, ...]:
    holds = Counter(each.hold for each in layout.destroy if not each.leaves)
    moved = sum(
        each.preferred not in (None, layout.create[each.name][0]) for each in want if each.name in layout.create
    )
    return (*(holds[hold] for hold in sorted(Hold, reverse=True)), moved)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Geometry, list[Live], list[Wanted]]:
    where = geometry(draw(st.sampled_from(BOARDS)))
    live: list[Live] = []
    for _ in range(draw(st.integers(0, 5))):
        shape = draw(st.sampled_from(where.shapes))
        start, size = draw(st.sampled_from(shape.placements))
        here = [*((each.profile, (each.start, each.size)) for each in live), (shape.name, (start, size))]
        if stands(where, here):
            live.append(Live(shape.name, start, size, draw(st.sampled_from(Hold)), leaves=draw(st.booleans())))
    want = [
        Wanted(f"w{number}", draw(st.sampled_from(where.shapes)).name, draw(st.none() | st.integers(0, 6)))
        for number in range(draw(st.integers(0, 3)))
    ]
    for number, each in enumerate(live):
        if not each.leaves and draw(st.booleans()):
            name = f"k{number}"
            live[number] = Live(each.profile, each.start, each.size, each.hold, name)
            want.append(Wanted(name, each.profile, each.start))
    return where, live, want


@given(situations())
@settings(max_examples=300, deadline=None)
def test_no_layout_is_better_than_the_one_that_is_found(situation: tuple[Geometry, list[Live], list[Wanted]]) -> None:
    where, live, want = situation
    every = list(layouts(where, live, want))
    found = solve(where, live, want)
    if isinstance(found, Shortage):
        assert not every
        return
    assert found in [Layout(each.destroy, dict(each.create)) for each in every]
    lowest = min(price(live, want, each) for each in every)
    assert price(live, want, found) == lowest
    equals = [each for each in every if price(live, want, each) == lowest]
    assert room(where, after(live, want, found)) == max(room(where, after(live, want, each)) for each in equals)


@given(situations())
@settings(max_examples=200, deadline=None)
def test_a_busy_instance_goes_only_where_no_layout_spares_it(
    situation: tuple[Geometry, list[Live], list[Wanted]],
) -> None:
    where, live, want = situation
    found = solve(where, live, want)
    if isinstance(found, Layout) and any(each.hold is Hold.BUSY and not each.leaves for each in found.destroy):
        sparing = [
            each
            for each in layouts(where, live, want)
            if not any(one.hold is Hold.BUSY and not one.leaves for one in each.destroy)
        ]
        assert not sparing


@given(situations())
@settings(max_examples=200, deadline=None)
def test_placing_beside_what_stands_touches_nothing(situation: tuple[Geometry, list[Live], list[Wanted]]) -> None:
    where, live, want = situation
    names = {each.name for each in live}
    missing = [each for each in want if each.name not in names]
    found = place(where, live, missing)
    possible = [each for each in layouts(where, [*map(fixed, live)], missing) if not each.destroy]
    if found is None:
        assert not possible
    else:
        assert Layout((), found) in possible


def fixed(live: Live) -> Live:
    return Live(live.profile, live.start, live.size, Hold.BUSY)


@pytest.mark.parametrize(
    ("profiles", "places"),
    [
        (["3g.20gb", "4g.20gb"], [(4, 4), (0, 4)]),
        (["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"], [(4, 4), (0, 2), (2, 1), (3, 1)]),
        (["1g.5gb", "2g.10gb", "4g.20gb"], [(6, 1), (4, 2), (0, 4)]),
        (["3g.20gb", "2g.10gb", "2g.10gb"], [(4, 4), (0, 2), (2, 2)]),
    ],
)
def test_the_order_of_creation_does_not_decide_what_fits(profiles: list[str], places: list[Place]) -> None:
    """First fit fails on all of these, and largest first on two of them."""
    found = solve(A100, [], wanted(*profiles))
    assert isinstance(found, Layout)
    assert [found.create[each.name] for each in wanted(*profiles)] == places


@pytest.mark.parametrize(
    ("profiles", "resource", "fitting"),
    [
        (["1g.10gb"] * 4 + ["1g.5gb"] * 3, "memory slices 11/8", ("s0", "s1", "s2", "s3")),
        (["7g.40gb", "1g.5gb"], "memory slices 9/8", ("s0",)),
        (["1g.5gb+me", "1g.5gb+me"], "instances of 1g.5gb+me 2/1", ("s0",)),
        (["4g.20gb", "2g.10gb", "1g.5gb", "1g.5gb+me"], "compute slices 8/7", ("s0", "s1", "s2")),
    ],
)
def test_it_says_which_resource_is_short(profiles: list[str], resource: str, fitting: tuple[str, ...]) -> None:
    assert solve(A100, [], wanted(*profiles)) == Shortage(resource, fitting)


def test_a_busy_neighbour_stays_while_the_idle_one_is_cut_anew() -> None:
    busy = Live("4g.20gb", 0, 4, Hold.BUSY, "s0")
    idle = Live("2g.10gb", 4, 2, leaves=True)
    found = solve(A100, [busy, idle], wanted("4g.20gb", "1g.5gb", "1g.5gb"))
    assert isinstance(found, Layout)
    assert found.destroy == (idle,)
    assert {start for start, _ in found.create.values()} <= {4, 5, 6}


def test_slices_come_back_to_where_they_were() -> None:
    order: Mapping[str, int] = {f"s{number}": 6 - number for number in range(7)}
    found = solve(A100, [], [Wanted(name, "1g.5gb", start) for name, start in order.items()])
    assert isinstance(found, Layout)
    assert {name: start for name, (start, _) in found.create.items()} == order
