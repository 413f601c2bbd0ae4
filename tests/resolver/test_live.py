"""Listings on their way to whoever asked: a link made of a peer's data has to be one for our parser; lines
go in pieces as large as those that came."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from protocols.contract import Entry, Kind, Referrer, Sink
from protocols.errors import LimitExceeded
from resolver.live import EntryStream, LineStream, settle

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
def test_what_is_no_url_is_unusable_and_says_why(
    text: str | None, url: str | None, reason: str | None
) -> None:
    entry = settle(Entry(name="n", url=text, extra={"type": "h"}), FOUND_IN)
    assert (entry.url, entry.origin, entry.referrer) == (url, "derived", FOUND_IN)
    assert entry.extra is not None
    assert entry.extra["type"] == "h"
    assert ("unusable" in entry.extra) == (reason is not None)
    assert str(reason or "") in str(entry.extra.get("unusable", ""))


class Pieces:
    """A body in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = iter(pieces)

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        raise AssertionError("lines are made of what is read")


class Words:
    """An `EntryReader`: an entry a word, the last of them at the end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, octets: bytes) -> Iterable[Entry]:
        *words, self._rest = (self._rest + octets).split(b" ")
        return [entry_of(word) for word in words]

    def finish(self) -> Iterable[Entry]:
        return [entry_of(self._rest)]


def entry_of(word: bytes) -> Entry:
    return Entry(name=word.decode("utf-8", "surrogateescape"), kind=Kind.ARTICLE, title="t", url="no URL")


async def test_lines_come_as_their_octets_did() -> None:
    body = Pieces(b"one two thr", b"e", b"e a\r\nb \xe9 ", b"end")
    pieces = [octets async for octets in LineStream(body, Words(), FOUND_IN.url)]
    assert pieces == [b"one t\ntwo t\n", b"three t\na\\x0d\\x0ab t\n\xe9 t\n", b"end t\n"]


class Endless(Words):
    """A reader whose patience has a limit, seen only when its entries are looked at."""

    def feed(self, octets: bytes) -> Iterable[Entry]:
        yield from super().feed(octets)
        raise LimitExceeded("line", "a line of the listing is too long")


async def test_what_is_wrong_with_a_listing_is_said_of_its_url() -> None:
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
