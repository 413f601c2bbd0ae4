"""The cookies of one run (RFC 6265bis): parsing, storage, and selection for a request.

This module is stricter than the standard because of S11 (credential scope). Port 80 of http and port 443 of
https share cookies. Every other port has separate cookies. A cookie jar that is not stored in a file is
deleted at the end of the run. For a cookie jar in a file, expiry times are compared with the local clock.
Otherwise, expiry times are compared with the Date field of the response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from protocols.authority import comparable_host
from protocols.dates import MONTHS, in_utc
from protocols.http.response import ResponseHead
from protocols.http.url import HttpUrl

#: Size limits in bytes. The limits apply to a cookie's name and value together, to an attribute's value, and
#: to the Cookie field in a request.
MAX_PAIR = 4_096
_MAX_ATTRIBUTE = 1_024
_MAX_FIELD = 16_384
#: The maximum number of cookies in a response, of a host, and of a run.
_MAX_SET, _MAX_OF_HOST, _MAX_COOKIES = 64, 50, 3_000
_MAX_LIFETIME = 400 * 86_400

CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

#: A function that returns the public suffix of a host name (RFC 6265bis 5.5). Anyone can register names below
#: a public suffix, such as `co.uk`.
SuffixOf = Callable[[str], str]


class Cookie(NamedTuple):
    """A stored cookie.

    The cookie is sent to `host`, and also to subdomains of `host` if `subdomains` is set. Host names have no
    trailing dot here. The default ports of http and https are stored as `None` in `port`. `expires` is in
    seconds since 1970. The value None means a session cookie, or a cookie in a jar that is not stored in a
    file. `http_only` is stored only because cookie files of other programs contain this attribute.
    """

    name: str
    value: str
    host: str
    port: int | None
    path: str
    subdomains: bool
    secure: bool
    serial: int
    expires: int | None = None
    http_only: bool = False

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.host, self.port, self.path, self.subdomains)


class Jar:
    """The cookie jar of a run: all cookies in the order in which they were set.

    `revision` is the number of changes that servers made. A cookie jar has a `clock` only if the jar is
    stored in a file. The expiry times of its cookies are compared with the `clock`.
    """

    def __init__(self, clock: Callable[[], datetime] | None = None) -> None:
        self.cookies: dict[tuple[object, ...], Cookie] = {}
        self.revision = 0
        self.clock = clock

    @property
    def now(self) -> float:
        return 0 if self.clock is None else self.clock().timestamp()

    def header(self, url: HttpUrl) -> bytes:
        """Return the value of the Cookie field for a request, or an empty value if no cookie matches.

        Cookies with longer paths come first. For equal lengths, cookies that were set earlier come first.
        """
        now = self.now
        sent = [item for item in self.cookies.values() if _is_for_url(item, url) and not item.is_expired(now)]
        value = ""
        for cookie in sorted(sent, key=lambda item: (-len(item.path), item.serial)):
            extended = f"{value}; {cookie.name}={cookie.value}" if value else f"{cookie.name}={cookie.value}"
            if len(extended) > _MAX_FIELD:
                break
            value = extended
        return value.encode("latin-1")

    def update(self, head: ResponseHead, url: HttpUrl, suffix_of: SuffixOf | None) -> None:
        """Store the cookies of a response. Without `suffix_of`, each cookie is valid for one host only."""
        now = head.first.get("date", "")
        for text in head.values("set-cookie")[:_MAX_SET]:
            self._set(text, url, suffix_of, now)

    def _set(self, text: str, url: HttpUrl, suffix_of: SuffixOf | None, now: str) -> None:
        if (pair := _read_pair(text)) is None:
            return
        attributes = dict(_split_attributes(text))
        domain = _choose_domain(attributes.get("domain", ""), comparable_host(url.host), suffix_of)
        if domain is None:
            return
        path = attributes.get("path", "")
        default = f"/{url.path or ''}".rpartition("/")[0] or "/"  # RFC 6265bis 5.1.4
        cookie = Cookie(
            *pair,
            *(domain[0], _get_port(url)),
            path=path if path.startswith("/") else default,
            subdomains=domain[1],
            secure="secure" in attributes,
            serial=self.revision,
            expires=None if self.clock is None else _compute_expiry(attributes, now, self.now),
            http_only="httponly" in attributes,
        )
        if self.clock is not None and "\t" in f"{cookie.name}{cookie.value}{cookie.path}":
            return  # A tab separates the fields of a cookie file. curl ignores a cookie with a tab, too.
        if _meets_conditions(cookie, attributes, url) and not self._would_displace(cookie, url):
            self._store(cookie, is_alive=_is_alive(attributes, now))

    def _would_displace(self, cookie: Cookie, url: HttpUrl) -> bool:
        """Return whether a response without TLS would replace a cookie that was set over TLS."""
        same = (old for old in self.cookies.values() if old.name == cookie.name and old.secure)
        return not url.secured and any(_overlap(old.host, cookie.host) for old in same)

    def _store(self, cookie: Cookie, *, is_alive: bool) -> None:
        earlier = self.cookies.get(cookie.key)
        if not is_alive:
            self.revision += self.cookies.pop(cookie.key, None) is not None
            return
        if earlier is not None and (earlier.value, earlier.secure) == (cookie.value, cookie.secure):
            self.cookies[cookie.key] = earlier._replace(expires=cookie.expires, http_only=cookie.http_only)
            return
        self.revision += 1
        if earlier is None:
            self._make_room(cookie.host)
        self.cookies[cookie.key] = cookie

    def _make_room(self, host: str) -> None:
        of_host = [key for key, stored in self.cookies.items() if stored.host == host]
        if len(of_host) >= _MAX_OF_HOST:
            del self.cookies[of_host[0]]
        elif len(self.cookies) >= _MAX_COOKIES:
            del self.cookies[next(iter(self.cookies))]


def _read_pair(text: str) -> tuple[str, str] | None:
    """Return the name and value of a cookie, or None if the cookie is invalid.

    A cookie is invalid if it has no name, contains a control character, or is too long.
    """
    name, equals, value = text.partition(";")[0].partition("=")
    name, value = name.strip(" \t"), value.strip(" \t")
    if not (equals and name) or CONTROLS.search(text) or len(name) + len(value) > MAX_PAIR:
        return None
    return name, value


def _split_attributes(text: str) -> Iterator[tuple[str, str]]:
    """Yield the attributes of a cookie in lower case, without overlong values.

    The caller uses the last occurrence of a repeated attribute.
    """
    for attribute in text.split(";")[1:]:
        name, _, value = attribute.partition("=")
        if len(value) <= _MAX_ATTRIBUTE:
            yield name.strip(" \t").lower(), value.strip(" \t")


def _choose_domain(domain: str, host: str, suffix_of: SuffixOf | None) -> tuple[str, bool] | None:
    """Return a cookie's host, and whether subdomains receive it, or None if the domain is not allowed."""
    domain = comparable_host(domain.removeprefix("."))
    if domain in ("", host):
        is_host_only = not domain or suffix_of is None or is_alone(host) or suffix_of(host) == host
        return host, not is_host_only
    if is_alone(host) or suffix_of is None or not host.endswith(f".{domain}") or suffix_of(domain) == domain:
        return None
    return domain, True


