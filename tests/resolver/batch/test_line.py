"""Which task of a host is the next: in their order without lanes, one behind the other with them."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from resolver.transfer.queue import HostQueue


class Each(NamedTuple):
    number: int
    lane: str | None


def line_of(*lanes: str | None) -> HostQueue[Each]:
    line: HostQueue[Each] = HostQueue()
    for number, lane in enumerate(lanes):
        line.add(Each(number, lane))
    return line


def test_without_lanes_they_keep_their_order() -> None:
    line = line_of(None, None, None)
    first = line.take()
    line.leave(first)
    assert [first.number, line.take().number, line.take().number] == [0, 1, 2]


def test_at_first_each_is_in_a_lane_of_its_own_as_far_as_there_are_as_many() -> None:
    line = line_of(*"aaabbbcc")
    assert "".join(str(line.take().lane) for _ in range(5)) == "abcab"


def test_behind_one_that_ended_comes_the_next_of_its_lane() -> None:
    line = line_of(*"aaabbbccdd")
    slow, quick = line.take(), line.take()
    for _ in range(2):
        line.leave(quick)
        quick = line.take()
        assert quick.lane == "b"
    line.leave(quick)
    assert line.take().lane == "c"
    line.leave(slow)
    assert line.take().lane == "a"


def test_what_ended_before_the_next_of_its_lane_was_there_is_followed_by_that() -> None:
    """A directory that was listed, and then its files."""
    line = line_of(*"ab")
    listed = line.take()
    line.leave(listed)
    assert line.first.lane == "b"
    line.add(Each(2, "a"))
    assert line.take() == (2, "a")


def test_what_is_put_back_has_its_place_in_its_lane() -> None:
    line = line_of(*"aaa")
    first, second = line.take(), line.take()
    for each in (second, first):
        line.put_back(each)
        line.leave(each)
    assert [line.take().number for _ in range(3)] == [0, 1, 2]


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "leave", "back"]), st.integers(0, 9)), max_size=80))
def test_each_comes_out_and_those_of_a_lane_in_their_order(events: list[tuple[str, int]]) -> None:
    line: HostQueue[Each] = HostQueue()
    count, waiting, under_way, came = 0, 0, list[Each](), list[Each]()

    def take() -> None:
        expected = line.first
        came.append(line.take())
        under_way.append(came[-1])
        assert came[-1] is expected

    for what, number in events:
        if what == "add":
            line.add(Each(count, [None, "a", "b", "c"][number % 4]))
            count += 1
        elif what == "take" and len(line):
            take()
        elif under_way and what in ("leave", "back"):
            each = under_way.pop(number % len(under_way))
            if what == "back":
                line.put_back(each)
                came.remove(each)
            line.leave(each)
        waiting = count - len(came)
        assert len(line) == waiting
    while len(line):
        take()
    assert sorted(each.number for each in came) == list(range(count))
    if all(what != "back" for what, _ in events):
        for lane in (None, "a", "b", "c"):
            numbers = [each.number for each in came if each.lane == lane]
            assert numbers == sorted(numbers)
