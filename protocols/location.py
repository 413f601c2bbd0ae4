"""Values of a URL and its listing: components, their positions, origin, findings, entries and headers.

These values are part of the contract, which re-exports them. They are in a separate module because parsing a
URL needs nothing else of the contract. A command that only parses should start as fast as Python itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, cast

from protocols.text import brief, instant, quote_text

if TYPE_CHECKING:
    from datetime import datetime


JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | tuple[JsonValue, ...] | dict[str, JsonValue] | None"
)


Origin: TypeAlias = Literal["user", "chosen", "derived"]
Action: TypeAlias = Literal["allow", "warn", "refuse"]


class Kind(enum.StrEnum):
    """The type of object that a URL or a listing entry names.

    Examples:
        >>> (await resolver.info("ftp://127.0.0.1:8900/pub/")).kind
        <Kind.DIRECTORY: 'directory'>
    """

    DOCUMENT = "document"
    DIRECTORY = "directory"
    ARTICLE = "article"
    GROUP = "group"
    SEARCH = "search"
    SERVICE = "service"
    ADDRESS = "address"
    LINK = "link"
    INFO = "info"
    ERROR = "error"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """A remark that did not stop the retrieval, or the rule that stopped it.

    `rule` is a rule of the safety policy (`S04`), a deviation in the URL's spelling (`host-syntax`), or
    `scheme:word` for an irregularity of a reply.

    Examples:
        >>> resolver.check("gopher://h.example:25/0x").findings[0].rule
        'S04'
    """

    rule: str
    action: Action
    detail: str

    def as_json(self) -> dict[str, JsonValue]:
        """Return every member by name."""
        return {"rule": self.rule, "action": self.action, "detail": self.detail}


class Referrer(NamedTuple):
    """The URL that led to another URL, and the IP address that it was fetched from (None if unknown).

    Examples:
        >>> found_in = resolver.Referrer("http://h.example/", "93.184.215.14")
        >>> resolver.check("http://10.0.0.1/", origin="derived", referrer=found_in).action
        'refuse'
    """

    url: str
    address: str | None = None


class ComponentSpan(NamedTuple):
    """The position of a component of a URL in the text as given, still encoded: `text[start:end]`.

    `name` is the component's name (`selector`, `cwds[0]`, `password`).
    """

    name: str
    start: int
    end: int


class Word(NamedTuple):
    """Bytes of a URL that its dialogue may send.

    `component` is the field that holds the bytes, `name` the name of their span (`cwds[0]`,
    `fields[0].value`). `octets` is `None` for a value of a type that no component has. If `encoded` is set,
    the sender decodes the text.
    """

    component: str
    name: str
    octets: bytes | None
    encoded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Url:
    """A parsed URL (RFC 1738). Each scheme has a subclass with its own components.

    `text` is the URL as given, including its wrapper (`<URL:…>`). `findings` are the names of the deviations
    from RFC 1738, in the order met. Two URLs are equal if their components are equal.

    Examples:
        >>> url = resolver.parse("HTTP://h.example/#top")
        >>> url.scheme, url.fragment
        ('http', 'top')
    """

    scheme: str
    fragment: str | None = None
    text: str = field(default="", compare=False)
    findings: tuple[str, ...] = field(default=(), compare=False)
    places: tuple[ComponentSpan, ...] = field(default=(), compare=False)

    def place(self, name: str) -> ComponentSpan | None:
        """Return the position of the component, or None if the URL was built and not parsed."""
        for place in self.places:
            if place.name == name:
                return place
        return None

    @property
    def shown(self) -> str:
        """Return `text` with `****` for a password or for secret answers; an empty value stays empty.

        Only this redacted text appears in messages and records.
        """
        for name, start, end in self.places:
            if name in ("password", "answers") and start < end:
                return f"{self.text[:start]}****{self.text[end:]}"
        return self.text

    @property
    def spelling(self) -> tuple[Finding, ...]:
        """Return the deviations from RFC 1738 as findings; the policy's findings are separate."""
        found: tuple[Finding, ...] = ()
        for name in self.findings:
            found += (Finding(name, "allow", "spelling of the URL"),)
        return found

    def components(self) -> dict[str, JsonValue]:
        """Return every component by name, bytes as one character each (ISO 8859-1), absent as None."""
        skip = {"text", "findings", "places"}
        found = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in skip}
        if found.get("zone", "") is None:
            del found["zone"]  # few URLs have a host with a zone
        return found

    def words(self) -> list[Word]:
        """Return every component that could be sent, and every part of such a component.

        The components are read from the fields of the class, so a scheme need not list them and cannot forget
        one.
        """
        found: list[Word] = []
        kind: type = type(self)
        names, values_of = _find_sendable(kind)
        for name, value in zip(names, values_of(self), strict=True):
            of = type(value)  # most values have exactly one of these types, and `isinstance` takes more time
            if of is bytes:
                found += (Word(name, name, value),)
            elif of is str:
                found += (Word(name, name, value.encode("utf-8", "surrogatepass"), True),)
            elif value is not None and of is not int:
                found += _words(name, name, value)
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shown!r}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HostUrl(Url):
    """A URL with `//user:password@host:port` (RFC 1738 3.1).

    `port` is the port in the URL, `effective_port` the port to use. An absent component (None) differs from
    an empty one. `zone` is the interface of this machine that leads to a link-local `host` (RFC 9844), as the
    user wrote it. The zone is not part of the host, has no meaning on another machine, and is never sent.

    Examples:
        >>> url = resolver.parse("http://me:secret@h.example:8080/")
        >>> isinstance(url, resolver.HostUrl), url.host, url.port, url.effective_port, url
        (True, 'h.example', 8080, 8080, <HttpUrl 'http://me:****@h.example:8080/'>)
    """

    user: bytes | None = None
    password: bytes | None = None
    host: str = ""
    port: int | None = None
    default_port: int = 0
    zone: str | None = None

    @property
    def effective_port(self) -> int:
        return self.default_port if self.port is None else self.port


