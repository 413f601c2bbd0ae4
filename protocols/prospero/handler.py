"""Opening a prospero URL: what its resolution has found becomes a reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from protocols.body import Octets
from protocols.contract import Finding, Gate, JsonValue, Kind, Moved, Reply
from protocols.prospero.access_method import Way, first_url
from protocols.prospero.ardp import Timing
from protocols.prospero.asking import Asker
from protocols.prospero.attribute import describe, read_modified, read_size
from protocols.prospero.entries import LinkReader, name_lines
from protocols.prospero.media_type import guess_media_type
from protocols.prospero.reply import Answer
from protocols.prospero.resolution import (
    Directory,
    Document,
    Facts,
    Found,
    Leads,
    Session,
    read_contents,
    resolve,
)
from protocols.prospero.target import target_of
from protocols.prospero.token import read_text
from protocols.prospero.union import Members, splice
from protocols.prospero.url import ProsperoUrl

_USUAL = Timing()
#: The server said how many packets there are, and all of them came.
_VERIFIED = frozenset({"length"})


@asynccontextmanager
async def open_prospero(url: ProsperoUrl, gate: Gate, timing: Timing = _USUAL) -> AsyncIterator[Reply]:
    """The reply to a prospero URL: an object's contents, a directory, a service that is announced, or
    with `moved` the URLs that an object's access methods come to. Nothing stays open while it lives.

    Raises `Declined` by the server's failures, `TimedOut`, `ProtocolError`, `LimitExceeded`, and `Refused`
    (S10) where only a file of this machine is named or an object moves in circles.
    """
    asker = Asker(gate, timing)
    found = await asker.perform(resolve(target_of(url), gate.options.want))
    yield await _reply(found, asker)


async def _reply(found: Found, asker: Asker) -> Reply:
    match found:
        case Document():
            return _contents(found, asker)
        case Leads():
            return _leading_on(found, asker)
        case Session():
            return _session(found)
        case Directory(listing=None):
            return _described(found.facts, Kind.DIRECTORY, None)
        case Directory():
            return _directory(found, await asker.perform(splice(found)), asker)
        case Facts():
            return _facts(found)


def _contents(document: Document, asker: Asker) -> Reply:
    facts = document.facts
    reply = _described(facts, Kind.DOCUMENT, None)
    reply.body = Octets(document.octets)
    reply.size = len(document.octets)
    reply.media_type = guess_media_type(facts.ways, document.place.hsoname)
    reply.peer = asker.address(document.place)
    reply.verified |= _VERIFIED
    return reply


def _leading_on(leads: Leads, asker: Asker) -> Reply:
    """The first URL, and what else there is if it fails: URLs, and contents to be read here."""
    first, *others = leads.ways
    assert first.url is not None
    reply = _described(leads.facts, Kind.LINK, None)
    reply.moved = Moved(
        location=first.url,
        code=read_text(first.method),
        others=tuple(_opener(leads.facts, way, asker) if way.url is None else way.url for way in others),
        found_in=None if leads.facts.place.via is None else asker.referrer(leads.facts.place),
    )
    return reply


def _opener(facts: Facts, way: Way, asker: Asker) -> Callable[[], AbstractAsyncContextManager[Reply]]:
    return partial(_open_contents, facts, way, asker)


@asynccontextmanager
async def _open_contents(facts: Facts, way: Way, asker: Asker) -> AsyncIterator[Reply]:
    yield _contents(await asker.perform(read_contents(facts, way)), asker)


def _session(session: Session) -> Reply:
    lead = session.way.lead
    assert lead is not None
    return _described(session.facts, Kind.SERVICE, lead.url, {"message": lead.message})


def _facts(facts: Facts) -> Reply:
    """What is known without reading the object: a document where this server has it, else the way to it."""
    way = next((way for way in facts.ways if way.target or way.lead), None)
    if way is None:
        return _described(facts, Kind.UNKNOWN, None)
    if way.target is None:
        first = first_url(facts.ways)
        return _described(facts, Kind.LINK, None if first is None else first.url)
    reply = _described(facts, Kind.DOCUMENT, None)
    reply.media_type = guess_media_type(facts.ways, facts.place.hsoname)
    return reply


def _directory(directory: Directory, members: Members, asker: Asker) -> Reply:
    shown = [member for member in members.members if not member.link.is_hidden]
    found_in = {
        member.found_at.identity: asker.referrer(member.found_at)
        for member in shown
        if member.found_at.via is not None
    }
    reply = _described(directory.facts, Kind.DIRECTORY, None)
    reply.body = Octets(name_lines(shown))
    reply.media_type = "text/plain"
    reply.listing = LinkReader(shown, found_in)
    reply.verified |= frozenset() if members.gaps else _VERIFIED
    reply.findings += [finding for answer in members.answers for finding in _told(answer)]
    reply.findings += [Finding("prospero:incomplete", "warn", gap) for gap in members.gaps]
    if members.filtered:
        reply.findings.append(Finding("prospero:filter", "warn", "links have filters, which are not run"))
    return reply


def _described(
    facts: Facts, kind: Kind, target: str | None, extra: dict[str, JsonValue] | None = None
) -> Reply:
    """A reply without a body, with what the object's attributes say."""
    ways: dict[str, JsonValue] = (
        {"access_methods": [way.as_json() for way in facts.ways]} if facts.ways else {}
    )
    place: dict[str, JsonValue] = {"moved_to": facts.place.url} if facts.place.via is not None else {}
    return Reply(
        kind=kind,
        body=Octets(),
        size=None if kind is Kind.DIRECTORY else read_size(facts.attributes),  # not that of our lines
        modified=read_modified(facts.attributes),
        meta=tuple(describe(facts.attributes)),
        target=target,
        extra=place | ways | (extra or {}),
        findings=list(_told(facts.answer)),
    )


def _told(answer: Answer) -> Iterator[Finding]:
    """What the server warned of, and what made no sense."""
    for warning in answer.warnings:
        yield Finding("prospero:warning", "warn", warning)
    for oddity in answer.oddities:
        yield Finding("prospero:odd-line", "warn", oddity)
