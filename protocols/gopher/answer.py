"""The reply to one request, from behind its header line on: the facts, then the body to its end.

What it is has been found out by looking at it (`reading`), and nothing of it has been taken yet.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from protocols.gopher.content import Completeness, GopherContent
from protocols.gopher.request import ATTRIBUTES_VIEW, SAFE_REQUEST, GopherPlusCommand, RequestedView
from protocols.gopher.url import GopherUrl
from protocols.location import Kind
from protocols.reply import Reply
from protocols.step import Dialogue, StartBody
from protocols.values import NamedTuple

if TYPE_CHECKING:
    from protocols.entry import EntryReader
    from protocols.gopher.framing import GopherPlusHeader


class GopherListing(enum.Enum):
    """What the lines of a listing are."""

    ITEMS = "items"
    RECORDS = "records"


class ReplyShape(NamedTuple):
    """How a reply is read and what it is called. `textual`: unframed, its lone periods are undone."""

    kind: Kind
    media_type: str | None
    listing: GopherListing | None
    textual: bool


#: What a plan takes a reply for.
OCTETS = ReplyShape(Kind.DOCUMENT, None, None, textual=False)
RECORDS = ReplyShape(Kind.DIRECTORY, ATTRIBUTES_VIEW, GopherListing.RECORDS, textual=True)


class GopherAnswer:
    """The answer to one request, whose line had `sent` octets and said what `command` does. `line_limit` is
    the longest line of a listing, in octets. With `raw` it is octets as they came, whatever they are."""

    def __init__(
        self,
        url: GopherUrl,
        command: GopherPlusCommand,
        sent: int,
        header: GopherPlusHeader | None,
        shape: ReplyShape,
        line_limit: int,
        *,
        raw: bool = False,
    ) -> None:
        self.url = url
        self.command = command
        self.shape = shape._replace(listing=None) if raw else shape
        self._raw = raw
        self.line_limit = line_limit
        self.completeness = Completeness(secured=url.scheme == "gophers")
        self.content = GopherContent(header, self.completeness, textual=shape.textual, raw=raw)
        self._header = header
        self._note_oddities(sent)

    def _note_oddities(self, sent: int) -> None:
        if sent > SAFE_REQUEST:
            self.completeness.warn(
                "gopher:long-request", f"a request of {sent} octets; some servers read {SAFE_REQUEST}"
            )
        if self._header is None and self.url.gopherplus:
            self.completeness.warn(
                "gopher:unframed", "the server did not honour Gopher+: its reply has no header line"
            )

    @property
    def has_records(self) -> bool:
        """Is it made of attribute records?"""
        return self.shape.listing is GopherListing.RECORDS

    def give(self) -> Dialogue[None]:
        """The reply and its body. The attributes of a single item are facts and read before it, those of a
        directory are given as they come: of both, only the blocks that were asked for."""
        requested = self.command.requested if self.has_records else RequestedView.PLAIN
        if requested is RequestedView.ATTRIBUTES:
            from protocols.gopher.records import give_record  # few URLs ask so

            yield from give_record(self)
            return
        legible = requested is RequestedView.DIRECTORY
        names = self.command.attributes if legible else ()
        yield StartBody(self._reply(names, legible=legible))
        yield from self.content.give(names)

    def _reply(self, names: tuple[str, ...], *, legible: bool) -> Reply:
        view = self.command.view.decode("latin-1")
        return Reply(
            kind=self.shape.kind,
            media_type=self.shape.media_type,
            size=None if names else self._size,
            meta=(("view-requested", view),) if view else (),
            extra={"view_requested": view} if view else None,
            listing=None if self.shape.listing is None else self._listing(),
            legible=legible,
            raw=None if names else self.content.restore,
            findings=self.completeness.findings,
            verified=self.completeness.verified,
        )

    @property
    def _size(self) -> int | None:
        header = self._header
        if header is None or header.count is None:
            return None
        return header.count + len(header.octets) if self._raw else header.count

    def _listing(self) -> EntryReader | None:
        match self.shape.listing:
            case GopherListing.ITEMS:
                from protocols.gopher.menu import MenuReader  # a plan reads none

                return MenuReader(self.url, self.line_limit)
            case GopherListing.RECORDS:
                from protocols.gopher.records import record_entries

                return record_entries(self)
        return None
