"""news and nntp URLs (RFC 1738 3.6, 3.7; RFC 5538): a group, an article, a server."""

from __future__ import annotations

import re
from dataclasses import dataclass

from protocols.authority import (
    build_login,
    build_port,
    build_userinfo,
    build_zoned,
    is_hostname,
    parse_hostport,
    parse_login,
)
from protocols.errors import InvalidUrl
from protocols.location import HostUrl, Url, UrlText
from protocols.syntax import (
    build_url,
    decode,
    encode,
    find,
    invalid,
    note_characters,
    position_at,
    take,
)

_MAX_ID = 248  # maximum bytes of a message-id; RFC 5536 3.1.3 allows 250 octets with angle brackets
_MAX_GROUP = 494  # maximum bytes of a group name; a command line has at most 512 octets (RFC 3977 3.1)
_ID_DATA = ";/?:&="
_NOT_IN_ID = frozenset([*range(0x21), 0x3C, 0x3E, *range(0x7F, 0x100)])
_GROUP = re.compile(rb"[0-9A-Za-z.+_-]+")
_WILDMAT = re.compile(rb"[0-9A-Za-z.+_*-]+")
_NOT_DIGIT = re.compile(r"[^0-9]")
MAX_DIGITS = 16  # maximum length of an article number (RFC 3977 6)
_MAX_NUMBER = 9_999_999_999_999_999
_HOSTNUMBER = re.compile(r"[0-9]+(?:\.[0-9]+){3}\Z")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewsUrl(Url):
    """The URL of an article or a group; exactly one of `group` and `message_id` is set.

    `host` is set if the URL names a server (RFC 5538). For a URL without a server, the caller chooses the
    server.

    Examples:
        >>> resolver.parse("news:comp.misc").group, resolver.parse("news:1@h.example").message_id
        (b'comp.misc', b'1@h.example')
    """

    group: bytes | None = None
    message_id: bytes | None = None
    user: bytes | None = None
    password: bytes | None = None
    host: str | None = None
    port: int | None = None
    default_port: int = 119
    zone: str | None = None

    @property
    def effective_port(self) -> int:
        return self.default_port if self.port is None else self.port


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NntpUrl(HostUrl):
    """The URL of a group on a server, or the URL of an article in the group if `article` is set.

    Examples:
        >>> url = resolver.parse("nntp://news.example/comp.misc/1234")
        >>> url.group, url.article
        (b'comp.misc', 1234)
    """

    group: bytes = b""
    article: int | None = None


def parse_news(text: UrlText) -> NewsUrl:
    """Parse a `news:` or `snews:` URL. A server without a path names all groups (RFC 5538 2.2)."""
    if not text.text.startswith("//", text.start, text.end):
        group, message_id = _parse_article(text, text.start)
        return NewsUrl(
            group=group, message_id=message_id, default_port=text.default_port or 119, **text.common()
        )
    text.note("news-server", text.start)
    login, start = parse_login(text)
    group, message_id = (b"*", None) if text.end - start < 2 else _parse_article(text, start + 1)
    return NewsUrl(**login, group=group, message_id=message_id, **text.common())


def _parse_article(text: UrlText, start: int) -> tuple[bytes | None, bytes | None]:
    """Return a group or a message-id, and None for the other. A plain `@` marks a message-id."""
    at = find(text, "@", start)
    if at < text.end:
        return None, _parse_message_id(text, start, at)
    group = _parse_group(text, start, text.end, _WILDMAT)
    if b"*" in group and group != b"*":
        text.note("news-wildmat", start)
    return group, None


def _parse_message_id(text: UrlText, start: int, at: int) -> bytes:
    octets = take(text, "message_id", start, text.end)
    second = find(text, "@", at + 1)
    if second < text.end or at in (start, text.end - 1):
        position = second if second < text.end else at
        raise invalid(text.text, "bad-message-id", "message-id without exactly one @ inside", position)
    if (wrong := _find_wrong_in_id(octets)) is not None:
        raise invalid(text.text, "bad-message-id", "message-id", position_at(text.text, start, wrong))
    note_characters(text, start, at, _ID_DATA)
    note_characters(text, at + 1, text.end, "")
    escape = find(text, "%", at + 1)
    if escape < text.end:
        text.note("encoded-host", escape)
    domain = decode(text.text[at + 1 : text.end]).decode("ascii")
    if not is_hostname(domain) and not _HOSTNUMBER.match(domain):
        text.note("host-syntax", at + 1)
    return octets