#: Fields that are never sent: those about the URL itself, and the fragment (RFC 3986 3.5).
_NOT_SENT = frozenset({"scheme", "fragment", "text", "findings", "places"})


@cache  # one entry per class of URLs
def _find_sendable(kind: type) -> tuple[tuple[str, ...], Callable[[Url], tuple[Any, ...]]]:
    """Return the names of the fields that could be sent, and a function that returns their values."""
    names = tuple(each.name for each in fields(cast("type[Url]", kind)) if each.name not in _NOT_SENT)
    return names, attrgetter(*names) if len(names) > 1 else lambda url: tuple(
        [getattr(url, name) for name in names]
    )


def _words(component: str, name: str, value: object) -> list[Word]:
    if isinstance(value, bytes):
        return [Word(component, name, value)]
    if isinstance(value, str):
        return [Word(component, name, value.encode("utf-8", "surrogatepass"), encoded=True)]
    if isinstance(value, tuple):
        parts = (_words_of_part(component, f"{name}[{at}]", part) for at, part in enumerate(value))
        return list(chain.from_iterable(parts))
    return [] if value is None or isinstance(value, int) else [Word(component, name, None)]


def _words_of_part(component: str, name: str, part: object) -> list[Word]:
    """Return each `Word` of a part. A part may be a pair: a field of Prospero, a header of a mail."""
    if isinstance(part, tuple) and len(part) == 2:
        return _words(component, f"{name}.name", part[0]) + _words(component, f"{name}.value", part[1])
    return _words(component, name, part)


def _plain(value: object) -> JsonValue:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    assert value is None or isinstance(value, (str, int))
    return value


class BuiltUrl(str):
    """The text of a URL that this package's builder wrote, byte by byte, from a server's data (S20).

    The text is not parsed again. The builder guarantees that the parser accepts it, unless it is too long,
    and finds the same components in it, without a password. Property tests check this guarantee.
    """

    __slots__ = ()


