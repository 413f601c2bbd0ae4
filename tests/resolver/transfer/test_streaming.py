"""Streamed listings: validation of links from untrusted data, lines, and pauses for other tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from itertools import repeat

import pytest
import trio
from trio.testing import MockClock

from protocols.contract import BuiltUrl, Sink
from resolver import Entry, Kind, LimitExceeded, Referrer, TimedOut
from resolver.network.clock import Clock
from resolver.transfer.streaming import (
    ENTRIES_AT_ONCE,
    OCTETS_AT_ONCE,
    EntryStream,
    LineStream,
    add_provenance,
)

FOUND_IN = Referrer("gopher://h.example/1", "192.0.2.1")


@pytest.mark.parametrize(
    ("text", "url", "reason"),
    [
        ("http://u:secret@a.example/", "http://u@a.example/", None),
        ("http://a.example/", "http://a.example/", None),
        ("http://a.example/<x>", None, "bad-char"),
        ("http://127.1/", None, "bad-host"),
        (None, None, None),
    ],
)
def test_settle_marks_invalid_url_unusable(text: str | None, url: str | None, reason: str | None) -> None:
    entry = add_provenance(Entry(name="n", url=text, extra={"type": "h"}), FOUND_IN)
    assert (entry.url, entry.origin, entry.referrer) == (url, "derived", FOUND_IN)
    assert entry.extra is not None
    assert entry.extra["type"] == "h"
    assert ("unusable" in entry.extra) == (reason is not None)
    assert str(reason or "") in str(entry.extra.get("unusable", ""))


class Pieces:
    """A body that consists of the given chunks."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = iter(pieces)

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        raise AssertionError("drain called")


class Words:
    """An `EntryReader` that yields an entry for each word.

    The last word is yielded at the end of the data.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, octets: bytes) -> Iterable[Entry]:
        *words, self._rest = (self._rest + octets).split(b" ")
        return [entry_of(word) for word in words]

    def finish(self) -> Iterable[Entry]:
        return [entry_of(self._rest)]


def entry_of(word: bytes) -> Entry:
    return Entry(name=word.decode("utf-8", "surrogateescape"), kind=Kind.ARTICLE, title="t", url="no URL")


async def test_line_stream_yields_lines_per_piece() -> None:
    body = Pieces(b"one two thr", b"e", b"e a\r\nb \xe9 ", b"end")
    pieces = [octets async for octets in LineStream(body, Words(), FOUND_IN.url)]
    assert pieces == [b"one t\ntwo t\n", b"three t\na\\x0d\\x0ab t\n\xe9 t\n", b"end t\n"]


class Endless(Words):
    """A reader that exceeds a limit after its entries, when they are iterated over."""

    def feed(self, octets: bytes) -> Iterable[Entry]:
        yield from super().feed(octets)
        raise LimitExceeded("line", "a line of the listing is too long")


async def test_listing_error_has_url_of_listing() -> None:
    for stream in (
        EntryStream(Pieces(b"one two"), Endless(), FOUND_IN),
        LineStream(Pieces(b"one two"), Endless(), FOUND_IN.url),
    ):
        with pytest.raises(LimitExceeded) as caught:
            await exhaust(stream)
        assert caught.value.url == FOUND_IN.url


async def exhaust(stream: AsyncIterator[object]) -> None:
    async for _ in stream:
        pass


def test_settle_does_not_parse_built_url() -> None:
    url = BuiltUrl("no URL")
    entry = Entry(name="n", url=url, kind=Kind.LINK, size=1, title="t", raw=b"r", extra={"a": 1})
    result = add_provenance(entry, FOUND_IN)
    assert result == replace(entry, referrer=FOUND_IN)
    assert type(result.url) is str, "nobody else is to take it for vouched for"


async def test_entries_before_error_are_yielded() -> None:
    entries = EntryStream(Pieces(b"one two"), Endless(), FOUND_IN)
    assert [(await anext(entries)).name for _ in range(1)] == ["one"]
    lines = LineStream(Pieces(b"one two"), Endless(), FOUND_IN.url)
    assert await anext(lines) == b"one t\n"
    for stream in (entries, lines):
        with pytest.raises(LimitExceeded):
            await anext(stream)


class Work:
    """A reader that measures the work between two pauses.

    Each byte is an entry, which is created only when the entry is read. `late` entries are created at the
    end.
    """

    def __init__(self, late: int = 0) -> None:
        self._late = late
        self.octets = self.entries = self.pauses = 0
        self.most_octets = self.most_entries = 0

    async def pause(self) -> None:
        await trio.lowlevel.checkpoint()
        self.octets = self.entries = 0
        self.pauses += 1

    def feed(self, octets: bytes) -> Iterator[Entry]:
        self.octets += len(octets)
        self.most_octets = max(self.most_octets, self.octets)
        return self._make(len(octets))

    def finish(self) -> Iterator[Entry]:
        return self._make(self._late)

    def _make(self, count: int) -> Iterator[Entry]:
        for entry in repeat(Entry(name="x"), count):
            self.entries += 1
            self.most_entries = max(self.most_entries, self.entries)
            yield entry


@pytest.mark.parametrize(("piece", "late"), [(100_000, 0), (10_000, 0), (0, 100_000), (65_536, 10_000)])
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.slow
async def test_streams_pause_every_few_entries(piece: int, late: int, lines: bool) -> None:
    """The stream also pauses if one chunk contains many entries, and if many entries come at the end."""
    work, body, count = Work(late), Pieces(*[b"x" * piece] * bool(piece)), 0
    if lines:
        async for octets in LineStream(body, work, FOUND_IN.url, work.pause):
            count += octets.count(b"\n")
    else:
        async for _ in EntryStream(body, work, FOUND_IN, work.pause):
            count += 1
    assert count == piece + late
    assert work.most_octets <= OCTETS_AT_ONCE
    assert work.most_entries <= ENTRIES_AT_ONCE


async def test_streams_pause_without_entries() -> None:
    class Idle(Work):
        def _make(self, count: int) -> Iterator[Entry]:
            return iter(())

    work = Idle()
    assert [entry async for entry in EntryStream(Pieces(b"x" * 100_000), work, FOUND_IN, work.pause)] == []
    assert work.most_octets <= OCTETS_AT_ONCE
    assert work.pauses >= 100_000 // OCTETS_AT_ONCE


async def test_clock_is_checked_between_entries(mock_clock: MockClock) -> None:
    """All bytes have arrived, so the stream would otherwise never wait and let other tasks run."""

    class Slow(Work):
        def _make(self, count: int) -> Iterator[Entry]:
            for entry in super()._make(count):
                mock_clock.jump(0.01)
                yield entry

    work, clock = Slow(late=1_000_000), Clock(10.0)
    stream = EntryStream(Pieces(), work, FOUND_IN, clock.pause)
    with pytest.raises(TimedOut) as caught:
        await exhaust(stream)
    assert caught.value.url == FOUND_IN.url
    assert clock.elapsed < 10 + 2 * ENTRIES_AT_ONCE * 0.01


async def test_at_hand_is_true_for_buffered_entries() -> None:
    stream = EntryStream(Pieces(b"a b c ", b"d"), Words(), FOUND_IN)
    assert [(entry.name, stream.at_hand) async for entry in stream] == [
        ("a", True),
        ("b", True),
        ("c", False),
        ("d", False),
    ]
    shown = LineStream(Pieces(b"a " * ENTRIES_AT_ONCE + b"b " * 2, b""), Words(), "")
    assert [(octets[:1], shown.at_hand) async for octets in shown][:2] == [(b"a", True), (b"b", False)]
