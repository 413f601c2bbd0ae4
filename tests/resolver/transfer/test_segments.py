"""Planning of segments, sets of ranges, and the check whether two locations serve the same object."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Validators
from resolver.files.part_state import (
    Ranges,
    clip_ranges,
    count_bytes,
    join_ranges,
    measure_prefix,
    parse_ranges,
)
from resolver.transfer.segments import (
    MIN_OPEN_SEGMENT,
    MIN_SEGMENT,
    SegmentPlan,
    can_detect_change,
    find_missing,
    is_same,
)

WHEN, THEN = datetime(1994, 11, 6, tzinfo=UTC), datetime(1994, 11, 7, tzinfo=UTC)


@given(
    size=st.integers(0, 200 * MIN_SEGMENT),
    count=st.integers(1, 16),
    held=st.lists(
        st.tuples(st.integers(0, 200 * MIN_SEGMENT), st.integers(0, 200 * MIN_SEGMENT)), max_size=5
    ),
    fails=st.lists(st.integers(0, 3), max_size=20),
    stops=st.booleans(),
)
def test_plan_requests_each_byte_once(
    size: int, count: int, held: list[tuple[int, int]], fails: list[int], stops: bool
) -> None:
    whole = clip_ranges(join_ranges(held), size)
    pieces = SegmentPlan(size, whole, count)
    came = list(whole)
    while (piece := pieces.take(stops=stops)) is not None:
        begin, end = piece
        part = fails.pop() if fails else 3
        reached = begin + (end - begin) * part // 3
        assert all(reached <= first or behind <= begin for first, behind in came if first < behind)
        came.append((begin, reached))
        pieces.give_back(reached, end)
    assert not pieces
    assert join_ranges(came) == (((0, size),) if size else ())


def test_plan_segments_shrink_to_minimum() -> None:
    pieces = SegmentPlan(64 * MIN_SEGMENT, (), 4)
    sizes = []
    while (piece := pieces.take()) is not None:
        sizes.append(piece[1] - piece[0])
    assert sizes[0] == 8 * MIN_SEGMENT
    assert min(sizes) >= MIN_SEGMENT
    assert max(sizes[-4:]) < 2 * MIN_SEGMENT
    assert len(sizes) < 40


def test_plan_without_end_has_one_segment_per_connection() -> None:
    pieces = SegmentPlan(8 * MIN_OPEN_SEGMENT, (), 4)
    taken = [pieces.take(stops=False) for _ in range(5)]
    share = 2 * MIN_OPEN_SEGMENT
    assert taken == [(share * number, share * (number + 1)) for number in range(4)] + [None]
    few = SegmentPlan(3 * MIN_OPEN_SEGMENT - 1, (), 4)
    assert [few.take(stops=False), few.take(stops=False), few.take(stops=False)] == [
        (0, MIN_OPEN_SEGMENT),
        (MIN_OPEN_SEGMENT, 3 * MIN_OPEN_SEGMENT - 1),
        None,
    ]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_ranges_behave_like_sets(ranges: list[tuple[int, int]]) -> None:
    octets = {item for begin, end in ranges for item in range(begin, end)}
    result = join_ranges(ranges)
    assert parse_ranges([list(item) for item in result]) == result
    assert {item for begin, end in result for item in range(begin, end)} == octets
    assert count_bytes(result) == len(octets)
    assert measure_prefix(result) == next(item for item in range(61) if item not in octets)
    gaps = {item for begin, end in find_missing(result, 60) for item in range(begin, end)}
    assert gaps == set(range(60)) - octets
    assert count_bytes(clip_ranges(result, 30)) == len([item for item in octets if item < 30])


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        "0",
        [[0]],
        [[0, 1, 2]],
        [[0, 0]],
        [[5, 3]],
        [[-1, 3]],
        [[0, 3], [3, 4]],
        [[4, 5], [0, 3]],
        [[0, True]],
        [[0, 1.0]],
        [["0", "1"]],
        [None],
    ],
)
def test_parse_ranges_invalid_is_none(value: object) -> None:
    assert parse_ranges(value) is None


def test_parse_ranges_valid() -> None:
    whole: Ranges = ((0, 5), (7, 9))
    assert parse_ranges([[0, 5], [7, 9]]) == whole
    assert parse_ranges([]) == ()


OURS = Validators(10, WHEN, '"1"')


@pytest.mark.parametrize(
    ("there", "same", "where_proved"),
    [
        (OURS, True, True),
        (Validators(10, THEN, '"1"'), True, True),
        (Validators(10, WHEN, '"2"'), True, True),
        (Validators(10, None, '"1"'), True, True),
        (Validators(10, WHEN), True, True),
        (Validators(10, THEN, '"2"'), False, True),
        (Validators(10), False, True),
        (Validators(11, WHEN, '"1"'), False, False),
        (Validators(None, WHEN, '"1"'), False, False),
    ],
)
def test_is_same_compares_validators(there: Validators, same: bool, where_proved: bool) -> None:
    assert is_same(OURS, there, proved=False) is same
    assert is_same(OURS, there, proved=True) is where_proved


def test_is_same_without_validators_is_false() -> None:
    assert not is_same(Validators(10), Validators(10), proved=False)
    weak = Validators(10, etag='W/"1"')
    assert (is_same(weak, weak, proved=False), can_detect_change(weak)) == (False, False)
    assert not is_same(Validators(), Validators(), proved=True)


def test_can_detect_change_needs_more_than_size() -> None:
    assert [can_detect_change(known) for known in (OURS, Validators(10), Validators(None, WHEN, '"1"'))] == [
        True,
        False,
        False,
    ]