def is_alone(host: str) -> bool:
    """Return whether the host is an IP address or a name with a single label."""
    from ipaddress import ip_address  # lazy import: takes 1 ms, and most runs receive no cookie

    try:
        ip_address(host)
    except ValueError:
        return "." not in host
    return True


def _meets_conditions(cookie: Cookie, attributes: dict[str, str], url: HttpUrl) -> bool:
    """Return whether the cookie meets the conditions of Secure and of name prefixes (RFC 6265bis 4.1.3).

    A cookie with Secure is accepted only over TLS.
    """
    name = cookie.name.lower()
    if cookie.secure and not url.secured:
        return False
    if name.startswith("__secure-"):
        return cookie.secure
    if name.startswith("__host-"):
        return cookie.secure and not attributes.get("domain") and attributes.get("path") == "/"
    return True


def _is_alive(attributes: dict[str, str], now: str) -> bool:
    """Return whether the response sets the cookie and does not delete it.

    A response deletes a cookie if the new expiry time is not after the Date of the response. Max-Age takes
    precedence over Expires. An invalid attribute is ignored.
    """
    if re.fullmatch(r"-?[0-9]+", attributes.get("max-age", "")):
        return not re.fullmatch(r"-.*|0+", attributes["max-age"])
    if "expires" not in attributes:
        return True

    return not has_passed(attributes["expires"], now)


