"""What came on one connection, from behind the header line on, as a `Reply`.

Framed: the header says where the data end and whether they are an error. Unframed: the end of the
connection does, and the first octets are looked at for what may be an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from protocols.body import Octets, StreamBody
from protocols.contract import EntryReader, JsonValue, Reply, Stream
from protocols.errors import (
    Declined,
    LimitExceeded,
    ProtocolError,
)
from protocols.gopher.attributes import RECORD_LIMIT, parse_records, reduce_record
from protocols.gopher.bodies import Cut, Evidence, TextBody
from protocols.gopher.framing import Ending, Header
from protocols.gopher.item_types import SIGNATURE_LENGTH, Reading, find_type
from protocols.gopher.lookahead import LookAhead
from protocols.gopher.menu import MenuReader
from protocols.gopher.periods import Periods
from protocols.gopher.reading import (
    RECORD_MARK_LENGTH,
    Listing,
    Shape,
    shape_of_framed,
    shape_of_unframed,
)
from protocols.gopher.record_listing import FormEntries, RecordEntries, form_of, missing_findings, record_json
from protocols.gopher.refusals import ERROR_LIMIT, LineWatch, MenuWatch, parse_refusal
from protocols.gopher.request import SAFE_REQUEST, Ask, command_in, encode_request, line_length
from protocols.gopher.url import GopherUrl
from protocols.wire import Buffer

AnyBody: TypeAlias = "StreamBody | Cut | TextBody"


class Answer:
    """The answer to one request. `reply` or `form` is awaited, once. `line_limit` is the longest line of
    a listing, in octets."""

    def __init__(
        self, url: GopherUrl, header: Header | None, stream: Stream, buffer: Buffer, line_limit: int
    ) -> None:
        self._url = url
        self._command = command_in(url)
        self._header = header
        self._stream = stream
        self._line_limit = line_limit
        self._ahead = LookAhead(stream, buffer)
        self.evidence = Evidence(stream)
        self._note_oddities()

    def _note_oddities(self) -> None:
        sent = line_length(encode_request(self._url))
        if sent > SAFE_REQUEST:
            self.evidence.warn(
                "gopher:long-request", f"a request of {sent} octets; some servers read {SAFE_REQUEST}"
            )
        if self._header is None and self._url.gopherplus:
            self.evidence.warn(
                "gopher:unframed", "the server did not honour Gopher+: its reply has no header line"
            )

    async def reply(self) -> Reply:
        """The reply to hand on, its body still to come; of a single item's attributes, all of it."""
        shape, body = await self._open()
        if shape.listing is Listing.RECORDS and self._command.ask is Ask.ATTRIBUTES:
            return await self._record(body)
        view = self._command.view.decode("latin-1")
        return Reply(
            kind=shape.kind,
            body=body,
            media_type=shape.media_type,
            size=None if self._header is None else self._header.count,
            meta=(("view-requested", view),) if view else (),
            extra={"view_requested": view} if view else None,
            listing=self._listing(shape),
            untouched=body.restore if isinstance(body, TextBody) else None,
            findings=self.evidence.findings,
            verified=self.evidence.verified,
        )

    def _listing(self, shape: Shape) -> EntryReader | None:
        match shape.listing:
            case Listing.ITEMS:
                return MenuReader(self._url, self._line_limit)
            case Listing.RECORDS:
                return self._record_entries()
        return None

    def _record_entries(self) -> RecordEntries:
        names = self._command.attributes
        return RecordEntries(self._url, names, self.evidence.report, self._line_limit)

    async def _record(self, body: AnyBody) -> Reply:
        """The attributes of one item, reduced to those that were asked for."""
        octets = await _collect(body)
        records = parse_records(octets, self._line_limit)
        if not records:
            raise ProtocolError("the reply to a request for attributes holds none")
        names = self._command.attributes
        reduced, missing = records[0].select(names)
        for finding in missing_findings(missing):
            self.evidence.report(finding)
        shown, extra = reduce_record(octets, names), record_json(reduced, missing)
        return self._collected(body, octets, shown, extra, self._record_entries())

    async def form(self) -> Reply | None:
        """The item's form, its lines as a listing; None if the item has none."""
        shape, body = await self._open()
        if shape.listing is not Listing.RECORDS:
            return None
        octets = await _collect(body)
        records = parse_records(octets, self._line_limit)
        form = form_of(records[0]) if records else None
        if form is None:
            return None
        for finding in form.findings(in_clear=not self._stream.secured):
            self.evidence.report(finding)
        return self._collected(
            body, octets, octets, record_json(records[0], ()), FormEntries(self._line_limit)
        )

    def _collected(
        self,
        body: AnyBody,
        octets: bytes,
        shown: bytes,
        extra: Mapping[str, JsonValue],
        listing: EntryReader,
    ) -> Reply:
        raw = body.restore(octets) if isinstance(body, TextBody) else octets
        shape = shape_of_framed(self._url)
        return Reply(
            kind=shape.kind,
            body=Octets(shown),
            media_type=shape.media_type,
            size=len(shown),
            extra=extra,
            listing=listing,
            untouched=lambda _: raw,
            findings=self.evidence.findings,
            verified=self.evidence.verified,
        )

    async def _open(self) -> tuple[Shape, AnyBody]:
        """Read as much as tells what this is. Raises `Declined` if it is an error."""
        if self._header is None:
            return await self._open_unframed()
        if self._header.refused:
            raise await self._refusal(self._header)
        return await self._open_framed(self._header)

    async def _refusal(self, header: Header) -> Declined:
        """The error; its text may be cut short anywhere."""
        wanted = ERROR_LIMIT if header.count is None else min(header.count, ERROR_LIMIT)
        return parse_refusal(await self._ahead.at_least(wanted), self._url)

    async def _open_framed(self, header: Header) -> tuple[Shape, AnyBody]:
        wanted = SIGNATURE_LENGTH if find_type(self._url.gophertype).sniffed else 0
        if header.count is not None:
            wanted = min(wanted, header.count)
        shape = shape_of_framed(self._url, await self._ahead.at_least(wanted))
        match header.ending:
            case Ending.COUNT:
                return shape, self._octets(header.count, self.evidence.counted)
            case Ending.PERIOD:
                return shape, TextBody(self._octets(), Periods(), self.evidence, promised=True)
            case Ending.CLOSE:
                return shape, self._octets(None, self.evidence.closed)

    async def _open_unframed(self) -> tuple[Shape, AnyBody]:
        item_type = find_type(self._url.gophertype)
        first = await self._ahead.at_least(
            SIGNATURE_LENGTH if item_type.sniffed else RECORD_MARK_LENGTH if self._url.gopherplus else 0
        )
        watch = MenuWatch() if item_type.reading is Reading.MENU else LineWatch()
        await self._ahead.watch(watch)
        if watch.is_refusal:
            raise watch.refusal
        shape = shape_of_unframed(self._url, first)
        if shape.textual:
            return shape, TextBody(self._octets(), Periods(), self.evidence, promised=False)
        return shape, self._octets(None, self.evidence.closed)

    def _octets(
        self, count: int | None = None, at_end: Callable[[], Awaitable[None]] | None = None
    ) -> StreamBody | Cut:
        """The octets as they come: to `count`, or to the end."""
        buffer, failure = self._ahead.buffer, self._ahead.failure
        if failure is None or (count is not None and len(buffer) >= count):
            return StreamBody(self._stream, buffer, count, at_end)
        if not buffer:
            raise failure
        return Cut(buffer.take(), failure, count)


async def _collect(body: AnyBody) -> bytes:
    pieces: list[bytes] = []
    room = RECORD_LIMIT
    async for octets in body:
        pieces.append(octets)
        room -= len(octets)
        if room < 0:
            raise LimitExceeded("body", f"the attributes of one item are more than {RECORD_LIMIT} octets")
    return b"".join(pieces)
