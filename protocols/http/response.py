"""The head of an HTTP response, and the meaning of its fields (RFC 9110 6 and 8, RFC 9112 6.3).

Field names are in lower case. Field values are the received bytes, decoded as Latin-1. An invalid field is
ignored if it contains only metadata. h11 has already checked all framing fields.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from protocols.authority import comparable_host
from protocols.contract import Moved
from protocols.errors import (
    AccessDenied,
    Declined,
    LimitExceeded,
    LoginRequired,
    NotFound,
    ProtocolError,
    TryLater,
)
from protocols.http.url import HttpUrl
from protocols.location import Finding
from protocols.options import Limits
from protocols.syntax import decode

#: The maximum size in bytes of all heads of a response, including interim responses (1xx). A thousand lines
#: of 64 KiB would be 62 MiB. Browsers accept 256 KiB to 400 KiB, curl 300 KiB.
MAX_HEAD = 262_144

#: The maximum Content-Length in bytes. A larger number does not fit into a file offset.
_LARGEST = 2**63 - 1

_PARAMETER = re.compile(r';[ \t]*charset[ \t]*=[ \t]*(?:"([^"\\]*)"|([^\s;"]+))', re.IGNORECASE)
_UNESCAPED = re.compile("[ \x80-\xff]")
_ESSENCE = re.compile(r"\s*([-!#$%&'*+.^_`|~0-9A-Za-z]+/[-!#$%&'*+.^_`|~0-9A-Za-z]+)\s*(?:;|\Z)")


#: The status Switching Protocols: after it, the connection uses another protocol (RFC 9110 15.2.2).
SWITCHING = 101


class BodyFraming(enum.Enum):
    """The framing of a response: how the end of the body is marked (RFC 9112 6.3)."""

    NONE = "there is no body"
    LENGTH = "Content-Length"
    CHUNKED = "the last chunk"
    CLOSE = "the end of the connection"


@dataclass(slots=True)
class ResponseHead:
    """The status line and the header fields of a final response.

    `length` is set only if the framing is LENGTH. `first` contains the first value of each field. `codings`
    are the content codings in lower case, without `identity`.
    """

    status: int
    reason: str
    fields: tuple[tuple[str, str], ...]
    framing: BodyFraming = BodyFraming.CLOSE
    length: int | None = None
    first: dict[str, str] = field(init=False, repr=False, compare=False)
    codings: list[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.first = dict(self.fields[::-1])
        self.codings = self._list_codings() if "content-encoding" in self.first else []

    def find_framing(self, method: bytes, version: str = "1.1") -> None:
        """Set how the end of the body is found (RFC 9112 6.3), and the body's length if it is known.

        The fields must have been checked by h11.

        Raises:
            ProtocolError: the head has both a transfer coding and a length, or a transfer coding in HTTP/1.0.
                Two servers on the path could then find different ends of the body, and read the remaining
                bytes as another response (response smuggling, RFC 9112 6.1, 11.2).
        """
        # The bytes after the head belong to the tunnel, and framing fields are ignored.
        if method == b"CONNECT" and 200 <= self.status < 300:
            self.framing = BodyFraming.NONE
            return
        if self.status == SWITCHING:
            return
        if is_coded := "transfer-encoding" in self.first:
            if "content-length" in self.first:
                raise ProtocolError("the response has both Transfer-Encoding and Content-Length")
            if version != "1.1":
                raise ProtocolError(f"the response is HTTP/{version}, which has no Transfer-Encoding")
        if method == b"HEAD" or self.status in (204, 304):
            self.framing = BodyFraming.NONE
        elif is_coded:
            self.framing = BodyFraming.CHUNKED
        elif "content-length" in self.first:
            self.framing = BodyFraming.LENGTH
            self.length = content_length(self.first["content-length"])

    def values(self, name: str) -> list[str]:
        """Return the values of all fields with a (lower-case) name."""
        return [value for field_name, value in self.fields if field_name == name]

    @property
    def shown(self) -> str:
        """Return the status code and reason phrase for a message to the user."""
        return f"{self.status} {self.reason}".rstrip()

    @property
    def content_type(self) -> tuple[str | None, str | None]:
        """Return the media type in lower case and the charset unchanged, each None if absent or invalid."""
        value = self.first.get("content-type", "")
        essence, charset = _ESSENCE.match(value), _PARAMETER.search(value)
        return essence and essence[1].lower(), charset and (charset[1] or charset[2] or None)

    @property
    def announced(self) -> int | None:
        """Return the Content-Length.

        A response to HEAD may have a Content-Length too, although the response has no body.

        With a transfer coding, the result is `None`, because Content-Length is then meaningless (RFC 9112
        6.3). The result is also `None` for 204, because a 204 response has no content (RFC 9110 15.3.5).
        """
        if self.length is not None or self.status == 204 or "transfer-encoding" in self.first:
            return self.length
        value = self.first.get("content-length")
        return None if value is None else content_length(value)

    def _list_codings(self) -> list[str]:
        values = self.values("content-encoding")
        names = [coding.strip().lower() for coding in ",".join(values).split(",")]
        return [coding for coding in names if coding not in ("", "identity")]


def check_head_size(octets: int, limits: Limits) -> None:
    """Check the number of bytes of the head that were received.

    The maximum size is never smaller than the limit for a single line.

    Raises:
        LimitExceeded: the head is too long.
    """
    max_size = max(MAX_HEAD, limits.line)
    if octets > max_size:
        raise LimitExceeded("lines", f"the head of the response is longer than {max_size} bytes")


def content_length(value: str) -> int:
    """Parse a Content-Length. h11 has already checked that the value consists of digits.

    Raises:
        ProtocolError: the length is 2^63 or more.
    """
    length = int(value)
    if length > _LARGEST:
        raise ProtocolError(f"Content-Length {length} is out of range")
    return length


# Dates in header fields (RFC 9110 5.6.7). The client writes the current format, and also parses the two
# obsolete formats.

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NUMBERS = {name: f"{number:02}" for number, name in enumerate(MONTHS, 1)}
_TIME = r"((?:[01]\d|2[0-3]):\d\d:\d\d)"
_IMF_FIXDATE = re.compile(rf"(?a)[A-Z][a-z]{{2}}, (\d\d) ([A-Z][a-z]{{2}}) (\d{{4}}) {_TIME} GMT")
# `re` compiles the obsolete formats on first use.
_RFC_850 = rf"(?a)[A-Z][a-z]+, (\d\d)-([A-Z][a-z]{{2}})-(\d\d) {_TIME} GMT"
_ASCTIME = rf"(?a)[A-Z][a-z]{{2}} ([A-Z][a-z]{{2}}) ([ \d]\d) {_TIME} (\d{{4}})"
#: The first two-digit year of the 20th century in dates of RFC 850. By RFC 9110, a year far in the future
#: means a year in the past. Web servers have no dates before 1970, so 70 to 99 mean 1970 to 1999.
_CENTURY_TURN = 70


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def format_date(moment: datetime) -> str:
    """Return the date as a field value. A `datetime` without a time zone counts as UTC."""
    utc = moment.astimezone(UTC) if moment.tzinfo is not None else moment
    day, month = _DAYS[utc.weekday()], MONTHS[utc.month - 1]
    return f"{day}, {utc.day:02} {month} {utc.year:04} {utc:%H:%M:%S} GMT"


def parse_date(text: str) -> datetime | None:
    """Parse a date, and return it in UTC, or None for an invalid date."""
    if match := _IMF_FIXDATE.fullmatch(text):
        day, month, year, time = match.groups()
    elif match := re.fullmatch(_RFC_850, text):
        day, month, year, time = match.groups()
        year = f"19{year}" if int(year) >= _CENTURY_TURN else f"20{year}"
    elif match := re.fullmatch(_ASCTIME, text):
        month, day, time, year = match.groups()
        day = day.replace(" ", "0")
    else:
        return None
    clock = time[:6] + min(time[6:], "59")  # `datetime` does not support second 60 (a leap second).
    try:
        return datetime.fromisoformat(f"{year}-{_NUMBERS[month]}-{day}T{clock}+00:00")
    except (KeyError, ValueError):
        return None


# The meaning of a status code (RFC 9110 15): object, redirect or error.

_REFUSALS: dict[int, type[Declined]] = {
    401: LoginRequired,
    403: AccessDenied,
    404: NotFound,
    407: LoginRequired,
    408: TryLater,
    410: NotFound,
    425: TryLater,
    429: TryLater,
    500: TryLater,
    502: TryLater,
    503: TryLater,
    504: TryLater,
}
#: The status codes of redirects with the new URL of the object in Location. Three codes are excluded: 304 is
#: the response to a conditional request, 305 contains a proxy, and 306 is unused.
_ELSEWHERE = frozenset({300, 301, 302, 303, 307, 308})
#: No Content and Reset Content (RFC 9110 15.3.5, 15.3.6): these are not empty objects, and empty no file.
_EMPTY = frozenset({204, 205})
_PARTIAL = 206

_SECONDS = r"[0-9]+"
_MAX_WAIT = 86_400.0


def check_status(head: ResponseHead, *, part: bool = False, file: bool = False) -> Moved | None:
    """Interpret the status code of a response.

    The requested content is the object, or the requested `part` (range) of the object. With `file`, the
    content is for a file.

    Returns:
        `Moved` for a redirect. None if the response has the requested content.

    Raises:
        Declined: the server refused, or has no content for a file. The status code determines the subclass.
        ProtocolError: the response contains a range that was not requested, or is a redirect without a usable
            location.
    """
    if head.status in _ELSEWHERE and (location := _location(head)) is not None:
        return Moved(location, str(head.status))
    if head.status >= 400 or (file and head.status in _EMPTY):
        raise _refusal(head)
    if head.status >= 300:
        lacking = "without a location" if head.status in _ELSEWHERE else "instead of the content"
        raise ProtocolError(f"the server answers {head.shown} {lacking}")
    if head.status == _PARTIAL and not part:
        raise ProtocolError(f"the server answers {head.shown}, but no range was requested")
    return None


def _refusal(head: ResponseHead) -> Declined:
    kind = _REFUSALS.get(head.status, Declined)
    message, code = f"the server answers {head.shown}", str(head.status)
    if issubclass(kind, TryLater):
        after, until = _retry_after(head)
        return kind(message, code=code, text=head.reason, after=after, until=until)
    error = kind(message, code=code, text=head.reason)
    return error.with_setting("proxy") if head.status == 407 else error


def _retry_after(head: ResponseHead) -> tuple[float | None, datetime | None]:
    """Parse Retry-After, which contains a number of seconds or a date (RFC 9110 10.2.3).

    If the response has a Date field, a date in Retry-After is converted: the result is the number of seconds
    between the two dates.
    """
    value = head.first.get("retry-after", "")
    if re.fullmatch(_SECONDS, value):
        return min(float(value), _MAX_WAIT), None
    until, now = parse_date(value), parse_date(head.first.get("date", ""))
    if until is None or now is None:
        return None, until
    return min(max(0.0, (until - now).total_seconds()), _MAX_WAIT), None


def _location(head: ResponseHead) -> str | None:
    """Return the value of Location, or None.

    A URL has neither spaces nor bytes outside ASCII. Some servers and scripts send file names without
    percent-encoding. curl 7.88, wget 1.21 and browsers encode these bytes, and so does this function.

    Raises:
        ProtocolError: the response has several different locations, so the target is ambiguous.
    """
    values = set(head.values("location"))
    if len(values) > 1:
        raise ProtocolError(f"the server answers {head.shown} with {len(values)} different locations")
    return _UNESCAPED.sub(lambda octet: f"%{ord(octet[0]):02X}", values.pop()) or None if values else None


# The file name that a server suggests in Content-Disposition (RFC 6266, RFC 8187). The result may contain
# path separators. A caller that creates a file must sanitize the name first (path traversal).

_TOKEN = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_FIELD_PARAMETER = rf'(?s)[ \t]*;[ \t]*({_TOKEN})[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;"]+)'
#: RFC 8187 3.2: a charset, a language, and percent-encoded octets.
_EXTENDED = r"(?i:(utf-8)|(iso-8859-1))'[-A-Za-z0-9]*'((?:%[0-9A-Fa-f]{2}|[!-$&-~])+)"


def parse_suggested_name(value: str) -> bytes | None:
    """Parse the file name in a field value, which is decoded as Latin-1.

    `filename*` takes precedence over `filename`. The result is None if the file name is missing, or if
    the value violates the syntax of the RFC.
    """
    kind = re.match(rf"[ \t]*{_TOKEN}", value)
    position = 0 if kind is None else kind.end()
    parameters: dict[str, str] = {}
    while (parameter := re.compile(_FIELD_PARAMETER).match(value, position)) is not None:
        parameters.setdefault(parameter[1].lower(), parameter[2])
        position = parameter.end()
    if kind is None or value[position:].strip(" \t;"):
        return None
    extended = _decode_extended(parameters.get("filename*", ""))
    if extended is not None:
        return extended
    plain = parameters.get("filename")
    return None if plain is None else _unquote(plain).encode("latin-1")


def _decode_extended(text: str) -> bytes | None:
    written = re.fullmatch(_EXTENDED, text)
    if written is None:
        return None
    octets = decode(written[3])
    return octets if written[1] else octets.decode("latin-1").encode()


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text.startswith('"') else text


# Detection of a login page at the end of a redirect. Some services redirect a client without a login to a
# login page on another host. The status code of the login page is 200, so the page would be saved as the
# requested object.

_PAGES = ("text/html", "application/xhtml+xml")
#: The file name extensions of web pages (HTML), and of server-side scripts such as PHP.
_PAGE_SUFFIXES = frozenset(
    {b"html", b"htm", b"xhtml", b"shtml", b"php", b"asp", b"aspx", b"jsp", b"cgi", b"pl"}
)


def landed_elsewhere(url: HttpUrl, requested: tuple[str, bytes], media_type: str | None) -> Finding | None:
    """Return a finding if an HTML page arrived in place of the requested file.

    This is the case if the page is from another host and the requested file name is not an HTML name.

    `requested` is the host and file name of the request.
    """
    host, name = requested
    stem, _, suffix = name.rpartition(b".")
    is_data = bool(stem and suffix) and suffix.lower() not in _PAGE_SUFFIXES
    if media_type not in _PAGES or not is_data or comparable_host(host) == comparable_host(url.host):
        return None
    detail = (
        f"{url.host} answers with a page, which may be a login page and not the object requested from {host}"
    )
    return Finding("http:landed-elsewhere", "warn", detail)
