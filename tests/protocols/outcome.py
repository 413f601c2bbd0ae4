"""A handler driven through a transcript, and what came of it compared with what the transcript says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fixtures.transcript import Outcome, Transcript
from protocols.contract import Entry, Gate, Reply, Url
from protocols.errors import ResolveError
from protocols.step import Borrow, Connect, HandOver, Hear, Say, Step
from protocols.wire import Buffer

Opener = Callable[[Any, Gate], AbstractAsyncContextManager[Reply]]


async def resolve(open_: Opener, url: Url, gate: Gate) -> Outcome:
    """Open, take the whole body, read its entries; an error ends it where it comes."""
    outcome = Outcome()
    try:
        async with open_(url, gate) as reply:
            await take(reply, outcome)
    except ResolveError as error:
        outcome.error = type(error).__name__
    return outcome


async def take(reply: Reply, outcome: Outcome) -> None:
    outcome.kind, outcome.media_type, outcome.target = reply.kind.value, reply.media_type or "-", reply.target
    outcome.body = b""
    entries: list[Entry] = []
    listing = reply.listing if reply.records is None else None
    async for octets in reply.body:
        assert octets, "an empty piece of a body"
        outcome.body += octets
        if listing is not None:
            entries += listing.feed(octets)
    if reply.listing is not None and reply.records is not None:
        async for octets in reply.records:
            entries += reply.listing.feed(octets)
    if reply.listing is not None:
        entries += reply.listing.finish()
    outcome.entries = [(entry.kind.value, entry.url, entry.name) for entry in entries]
    outcome.verified = tuple(sorted(reply.verified))
    outcome.findings = sorted(finding.rule for finding in reply.findings)


def check(outcome: Outcome, expected: Outcome) -> None:
    """All that the transcript says holds; findings, entries and error hold in any case."""
    assert outcome.error == expected.error
    for name in ("kind", "media_type", "body", "verified", "target"):
        if (value := getattr(expected, name)) is not None:
            assert getattr(outcome, name) == value, name
    if expected.error is None:
        assert outcome.findings == sorted(expected.findings)
        if expected.entries:
            assert outcome.entries == expected.entries


def play(dialogue: Any, transcript: Transcript, answers: tuple[object, ...] = (None,)) -> list[Step]:
    """Perform a dialogue alone against a transcript; its steps. A hand-over is answered with the next of
    `answers`, the rest of what the server says on that connection is the body's business."""
    steps: list[Step] = []
    connections = iter(transcript.connections)
    buffer, said, sent = Buffer(), b"", b""
    answer: object = None
    waiting = iter(answers)
    while True:
        try:
            step = dialogue.send(answer)
        except StopIteration:
            assert sent == said, "the dialogue did not say everything"
            return steps
        steps.append(step)
        answer = None
        match step:
            case Connect() | Borrow():
                assert sent == said, "the dialogue did not say everything"
                connection = next(connections)
                buffer, sent, said = Buffer(), b"", connection.said_by("C")
                buffer.feed(connection.said_by("S"))
            case Say(lines=lines):
                sent += b"".join(line.octets for line in lines)
                assert said.startswith(sent)
            case Hear(reader=reader):
                answer = _hear(reader, buffer)
            case HandOver():
                answer = next(waiting, None)


def _hear(reader: Any, buffer: Buffer) -> object:
    waiting = reader(buffer)
    while True:
        try:
            next(waiting)
        except StopIteration as done:
            return done.value
        assert not buffer.at_end, "a reader asked for more after the end"
        buffer.feed(b"")
