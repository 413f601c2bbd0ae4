"""The data types for URLs and listings: components, positions, origin, findings, entries and headers.

The module `contract` exports these types too. The types are in a separate module, so that a command that only
parses URLs starts fast.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict, cast

from protocols.text import Masked, brief, instant, quote_text

if TYPE_CHECKING:
    from datetime import datetime


JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | tuple[JsonValue, ...] | dict[str, JsonValue] | None"
)


Origin: TypeAlias = Literal["user", "chosen", "derived"]
Action: TypeAlias = Literal["allow", "warn", "refuse"]


class Kind(enum.StrEnum):
    """The type of the object of a URL or of a listing entry.

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
    """A warning that did not stop the retrieval, or the rule that stopped it.

    `rule` is the name of a rule of the safety policy (`S04`), of a deviation of the URL from RFC 1738
    (`host-syntax`), or of an irregularity in a response (`scheme:word`).

    Examples:
        >>> resolver.check("gopher://h.example:25/0x").findings[0].rule
        'S04'
    """

    rule: str
    action: Action
    detail: str

    @property
    def words(self) -> Masked:
        """Return the rule and the detail; the retrieval has masked the text of the server in the detail."""
        return Masked(f"{self.rule}: {self.detail}")

    def as_json(self) -> dict[str, JsonValue]:
        """Return every member by name."""
        return {"rule": self.rule, "action": self.action, "detail": self.detail}


class Referrer(NamedTuple):
    """The URL that led to another URL, and the IP address that sent its content.

    If the IP address is unknown, `address` is None.

    Examples:
        >>> found_in = resolver.Referrer("http://h.example/", "93.184.215.14")
        >>> resolver.check("http://10.0.0.1/", origin="derived", referrer=found_in).action
        'refuse'
    """

    url: str
    address: str | None = None


class ComponentSpan(NamedTuple):
    """The position of a component in the original text of a URL, still encoded: `text[start:end]`.

    `name` is the name of the component (`selector`, `cwds[0]`, `password`).
    """

    name: str
    start: int
    end: int


#: Bytes of a URL that a dialogue may send: the name of the field in the URL object, the name of the
#: `ComponentSpan` (`cwds[0]`, `fields[0].value`), the bytes, and whether they are percent-encoded. Instead of
#: the bytes, there is `None` if the type of the field cannot be checked.
Word: TypeAlias = "tuple[str, str, bytes | None, bool]"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Url:
    """A parsed URL (RFC 1738). Each scheme has a subclass with its own components.

    `text` is the original text of the URL, including its wrapper (`<URL:…>`). `findings` are the names of the
    deviations from RFC 1738, in the order of parsing. Two URLs are equal if their components are equal.

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
        """Return the position of a component in the text, or None if the URL was not parsed from a text."""
        for place in self.places:
            if place.name == name:
                return place
        return None

    @property
    def shown(self) -> Masked:
        """Return `text` with `****` in place of a password and of secret answers (redaction).

        An empty password is displayed as empty. Messages and logs contain only the redacted text.
        """
        for place in self.places:
            if place.name in {"password", "answers"} and place.start < place.end:
                return Masked(f"{self.text[: place.start]}****{self.text[place.end :]}")
        return Masked(self.text)

    @property
    def spelling(self) -> tuple[Finding, ...]:
        """Return the deviations from RFC 1738 as findings, without the findings of the policy."""
        findings: tuple[Finding, ...] = ()
        for name in self.findings:
            findings += (Finding(name, "allow", "spelling of the URL"),)
        return findings

    def components(self) -> dict[str, JsonValue]:
        """Return every component by name.

        Bytes are decoded as ISO 8859-1. The value of an absent component is `None`.
        """
        skip = {"text", "findings", "places"}
        components = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in skip}
        if components.get("zone", "") is None:
            del components["zone"]  # few URLs have a zone
        return components

    def words(self) -> list[Word]:
        """Return all URL components that a dialogue may send, and each element of a tuple separately.

        The components are read from the fields of the class, so no component can be forgotten.
        """
        words: list[Word] = []
        kind: type = type(self)
        for name in _list_sendable(kind):
            value: Any = getattr(self, name)
            if value is None or (exact := type(value)) is int:  # faster than `isinstance`
                continue
            if exact is bytes:
                words.append((name, name, value, False))
            elif exact is str:
                words.append((name, name, value.encode("utf-8", "surrogatepass"), True))
            else:
                words += _words(name, name, value)
        return words

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shown!r}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HostUrl(Url):
    """A URL with `//user:password@host:port` (RFC 1738 3.1).

    `port` is the port in the URL, and `effective_port` is the port for the connection. An absent component
    (None) differs from an empty component. For a link-local `host`, `zone` is the name of a network interface
    of this machine, as written in the URL (RFC 9844). The zone is never sent, because another machine has
    other interfaces.

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