def _compute_expiry(attributes: dict[str, str], date: str, now: float) -> int | None:
    """Return the expiry time on the local clock, at most 400 days from now (RFC 6265bis 5.5).

    Expires is relative to the Date of the response.
    """
    if re.fullmatch(r"[0-9]+", attributes.get("max-age", "")):
        return int(now + min(int(attributes["max-age"][:18]), _MAX_LIFETIME))
    if "expires" not in attributes:
        return None

    end = parse_cookie_date(attributes["expires"])
    if end is None:
        return None
    begin = parse_cookie_date(date)
    life = end.timestamp() - (now if begin is None else begin.timestamp())
    return int(now + min(life, _MAX_LIFETIME))


def _get_port(url: HttpUrl) -> int | None:
    return None if url.effective_port == url.default_port else url.effective_port


def _is_for_url(cookie: Cookie, url: HttpUrl) -> bool:
    host, path = comparable_host(url.host), f"/{url.path or ''}"
    if cookie.port != _get_port(url) or (cookie.secure and not url.secured):
        return False
    if host != cookie.host and not (cookie.subdomains and host.endswith(f".{cookie.host}")):
        return False
    return path == cookie.path or path.startswith(cookie.path.removesuffix("/") + "/")


def _overlap(one: str, other: str) -> bool:
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


# Cookie dates (RFC 6265bis 5.1.1): tokens in any order, with any delimiters.

_MAX_DATE = 1_024
_DELIMITER = r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+"
#: The current date if a response has no Date field: a date before the first release of this program.
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def has_passed(expires: str, now: str) -> bool:
    """Return whether the date `expires` of a cookie is valid and before `now`, the Date of the response."""
    date = parse_cookie_date(expires)
    return date is not None and date <= (parse_cookie_date(now) or _LONG_AGO)


