"""The scheduler of hosts (limits, pauses, silent hosts) and the queue of a host (lanes)."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from resolver.transfer.queue import SILENCE, HostQueue, HostScheduler, HostState, QueuedTask

CAPS = {"ftp": 2, "http": 6, "file": None}
MANY = 20


def cap_of(scheme: str, waiting: int) -> int | None:
    return CAPS[scheme]


def cap_of_many(scheme: str, waiting: int) -> int:
    return 4 if waiting >= MANY else 2


def fill(hosts: HostScheduler[str], host: str, scheme: str, count: int) -> list[QueuedTask[str]]:
    """Add `count` tasks and return the tasks that the scheduler starts."""
    for number in range(count):
        hosts.add(host, scheme, f"{host}{number}")
    started = [hosts.take(0) for _ in range(count)]
    return [item for item in started if item is not None]


def test_host_limit_is_that_of_scheme() -> None:
    assert len(fill(HostScheduler(cap_of), "a", "ftp", 9)) == 2
    assert len(fill(HostScheduler(cap_of), "a", "http", 9)) == 6
    assert len(fill(HostScheduler(cap_of), "", "file", 9)) == 9


def test_host_limit_rises_while_many_tasks_wait() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of_many)
    burst = fill(hosts, "a", "ftp", 2)
    for number in range(MANY - 1):
        hosts.add("a", "ftp", str(number))
    assert hosts.take(0) is None
    hosts.add("a", "ftp", "one more")
    third = hosts.take(0)
    assert third is not None  # the number of waiting tasks is below the threshold again
    assert hosts.take(0) is None
    for number in range(2):
        hosts.add("a", "ftp", f"and {number}")
    fourth = hosts.take(0)
    assert fourth is not None
    burst += [third, fourth]
    hosts.add("a", "ftp", "beyond")
    assert hosts.take(0) is None
    for task in burst:
        hosts.end(task, 0, succeeded=True)
    assert [hosts.take(0) is None for _ in range(3)] == [False, False, True]


def test_push_back_ends_raised_limit() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of_many)
    for number in range(2 * MANY):
        hosts.add("a", "ftp", str(number))
    burst = [hosts.take(0) for _ in range(4)]
    assert burst[3] is not None
    hosts.push_back(burst[3], 0)
    for task in burst:
        assert task is not None
        hosts.end(task, 0, succeeded=True)
    assert [hosts.take(0) is None for _ in range(3)] == [False, False, True]


def test_schemes_of_host_share_limit() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    assert len(fill(hosts, "a", "http", 2)) == 2
    hosts.add("a", "ftp", "one")
    assert hosts.take(0) is None


def test_push_back_halves_limit_once_per_burst() -> None:
    hosts: HostScheduler[str] = HostScheduler(lambda scheme, waiting: 8)
    burst = fill(hosts, "a", "ftp", 8)
    for task in burst[4:]:
        hosts.push_back(task, 0)
    assert hosts.cap("a", "ftp") == 4
    hosts.push_back(burst[4], 0)  # a second push-back, after the first limit was lowered
    assert hosts.cap("a", "ftp") == 2


def test_paused_host_starts_no_task() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    (task,) = fill(hosts, "a", "http", 1)
    hosts.add("a", "http", "next")
    hosts.add("b", "http", "other")
    hosts.push_back(task, 0, 30.0)
    hosts.put_back(task, 0)
    other = hosts.take(0)
    assert other is not None
    assert other.task == "other"
    assert hosts.take(0) is None
    assert hosts.ready_at() == 30
    assert hosts.take(29.9) is None
    first = hosts.take(30)
    assert first is not None
    assert first.task == "a0"


def test_success_raises_limit_slowly() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    burst = fill(hosts, "a", "http", 6)
    hosts.push_back(burst[0], 0)
    caps = []
    for number in range(60):
        hosts.end(burst.pop(), 0, succeeded=True)
        hosts.add("a", "http", str(number))
        while (started := hosts.take(0)) is not None:
            burst.append(started)
        caps.append(hosts.cap("a", "http"))
    assert caps[18:21] == [3, 4, 4]
    assert caps[-1] == 6
    assert len(burst) == 6


def test_rate_limits_starts_per_second() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of, rate=0.5)
    for host in "ab":
        for number in range(2):
            hosts.add(host, "http", f"{host}{number}")
    now, started = 0.0, []
    while hosts.waiting:
        while (task := hosts.take(now)) is not None:
            started.append((now, task.task))
        now = hosts.ready_at() or now
    assert started == [(0, "a0"), (0, "b0"), (2, "a1"), (2, "b1")]


def test_put_back_tasks_keep_their_order() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    one, two = fill(hosts, "a", "ftp", 2)
    hosts.add("a", "ftp", "three")
    hosts.put_back(two, 0)
    hosts.put_back(one, 0)
    hosts.add("a", "ftp", "four")
    order = []
    while (task := hosts.take(0)) is not None:
        order.append(task.task)
        hosts.end(task, 0, succeeded=True)
    assert order == ["a0", "a1", "three", "four"]


def test_idle_host_is_forgotten() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of, rate=1.0)
    for number in range(1_000):
        hosts.add(f"h{number}", "http", "")
        task = hosts.take(number * 2)
        assert task is not None
        hosts.end(task, number * 2, succeeded=True)
    assert len(hosts._states) <= 2
    assert len(hosts._paused) <= 2


def test_silent_task_lends_slot_until_data_arrives() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    mute = fill(hosts, "mute", "ftp", 1)
    lively = fill(hosts, "lively", "ftp", 2)
    hosts.add("mute", "ftp", "next")
    hosts.check_progress(SILENCE - 1, [])
    assert hosts.silent_count == 0
    hosts.check_progress(SILENCE, lively[:1])
    assert hosts.silent_count == 1
    assert hosts.take(SILENCE) is None
    hosts.check_progress(SILENCE + 1, mute)
    assert hosts.silent_count == 0
    following = hosts.take(SILENCE + 1)
    assert following is not None
    assert following.task == "next"


def test_ended_task_returns_lent_slot() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    one, _ = fill(hosts, "a", "ftp", 2)
    hosts.add("a", "ftp", "three")
    hosts.check_progress(SILENCE, [])
    assert hosts.silent_count == 2
    hosts.end(one, 7, succeeded=False)
    assert hosts.silent_count == 0
    three = hosts.take(7)
    assert three is not None
    hosts.add("b", "ftp", "late")
    assert hosts.take(8) is not None
    hosts.check_progress(7 + SILENCE, [])
    assert hosts.silent_count == 2


def test_local_tasks_are_never_silent() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    fill(hosts, "", "file", 3)
    hosts.check_progress(99, [])
    assert hosts.silent_count == 0


Load = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 8), min_size=1)


@given(hang=Load, live=Load, most=st.integers(1, 6), chance=st.randoms(use_true_random=False))
def test_silent_hosts_do_not_block_live_hosts(
    hang: dict[str, int], live: dict[str, int], most: int, chance: random.Random
) -> None:
    """Simulate a batch: all tasks of live hosts finish although tasks of silent hosts never finish.

    This holds as long as the silent hosts can hold fewer than twice the existing slots.
    """
    mute = {f"hangs {name}": count for name, count in hang.items()}
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    order = [name for name, count in (*mute.items(), *live.items()) for _ in range(count)]
    chance.shuffle(order)
    for name in order:
        hosts.add(name, "ftp", name)
    under_way: list[QueuedTask[str]] = []
    now, done = 0.0, list[str]()
    for _ in range(4 * len(order) + 8):
        while len(under_way) - min(hosts.silent_count, most) < most and (task := hosts.take(now)) is not None:
            under_way.append(task)
        assert len(under_way) <= 2 * most
        assert all(sum(item.task == name for item in under_way) <= 2 for name in {*mute, *live})
        living = [task for task in under_way if task.task in live]
        if living:
            ends = chance.choice(living)
            under_way.remove(ends)
            done.append(ends.task)
            hosts.end(ends, now, succeeded=True)
        now = hosts.next_check_at(now)
        hosts.check_progress(now, living)
    held = sum(min(2, count) for count in mute.values())
    if held < 2 * most:
        assert sorted(done) == sorted(name for name in order if name in live)
    assert set(done) <= set(live)


Event = st.tuples(
    st.sampled_from(["add", "take", "end", "fail", "push", "back", "wait", "look"]),
    st.sampled_from(["a", "b", "c", ""]),
    st.sampled_from(["ftp", "http"]),
    st.integers(0, 20),
)


@given(st.lists(Event, max_size=120), st.sampled_from([None, 0.5, 3.0]))
def test_limits_hold_and_tasks_start_in_order(
    events: list[tuple[str, str, str, int]], rate: float | None
) -> None:
    hosts: HostScheduler[int] = HostScheduler(cap_of, rate=rate)
    under_way: list[QueuedTask[int]] = []
    added: dict[str, list[int]] = {}
    started: dict[str, list[int]] = {}
    now, count, again = 0.0, 0, set[int]()

    def take() -> bool:
        task = hosts.take(now)
        if task is None:
            return False
        place = task.state.name
        beside = sum(item.state is task.state for item in under_way)
        if place:
            cap = hosts.cap(place, task.scheme)
            assert cap is not None
            assert beside < cap <= (CAPS[task.scheme] or 0)
        under_way.append(task)
        if task.task not in again:
            started.setdefault(place, []).append(task.task)
        return True

    for what, host, scheme, number in events:
        if what == "add":
            scheme = scheme if host else "file"
            hosts.add(host, scheme, count)
            added.setdefault(host, []).append(count)
            count += 1
        elif what == "take":
            take()
        elif what == "wait":
            now += number / 4
        elif what == "look":
            hosts.check_progress(now, under_way[:number])
        elif under_way:
            task = under_way[number % len(under_way)]
            if what == "push":
                hosts.push_back(task, now, number / 8)
                continue
            under_way.remove(task)
            if what == "back":
                again.add(task.task)
                hosts.put_back(task, now)
            else:
                hosts.end(task, now, succeeded=what == "end")
    while hosts.waiting or under_way:
        before = hosts.waiting
        while take():
            pass
        if under_way:
            hosts.end(under_way.pop(0), now, succeeded=True)
        elif hosts.waiting == before:
            ready = hosts.ready_at()
            assert hosts.silent_count == 0
            assert ready is not None, "what waits for nothing starts"
            assert ready > now
            now = ready
    assert started == added
    assert hosts.waiting == 0


def test_pauses_are_reported_and_applied() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of, rate=2.0)
    hosts.add("a", "http", "first")
    hosts.add("a", "http", "second")
    hosts.add("b", "http", "third")
    first = hosts.take(10.0)
    assert first is not None
    assert hosts.pauses(10.0) == {"a": 0.5}
    hosts.push_back(first, 10.0, pause=30.0)
    assert hosts.pauses(15.0) == {"a": 25.0}

    later: HostScheduler[str] = HostScheduler(cap_of)
    later.pause_until("a", 25.0)
    later.add("a", "http", "second")
    later.add("b", "http", "third")
    third = later.take(0.0)
    assert third is not None
    assert third.task == "third"
    assert later.take(24.9) is None
    assert later.take(25.0) is not None
    assert later.pauses(25.0) == {}


def test_drop_removes_waiting_tasks_only() -> None:
    hosts: HostScheduler[str] = HostScheduler(cap_of)
    (one, two) = fill(hosts, "a", "ftp", 9)
    hosts.clear()
    assert hosts.waiting == 0
    hosts.end(one, 1.0, succeeded=True)
    assert hosts.take(1.0) is None
    hosts.put_back(two, 2.0)
    again = hosts.take(2.0)
    assert again is not None
    assert again.task == two.task


# The order of a host's tasks: without lanes the order of arrival, with lanes all tasks of one lane
# consecutively.


def make_task(number: int, lane: str | None) -> QueuedTask[None]:
    return QueuedTask(HostState("h"), "ftp", None, number, lane)


def line_of(*lanes: str | None) -> HostQueue[None]:
    line: HostQueue[None] = HostQueue()
    for number, lane in enumerate(lanes):
        line.add(make_task(number, lane))
    return line


def test_queue_without_lanes_keeps_order() -> None:
    line = line_of(None, None, None)
    first = line.take()
    line.leave(first)
    assert [first.number, line.take().number, line.take().number] == [0, 1, 2]


def test_queue_starts_with_different_lanes() -> None:
    line = line_of(*"aaabbbcc")
    assert "".join(str(line.take().lane) for _ in range(5)) == "abcab"


def test_queue_continues_lane_of_ended_task() -> None:
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


def test_queue_continues_lane_with_later_task() -> None:
    """A directory was listed, and its files are added to the queue later."""
    line = line_of(*"ab")
    listed = line.take()
    line.leave(listed)
    assert line.first.lane == "b"
    line.add(make_task(2, "a"))
    assert line.take().number == 2


def test_put_back_task_keeps_order_in_lane() -> None:
    line = line_of(*"aaa")
    first, second = line.take(), line.take()
    for item in (second, first):
        line.put_back(item)
        line.leave(item)
    assert [line.take().number for _ in range(3)] == [0, 1, 2]


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "leave", "back"]), st.integers(0, 9)), max_size=80))
def test_queue_yields_all_tasks_in_order_of_lane(events: list[tuple[str, int]]) -> None:
    line: HostQueue[None] = HostQueue()
    count, waiting, under_way, came = 0, 0, list[QueuedTask[None]](), list[QueuedTask[None]]()

    def take() -> None:
        expected = line.first
        came.append(line.take())
        under_way.append(came[-1])
        assert came[-1] is expected

    for what, number in events:
        if what == "add":
            line.add(make_task(count, [None, "a", "b", "c"][number % 4]))
            count += 1
        elif what == "take" and line.count:
            take()
        elif under_way and what in ("leave", "back"):
            item = under_way.pop(number % len(under_way))
            if what == "back":
                line.put_back(item)
                came.remove(item)
            line.leave(item)
        waiting = count - len(came)
        assert line.count == waiting
    while line.count:
        take()
    assert sorted(item.number for item in came) == list(range(count))
    if all(what != "back" for what, _ in events):
        for lane in (None, "a", "b", "c"):
            numbers = [item.number for item in came if item.lane == lane]
            assert numbers == sorted(numbers)
