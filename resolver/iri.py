"""An international address (IRI, RFC 3987) made into a URL, only when somebody asks for it.

The host becomes A-labels (IDNA 2008 with the mapping of UTS 46, non-transitional); every other
character outside ASCII is escaped as UTF-8. What is ASCII stays as it is, right or wrong: the result
is text that nobody has judged yet, for `parse` and the policy.
"""

from __future__ import annotations

import re

from protocols.errors import InvalidUrl
from protocols.syntax import encode, invalid

_BEFORE_HOST = re.compile(r"<?(?:URL:)?[A-Za-z][A-Za-z0-9+.-]*://", re.IGNORECASE)
_AUTHORITY = re.compile(r"[^/?#<>]*")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_HOST = re.compile(r"[0-9a-z.-]+\Z")


def convert_iri(text: str) -> str:
    """The URL for an IRI (RFC 3987 3.1), not parsed yet.

    Args:
        text: what a person typed.

    Raises:
        InvalidUrl: `bad-host` for a host that has no ASCII form, `non-ascii` for a lone surrogate.

    Examples:
        >>> resolver.convert_iri("http://bücher.example/straße")
        'http://xn--bcher-kva.example/stra%C3%9Fe'
    """
    prefix = _BEFORE_HOST.match(text)
    if prefix is None:
        return _escape(text, 0, len(text))
    authority = _AUTHORITY.match(text, prefix.end())
    end = prefix.end() if authority is None else authority.end()
    host = text.rfind("@", prefix.end(), end) + 1 or prefix.end()
    colon = text.find(":", host, end)
    port = end if colon < 0 else colon
    before = _escape(text, 0, host)
    return f"{before}{_convert_host(text, host, port)}{_escape(text, port, len(text))}"


def _escape(text: str, start: int, end: int) -> str:
    try:
        return _FOREIGN.sub(lambda found: encode(found[0].encode("utf-8")), text[start:end])
    except UnicodeEncodeError as error:
        wrong = re.compile("[\ud800-\udfff]").search(text, start)
        position = start if wrong is None else wrong.start()
        raise invalid(text, "non-ascii", "lone surrogate", position) from error


def _convert_host(text: str, start: int, end: int) -> str:
    host = text[start:end]
    if host.isascii():
        return host
    import idna  # tables of half a megabyte, for this function alone

    try:
        converted = idna.encode(host, uts46=True, std3_rules=True, transitional=False).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise _no_host(text, start) from error
    # UTS 46 may map to delimiters (U+FF0F to a slash, CVE-2019-9636).
    if not _HOST.match(converted):
        raise _no_host(text, start)
    return converted


def _no_host(text: str, start: int) -> InvalidUrl:
    return invalid(text, "bad-host", "host without an ASCII form", start)
