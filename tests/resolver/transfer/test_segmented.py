"""Segmented downloads: completeness despite faulty servers, resumption, limits, and the state file."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from fixtures import faulty
from fixtures.faulty import Fault, FaultyServer, Profile
from fixtures.faulty.wire import Wire
from fixtures.http import HttpServer, Page, Request, serve
from resolver import (
    Event,
    Finished,
    LimitExceeded,
    Limits,
    LocalError,
    NotFound,
    Policy,
    Progress,
    ResolveError,
    Resolver,
    RetryPolicy,
    Saved,
    Started,
    Truncated,
    TryLater,
    Warned,
)
from resolver.files import part_state
from resolver.files.directory import DirectoryHandle
from resolver.files.part_state import PartState, read_state
from resolver.files.partial_file import PartialFile
from tests.elsewhere import Elsewhere
from tests.faults.command import until

CHECKOUT = Path(__file__).parents[3]
LEAST = 4_096
OBJECT = b"".join(number.to_bytes(4, "big") for number in range(50_000))
DIGEST = f"sha256:{sha256(OBJECT).hexdigest()}"
DATED = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
LATER = ("Last-Modified", "Sun, 06 Nov 1994 08:49:38 GMT")
PAGE = Page(OBJECT, "application/octet-stream", headers=(DATED, ("ETag", '"1"')), parts=True)
PATIENT = RetryPolicy(tries=3, delay=0.0)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolver.transfer.segments.MIN_SEGMENT", LEAST)
    monkeypatch.setattr("resolver.transfer.segments.MIN_OPEN_SEGMENT", LEAST)


async def save(
    folder: Path,
    *urls: str,
    ports: tuple[int, ...] = (),
    checksum: str | None = None,
    limits: Limits | None = None,
    events: list[Event] | None = None,
    patience: RetryPolicy = PATIENT,
    segments: int = 4,
    rate: int | None = None,
) -> Saved:
    on_event = None if events is None else events.append
    policy = Policy(allow_port=frozenset(ports))
    async with Resolver(
        patience=patience, segments=segments, policy=policy, limits=limits, on_event=on_event, rate=rate
    ) as session:
        return await session.save(urls[0], folder / "it", mirrors=urls[1:], checksum=checksum)


def is_whole(folder: Path) -> bool:
    return sorted(os.listdir(folder)) == ["it"] and (folder / "it").read_bytes() == OBJECT


def ranges(server: HttpServer) -> list[str]:
    return [value for request in server.requests for value in request.values("range")]


def requested_bytes(server: HttpServer) -> int:
    """Return the total number of bytes in the ranges that the client requested."""
    asked = [item.removeprefix("bytes=").split("-") for item in ranges(server)]
    return sum(int(last) - int(first) + 1 for first, last in asked)


def rules(saved: Saved) -> list[str]:
    return [finding.rule for finding in saved.findings if finding.rule.startswith("save:")]


def state_in(folder: Path) -> PartState | None:
    directory = DirectoryHandle(str(folder), make=False)
    directory.hold()
    try:
        return read_state("it.part-state", directory)
    finally:
        directory.close()


# Successful downloads.


async def test_segments_fetch_each_byte_once(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    events: list[Event] = []
    saved = await save(tmp_path, server.url("/object"), events=events)
    assert is_whole(tmp_path)
    assert requested_bytes(server) == len(OBJECT)
    assert 1 < server.connections <= 5
    assert (saved.attempts, saved.resumed_from, saved.mirror, rules(saved)) == (1, 0, None, [])
    assert "length" in saved.verified
    assert saved.bytes == saved.size == len(OBJECT)
    reports = [event for event in events if isinstance(event, (Started, Finished))]
    assert [type(event) for event in reports] == [Started, Finished]
    progress = [event for event in events if isinstance(event, Progress)]
    assert (progress[-1].received, progress[-1].expected) == (len(OBJECT), len(OBJECT))


@pytest.mark.parametrize("scheme", ["http", "ftp"])
async def test_segments_of_http_and_ftp(scheme: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await faulty.serve(nursery, scheme, OBJECT)
    saved = await save(tmp_path, server.url(), ports=(server.port,), checksum=DIGEST)
    assert is_whole(tmp_path)
    assert server.connections >= 2
    assert rules(saved) == []


async def test_segments_of_two_mirrors_match_digest(nursery: trio.Nursery, tmp_path: Path) -> None:
    one = await serve(nursery, {"/object": PAGE})
    two = await faulty.serve(nursery, "ftp", OBJECT)
    saved = await save(tmp_path, one.url("/object"), two.url(), ports=(two.port,), checksum=DIGEST)
    assert is_whole(tmp_path)
    assert 0 < requested_bytes(one) < len(OBJECT)
    assert two.connections
    assert "digest" in saved.verified


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (replace(PAGE, parts=False), "it gives no parts"),
        (replace(PAGE, headers=()), "nothing tells one state from another"),
        (replace(PAGE, framing="chunked"), "nobody knows the size"),
        (replace(PAGE, content=OBJECT[: 2 * LEAST - 1]), "it is small"),
    ],
)
async def test_unsuitable_object_is_fetched_in_one_stream(
    page: Page, why: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/object": page})
    await save(tmp_path, server.url("/object"))
    assert (tmp_path / "it").read_bytes() == page.content, why
    assert server.requests[-1].method == "GET"
    assert server.requests[-1].values("range") == []


@pytest.mark.parametrize("manner", [Profile(offsets="no"), Profile(metadata=()), Profile(metadata=("size",))])
async def test_unsuitable_ftp_object_is_fetched(
    manner: Profile, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await faulty.serve(nursery, "ftp", OBJECT, manner)
    await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)


async def test_gopher_object_is_fetched_in_one_stream(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await faulty.serve(nursery, "gopher", OBJECT)
    await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)
    assert server.connections == 1


async def test_segments_share_rate_limit(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    await save(tmp_path, server.url("/object"), rate=4 * len(OBJECT), limits=Limits(min_rate=1))
    assert is_whole(tmp_path)


def test_segments_under_asyncio(tmp_path: Path) -> None:
    with Elsewhere() as there:
        server = there.run(faulty.serve, there.nursery, "http", OBJECT)
        asyncio.run(save(tmp_path, server.url(), ports=(server.port,)))
    assert is_whole(tmp_path)
    assert server.connections > 1


async def test_policy_warning_is_reported_once(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await faulty.serve(nursery, "ftp", OBJECT)
    events: list[Event] = []
    await save(tmp_path, server.url(), events=events)
    assert is_whole(tmp_path)
    assert [event.finding.rule for event in events if isinstance(event, Warned)] == ["S04"]


async def max_concurrent_ranges(nursery: trio.Nursery, folder: Path, per_host: int | None) -> int:
    """Return the maximum of concurrent ranges that a server sends for two objects in total."""

    class Counting:
        """A server that counts the concurrent requests for ranges."""

        def __init__(self) -> None:
            self.busy = self.most = 0

        async def answer(self, peer: trio.SocketStream) -> None:
            async with peer:
                while request := await peer.receive_some():
                    head, match = HEAD, re.search(rb"bytes=([0-9]+)-([0-9]+)", request)
                    if match is None:
                        await peer.send_all(head % (b"200 OK", len(OBJECT), b""))
                        continue
                    first, last = int(match[1]), int(match[2])
                    content_range = b"Content-Range: bytes %d-%d/%d\r\n" % (first, last, len(OBJECT))
                    self.busy += 1
                    self.most = max(self.most, self.busy)
                    await trio.sleep(0.01)
                    self.busy -= 1
                    octets = OBJECT[first : last + 1]
                    await peer.send_all(head % (b"206 Part", len(octets), content_range) + octets)

    counting = Counting()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, counting.answer, listeners)
    url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
    policy = Policy(allow_port=frozenset({listeners[0].socket.getsockname()[1]}))
    async with (
        Resolver(segments=12, policy=policy, segments_per_host=per_host) as session,
        trio.open_nursery() as both,
    ):
        for name in ("one", "two"):
            both.start_soon(partial(session.save, f"{url}{name}", folder / name))
    assert all((folder / name).read_bytes() == OBJECT for name in ("one", "two"))
    return counting.most


HEAD = b'HTTP/1.1 %b\r\nETag: "1"\r\nContent-Length: %d\r\n%b\r\n'


@pytest.mark.parametrize(("per_host", "most"), [(None, 6), (3, 3)])
async def test_connections_per_host_are_limited(
    per_host: int | None, most: int, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The limit holds for both objects in total, but each object has at least one connection."""
    assert 2 <= await max_concurrent_ranges(nursery, tmp_path, per_host) <= most + 1


