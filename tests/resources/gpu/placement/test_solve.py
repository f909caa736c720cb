"""The solver against exhaustive search on every board, and the layouts that naive tools get wrong."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.nvidia.boards import BOARDS, find_board
from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.observed import Placement
from gpuplan.resources.gpu.placement.geometry import GpuGeometry
from gpuplan.resources.gpu.placement.solve import Layout, PlacedInstance, Protection, Shortage, place_beside, solve
from tests.resources.gpu.support import board_geometry


def named(name: str) -> GpuGeometry:
    board = find_board(name)
    assert board is not None
    return board_geometry(board)


A100 = named("A100-SXM4-40GB")
MEDIA = "video decoders 5/4 and video encoders 5/4 and JPEG engines 5/4"


def wanted(*profiles: str) -> list[SliceSpec]:
    return [SliceSpec(f"s{number}", profile) for number, profile in enumerate(profiles)]


def cells(placed: Placement) -> frozenset[int]:
    return frozenset(range(placed[0], placed[0] + placed[1]))


def stands(where: GpuGeometry, all_of_it: Sequence[tuple[str, Placement]]) -> bool:
    """By NVML's rules: places of the table, none over another, no count, compute slice or media engine too many."""
    counts = Counter(profile for profile, _ in all_of_it)
    apart = sum(len(cells(placed)) for _, placed in all_of_it)
    return (
        all(placed in where.by_name[profile].placements for profile, placed in all_of_it)
        and len(frozenset().union(*(cells(placed) for _, placed in all_of_it))) == apart
        and all(count <= where.by_name[profile].instances for profile, count in counts.items())
        and all(
            sum(where.by_name[profile].demands[number] for profile, _ in all_of_it) <= capacity
            for number, capacity in enumerate(where.capacity)
        )
    )


def layouts(where: GpuGeometry, live: Sequence[PlacedInstance], want: Sequence[SliceSpec]) -> Iterator[Layout]:
    """Every possible answer, by trying everything: what goes, and where everything that is missing is made."""
    forced = tuple(each for each in live if each.obsolete and not each.free and each.name is None)
    choice = [each for each in live if each not in forced]
    for count in range(len(choice) + 1):
        for going in itertools.combinations(choice, count):
            stay = [each for each in choice if each not in going]
            for keep in adoptions(stay, want):
                missing = [each for each in want if each.name not in keep]
                for places in itertools.product(*(where.by_name[each.profile].placements for each in missing)):
                    new = [(each.profile, placed) for each, placed in zip(missing, places, strict=True)]
                    if stands(where, [*((each.profile, (each.start, each.size)) for each in stay), *new]):
                        create = {each.name: placed for each, placed in zip(missing, places, strict=True)}
                        yield Layout(keep, forced + going, create)


def adoptions(stay: Sequence[PlacedInstance], want: Sequence[SliceSpec]) -> Iterator[dict[str, PlacedInstance]]:
    """Which wanted slices those that stay can be: ours must be one, others are one where there are any to be."""
    own = {each.name: each for each in stay if each.name is not None}
    chosen: list[PlacedInstance] = []
    for profile in dict.fromkeys(each.profile for each in want):
        open_ = [each for each in want if each.profile == profile and each.name not in own]
        free = [each for each in stay if each.free and each.profile == profile]
        chosen += sorted(free, key=lambda each: (not each.obsolete, -each.protection, each.start))[: len(open_)]
    if any(each.obsolete and each not in chosen for each in stay if each.name is None):
        return
    names = [each for each in want if each.name not in own]
    for taken in itertools.permutations(names, len(chosen)):
        if all(name.profile == each.profile for name, each in zip(taken, chosen, strict=True)):
            yield {**own, **{name.name: each for name, each in zip(taken, chosen, strict=True)}}


def after(live: Sequence[PlacedInstance], want: Sequence[SliceSpec], layout: Layout) -> list[tuple[str, Placement]]:
    profiles = {each.name: each.profile for each in want}
    stay = [(each.profile, (each.start, each.size)) for each in live if each not in layout.destroy]
    return stay + [(profiles[name], placed) for name, placed in layout.create.items()]


def room(where: GpuGeometry, full: list[tuple[str, Placement]]) -> tuple[int, ...]:
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


