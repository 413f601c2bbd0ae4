"""Cookies of one run (RFC 6265bis): what servers set, and what of it goes with which request.

Stricter than the standard where S11 is: the ports 80 of http and 443 of https are one place, any other port
is one of its own. What lasts longer than a run lasts as long as the run, unless a file keeps the jar,
which then has a clock. There is none here: whether a date has passed, the answer's own Date says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from protocols.authority import comparable_host
from protocols.http.response import ResponseHead
from protocols.http.url import HttpUrl

#: Octets of a name with its value, of the value of an attribute, and of the field that is sent.
LONGEST_PAIR = 4_096
_LONGEST_ATTRIBUTE = 1_024
_LONGEST_FIELD = 16_384
#: Cookies of one answer that are read; of one host; of a run.
_MOST_SET, _MOST_OF_HOST, _MOST = 64, 50, 3_000
_LONGEST_LIFE = 400 * 86_400

CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

#: The public suffix of a name (RFC 6265bis 5.5): the part that anybody can register a name below.
SuffixOf = Callable[[str], str]

#: Under which name the jar of a run stands in its memory.
MEMORY = "http cookies"


class Cookie(NamedTuple):
    """`host` is what a request's host has to be, or with `subdomains` to end in, both without the dot of the
    root. `port` is None for those of
    the schemes. `expires` is when it ends, in seconds since 1970, None with the session or where nobody keeps
    it; `http_only` is for the files of others."""

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

    def is_over(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.host, self.port, self.path, self.subdomains)


class Jar:
    """All cookies of a run, the oldest first. `revision` counts what servers changed. One that is kept has a
    `clock`, and its cookies may end."""

    def __init__(self, clock: Callable[[], datetime] | None = None) -> None:
        self.cookies: dict[tuple[object, ...], Cookie] = {}
        self.revision = 0
        self.clock = clock

    @property
    def now(self) -> float:
        return 0 if self.clock is None else self.clock().timestamp()

    def header(self, url: HttpUrl) -> bytes:
        """The value of the field Cookie for a request; empty for none. The longer path goes first, then what
        was set first."""
        now = self.now
        fitting = [each for each in self.cookies.values() if _is_for_url(each, url) and not each.is_over(now)]
        value = ""
        for cookie in sorted(fitting, key=lambda each: (-len(each.path), each.serial)):
            longer = f"{value}; {cookie.name}={cookie.value}" if value else f"{cookie.name}={cookie.value}"
            if len(longer) > _LONGEST_FIELD:
                break
            value = longer
        return value.encode("latin-1")

    def take(self, head: ResponseHead, url: HttpUrl, suffix_of: SuffixOf | None) -> None:
        """What an answer sets. Without `suffix_of` no cookie is for more than one host."""
        fields = head.values("set-cookie")[:_MOST_SET]
        if not fields:
            return
        now = "".join(head.values("date")[:1])
        for text in fields:
            self._set(text, url, suffix_of, now)

    def _set(self, text: str, url: HttpUrl, suffix_of: SuffixOf | None, now: str) -> None:
        if (pair := _read_pair(text)) is None:
            return
        attributes = dict(_attributes_of(text))
        place = _domain_of(attributes.get("domain", ""), comparable_host(url.host), suffix_of)
        if place is None:
            return
        path = attributes.get("path", "")
        cookie = Cookie(
            *pair,
            *(place[0], _port_of(url)),
            path=path if path.startswith("/") else _default_path(url),
            subdomains=place[1],
            secure="secure" in attributes,
            serial=self.revision,
            expires=None if self.clock is None else _compute_expiry(attributes, now, self.now),
            http_only="httponly" in attributes,
        )
        if _keeps_its_word(cookie, attributes, url) and not self._would_displace(cookie, url):
            self._keep(cookie, lives=_is_alive(attributes, now))

    def _would_displace(self, cookie: Cookie, url: HttpUrl) -> bool:
        """Nobody on the way may replace what was set with TLS."""
        same = (each for each in self.cookies.values() if each.name == cookie.name and each.secure)
        return not url.secured and any(_overlap(each.host, cookie.host) for each in same)

    def _keep(self, cookie: Cookie, *, lives: bool) -> None:
        earlier = self.cookies.get(cookie.key)
        if not lives:
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
        of_host = [key for key, each in self.cookies.items() if each.host == host]
        if len(of_host) >= _MOST_OF_HOST:
            del self.cookies[of_host[0]]
        elif len(self.cookies) >= _MOST:
            del self.cookies[next(iter(self.cookies))]


def _read_pair(text: str) -> tuple[str, str] | None:
    """Name and value. None for what has no name, holds a control, or is too long."""
    name, equals, value = text.partition(";")[0].partition("=")
    name, value = name.strip(" \t"), value.strip(" \t")
    if not (equals and name) or CONTROLS.search(text) or len(name) + len(value) > LONGEST_PAIR:
        return None
    return name, value


def _attributes_of(text: str) -> Iterator[tuple[str, str]]:
    """In lower case; the last of a name counts. One that is too long is none."""
    for each in text.split(";")[1:]:
        name, _, value = each.partition("=")
        if len(value) <= _LONGEST_ATTRIBUTE:
            yield name.strip(" \t").lower(), value.strip(" \t")


def _domain_of(domain: str, host: str, suffix_of: SuffixOf | None) -> tuple[str, bool] | None:
    """For which host, and its subdomains too? None where the server may not say so."""
    domain = comparable_host(domain.removeprefix("."))
    if domain in ("", host):
        alone = not domain or suffix_of is None or is_alone(host) or suffix_of(host) == host
        return host, not alone
    if is_alone(host) or suffix_of is None or not host.endswith(f".{domain}") or suffix_of(domain) == domain:
        return None
    return domain, True


def is_alone(host: str) -> bool:
    """An address, or a name of one label."""
    from ipaddress import ip_address  # 1 ms, and most runs are given no cookie

    try:
        ip_address(host)
    except ValueError:
        return "." not in host
    return True


def _keeps_its_word(cookie: Cookie, attributes: dict[str, str], url: HttpUrl) -> bool:
    """Secure only by TLS; and what the name promises (RFC 6265bis 4.1.3)."""
    name = cookie.name.lower()
    if cookie.secure and not url.secured:
        return False
    if name.startswith("__secure-"):
        return cookie.secure
    if name.startswith("__host-"):
        return cookie.secure and not attributes.get("domain") and attributes.get("path") == "/"
    return True


def _is_alive(attributes: dict[str, str], now: str) -> bool:
    """Is it set, or ended, when the answer has this Date? Max-Age counts before Expires; what cannot be read
    is not there."""
    if re.fullmatch(r"-?[0-9]+", attributes.get("max-age", "")):
        return not re.fullmatch(r"-.*|0+", attributes["max-age"])
    if "expires" not in attributes:
        return True

    return not has_passed(attributes["expires"], now)


def _compute_expiry(attributes: dict[str, str], date: str, now: float) -> int | None:
    """When it ends, by our own clock: at most 400 days from now (RFC 6265bis 5.5). The answer's Date tells
    how far an Expires is."""
    if re.fullmatch(r"[0-9]+", attributes.get("max-age", "")):
        return int(now + min(int(attributes["max-age"][:18]), _LONGEST_LIFE))
    if "expires" not in attributes:
        return None

    end = parse_cookie_date(attributes["expires"])
    if end is None:
        return None
    begin = parse_cookie_date(date)
    life = end.timestamp() - (now if begin is None else begin.timestamp())
    return int(now + min(life, _LONGEST_LIFE))


def _default_path(url: HttpUrl) -> str:
    """RFC 6265bis 5.1.4: up to the last slash, without it."""
    return f"/{url.path or ''}".rpartition("/")[0] or "/"


def _port_of(url: HttpUrl) -> int | None:
    return None if url.effective_port == url.default_port else url.effective_port


def _is_for_url(cookie: Cookie, url: HttpUrl) -> bool:
    host, path = comparable_host(url.host), f"/{url.path or ''}"
    if cookie.port != _port_of(url) or (cookie.secure and not url.secured):
        return False
    if host != cookie.host and not (cookie.subdomains and host.endswith(f".{cookie.host}")):
        return False
    return path == cookie.path or path.startswith(cookie.path.removesuffix("/") + "/")


def _overlap(one: str, other: str) -> bool:
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


def jar_of(memory: dict[str, object]) -> Jar:
    """The run's own."""
    held = memory.get(MEMORY) or memory.setdefault(MEMORY, Jar())
    assert isinstance(held, Jar)
    return held


