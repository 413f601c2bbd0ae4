"""What one run remembers, in memory and bounded: where links stand, what was chosen, the documents that the
content port shows, and what was opened.

Every ID is 128 bits that nobody guesses, and means nothing to another run.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict

from protocols.location import Origin, Referrer
from protocols.values import NamedTuple
from resolver.window.listings import ListingCache
from resolver.window.pages.own import OpenedUrl

_MOST_MARKS = 4_096
_MOST_DOCUMENTS = 64
_MOST_OCTETS = 67_108_864
_MOST_HISTORY = 1_000
_ID_OCTETS = 16


class UrlOrigin(NamedTuple):
    """How a URL came here, as the policy wants to know it."""

    origin: Origin
    referrer: Referrer | None = None


class SessionLink(NamedTuple):
    """What an ID stands for. A page: its links are derived, and `found` is where they stand. Or a decision:
    the person may open `opens` that `way`, and nothing else."""

    found: Referrer | None
    opens: str | None = None
    way: UrlOrigin = UrlOrigin("chosen")


class ContentDocument(NamedTuple):
    """What came from elsewhere, as the content port sends it. `media_type` is one of ours."""

    content: bytes
    media_type: str
    name: str
    inline: bool


class WebSession:
    """Of one run."""

    def __init__(self) -> None:
        self._marks: OrderedDict[str, SessionLink] = OrderedDict()
        self._documents: OrderedDict[str, ContentDocument] = OrderedDict()
        self._octets = 0
        self.listings = ListingCache()
        self.history: list[OpenedUrl] = []

    def mark(self, mark: SessionLink) -> str:
        """Its ID."""
        while len(self._marks) >= _MOST_MARKS:
            self._marks.popitem(last=False)
        self._marks[found := new_id()] = mark
        return found

    def marked(self, mark_id: str) -> SessionLink | None:
        return self._marks.get(mark_id)

    def keep(self, document: ContentDocument) -> str:
        """Its ID; the oldest ones make room."""
        self._octets += len(document.content)
        self._documents[found := new_id()] = document
        while len(self._documents) > 1 and (
            self._octets > _MOST_OCTETS or len(self._documents) > _MOST_DOCUMENTS
        ):
            _, oldest = self._documents.popitem(last=False)
            self._octets -= len(oldest.content)
        return found

    def document(self, document_id: str) -> ContentDocument | None:
        return self._documents.get(document_id)

    def visit(self, opened: OpenedUrl) -> None:
        """The newest is last; the same one again is once there."""
        self.history = [*(each for each in self.history if each.url != opened.url), opened][-_MOST_HISTORY:]

    def way_to(self, url: str, from_id: str) -> UrlOrigin:
        """How a URL came here that an address of ours names. What says of no page was chosen by the person,
        elsewhere; a page that is forgotten may have been anybody's."""
        if not from_id:
            return UrlOrigin("chosen")
        mark = self._marks.get(from_id, SessionLink(None))
        return mark.way if mark.opens == url else UrlOrigin("derived", mark.found)


def new_id() -> str:
    return secrets.token_urlsafe(_ID_OCTETS)
