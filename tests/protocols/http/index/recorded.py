"""Recorded index pages: the response of a server and the expected entries."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fixtures import recordings
from protocols.contract import EntryReader
from protocols.http.http1 import Http1Exchange
from protocols.http.index import index_reader
from protocols.http.request import HttpRequest
from protocols.http.response import ResponseHead
from protocols.wire import Buffer
from resolver import Declined, Disconnected, Entry, Finding, HttpUrl, Limits
from tests.protocols.typed_url import parse_as

FOLDER = recordings.FOLDER / "listings"

#: Expected rows that contradict the rules: an unescaped `http:x` is a URL, not a name.
NOT_EXPECTED = {("webfs-names", "x")}


@cache
def expected() -> dict[str, tuple[bool, list[dict[str, Any]]]]:
    """Return, by page name, whether the page is a listing, and its entries."""
    found: dict[str, tuple[bool, list[dict[str, Any]]]] = {}
    for line in (FOLDER / "expected.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "listing" in record:
            found[record["page"]] = (record["listing"], [])
        elif (record["page"], record["name"]) not in NOT_EXPECTED:
            found[record["page"]][1].append(record)
    return found


@cache
def answer_of(name: str) -> tuple[HttpUrl, ResponseHead, bytes]:
    """Return the URL, the head of its response and the bytes after the head."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    octets = b"".join(bytes.fromhex(each["hex"]) for each in recorded["exchanges"] if each["dir"] == "server")
    url = parse_as(HttpUrl, recorded["url"])
    buffer = Buffer()
    buffer.feed(octets)
    reading = Http1Exchange(HttpRequest(b"GET", b"/", ((b"Host", b"h"),)), Limits()).read_head(buffer)
    try:
        next(reading)
    except StopIteration as done:
        head = done.value
        assert isinstance(head, ResponseHead)
        return url, head, buffer.take()
    raise Disconnected("the head is not whole")


def reader_of(name: str, findings: list[Finding]) -> EntryReader | None:
    url, head, _ = answer_of(name)
    return index_reader(url, head, Limits(), findings)


def read(reader: EntryReader, body: bytes, step: int) -> list[Entry] | None:
    """Return the entries of a body that arrives in pieces of `step` bytes; None for a document."""
    entries: list[Entry] = []
    try:
        for at in range(0, len(body), step):
            entries += reader.feed(body[at : at + step])
        entries += reader.finish()
    except Declined:
        assert not entries, "a document gives no entry first"
        return None
    return entries
