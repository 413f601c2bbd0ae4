"""The slices for a cluster: each request once, in its host's order, no host in two concurrent slices."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resolver
from resolver import LocalError, SaveRequest
from resolver.bulk.messages import BulkRequest, RequestSlice
from resolver.bulk.plan import BulkPlan, assign_path, choose_partition, make_request
from resolver.bulk.queue import MAX_REQUESTS, BulkScheduler, HostPace
from resolver.transfer.verification import Checksum
from tests.fresh import run_alone

POLITE = HostPace(rate=2.0)


def item(host: str, number: int) -> BulkRequest:
    return BulkRequest(f"http://{host}/{number}", f"{host}/{number}")


def host_of(each: BulkRequest) -> str:
    return each.path.rpartition("/")[0]


def filled(
    counts: dict[str, int], pace: HostPace = POLITE, *, partitions: int = 1_024, box: float = 60.0
) -> BulkPlan:
    """Return a plan with the requests of all hosts in turn, as in a shuffled list."""
    plan = BulkPlan(pace, partitions=partitions, max_seconds=box)
    for number in range(max(counts.values(), default=0)):
        for host, count in counts.items():
            if number < count:
                plan.add(item(host, number), host, "http")
    return plan


def take_slice(plan: BulkPlan) -> RequestSlice:
    slice = plan.take()
    assert slice is not None
    return slice


def all_of(plan: BulkPlan) -> list[RequestSlice]:
    """Take all slices, and end each as predicted before the next."""
    result = []
    while (slice := plan.take()) is not None:
        result.append(slice)
        plan.end(slice, (), slice.seconds)
    return result


def cut(slice: RequestSlice, max_count: dict[str, int]) -> tuple[list[BulkRequest], list[BulkRequest]]:
    """Split a slice into begun requests, with a maximum per host, and the others."""
    begun, rest = list[BulkRequest](), list[BulkRequest]()
    counts = defaultdict[str, int](int)
    for each in slice.items:
        counts[host_of(each)] += 1
        (begun if counts[host_of(each)] <= max_count.get(host_of(each), MAX_REQUESTS) else rest).append(each)
    return begun, rest


HOSTS = st.dictionaries(st.sampled_from([f"h{each}.example" for each in range(12)]), st.integers(1, 40))
PACES = st.builds(
    HostPace,
    rate=st.none() | st.floats(0.05, 50),
    per_host=st.none() | st.integers(1, 8),
    request_seconds=st.floats(0.01, 30),
    at_once=st.integers(1, 80),
)


@given(HOSTS, PACES, st.integers(1, 6), st.floats(1, 60), st.data())
def test_plan_yields_each_request_once_in_host_order_without_host_overlap(
    counts: dict[str, int], pace: HostPace, partitions: int, box: float, data: st.DataObject
) -> None:
    """This holds for any concurrent slices, any order of their ends, and any requests given back."""
    done = defaultdict[str, list[BulkRequest]](list)
    under_way: list[RequestSlice] = []
    with filled(counts, pace, partitions=partitions, box=box) as plan:
        while True:
            slice = plan.take() if data.draw(st.booleans()) or not under_way else None
            if slice is not None:
                assert slice.items
                under_way.append(slice)
                busy = [{host_of(each) for each in one.items} for one in under_way]
                assert sum(map(len, busy)) == len(set[str]().union(*busy))
            elif under_way:
                ended = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
                begun, rest = cut(
                    ended, data.draw(st.dictionaries(st.sampled_from(list(counts)), st.integers(0, 9)))
                )
                for each in begun:
                    done[host_of(each)].append(each)
                plan.end(ended, rest, data.draw(st.floats(0, 200)))
            elif plan.scheduler.waiting == 0:
                break
        assert plan.take() is None
    assert done == {host: [item(host, number) for number in range(count)] for host, count in counts.items()}


@given(HOSTS, PACES, st.integers(1, 6), st.floats(1, 60))
def test_slice_duration_is_bounded_by_the_box(
    counts: dict[str, int], pace: HostPace, partitions: int, box: float
) -> None:
    """The exception is a single request longer than the box: each slice has at least one."""
    with filled(counts, pace, partitions=partitions, box=box) as plan:
        for each in all_of(plan):
            longest = max(
                pace.request_seconds, pace.compute_interval(6 if pace.per_host is None else pace.per_host)
            )
            assert each.seconds <= max(box, longest) + 1e-6
            assert len(each.items) <= MAX_REQUESTS


@given(HOSTS, st.integers(1, 6))
def test_plan_takes_partition_with_most_work_first(counts: dict[str, int], partitions: int) -> None:
    with filled(counts, partitions=partitions) as plan:
        rest = dict(counts)
        needs = [
            max((rest[host] for host in rest if choose_partition(host, partitions) == each), default=0)
            for each in range(partitions)
        ]
        result = []
        while (slice := plan.take()) is not None:
            result.append(needs[slice.partition])
        assert result == sorted((each for each in needs if each), reverse=True)


def test_partition_of_host_is_stable() -> None:
    """The files of other runs are found by these numbers, so that they must never change."""
    partitions = {"example.org": 437, "ftp.example.org": 292, "[::1]": 94}
    assert {host: choose_partition(host) for host in partitions} == partitions
    program = (
        "import sys; from resolver.bulk.plan import choose_partition; print(choose_partition(sys.argv[1]))"
    )
    assert int(run_alone(program, "example.org")) == partitions["example.org"]


def test_slice_items_are_in_order_of_earliest_start() -> None:
    with filled({"a.example": 3, "b.example": 1, "c.example": 2}, partitions=1) as plan:
        slice = take_slice(plan)
        assert [each.path for each in slice.items] == [
            *("a.example/0", "b.example/0", "c.example/0", "a.example/1", "c.example/1", "a.example/2")
        ]
        assert (slice.label, slice.is_last, slice.number) == ("a.example +2", True, 0)


def test_slower_host_has_its_requests_further_apart() -> None:
    """Within a minute 30 requests of a.example were begun, and all 360 of b.example."""
    with filled({"a.example": 900, "b.example": 900}, HostPace(), partitions=1) as plan:
        slice = take_slice(plan)
        begun, rest = cut(slice, {"a.example": 30})
        assert len(begun) == 390
        plan.end(slice, rest, 60.0)
        hosts = [host_of(each) for each in take_slice(plan).items]
        assert hosts.count("a.example") == 30
        assert hosts[:26] == ["a.example", *["b.example"] * 12, "a.example", *["b.example"] * 12]


def test_slice_without_room_reduces_every_host() -> None:
    """But at least as many as it can have in flight; the hosts that need longest then go first."""
    with filled(
        {f"h{each}.example": 900 for each in range(10)}, HostPace(10.0, request_seconds=0.1), partitions=1
    ) as plan:
        hosts = Counter(host_of(each) for each in take_slice(plan).items)
    assert set(hosts.values()) == {200}
    assert len(hosts) == 10
    with filled({f"h{each}.example": 70 for each in range(60)}, partitions=1) as plan:
        hosts = Counter(host_of(each) for each in take_slice(plan).items)
    assert Counter(hosts.values()) == {62: 32, 16: 1}


def test_host_interval_respects_slice_concurrency() -> None:
    assert HostPace(at_once=2).compute_interval(6) == 0.5


def test_scheduler_urgency_counts_all_requests_of_a_partition() -> None:
    """100 requests of one host take 50 s, and one for each of 5,000 hosts takes 78 s, 64 concurrently."""
    turns = BulkScheduler(POLITE, partitions=2)
    one = turns.add_host(0, 6)
    for _ in range(100):
        turns.add(one)
    for _ in range(5_000):
        turns.add(turns.add_host(1, 6))
    share = turns.take()
    assert share is not None
    assert share.partition == 1


def test_slice_of_large_host_follows_its_rate() -> None:
    with filled({"large.example": 300, "small.example": 5}, partitions=1) as plan:
        slices = all_of(plan)
    sizes = [(each.number, each.is_last, each.label, len(each.items), each.seconds) for each in slices]
    assert sizes == [
        (0, False, "large.example +1", 125, 60.0),
        (1, False, "large.example", 120, 60.0),
        (2, True, "large.example", 60, 30.0),
    ]


def test_plan_returns_requests_unchanged() -> None:
    """Including options, bytes that are not text, and the same URL twice."""
    given_in = [
        BulkRequest(
            "ftp://u:p@a.example/x", "a/x", {"size": 3, "mirrors": ["http://b.example/"], "checksum": None}
        ),
        BulkRequest("ftp://a.example/%ff\u2028", "a/y"),
        BulkRequest("ftp://a.example/%ff\u2028", "a/y"),
    ]
    with BulkPlan(POLITE) as plan:
        for each in given_in:
            plan.add(each, "a.example", "ftp")
        slice = take_slice(plan)
        assert list(slice.items) == given_in
        plan.end(slice, slice.items[2:], 1.0)
        again = take_slice(plan)
        assert list(again.items) == given_in[2:]


def test_lost_slice_is_repeated_without_learning() -> None:
    with filled({"a.example": 200}) as plan:
        lost = take_slice(plan)
        plan.end(lost, lost.items)
        again = take_slice(plan)
        assert again == lost._replace(number=1)


def test_plan_learns_host_speed_from_results() -> None:
    """Without a rate the plan assumes 6 concurrent http requests of 1 s each: 360 in a slice."""
    with filled({"a.example": 2_000}, HostPace()) as plan:
        sizes = []
        for begun, seconds in ((360, 90.0), (720, 60.0), (100, 70.0), (100, 60.0), (50, 60.0)):
            slice = take_slice(plan)
            sizes.append(len(slice.items))
            plan.end(slice, slice.items[begun:], seconds)
    assert sizes == [
        360,  # took longer than predicted, but all were begun: perhaps because of another host
        720,  # twice as many are tried, and end within a minute
        720,  # this is now the known rate; of these, 100 are begun within their minute
        100,  # exactly as many
        100,  # and once more; a learned rate holds until it is refuted
    ]


def test_skipped_requests_need_few_slices_and_teach_nothing() -> None:
    """A host still needs longest though another run has done 20,000 of its 30,000 requests."""
    with filled({"a.example": 30_000, "b.example": 9_000}) as plan:
        sizes = []
        done = 20_000
        for _ in range(20):
            slice = take_slice(plan)
            assert slice.label == "a.example"
            assert slice.seconds <= 60.0
            sizes.append(len(slice.items))
            idle = min(done, len(slice.items))
            count = min(120, len(slice.items) - idle)
            done -= idle
            plan.end(slice, slice.items[idle + count :], 60.0 if count else 0.5, idle=idle)
    assert sizes == [120] + [1_920] * 12 + [120] * 7


def test_fast_answers_do_not_exceed_the_rate() -> None:
    with filled({"a.example": 1_000}, HostPace(rate=2.0)) as plan:
        for _ in range(4):
            slice = take_slice(plan)
            assert len(slice.items) == 120
            plan.end(slice, (), 0.01)


def test_hosts_without_a_turn_reduce_the_next_slice() -> None:
    """They were not slow: the slice had no room for them."""
    with filled({f"h{each}.example": 2 for each in range(400)}, HostPace(at_once=4), partitions=1) as plan:
        slice = take_slice(plan)
        assert len(slice.items) == 240
        plan.end(slice, slice.items[60:], 60.0)
        slice = take_slice(plan)
        assert len(slice.items) == 60


def test_host_pace_follows_strictest_scheme() -> None:
    with BulkPlan(HostPace()) as plan:
        plan.add(item("a.example", 0), "a.example", "http")
        plan.add(item("b.example", 0), "b.example", "gopher")
        assert plan.find_largest(9) == [("b.example", 1, 1 / 2), ("a.example", 1, 1 / 6)]
        plan.add(item("a.example", 1), "a.example", "gopher")
        plan.add(item("a.example", 2), "a.example", "http")
        assert plan.find_largest(1) == [("a.example", 3, 3 / 2)]
    with BulkPlan(HostPace(per_host=1)) as plan:
        plan.add(item("a.example", 0), "a.example", "http")
        assert plan.bound == 1.0


def test_files_are_not_bound_by_a_host() -> None:
    with BulkPlan(HostPace(rate=1.0)) as plan:
        for number in range(200):
            plan.add(BulkRequest(f"file:///{number}", f"{number}"), "", "file")
        assert (plan.hosts, plan.bound, plan.find_largest(1), plan.scheduler.histogram()) == (0, 0.0, [], [])
        slices = []
        while (slice := plan.take()) is not None:
            slices.append(slice)
        assert len({each.partition for each in slices}) > 100
        assert {each.label for each in slices} == {"files"}


def test_plan_reports_figures() -> None:
    with filled({"a.example": 300, "b.example": 7, "c.example": 10, "d.example": 9}) as plan:
        assert (plan.requests, plan.hosts, plan.scheduler.waiting) == (326, 4, 326)
        assert plan.bound == 150.0
        assert plan.find_largest(2) == [("a.example", 300, 150.0), ("c.example", 10, 5.0)]
        assert plan.scheduler.histogram() == [(1, 2), (10, 1), (100, 1)]
        slice = take_slice(plan)
        assert (plan.scheduler.waiting, plan.urgency(slice)) == (206, 150.0)
        all_of(plan)
        assert plan.scheduler.waiting == 180
        plan.end(slice, (), 60.0)
        all_of(plan)
        assert plan.scheduler.waiting == 0
        assert (plan.requests, plan.bound) == (326, 150.0)


def test_plan_accepts_requests_while_slices_are_in_flight() -> None:
    with filled({"a.example": 1}) as plan:
        slice = take_slice(plan)
        assert plan.take() is None
        plan.add(item("a.example", 1), "a.example", "http")
        assert plan.take() is None
        plan.end(slice, (), 1.0)
        assert [each.items for each in all_of(plan)] == [(item("a.example", 1),)]


def test_partition_with_new_requests_is_queued_once() -> None:
    """This holds whether or not the addition changes the time that the partition needs."""
    with filled({"a.example": 240}, partitions=1) as plan:
        plan.end(take_slice(plan), (), 60.0)
        plan.add(item("b.example", 0), "b.example", "http")
        slice = take_slice(plan)
        assert plan.take() is None
        assert slice.is_last
    with filled({"a.example": 10, "b.example": 100}) as plan:
        other = take_slice(plan)
        for number in range(10, 60):
            plan.add(item("a.example", number), "a.example", "http")
        plan.end(take_slice(plan), (), 30.0)
        assert plan.take() is None
        plan.end(other, (), 50.0)
        assert plan.take() is None


def test_end_of_unknown_slice_raises() -> None:
    with filled({"a.example": 200}) as plan:
        slice = take_slice(plan)
        with pytest.raises(ValueError, match=r"^1 .* slice 0$"):
            plan.end(slice, [item("b.example", 0)], 1.0)
        plan.end(slice, (), 60.0)
        with pytest.raises(ValueError, match="slice 0 of partition"):
            plan.end(slice, (), 60.0)


def test_plan_finds_hosts_evicted_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolver.bulk.queue._MAX_CACHED", 3)
    with filled({f"h{each}.example": 2 for each in range(20)}) as plan:
        assert plan.hosts == 20
        assert sum(len(each.items) for each in all_of(plan)) == 40


def test_closed_plan_is_a_local_error() -> None:
    with filled({"a.example": 1}) as plan:
        pass
    with pytest.raises(LocalError, match="temporary database"):
        plan.take()


# The path of a request depends on its URL alone.

SHA1 = "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"


@pytest.mark.parametrize(
    ("url", "host", "scheme", "name"),
    [
        ("http://h.example/a/b.txt", "h.example", "http", "-b.txt"),
        ("ftp://H.example:2121/pub/", "h.example", "ftp", "-index"),
        ("gopher://h.example/00/x%2Fy", "h.example", "gopher", ""),
        ("file:///etc/hostname", "", "file", "-hostname"),
        ("news:a@h.example", "news:", "news", "-a@h.example"),
        ("no URL", "", "", ""),
    ],
)
def test_assign_path_derives_path_from_host_and_url(url: str, host: str, scheme: str, name: str) -> None:
    request = assign_path(url)
    assert (request.host, request.scheme) == (host, scheme)
    directory, part, last = request.item.path.split("/")
    assert directory == (host.removesuffix(":") or "local")
    assert last.startswith(part)
    assert last.endswith(name)
    assert assign_path(url) == request


def test_assign_path_path_is_independent_of_password() -> None:
    one, other = assign_path("ftp://me:secret@h.example/a"), assign_path("ftp://me:other@h.example/a")
    assert one.item.path == other.item.path
    assert one.item.url == "ftp://me:secret@h.example/a"


def test_assign_path_drops_long_and_invalid_names() -> None:
    for url in (f"http://h.example/{'x' * 200}", "http://h.example/."):
        assert len(assign_path(url).item.path.rpartition("/")[2]) == 20


def test_assign_path_keeps_options_through_pickling() -> None:
    request = SaveRequest(
        "http://h.example/a",
        "mine/a",
        mirrors=("http://m.example/a",),
        checksum=Checksum.parse(SHA1),
        size=0,
        origin="derived",
        referrer=("http://r.example/", None),
    )
    item = pickle.loads(pickle.dumps(assign_path(request).item))
    assert make_request(item) == SaveRequest(
        "http://h.example/a",
        "mine/a",
        mirrors=("http://m.example/a",),
        checksum=SHA1,
        size=0,
        origin="derived",
        referrer=("http://r.example/", None),
    )
    assert make_request(assign_path(resolver.parse("http://h.example/a")).item).url == "http://h.example/a"