#: The fields of a URL that are never sent: the metadata of the URL, and the fragment (RFC 3986 3.5).
_NOT_SENT = frozenset({"scheme", "fragment", "text", "findings", "places"})


@cache  # one entry per class of URLs
def _list_sendable(kind: type) -> tuple[str, ...]:
    """Return the names of the URL fields that a dialogue may send."""
    return tuple(member.name for member in fields(cast("type[Url]", kind)) if member.name not in _NOT_SENT)


def _words(component: str, name: str, value: object) -> list[Word]:
    """Return the `Word`s of a URL component, or of one element of it.

    A pair in a tuple, such as a mail header, has two `Word`s: the name and the value.
    """
    if isinstance(value, tuple):
        words: list[Word] = []
        for at, part in enumerate(value):
            if isinstance(part, tuple) and len(part) == 2:
                words += _words(component, f"{name}[{at}].name", part[0])
                words += _words(component, f"{name}[{at}].value", part[1])
            else:
                words += _words(component, f"{name}[{at}]", part)
        return words
    if isinstance(value, bytes):
        return [(component, name, value, False)]
    if isinstance(value, str):
        return [(component, name, value.encode("utf-8", "surrogatepass"), True)]
    return [] if value is None or isinstance(value, int) else [(component, name, None, False)]


def _plain(value: object) -> JsonValue:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    assert value is None or isinstance(value, (str, int))
    return value


class BuiltUrl(str):
    """The text of a URL that a builder of this package created from data of a server (S20).

    The text is not parsed again. The builder guarantees a round trip: the parser would accept the text and
    find the same components. The only exception is a text that is too long. The text does not contain a
    password. Property tests check the round trip.
    """

    __slots__ = ()


class CommonParts(TypedDict):
    """The attributes that the URLs of all schemes have, as keyword arguments of `Url` and its subclasses."""

    scheme: str
    fragment: str | None
    text: str
    findings: tuple[str, ...]
    places: tuple[ComponentSpan, ...]