# Wrong responses.


@dataclass
class Liar:
    """A server that falsifies the responses to range requests, starting with range request number `at`."""

    answer_with: Callable[[Request, Page], Page]
    at: int = 1
    parts: int = field(default=0, init=False)

    def answer(self, request: Request, page: Page) -> Page:
        if page.status != 206:
            return page
        self.parts += 1
        return self.answer_with(request, page) if self.parts >= self.at else page


def with_range(value: str) -> Callable[[Request, Page], Page]:
    def answer(_request: Request, page: Page) -> Page:
        return replace(page, headers=(*page.headers[:-1], ("Content-Range", value)))

    return answer


def longer(_request: Request, page: Page) -> Page:
    return replace(page, content=page.content + b"more", framing="chunked")


def shorter(_request: Request, page: Page) -> Page:
    return replace(page, content=page.content[:-1], framing="chunked")


def endless(_request: Request, page: Page) -> Page:
    return replace(page, framing="close")


LIES = {
    "elsewhere": with_range(f"bytes 10-4105/{len(OBJECT)}"),
    "of another size": with_range("bytes 0-4095/4096"),
    "nothing": with_range("perhaps"),
    "nobody knows": with_range("bytes 0-4095/*"),
    "longer": longer,
    "shorter": shorter,
    "no end": endless,
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("at", [1, 4])
async def test_wrong_ranges_are_fetched_from_mirror(
    lie: str, at: int, nursery: trio.Nursery, tmp_path: Path
) -> None:
    liar = await serve(nursery, {"/object": replace(PAGE, guard=Liar(LIES[lie], at))})
    honest = await serve(nursery, {"/object": PAGE})
    saved = await save(tmp_path, liar.url("/object"), honest.url("/object"))
    assert is_whole(tmp_path)
    assert saved.size == len(OBJECT)


def refusing(_request: Request, page: Page) -> Page:
    return replace(page, content=b"", status=403)


def compressed(_request: Request, page: Page) -> Page:
    return replace(page, headers=(*page.headers, ("Content-Encoding", "gzip")))


@pytest.mark.parametrize(
    "answer_with", [*(LIES[lie] for lie in LIES if lie != "shorter"), refusing, compressed]
)
async def test_wrong_ranges_without_mirror_are_fetched_in_one_stream(
    answer_with: Callable[[Request, Page], Page], nursery: trio.Nursery, tmp_path: Path
) -> None:
    liar = await serve(nursery, {"/object": replace(PAGE, guard=Liar(answer_with))})
    await save(tmp_path, liar.url("/object"))
    assert is_whole(tmp_path)
    assert liar.requests[-1].values("range") == []


@pytest.mark.parametrize("lie", ["longer", "nothing"])
async def test_wrong_ranges_after_segments_are_an_error(
    lie: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    liar = await serve(nursery, {"/object": replace(PAGE, guard=Liar(LIES[lie], 4))})
    with pytest.raises(ResolveError):
        await save(tmp_path, liar.url("/object"))
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize(
    "headers",
    [(LATER, ("ETag", '"2"')), (), (("ETag", '"2"'),), (("ETag", 'W/"1"'),)],
    ids=["other", "nothing", "other tag", "weak tag"],
)
async def test_mirror_with_other_validators_is_dropped(
    headers: tuple[tuple[str, str], ...], nursery: trio.Nursery, tmp_path: Path
) -> None:
    one = await serve(nursery, {"/object": PAGE})
    two = await serve(nursery, {"/object": replace(PAGE, content=OBJECT[::-1], headers=headers)})
    saved = await save(tmp_path, one.url("/object"), two.url("/object"))
    assert is_whole(tmp_path)
    assert rules(saved) == ["save:mirror"]
    assert two.url("/object") in next(item.detail for item in saved.findings if item.rule == "save:mirror")


async def test_digest_mismatch_is_fetched_in_one_stream(nursery: trio.Nursery, tmp_path: Path) -> None:
    one = await serve(nursery, {"/object": PAGE})
    two = await serve(nursery, {"/object": replace(PAGE, content=OBJECT[::-1], headers=())})
    saved = await save(tmp_path, one.url("/object"), two.url("/object"), checksum=DIGEST)
    assert is_whole(tmp_path)
    assert rules(saved) == ["save:mismatch"]
    assert one.requests[-1].values("range") == []


async def test_changing_object_is_restarted(nursery: trio.Nursery, tmp_path: Path) -> None:
    class Changing:
        """A server whose object changes after the second range."""

        parts = 0

        def answer(self, request: Request, page: Page) -> Page:
            self.parts += page.status == 206
            if self.parts < 3:
                return page
            return Page(OBJECT, "application/octet-stream", headers=(LATER, ("ETag", '"2"')))

    other = replace(PAGE, content=OBJECT[::-1], guard=Changing())
    server = await serve(nursery, {"/object": other})
    saved = await save(tmp_path, server.url("/object"))
    assert is_whole(tmp_path)
    assert "save:restarted" in rules(saved)


# Failures.


@pytest.mark.parametrize("scheme", ["http", "ftp"])
async def test_truncated_segments_are_resumed(scheme: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    cuts = tuple(range(10_000, len(OBJECT), 30_000))
    server = await faulty.serve(nursery, scheme, OBJECT, Profile(cuts=cuts))
    saved = await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)
    assert saved.attempts > 1


async def test_failing_segments_are_fetched_from_mirror(nursery: trio.Nursery, tmp_path: Path) -> None:
    one = await serve(nursery, {"/object": replace(PAGE, guard=Liar(gone, 3))})
    two = await serve(nursery, {"/object": PAGE})
    saved = await save(tmp_path, one.url("/object"), two.url("/object"))
    assert is_whole(tmp_path)
    assert "save:mirror" in rules(saved)


def gone(_request: Request, _page: Page) -> Page:
    return Page(b"", status=404, reason="Gone")


def busy(_request: Request, _page: Page) -> Page:
    return Page(b"", status=503, reason="Busy", headers=(("Retry-After", "0"),))


async def test_busy_server_gets_fewer_segments(nursery: trio.Nursery, tmp_path: Path) -> None:
    class Room:
        """A server that refuses every second range request."""

        parts = 0

        def answer(self, request: Request, page: Page) -> Page:
            self.parts += page.status == 206
            return busy(request, page) if page.status == 206 and self.parts % 2 else page

    server = await serve(nursery, {"/object": replace(PAGE, guard=Room())})
    await save(tmp_path, server.url("/object"), patience=RetryPolicy(tries=5, delay=0.0))
    assert is_whole(tmp_path)


async def test_failed_download_is_resumed_with_gaps(nursery: trio.Nursery, tmp_path: Path) -> None:
    """A partial file with gaps is resumed too. No byte that is in the file is requested again."""
    guard = Liar(gone, 4)
    server = await serve(nursery, {"/object": replace(PAGE, guard=guard)})
    with pytest.raises(NotFound):
        await save(tmp_path, server.url("/object"))
    state = state_in(tmp_path)
    assert state is not None
    assert state.ranges is not None
    held = sum(end - begin for begin, end in state.ranges)
    assert 0 < held < len(OBJECT)
    guard.at = 1_000
    server.requests.clear()
    saved = await save(tmp_path, server.url("/object"))
    assert is_whole(tmp_path)
    assert saved.resumed_from == held
    assert requested_bytes(server) == len(OBJECT) - held


async def leave_gaps(nursery: trio.Nursery, folder: Path, site: dict[str, Page]) -> HttpServer:
    """Leave the partial file of a failed run, with gaps; return the server, which no longer fails."""
    guard = Liar(gone, 4)
    site["/object"] = replace(PAGE, guard=guard)
    server = await serve(nursery, site)
    with pytest.raises(NotFound):
        await save(folder, server.url("/object"))
    guard.at = 1_000
    return server


def held_in(folder: Path) -> int:
    """Return the number of bytes that are in the partial file according to its state file."""
    state = state_in(folder)
    assert state is not None
    assert state.ranges
    return sum(end - begin for begin, end in state.ranges)


async def test_single_stream_fills_gaps(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await leave_gaps(nursery, tmp_path, {})
    held = held_in(tmp_path)
    saved = await save(tmp_path, server.url("/object"), segments=1)
    assert is_whole(tmp_path)
    assert saved.resumed_from == held


async def test_gaps_without_range_support_are_restarted(nursery: trio.Nursery, tmp_path: Path) -> None:
    site: dict[str, Page] = {}
    server = await leave_gaps(nursery, tmp_path, site)
    site["/object"] = replace(PAGE, parts=False)
    saved = await save(tmp_path, server.url("/object"))
    assert is_whole(tmp_path)
    assert "save:restarted" in rules(saved)


@pytest.mark.parametrize("segments", [1, 4])
async def test_failing_server_keeps_segments(segments: int, nursery: trio.Nursery, tmp_path: Path) -> None:
    """The segments are kept too if the server is busy when the client requests the validators."""
    site: dict[str, Page] = {}
    server = await leave_gaps(nursery, tmp_path, site)
    held = held_in(tmp_path)
    site.clear()
    with pytest.raises(NotFound):
        await save(tmp_path, server.url("/object"), segments=segments)
    assert held_in(tmp_path) == held
    site["/object"] = busy(Request("HEAD", "/object"), PAGE)
    with pytest.raises(TryLater) as raised:
        await save(tmp_path, server.url("/object"), segments=segments)
    assert raised.value.attempts == PATIENT.tries
    assert held_in(tmp_path) == held


async def test_segments_resume_part_of_one_stream(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await faulty.serve(nursery, "http", OBJECT, Profile(fault=Fault("cut", "body", share=40)))
    with pytest.raises(Truncated):
        await save(tmp_path, server.url(), ports=(server.port,), segments=1, patience=RetryPolicy())
    server.remove_faults()
    held = (tmp_path / "it.part").stat().st_size
    saved = await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)
    assert 0 < saved.resumed_from < held


Hostile = Callable[[bytes], bytes]
STATES: dict[str, Hostile] = {
    "beyond the object": lambda text: text.replace(b'"whole": [', b'"whole": [[0, 9999999], ').replace(
        b", ]", b"]"
    ),
    "all of it, but not there": lambda text: _with_whole(text, b"[[0, %d]]" % len(OBJECT)),
    "backwards": lambda text: _with_whole(text, b"[[9, 3]]"),
    "no list": lambda text: _with_whole(text, b"true"),
    "none": lambda text: _with_whole(text, b"null"),
}


def _with_whole(text: bytes, value: bytes) -> bytes:
    before, _, _ = text.partition(b'"whole": ')
    return before + b'"whole": ' + value + b"}"


@pytest.mark.parametrize("name", STATES)
async def test_state_beyond_file_is_ignored(name: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    """Ranges beyond the size of the file are ignored (only its owner can write to it and to its state)."""
    server = await leave_gaps(nursery, tmp_path, {})
    os.truncate(tmp_path / "it.part", 1)
    state = tmp_path / "it.part-state"
    state.write_bytes(STATES[name](state.read_bytes()))
    await save(tmp_path, server.url("/object"))
    assert (tmp_path / "it").read_bytes()[1:] == OBJECT[1:]


async def test_changed_object_between_runs_is_restarted(nursery: trio.Nursery, tmp_path: Path) -> None:
    site: dict[str, Page] = {}
    server = await leave_gaps(nursery, tmp_path, site)
    site["/object"] = replace(PAGE, headers=(LATER, ("ETag", '"2"')))
    saved = await save(tmp_path, server.url("/object"))
    assert is_whole(tmp_path)
    assert saved.resumed_from == 0


# Limits, the disk, and cancellation.


async def test_body_limit_applies_to_complete_size(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, {"/object": PAGE})
    limits = Limits(body=len(OBJECT) - 1, body_everywhere=True)
    with pytest.raises(LimitExceeded):
        await save(tmp_path, server.url("/object"), limits=limits)
    assert os.listdir(tmp_path) == []
    await save(tmp_path, server.url("/object"), limits=replace(limits, body=len(OBJECT)))
    assert is_whole(tmp_path)


async def test_full_disk_is_an_error_and_keeps_segments(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(nursery, {"/object": PAGE})
    written = 0

    def write(fd: int, octets: bytes | memoryview, path: str) -> None:
        nonlocal written
        written += len(octets)
        if written > len(OBJECT) // 2:
            raise LocalError(f"cannot write {path!r}: {os.strerror(errno.ENOSPC)}")
        os.write(fd, octets)

    with monkeypatch.context() as patch:
        patch.setattr("resolver.files.part.write_all", write)
        with pytest.raises(LocalError, match="No space left"):
            await save(tmp_path, server.url("/object"))
    assert sorted(os.listdir(tmp_path)) == ["it.part", "it.part-state"]
    saved = await save(tmp_path, server.url("/object"))
    assert is_whole(tmp_path)
    assert saved.resumed_from > 0


class Cancelling(trio.abc.Instrument):
    """An instrument that cancels a scope at the n-th step that the tasks of a run make."""

    def __init__(self, scope: trio.CancelScope, at: int) -> None:
        self._scope = scope
        self.left = at

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self._scope.cancel()


@pytest.mark.parametrize("at", [5, 40, 80, 130, 200])
@pytest.mark.parametrize("start", ["http", "ftp"])
async def test_cancelled_download_is_resumed(
    start: str, at: int, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await faulty.serve(nursery, start, OBJECT)
    await cancelled_at(at, lambda: save(tmp_path, server.url(), ports=(server.port,)))
    if not (tmp_path / "it").exists():
        check_state(tmp_path, server)
        await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)


async def cancelled_at(at: int, run: Callable[[], Awaitable[object]]) -> None:
    with trio.CancelScope() as scope:
        instrument = Cancelling(scope, at)
        trio.lowlevel.add_instrument(instrument)
        try:
            await run()
        finally:
            trio.lowlevel.remove_instrument(instrument)


def check_state(folder: Path, server: FaultyServer) -> None:
    """Check that the file contains each range that the state file lists."""
    state = state_in(folder)
    if state is None:
        assert not (folder / "it.part").exists()
        return
    octets = (folder / "it.part").read_bytes()
    assert state.url == server.url()
    for begin, end in state.ranges or ():
        assert octets[begin:end] == OBJECT[begin:end]


KILLED = """
import os, signal, sys
import trio
from resolver import Policy, Resolver
from resolver.transfer import segmented, segments

segments.MIN_SEGMENT = 4_096
url, port, path, most, noted = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
fetch, pieces = segmented.SegmentedDownload._fetch_segment, 0

async def counted(self, source, piece):
    global pieces
    await fetch(self, source, piece)
    pieces += 1
    if pieces == most:
        if noted == "noted":
            await self._sink.sync_ranges(self._join_ranges())
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Resolver(segments=4, policy=Policy(allow_port=frozenset({port}))) as session:
        await session.save(url, path)

segmented.SegmentedDownload._fetch_segment = counted
trio.run(main)
"""


async def test_killed_download_keeps_recorded_ranges(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The process is killed after one write of the state file and before the next write."""
    server = await faulty.serve(nursery, "http", OBJECT)
    held = 0
    for most, noted in (("3", "noted"), ("2", "not")):
        words = [server.url(), str(server.port), str(tmp_path / "it"), most, noted]
        done = await trio.run_process([sys.executable, "-c", KILLED, *words], check=False, cwd=CHECKOUT)
        assert done.returncode == -signal.SIGKILL
        check_state(tmp_path, server)
        state = state_in(tmp_path)
        assert state is not None
        assert state.ranges is not None
        now = sum(end - begin for begin, end in state.ranges)
        assert now > held if noted == "noted" else now == held
        held = now
    saved = await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)
    assert saved.resumed_from == held


async def test_state_is_written_after_sync(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the state grows, the file is synced first, and the state file is written second."""
    steps: list[str] = []
    sync, write = os.fdatasync, part_state.write_state

    def synced(fd: int) -> None:
        steps.append("sync")
        sync(fd)

    async def send(wire: Wire, octets: bytes) -> None:
        """Send the second half after the state file lists the first half."""
        await wire.send(octets[: len(octets) // 2])
        await until(lambda: "sync" in steps and steps[-1] == "write")
        await wire.send(octets[len(octets) // 2 :])

    def written(name: str, directory: DirectoryHandle, state: PartState, *, sync: bool = False) -> bool:
        octets = (tmp_path / "it.part").read_bytes()
        assert all(octets[begin:end] == OBJECT[begin:end] for begin, end in state.ranges or ())
        steps.append("write")
        return write(name, directory, state, sync=sync)

    monkeypatch.setattr(os, "fdatasync", synced)
    monkeypatch.setattr("resolver.files.part.write_state", written)
    monkeypatch.setattr("resolver.transfer.segmented._CHECK_INTERVAL", 0.005)
    monkeypatch.setattr("resolver.transfer.segmented._CHECKS_PER_RECORD", 1)
    monkeypatch.setattr(Wire, "_send", send)
    server = await faulty.serve(nursery, "http", OBJECT, Profile())
    await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)
    # the state is written before the first byte, and when the file is complete
    assert steps[0] == steps[-1] == "write"
    middle = steps[1:-1]
    assert "write" in middle
    assert all(before == "sync" for before, step in pairwise(["write", *middle]) if step == "write")


async def test_segments_are_written_back_during_transfer(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write-back of the first segments starts while the remaining segments are transferred."""
    begun: list[int] = []
    start_writeback = PartialFile.start_writeback

    async def noted(sink: PartialFile) -> None:
        await start_writeback(sink)
        begun.append(os.fstat(sink.fileno()).st_size)

    async def send(wire: Wire, octets: bytes) -> None:
        """Send the second half after the write-back of the first half began."""
        await wire.send(octets[: len(octets) // 2])
        await until(lambda: bool(begun))
        await wire.send(octets[len(octets) // 2 :])

    monkeypatch.setattr(PartialFile, "start_writeback", noted)
    monkeypatch.setattr("resolver.transfer.segmented._CHECK_INTERVAL", 0.005)
    monkeypatch.setattr(Wire, "_send", send)
    server = await faulty.serve(nursery, "http", OBJECT, Profile())
    await save(tmp_path, server.url(), ports=(server.port,))
    assert is_whole(tmp_path)
    assert begun