def _parse_group(text: UrlText, start: int, end: int, allowed: re.Pattern[bytes]) -> bytes:
    octets = take(text, "group", start, end)
    if (wrong := _find_wrong_in_group(octets, allowed)) is not None:
        raise invalid(text.text, "bad-group", "newsgroup", position_at(text.text, start, wrong))
    escape = find(text, "%", start, end)
    if escape < end:
        text.note("group-syntax", escape)
    if not octets[:1].isalpha() and not octets.startswith(b"*"):
        text.note("group-syntax", start)
    return octets


def parse_nntp(text: UrlText) -> NntpUrl:
    """Parse an `nntp:` or `nntps:` URL; the path is `/group` or `/group/number`."""
    login, start = parse_hostport(text)
    if text.end - start < 2:
        raise invalid(text.text, "missing-path", "newsgroup", start)
    slash = find(text, "/", start + 1)
    group = _parse_group(text, start + 1, slash, _GROUP)
    article = None if slash == text.end else _parse_number(text, slash + 1)
    return NntpUrl(**login, group=group, article=article, **text.common())


def _parse_number(text: UrlText, start: int) -> int:
    digits = text.cut("article", start, text.end)
    if wrong := _NOT_DIGIT.search(digits):
        raise invalid(text.text, "bad-article", "article number", start + wrong.start())
    if not 1 <= len(digits) <= MAX_DIGITS:
        raise invalid(text.text, "bad-article", "article number of 1 to 16 digits", start)
    return int(digits)


def _find_wrong_in_id(octets: bytes) -> int | None:
    """Return the index of the first byte that is invalid in a message-id, or None."""
    if len(octets) > _MAX_ID:
        return _MAX_ID
    return next((index for index, octet in enumerate(octets) if octet in _NOT_IN_ID), None)


def _find_wrong_in_group(octets: bytes, allowed: re.Pattern[bytes]) -> int | None:
    match = allowed.match(octets)
    good = match.end() if match else 0
    if 0 < good == len(octets) <= _MAX_GROUP:
        return None
    return min(good, _MAX_GROUP)


def build_news(url: NewsUrl) -> str:
    """Return the URL as text.

    Raises:
        InvalidUrl: the group or the message-id cannot be represented in a URL.
    """
    article = _build_article(url)
    if url.host is None:
        # Two slashes at the start of a message-id would be parsed as the start of a server.
        return build_url(url, "%2F" + article[1:] if article.startswith("//") else article)
    server = f"{build_userinfo(url.user, url.password)}{build_zoned(url.host, url.zone)}"
    return build_url(url, f"//{server}{build_port(url.port, url.default_port)}/{article}")


def _build_article(url: NewsUrl) -> str:
    if url.message_id is None:
        return _build_group(url.group or b"", _WILDMAT)
    left, at, right = url.message_id.rpartition(b"@")
    wrong = _find_wrong_in_id(url.message_id)
    if wrong is not None or not (left and at and right):
        shown = url.message_id.decode("latin-1")
        raise InvalidUrl("bad-message-id", wrong or 0, f"bad-message-id: {shown!r}")
    return f"{encode(left, _ID_DATA)}@{encode(right)}"


def _build_group(octets: bytes, allowed: re.Pattern[bytes]) -> str:
    wrong = _find_wrong_in_group(octets, allowed)
    if wrong is not None:
        shown = octets.decode("latin-1")
        raise InvalidUrl("bad-group", wrong, f"bad-group: {shown!r} is not a newsgroup that a URL can name")
    return octets.decode("ascii")


def is_article(number: int) -> bool:
    return 0 <= number <= _MAX_NUMBER


def build_nntp(url: NntpUrl) -> str:
    """Return the URL as text.

    Raises:
        InvalidUrl: the group or the article number cannot be represented in a URL.
    """
    group = _build_group(url.group, _GROUP)
    if url.article is None:
        return build_url(url, f"{build_login(url)}/{group}")
    if not is_article(url.article):
        raise InvalidUrl("bad-article", 0, f"bad-article: {url.article} must have 1 to 16 digits")
    return build_url(url, f"{build_login(url)}/{group}/{url.article}")


def list_names(url: NntpUrl) -> tuple[bytes, ...]:
    """Return the group of the URL, and the article number if the URL has one."""
    if not url.group:
        return ()
    return (url.group,) if url.article is None else (url.group, b"%d" % url.article)


def by_number(url: NewsUrl) -> str | None:
    """Return the nntp URL for the group of a news URL, or None without a server.

    An nntp URL can name an article by its number.
    """
    if url.host is None or url.user is not None or url.group is None or b"*" in url.group:
        return None
    return f"{'nntps' if url.scheme == 'snews' else 'nntp'}:{url.text.partition(':')[2]}"