def price(live: Sequence[PlacedInstance], want: Sequence[SliceSpec], layout: Layout) -> tuple[object, ...]:
    holds = Counter(each.protection for each in layout.destroy)
    own = {each.name for each in live if each.name is not None and each not in layout.destroy}
    starts = {name: each.start for name, each in layout.keep.items()} | {
        name: placed[0] for name, placed in layout.create.items()
    }
    moved = sum(each.start not in (None, starts[each.name]) for each in want if each.name not in own)
    return (*(holds[hold] for hold in sorted(Protection, reverse=True)), moved)


@st.composite
def situations(draw: st.DrawFn) -> tuple[GpuGeometry, list[PlacedInstance], list[SliceSpec]]:
    where = board_geometry(draw(st.sampled_from(BOARDS)))
    live: list[PlacedInstance] = []
    for _ in range(draw(st.integers(0, 5))):
        shape = draw(st.sampled_from(where.shapes))
        start, size = draw(st.sampled_from(shape.placements))
        here = [*((each.profile, (each.start, each.size)) for each in live), (shape.name, (start, size))]
        if stands(where, here):
            free, obsolete = draw(st.booleans()), draw(st.booleans())
            live.append(
                PlacedInstance(shape.name, start, size, draw(st.sampled_from(Protection)), None, free, obsolete)
            )
    want = [
        SliceSpec(f"w{number}", draw(st.sampled_from(where.shapes)).name, start=draw(st.none() | st.integers(0, 6)))
        for number in range(draw(st.integers(0, 3)))
    ]
    for number, each in enumerate(live):
        if not (each.obsolete or each.free) and draw(st.booleans()):
            name = f"k{number}"
            live[number] = PlacedInstance(each.profile, each.start, each.size, each.protection, name)
            want.append(SliceSpec(name, each.profile, start=each.start))
    return where, live, want


@given(situations())
@settings(max_examples=300, deadline=None)
def test_no_layout_is_better_than_the_solved_one(
    situation: tuple[GpuGeometry, list[PlacedInstance], list[SliceSpec]],
) -> None:
    where, live, want = situation
    every = list(layouts(where, live, want))
    found = solve(where, live, want)
    if isinstance(found, Shortage):
        assert not every
        return
    possible = [(dict(each.keep), set(each.destroy), dict(each.create)) for each in every]
    assert (dict(found.keep), set(found.destroy), dict(found.create)) in possible
    lowest = min(price(live, want, each) for each in every)
    assert price(live, want, found) == lowest
    equals = [each for each in every if price(live, want, each) == lowest]
    assert room(where, after(live, want, found)) == max(room(where, after(live, want, each)) for each in equals)


@given(situations())
@settings(max_examples=200, deadline=None)
def test_a_busy_instance_is_destroyed_only_if_no_layout_spares_it(
    situation: tuple[GpuGeometry, list[PlacedInstance], list[SliceSpec]],
) -> None:
    where, live, want = situation
    found = solve(where, live, want)
    if isinstance(found, Layout):
        busy = {each for each in found.destroy if each.protection is Protection.BUSY}
        least = min(
            len({one for one in each.destroy if one.protection is Protection.BUSY})
            for each in layouts(where, live, want)
        )
        assert len(busy) == least


@given(situations())
@settings(max_examples=200, deadline=None)
def test_placing_beside_existing_instances_destroys_none(
    situation: tuple[GpuGeometry, list[PlacedInstance], list[SliceSpec]],
) -> None:
    where, live, want = situation
    names = {each.name for each in live}
    missing = [each for each in want if each.name not in names]
    found = place_beside(where, live, missing)
    possible = [each for each in layouts(where, [*map(fixed, live)], missing) if not each.destroy]
    if found is None:
        assert not possible
    else:
        assert found in [each.create for each in possible]


def fixed(live: PlacedInstance) -> PlacedInstance:
    return PlacedInstance(live.profile, live.start, live.size, Protection.BUSY)


@pytest.mark.parametrize(
    ("profiles", "places"),
    [
        (["3g.20gb", "4g.20gb"], [(4, 4), (0, 4)]),
        (["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"], [(4, 4), (0, 2), (2, 1), (3, 1)]),
        (["1g.5gb", "2g.10gb", "4g.20gb"], [(6, 1), (4, 2), (0, 4)]),
        (["3g.20gb", "2g.10gb", "2g.10gb"], [(4, 4), (0, 2), (2, 2)]),
    ],
)
def test_the_order_of_creation_does_not_decide_what_fits(profiles: list[str], places: list[Placement]) -> None:
    """First fit fails on all of these, and largest first on two of them."""
    found = solve(A100, [], wanted(*profiles))
    assert isinstance(found, Layout)
    assert [found.create[each.name] for each in wanted(*profiles)] == places