class UrlText:
    """A URL during parsing: `text[start:end]` follows the scheme's colon, up to the fragment.

    This class collects findings (each with the position of its cause) and the positions of components.
    Positions are indexes into the text as given. A scheme's `parse` returns its components; its caller adds
    text, fragment, findings and positions.
    """

    def __init__(self, text: str, scheme: str, start: int, end: int, default_port: int | None) -> None:
        self.text = text
        self.scheme = scheme
        self.start = start
        self.end = end
        self.default_port = default_port
        self.fragment: str | None = None
        self.may_have_zone = False
        self.findings: dict[str, int] = {}
        self.places: list[ComponentSpan] = []

    def note(self, finding: str, position: int) -> None:
        """Record a finding, once per URL, in the order met."""
        self.findings.setdefault(finding, position)

    def complete(self, url: Url) -> None:
        """Set the attributes that all schemes have on a URL.

        The URL is changed in place: the parser created it and has not shared it yet, and a copy would take as
        long as parsing.
        """
        object.__setattr__(url, "text", self.text)
        object.__setattr__(url, "fragment", self.fragment)
        object.__setattr__(url, "findings", tuple(self.findings))
        object.__setattr__(url, "places", tuple(self.places))

    def cut(self, name: str, start: int, end: int) -> str:
        """Return the component `name` as written, `text[start:end]`, and record its position."""
        self.places += (ComponentSpan(name, start, end),)
        return self.text[start:end]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry:
    """A record of a listing of any scheme.

    `name` is the name in a listing line, `title` its description. `raw` are the bytes from which the entry
    was read. `extra` holds members that only this scheme has. A scheme sets the first eight members. The
    retrieval adds where the entry was found, so that a later fetch of `url` is checked accordingly. A scheme
    sets `referrer` only if that is not the requested URL at the address of the connection.

    Examples:
        >>> async with resolver.entries("ftp://127.0.0.1:8900/pub/") as found:
        ...     print([entry.url async for entry in found if entry.name == "a.txt"])
        ['ftp://127.0.0.1:8900/pub/a.txt']
    """

    name: str
    url: str | None = None
    kind: Kind = Kind.UNKNOWN
    size: int | None = None
    modified: datetime | None = None
    title: str | None = None
    raw: bytes | None = None
    extra: Mapping[str, JsonValue] | None = None
    origin: Origin = "derived"
    referrer: Referrer | None = None

    def __repr__(self) -> str:
        return brief(self, self.kind.value, quote_text(self.name), quote_text(self.url))

    def as_json(self) -> dict[str, JsonValue]:
        """Return every member by name.

        `modified` is an RFC 3339 date, `raw` has one character per byte, `referrer` is the list `[url,
        address]`.
        """
        return {
            "name": self.name,
            "url": self.url,
            "kind": self.kind.value,
            "size": self.size,
            "modified": instant(self.modified),
            "title": self.title,
            "raw": None if self.raw is None else self.raw.decode("latin-1"),
            "extra": None if self.extra is None else dict(self.extra),
            "origin": self.origin,
            "referrer": None if self.referrer is None else list(self.referrer),
        }


class EntryReader(Protocol):
    """A parser that turns the bytes of a listing into entries as they arrive: a machine without I/O.

    The caller feeds a few bytes at a time, takes the entries one by one, and checks clocks and cancellations
    in between (S16, resource limits). So each entry is created only on demand, and a few bytes or one entry
    need little work, even in a very long listing. A URL that a builder of this package wrote is a `BuiltUrl`.
    Any other text, which a server may have chosen, is parsed before it is shown.
    """

    def feed(self, octets: bytes) -> Iterable[Entry]: ...

    def finish(self) -> Iterable[Entry]:
        """Return the entries that were still incomplete at the end of the input."""
        ...


# The peer's metadata of an object, by name: HTTP header fields (RFC 9110 5), headers of an article (RFC 5536)
# or of a mailto URL. Names are case-insensitive, and a name may have several values.


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """The pairs of name and value as received and in order, with case-insensitive access by name.

    `headers["content-type"]` has the values of all fields of that name, joined by `, ` (RFC 9110 5.2).
    `get_list` returns each value separately, which `Set-Cookie` needs. `for name, value in headers` has every
    pair, `dict(headers)` each name once, in lower case. `Headers` equal a tuple of the same pairs.

    Examples:
        >>> headers = (await resolver.fetch("http://127.0.0.1:8920/about.txt")).headers
        >>> headers["CONTENT-TYPE"], headers.get("x-none"), headers.get_list("content-length")
        ('text/plain; charset=utf-8', None, ['37'])
    """

    pairs: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, name: str) -> str:
        if values := self.get_list(name):
            return ", ".join(values)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_list(name))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return self.pairs == (other.pairs if isinstance(other, Headers) else other)

    def __hash__(self) -> int:
        return hash(self.pairs)

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return `headers[name]`, or `default` if the name is absent."""
        return ", ".join(values) if (values := self.get_list(name)) else default

    def get_list(self, name: str) -> list[str]:
        """Return all values of that name, in order; an empty list if the name is absent."""
        wanted = name.lower()
        return [value for found, value in self.pairs if found.lower() == wanted]

    def keys(self) -> list[str]:
        """Return each name once, in lower case, in the order received."""
        return list(dict.fromkeys(name.lower() for name, _ in self.pairs))


def mask_cookie(name: str, value: str) -> str:
    """Return the value of a header for display and records; the value of a cookie is hidden (S11)."""
    if name.lower() != "set-cookie":
        return value
    cookie, semicolon, attributes = value.partition(";")
    own, is_pair, _ = cookie.partition("=")  # a cookie without a name has only a value (RFC 6265bis 5.6)
    return f"{own if is_pair else ''}{is_pair}****{semicolon}{attributes}"
