"""Index pages of http servers as entries: what a directory's URL, which ends in a slash, is answered with.

`markup` reads HTML by what a `page` holds, once there is a `proof` that it is an index; `links` says what an
href leads to, `cells` what stands beside it. `objects` reads JSON, `elements` XML. All are machines that are
fed octets; which one, and whether any, is told by the head of the answer.
"""

from __future__ import annotations

from protocols.errors import UnsupportedScheme, missing_libraries
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
    """What reads the answer to `url` as an index, or declines to; None where it can be none.

    Raises `UnsupportedScheme` where what reads HTML is not installed.
    """
    ends_in_slash = not url.path or url.path.endswith("/")
    if head.status != _OK or not ends_in_slash or head.values("content-disposition"):
        return None
    if head.media_type in _MARKUP:
        return _markup_reader(url, limits, findings)
    if head.media_type == "application/json":
        from protocols.http.index.structured import ObjectReader  # few servers have one

        return ObjectReader(url, limits, findings)
    if head.media_type in _XML:
        from protocols.http.index.structured import ElementReader  # as above

        return ElementReader(url, limits, findings)
    return None


def _markup_reader(url: HttpUrl, limits: Limits, findings: list[Finding]) -> EntryReader:
    try:
        from protocols.http.index.html import MarkupReader  # brings lxml
    except ModuleNotFoundError as error:
        message = f"to tell whether a page is an index needs {missing_libraries('html')}"
        raise UnsupportedScheme(url.scheme, message) from error
    return MarkupReader(url, limits, findings)
