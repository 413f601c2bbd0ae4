"""Outcomes of a transcript, by the dialogue alone and by a session, compared with the stated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from protocols.contract import Entry, Gate, Reply, Url
from protocols.errors import ResolveError
from protocols.step import Dialogue
from resolver.testing.player import Player, TranscriptScript
from resolver.testing.transcript import Cutter, DialogueTranscript, TranscriptOutcome, whole

Opener = Callable[[Any, Gate], AbstractAsyncContextManager[Reply]]


async def resolve(open_: Opener, url: Url, gate: Gate) -> TranscriptOutcome:
    """Open, take the whole body, read its entries; an error ends it where it comes."""
    outcome = TranscriptOutcome()
    try:
        async with open_(url, gate) as reply:
            await take(reply, outcome)
    except ResolveError as error:
        outcome.error = type(error).__name__
    return outcome


async def take(reply: Reply, outcome: TranscriptOutcome) -> None:
    _describe(reply, outcome)
    outcome.body = b""
    entries: list[Entry] = []
    listing = reply.listing if reply.records is None else None
    async for octets in reply.body:
        assert octets, "an empty piece of a body"
        outcome.body += octets
        if listing is not None:
            entries += listing.feed(octets)
    if reply.listing is not None and reply.records is not None:
        entries += reply.listing.feed(reply.records)
    if reply.listing is not None:
        entries += reply.listing.finish()
    _conclude(reply, entries, outcome)


def check(outcome: TranscriptOutcome, expected: TranscriptOutcome) -> None:
    """All that the transcript says holds; findings, entries and error hold in any case.

    Args:
        outcome: what came of it.
        expected: what the transcript says, its `outcome`.

    Raises:
        AssertionError: where something is different.

    Examples:
        >>> from resolver.testing import TranscriptOutcome, check
        >>> check(TranscriptOutcome(body=b"hello"), TranscriptOutcome(body=b"hello"))
    """
    assert outcome.error == expected.error
    for name in ("kind", "media_type", "body", "verified", "target"):
        if (value := getattr(expected, name)) is not None:
            assert getattr(outcome, name) == value, name
    if expected.error is None:
        assert outcome.findings == sorted(expected.findings)
        if expected.entries:
            assert outcome.entries == expected.entries


def recite(
    dialogue: Dialogue[Any],
    transcript: DialogueTranscript,
    password: bytes | None = None,
    surplus: bytes = b"",
    cutter: Cutter = whole,
) -> TranscriptOutcome:
    """The dialogue alone, against the server's part of a transcript, and what comes of it.

    Args:
        dialogue: one that was not begun.
        transcript: what both sides say.
        password: what a person knows, who is asked for one.
        surplus: what the server says and nobody is to read.
        cutter: how what it says comes in pieces.

    Raises:
        AssertionError: where the dialogue says something else, waits for what does not come, or leaves
            something unsaid or unread.

    Examples:
        >>> from protocols.contract import Limits, Options
        >>> from resolver import parse
        >>> from resolver.url import registry
        >>> from resolver.testing import one_by_one, parse_transcript, recite
        >>> text = "# made up\\nU: gopher://h.example/0a\\nC: a\\\\r\\\\n\\nS: hello\\nE: close\\n"
        >>> talk = parse_transcript(text, "hello")
        >>> dialogue = registry.converse(registry.find("gopher"), parse(talk.url), Options(), Limits())
        >>> recite(dialogue, talk, cutter=one_by_one).body
        b'hello'
    """
    outcome, player = TranscriptOutcome(), Player(dialogue, TranscriptScript(transcript, password, cutter))
    try:
        player.play(surplus)
    except ResolveError as error:
        outcome.error = type(error).__name__
    if player.begun is not None:
        _describe(player.begun, outcome)
        outcome.body = player.body
    if outcome.error is None:
        _conclude(player.reply, _entries(player.reply, player.body), outcome)
    return outcome


def _entries(reply: Reply, body: bytes) -> list[Entry]:
    if reply.listing is None:
        return []
    return [*reply.listing.feed(body if reply.records is None else reply.records), *reply.listing.finish()]


def _describe(reply: Reply, outcome: TranscriptOutcome) -> None:
    outcome.kind, outcome.media_type, outcome.target = reply.kind.value, reply.media_type or "-", reply.target


def _conclude(reply: Reply, entries: Iterable[Entry], outcome: TranscriptOutcome) -> None:
    outcome.entries = [(entry.kind.value, entry.url, entry.name) for entry in entries]
    outcome.verified = tuple(sorted(reply.verified))
    outcome.findings = sorted(finding.rule for finding in reply.findings)