@pytest.mark.parametrize(
    ("profiles", "resource", "fitting"),
    [
        (["1g.10gb"] * 4 + ["1g.5gb"] * 3, "memory slices 11/8", ("s0", "s1", "s2", "s3")),
        (["7g.40gb", "1g.5gb"], "memory slices 9/8 and compute slices 8/7", ("s0",)),
        (["1g.5gb+me", "1g.5gb+me"], "instances of 1g.5gb+me 2/1", ("s0",)),
        (["4g.20gb", "2g.10gb", "1g.5gb", "1g.5gb+me"], "compute slices 8/7", ("s0", "s1", "s2")),
    ],
)
def test_a_shortage_names_the_resource(profiles: list[str], resource: str, fitting: tuple[str, ...]) -> None:
    rest = tuple(f"s{number}" for number in range(len(profiles)) if f"s{number}" not in fitting)
    assert solve(A100, [], wanted(*profiles)) == Shortage(resource, fitting, rest)


@pytest.mark.parametrize(
    ("board", "profiles", "resource"),
    [
        ("A30", ["1g.6gb+me", "2g.12gb+me"], "JPEG engines 2/1 and optical flow engines 2/1"),
        ("RTX-PRO-6000", ["1g.24gb+me.all", "1g.24gb"], MEDIA),
        ("RTX-PRO-6000", ["2g.48gb+me.all", "1g.24gb+me"], f"{MEDIA} and optical flow engines 2/1"),
        ("RTX-PRO-6000", ["2g.48gb+me.all", "2g.48gb-me"], ""),
        ("H100-SXM5-80GB", ["1g.10gb+me", *["1g.10gb"] * 6], ""),
    ],
)
def test_media_engines_are_counted(board: str, profiles: list[str], resource: str) -> None:
    found = solve(named(board), [], wanted(*profiles))
    assert (found.resource if isinstance(found, Shortage) else "") == resource


def test_a_layout_names_what_would_be_short_if_busy_instances_stayed() -> None:
    busy = PlacedInstance("3g.20gb", 0, 4, Protection.BUSY)
    found = solve(A100, [busy], wanted("4g.20gb", "3g.20gb"))
    assert isinstance(found, Layout)
    assert (found.destroy, found.short) == ((busy,), "memory slices 12/8 and compute slices 10/7")
    here = [
        PlacedInstance("1g.5gb", 1, 1, Protection.BUSY),
        PlacedInstance("1g.5gb", 5, 1, Protection.IDLE, obsolete=True),
    ]
    found = solve(A100, here, wanted("4g.20gb"))
    assert isinstance(found, Layout)
    assert found.short == "a placement for 4g.20gb"


def test_of_equal_instances_the_serving_one_becomes_the_desired_slice() -> None:
    """Two managed ones under other names, one desired: the one on which a container runs stays."""
    idle = PlacedInstance("1g.5gb", 0, 1, Protection.IDLE, free=True, obsolete=True)
    serving = PlacedInstance("1g.5gb", 5, 1, Protection.SERVING, free=True, obsolete=True)
    found = solve(A100, [idle, serving], wanted("1g.5gb"))
    assert found == Layout({"s0": serving}, (idle,), {})


def test_a_busy_neighbour_stays_while_the_idle_one_is_replaced() -> None:
    busy = PlacedInstance("4g.20gb", 0, 4, Protection.BUSY, "s0")
    idle = PlacedInstance("2g.10gb", 4, 2, obsolete=True)
    found = solve(A100, [busy, idle], wanted("4g.20gb", "1g.5gb", "1g.5gb"))
    assert isinstance(found, Layout)
    assert found.destroy == (idle,)
    assert {start for start, _ in found.create.values()} <= {4, 5, 6}


def test_slices_get_their_preferred_start() -> None:
    order: Mapping[str, int] = {f"s{number}": 6 - number for number in range(7)}
    found = solve(A100, [], [SliceSpec(name, "1g.5gb", start=start) for name, start in order.items()])
    assert isinstance(found, Layout)
    assert {name: start for name, (start, _) in found.create.items()} == order