class UrlText:
    """A URL during parsing.

    `text[start:end]` is the text between the scheme's colon and the fragment.

    The object collects the findings (each with its position) and the positions of the components. A position
    is an index into the original text. The `parse` function of a scheme returns the URL with its components.
    The method `common` returns the other attributes of the URL.
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
        """Record a finding, unless this URL already has a finding of the same name."""
        self.findings.setdefault(finding, position)

    def common(self) -> CommonParts:
        """Return the attributes that the URLs of all schemes have, after the components were cut."""
        return {
            "scheme": self.scheme,
            "fragment": self.fragment,
            "text": self.text,
            "findings": tuple(self.findings),
            "places": tuple(self.places),
        }

    def cut(self, name: str, start: int, end: int) -> str:
        """Return the component `text[start:end]`, still percent-encoded.

        The position of the component is recorded as `name`.
        """
        self.places.append(ComponentSpan(name, start, end))
        return self.text[start:end]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry:
    """An entry of a listing of any scheme.

    `name` is the name in the listing, and `title` is a description. `raw` contains the bytes from which the
    entry was parsed. `extra` contains the members that only this scheme defines. A scheme sets the first
    eight members. The retrieval sets `origin` and `referrer`, which the policy checks when `url` is fetched.
    A scheme sets `referrer` only if the entry was received from another URL or address than the requested
    one.

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

        `modified` is a date in the format of RFC 3339. `raw` is decoded as ISO 8859-1. `referrer` is a list
        of the URL and the address.
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
    """An incremental parser, without I/O, that converts the bytes of a listing into entries.

    The caller feeds a block of bytes, and then takes the entries one by one. Between two entries, the caller
    checks timeouts and cancellations (S16, resource limits). Each entry is created on demand, so memory stays
    small even for a very long listing. If a builder of this package created the URL of an entry, the URL is a
    `BuiltUrl`. Any other URL text may come from a server, and must be parsed before display.
    """

    def feed(self, octets: bytes) -> Iterable[Entry]: ...

    def finish(self) -> Iterable[Entry]:
        """Return the remaining entries at the end of the input."""
        ...


# Header fields of HTTP (RFC 9110 5), of a news article (RFC 5536) and of a mailto URL. Names are
# case-insensitive, and a name may have several values.


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """Header fields, in the order received, with case-insensitive access by name.

    `headers["content-type"]` returns all values of that name, joined by `, ` (RFC 9110 5.2). For
    `Set-Cookie`, `get_list` is necessary, because it returns a list of the values. Iteration yields every
    pair of name and value. `dict(headers)` contains each name once, in lower case. A `Headers` object is
    equal to a tuple of the same pairs.

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
        """Return all values of a name in order, or an empty list."""
        key = name.lower()
        return [value for field, value in self.pairs if field.lower() == key]

    def keys(self) -> list[str]:
        """Return the names in lower case, each name once, in the order received."""
        return list(dict.fromkeys(name.lower() for name, _ in self.pairs))


def mask_cookie(name: str, value: str) -> str:
    """Return a header value for display, with the values of cookies hidden (S11)."""
    if name.lower() != "set-cookie":
        return value
    cookie, semicolon, attributes = value.partition(";")
    key, is_pair, _ = cookie.partition("=")  # without `=`, there is only a value (RFC 6265bis 5.6)
    return f"{key if is_pair else ''}{is_pair}****{semicolon}{attributes}"


class Facts:
    """The metadata of an object: the base class of `Reply`, `StreamingResponse`, `Response` and `Saved`.

    `size` is the announced size of the complete object, in bytes. `etag` is the entity tag. `title` is the
    peer's description of the object. `suggested` is the file name that the peer suggests, unchanged: the
    name may contain path separators. `meta` contains the peer's header fields, as pairs of name and value.
    `target` is the URL to which a link, service or address points.
    """

    __slots__ = ()

    kind: Kind
    media_type: str | None
    charset: str | None
    size: int | None
    modified: datetime | None
    etag: str | None
    title: str | None
    suggested: bytes | None
    meta: tuple[tuple[str, str], ...]
    target: str | None
    extra: Mapping[str, JsonValue] | None

    @property
    def headers(self) -> Headers:
        """Return `meta` as a mapping with case-insensitive names."""
        return Headers(self.meta)

    @property
    def status(self) -> int | None:
        """Return the HTTP status code (RFC 9110 15), or None for other schemes."""
        status = (self.extra or {}).get("status")
        return status if isinstance(status, int) else None


def copy_facts(value: Facts) -> dict[str, Any]:
    """Return the metadata as keyword arguments for another subclass of `Facts`."""
    return {
        "kind": value.kind,
        "media_type": value.media_type,
        "charset": value.charset,
        "size": value.size,
        "modified": value.modified,
        "etag": value.etag,
        "title": value.title,
        "suggested": value.suggested,
        "meta": value.meta,
        "target": value.target,
        "extra": value.extra,
    }