# cookie dates: Dates as cookies have them (RFC 6265bis 5.1.1): in whatever order, and whatever stands
# around them.

_LONGEST = 1_024
_DELIMITER = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Before any run of this program: what an answer without a Date calls past.
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def has_passed(expires: str, now: str) -> bool:
    """Is a date over, for an answer whose Date is `now`? One that cannot be read never is."""
    date = parse_cookie_date(expires)
    return date is not None and date <= (parse_cookie_date(now) or _LONG_AGO)


def parse_cookie_date(text: str) -> datetime | None:
    """A date as cookies have them (RFC 6265bis 5.1.1): in whatever order, and whatever stands around it."""
    time, day, month, year = None, None, None, None
    for token in _DELIMITER.split(text[:_LONGEST]):
        if time is None and (found := re.match(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?!\d)", token, re.ASCII)):
            time = (int(found[1]), int(found[2]), int(found[3]))
        elif day is None and (found := re.match(r"(\d{1,2})(?!\d)", token, re.ASCII)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := re.match(r"(\d{2,4})(?!\d)", token, re.ASCII)):
            year = _full_year(int(found[1]))
    if time is None or day is None or month is None or year is None or year < 1601:
        return None
    try:
        return datetime(year, month, day, *time, tzinfo=UTC)
    except ValueError:
        return None


def _full_year(year: int) -> int:
    return year + 1900 if 70 <= year <= 99 else year + 2000 if year <= 69 else year


# cookie file: Cookies as lines of a file, in the form that Netscape's browser had and curl and wget read
# and write.
#
# Seven fields with tabs between: the host, whether its subdomains count too, the path, whether TLS is
# needed, when it ends (seconds since 1970, 0 for the end of a session), the name, the value. `#HttpOnly_`
# before the host is no comment. A host has its port where that is not the scheme's own, as wget has it;
# curl knows no ports, and what it wrote is for the schemes' own. Octets of a line stand for themselves, as
# Latin-1.
#
# What is in a file was written by strangers: a line holds nothing that a server might not have set.

TITLE = b"# Netscape HTTP Cookie File\n# Secrets, kept by resolve; comments stay as they are.\n\n"

_HTTP_ONLY = "#HttpOnly_"
_HOST = re.compile(r"\.?(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_ADDRESS = re.compile(r"[0-9a-f.]*:[0-9a-f:.]*:[0-9a-f.]*")  # of IPv6, as curl writes it
_FLAGS = {"TRUE": True, "FALSE": False}

Cookies = Mapping[tuple[object, ...], Cookie]


class BadLine(Exception):
    """A line that is neither a cookie nor a comment; the message says why, and nothing of the line."""


def read_lines(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their ends, numbered."""
    *lines, last = octets.split(b"\n")  # a CR alone ends none
    yield from enumerate([line + b"\n" for line in lines] + ([last] if last else []), 1)


def parse_line(line: bytes, serial: int, suffix_of: SuffixOf | None) -> Cookie | None:
    """The cookie of a line; None for a comment or an empty one. Raises `BadLine`."""
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode("latin-1")
    http_only = text.startswith(_HTTP_ONLY)
    text = text.removeprefix(_HTTP_ONLY)
    if not http_only and (not text.strip() or text.startswith("#")):
        return None
    if CONTROLS.search(text):
        raise BadLine("it holds a control character")
    fields = text.split("\t")
    if len(fields) == 6:  # curl's and wget's cookies with an empty value, where an editor took the tab away
        fields.append("")
    if len(fields) != 7:
        raise BadLine("seven fields with tabs between are needed")
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
    if _ADDRESS.fullmatch(text):
        return text, None
    found = _HOST.fullmatch(text)
    port = None if found is None or found["port"] is None else int(found["port"])
    if found is None or port == 0 or (port or 0) > 65_535:
        raise BadLine("its first field is no host")
    return comparable_host(found["name"].strip("[]")), port


def _flag(text: str) -> bool:
    if text.upper() not in _FLAGS:
        raise BadLine("TRUE or FALSE is needed in its second and fourth field")
    return _FLAGS[text.upper()]


def _parse_expires(text: str) -> int | None:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise BadLine("its fifth field is no time in seconds")
    return int(text) or None


def _check(cookie: Cookie, suffix_of: SuffixOf | None) -> None:
    """What no server could have set. Raises `BadLine`."""
    if not cookie.name or len(cookie.name) + len(cookie.value) > LONGEST_PAIR:
        raise BadLine("its name is empty, or name and value are too long")
    if re.search("[;=]", cookie.name) or ";" in cookie.value or not cookie.path.startswith("/"):
        raise BadLine("its name, its value or its path is none that a server could have set")
    if cookie.subdomains and (is_alone(cookie.host) or (suffix_of and suffix_of(cookie.host) == cookie.host)):
        raise BadLine("it is for more hosts than one that are of no one site")
    name = cookie.name.lower()
    if name.startswith(("__secure-", "__host-")) and not cookie.secure:
        raise BadLine("its name promises that it needs TLS")
    if name.startswith("__host-") and (cookie.subdomains or cookie.path != "/"):
        raise BadLine("its name promises that it is for all of one host")


def line_of(cookie: Cookie) -> bytes:
    """One cookie as a line."""
    host = f"[{cookie.host}]" if ":" in cookie.host and cookie.port else cookie.host
    place = f"{'.' if cookie.subdomains else ''}{host}{f':{cookie.port}' if cookie.port else ''}"
    fields = (
        f"{_HTTP_ONLY if cookie.http_only else ''}{place}",
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
    """A file as it is now, with what changed between `before` and `after`: what somebody else put into it
    meanwhile stays, and so do comments and lines that are no cookies. What has ended goes."""
    changed = {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
    lines, written = [], set()
    for number, line in read_lines(octets or TITLE):
        cookie = _parse_line(line, number, suffix_of)
        if cookie is None:
            lines.append(line)
        elif cookie.key not in changed:
            lines += [] if cookie.is_over(now) else [line]
        elif cookie.key not in written and (new := changed[cookie.key]) is not None:
            lines.append(line_of(new))
            written.add(cookie.key)
    lines += [line_of(each) for key, each in changed.items() if each is not None and key not in written]
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)


def _parse_line(line: bytes, number: int, suffix_of: SuffixOf | None) -> Cookie | None:
    try:
        return parse_line(line, number, suffix_of)
    except BadLine:
        return None
