"""Index pages of http servers as entries: the response to a directory's URL, which ends in a slash.

- `html`: HTML pages, and the decision whether a page is an index.
- `markup`, `standard`: the parsers of HTML: lxml (the extra `html`), and the standard library's.
- `structured`: JSON and XML.
- `entries`: links, sizes and dates in all formats.

The head of the response selects the reader, which parses the bytes of the page.
"""

from __future__ import annotations

from protocols.http.response import ResponseHead
from protocols.http.url import HttpUrl
from protocols.location import EntryReader, Finding
from protocols.options import Limits

_OK = 200
_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_XML = frozenset({"text/xml", "application/xml"})


def index_reader(
    url: HttpUrl, head: ResponseHead, limits: Limits, findings: list[Finding]
) -> EntryReader | None:
    """Return a reader for the response to `url`, or None if the response cannot be an index.

    The reader raises `Declined` if the content is not an index.
    """
    ends_in_slash = not url.path or url.path.endswith("/")
    if head.status != _OK or not ends_in_slash or head.values("content-disposition"):
        return None
    media_type, _ = head.content_type
    if media_type in _MARKUP:
        from protocols.http.index.html import MarkupReader  # lazy import: the module loads an HTML parser

        return MarkupReader(url, limits, findings)
    if media_type == "application/json":
        # lazy import: few servers have JSON indexes
        from protocols.http.index.structured import ObjectReader

        return ObjectReader(url, limits, findings)
    if media_type in _XML:
        from protocols.http.index.structured import ElementReader  # lazy import: few servers have XML indexes

        return ElementReader(url, limits, findings)
    return None
