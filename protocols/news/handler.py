"""Opening a news or nntp URL: the one place where the pure parts meet a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.body import Octets, pour
from protocols.contract import Finding, Gate, JsonValue, Kind, Reply, Sink
from protocols.conversation import Conversation
from protocols.errors import Disconnected, Truncated
from protocols.news.block import BlockBody
from protocols.news.dialogue import converse
from protocols.news.groups import GroupReader
from protocols.news.link import Link
from protocols.news.overview import OverviewReader
from protocols.news.places import article_urls, group_urls
from protocols.news.reply import decode_text
from protocols.news.url import NewsUrl, NntpUrl
from protocols.news.wishes import Article, Found, Group, Groups, Part
from protocols.step import HandOver

_ARTICLE = "message/rfc822"
_LISTING = "text/plain"


@asynccontextmanager
async def open_news(url: NewsUrl | NntpUrl, gate: Gate) -> AsyncIterator[Reply]:
    """The reply to a news, snews, nntp or nntps URL, while its connection lives.

    Raises `Declined` where the server says no, `LoginRequired` where it wants a login and there is none,
    `Refused` (S06) where a login would be in the clear, `ProtocolError` for what is no news server. A
    block that ends early is `Truncated`, from the body.
    """
    async with Conversation(converse(url, gate.options, gate.limits), gate) as conversation:
        part = await conversation.run()
        found = conversation.result if part is None else _part(part).found
        link = conversation.seat.memory
        assert found is not None
        assert isinstance(link, Link)
        reply = _reply(url, found, link, gate)
        if part is not None:
            reply.body = Parts(conversation, _part(part), reply.verified)
        yield reply


def _part(step: HandOver) -> Part:
    assert isinstance(step, Part)
    return step


class Parts:
    """The body: the parts that the dialogue hands over, one behind the other.

    Between two blocks stands the line that ended the first one, as it came. A connection that ends
    before the last part has ended is `Truncated`.
    """

    def __init__(self, conversation: Conversation[Found], part: Part, verified: set[str]) -> None:
        self._conversation = conversation
        self._verified = verified
        self._part: Part | None = part
        self._block = BlockBody(conversation.stream, conversation.buffer)
        self._received = 0

    def __aiter__(self) -> Parts:
        return self

    async def __anext__(self) -> bytes:
        octets = b""
        while self._part is not None and not octets:
            octets = self._part.octets or b""
            if self._part.octets is None:
                octets = await self._from_block()
            if self._part.octets is not None or not octets:
                octets += await self._go_on()
        if not octets:
            raise StopAsyncIteration
        self._received += len(octets)
        return octets

    async def _from_block(self) -> bytes:
        """A body that is cut before its first octet has not begun."""
        try:
            return await anext(self._block, b"")
        except Truncated as error:
            if self._received or error.received:
                raise
            raise Disconnected("the connection ended before the first octet of the answer") from error

    async def _go_on(self) -> bytes:
        """To the next part; what stands between the two."""
        ended, between = self._part, self._block.block.terminator
        try:
            step = await self._conversation.resume(None)
        except Disconnected as error:
            raise Truncated(
                f"the connection ended after {self._received} octets of the listing", received=self._received
            ) from error
        if step is None:
            self._part = None
            self._verified.add("terminator")
            return b""
        self._part = _part(step)
        self._block = BlockBody(self._conversation.stream, self._conversation.buffer)
        return between if ended is not None and ended.octets is None else b""

    async def drain(self, sink: Sink) -> int:
        return await pour(self, sink)


def _reply(url: NewsUrl | NntpUrl, found: Found, link: Link, gate: Gate) -> Reply:
    match found:
        case Article():
            reply = _article(url, found)
        case Group():
            reply = _group(url, found, gate)
        case Groups():
            reply = _groups(url, found, gate)
    reply.findings += link.findings
    return reply


def _article(url: NewsUrl | NntpUrl, found: Article) -> Reply:
    head = found.head
    message_id = found.message_id or head.message_id
    findings = []
    if head.strays:
        detail = f"{head.strays} lines of the head are no header fields"
        findings.append(Finding("nntp:header-line", "allow", detail))
    extra: dict[str, JsonValue] = {
        "message_id": None if message_id is None else decode_text(message_id),
        "group": url.group.decode("ascii") if isinstance(url, NntpUrl) else None,
        "number": url.article if isinstance(url, NntpUrl) else None,
        "fields": [[field.name, field.raw.decode("latin-1")] for field in head.fields],
    }
    return Reply(
        kind=Kind.ARTICLE,
        body=Octets(),
        media_type=_ARTICLE,
        charset=head.charset,
        modified=head.date,
        title=head.decoded("subject"),
        meta=head.pairs,
        extra=extra,
        findings=findings,
    )


def _group(url: NewsUrl | NntpUrl, found: Group, gate: Gate) -> Reply:
    group, selected = url.group or b"", found.selected
    reply = Reply(
        kind=Kind.GROUP,
        body=Octets(),
        media_type=_LISTING,
        extra={
            "name": decode_text(group),
            "count": selected.count,
            "low": selected.low,
            "high": selected.high,
            "first": None if selected.is_empty else found.first,
            "cut": found.is_cut,
        },
    )
    if found.is_cut:
        detail = (
            f"only the newest: numbers {found.first} to {selected.high}, and the group begins at"
            f" {selected.low} (--entries 0 lists all)"
        )
        reply.findings.append(Finding("nntp:cut", "warn", detail))
    reply.listing = OverviewReader(group, article_urls(url), gate.limits.line, reply.findings)
    return reply


def _groups(url: NewsUrl | NntpUrl, found: Groups, gate: Gate) -> Reply:
    pattern = url.group or b"*"
    extra: dict[str, JsonValue] = {"pattern": decode_text(pattern), "count": found.count}
    reply = Reply(kind=Kind.DIRECTORY, body=Octets(), media_type=_LISTING, extra=extra)
    reply.listing = GroupReader(pattern, group_urls(url), gate.limits.line, reply.findings)
    return reply