def parse_cookie_date(text: str) -> datetime | None:
    """Parse a cookie date (RFC 6265bis 5.1.1): tokens in any order, with any delimiters."""
    time, day, month, year = None, None, None, None
    for token in re.split(_DELIMITER, text[:_MAX_DATE]):
        if time is None and (match := re.match(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?!\d)", token, re.ASCII)):
            time = (int(match[1]), int(match[2]), int(match[3]))
        elif day is None and (match := re.match(r"(\d{1,2})(?!\d)", token, re.ASCII)):
            day = int(match[1])
        elif month is None and token[:3].lower() in MONTHS:
            month = MONTHS.index(token[:3].lower()) + 1
        elif year is None and (match := re.match(r"(\d{2,4})(?!\d)", token, re.ASCII)):
            year = int(match[1])
            year += 1900 if 70 <= year <= 99 else 2000 if year <= 69 else 0
    if time is None or day is None or month is None or year is None or year < 1601:
        return None
    return in_utc((year, month, day, *time))


# Cookie files are untrusted input. If no server could have set the cookie in a line, the line is an error.

TITLE = b"# Netscape HTTP Cookie File\n# Secrets, kept by resolve; comments stay as they are.\n\n"

_HTTP_ONLY = "#HttpOnly_"
_HOST = r"\.?(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
_ADDRESS = r"[0-9a-f.]*:[0-9a-f:.]*:[0-9a-f.]*"  # an IPv6 address, as curl writes it
_FLAGS = {"TRUE": True, "FALSE": False}

Cookies = Mapping[tuple[object, ...], Cookie]


class BadLine(Exception):
    """A line that is neither a cookie nor a comment. The message contains the reason, but not the line."""


def read_lines(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their line ends, numbered from 1."""
    *lines, last = octets.split(b"\n")  # a lone CR does not end a line
    yield from enumerate([line + b"\n" for line in lines] + ([last] if last else []), 1)


def parse_line(line: bytes, serial: int, suffix_of: SuffixOf | None) -> Cookie | None:
    """Parse a line as a cookie, or return None for a comment or an empty line.

    Raises:
        BadLine: the line is neither a cookie nor a comment.
    """
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode("latin-1")
    http_only = text.startswith(_HTTP_ONLY)
    text = text.removeprefix(_HTTP_ONLY)
    if not http_only and (not text.strip() or text.startswith("#")):
        return None
    if CONTROLS.search(text):
        raise BadLine("the line holds a control character")
    fields = text.split("\t")
    # curl and wget write a cookie with an empty value as a line that ends with a tab. An editor may have
    # removed this tab.
    if len(fields) == 6:
        fields.append("")
    if len(fields) != 7:
        raise BadLine("expected seven fields separated by tabs")
    host, port = _place(fields[0].lower())
    cookie = Cookie(
        name=fields[5],
        value=fields[6],
        host=host,
        port=port,
        path=fields[2],
        subdomains=_flag(fields[1]) and suffix_of is not None,
        secure=_flag(fields[3]),
        serial=serial,
        expires=_parse_expires(fields[4]),
        http_only=http_only,
    )
    _check(cookie, suffix_of)
    return cookie


def _place(text: str) -> tuple[str, int | None]:
    if re.fullmatch(_ADDRESS, text):
        return text, None
    match = re.fullmatch(_HOST, text)
    port = None if match is None or match["port"] is None else int(match["port"])
    if match is None or port == 0 or (port or 0) > 65_535:
        raise BadLine("the first field is not a host")
    return comparable_host(match["name"].strip("[]")), port


def _flag(text: str) -> bool:
    if text.upper() not in _FLAGS:
        raise BadLine("the second and fourth field must be TRUE or FALSE")
    return _FLAGS[text.upper()]


def _parse_expires(text: str) -> int | None:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise BadLine("the fifth field must be a time in seconds")
    return int(text) or None


def _check(cookie: Cookie, suffix_of: SuffixOf | None) -> None:
    """Check that a server could have set the cookie.

    Raises:
        BadLine: no server could have set the cookie.
    """
    if not cookie.name or len(cookie.name) + len(cookie.value) > MAX_PAIR:
        raise BadLine("the name is empty, or name and value are too long")
    if re.search("[;=]", cookie.name) or ";" in cookie.value or not cookie.path.startswith("/"):
        raise BadLine("the name, the value or the path is not valid in a cookie")
    if cookie.subdomains and (is_alone(cookie.host) or (suffix_of and suffix_of(cookie.host) == cookie.host)):
        raise BadLine("the second field must be FALSE for an address, a name of one label or a public suffix")
    name = cookie.name.lower()
    if name.startswith(("__secure-", "__host-")) and not cookie.secure:
        raise BadLine("the prefix of the name requires TRUE in the fourth field")
    if name.startswith("__host-") and (cookie.subdomains or cookie.path != "/"):
        raise BadLine("the prefix of the name requires FALSE in the second field and the path /")


def format_line(cookie: Cookie) -> bytes:
    """Return the cookie as a line of a cookie file."""
    host = f"[{cookie.host}]" if ":" in cookie.host and cookie.port else cookie.host
    domain = f"{'.' if cookie.subdomains else ''}{host}{f':{cookie.port}' if cookie.port else ''}"
    fields = (
        f"{_HTTP_ONLY if cookie.http_only else ''}{domain}",
        "TRUE" if cookie.subdomains else "FALSE",
        cookie.path,
        "TRUE" if cookie.secure else "FALSE",
        str(cookie.expires or 0),
        cookie.name,
        cookie.value,
    )
    return "\t".join(fields).encode("latin-1") + b"\n"


def merge_cookies(
    octets: bytes, before: Cookies, after: Cookies, now: float, suffix_of: SuffixOf | None
) -> bytes:
    """Apply a run's cookie changes, from `before` to `after`, to the contents of a cookie file.

    Changes by other processes, comments, and lines that are not cookies are preserved. Expired cookies are
    removed.
    """
    changed = {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
    lines, written = [], set()
    for number, line in read_lines(octets or TITLE):
        cookie = _parse_line(line, number, suffix_of)
        if cookie is None:
            lines.append(line)
        elif cookie.key not in changed:
            lines += [] if cookie.is_expired(now) else [line]
        elif cookie.key not in written and (new := changed[cookie.key]) is not None:
            lines.append(format_line(new))
            written.add(cookie.key)
    lines += [
        format_line(cookie) for key, cookie in changed.items() if cookie is not None and key not in written
    ]
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)


def _parse_line(line: bytes, number: int, suffix_of: SuffixOf | None) -> Cookie | None:
    try:
        return parse_line(line, number, suffix_of)
    except BadLine:
        return None
