"""A URL as a value: its components, where each stands in the text, and the text while it is read; who
chose it, and what was found about it.

Part of the contract and imported from there by whoever needs more of it. It stands apart because
parsing a URL needs nothing else, and a command that only parses should start as fast as Python does.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, TypeAlias

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | tuple[JsonValue, ...] | dict[str, JsonValue] | None"
)


Origin: TypeAlias = Literal["user", "chosen", "derived"]
Action: TypeAlias = Literal["allow", "warn", "refuse"]


class Kind(enum.StrEnum):
    """What a URL or a listing entry turned out to be."""

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
    """Something worth telling that stopped nothing, or the rule that stopped it.

    `rule` is `S04` for a rule of the safety policy, a name such as `host-syntax` for the URL's
    spelling, and `scheme:word` for an oddity of a reply.
    """

    rule: str
    action: Action
    detail: str


class Referrer(NamedTuple):
    """The URL that led to another one and the address it was fetched from (None if unknown)."""

    url: str
    address: str | None = None


class Place(NamedTuple):
    """Where a component of a URL stands, still encoded, in the text as given: `text[start:end]`.

    `name` is the component's name (`selector`, `cwds[0]`, `password`).
    """

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Url:
    """A parsed URL (RFC 1738). Subclasses, one a scheme, add the scheme's own components.

    `text` is the URL as given, wrapper and all. `findings` are the names of what RFC 1738 would not
    have written this way, in the order met. Two URLs are equal when their components are.
    """

    scheme: str
    fragment: str | None = None
    text: str = field(default="", compare=False)
    findings: tuple[str, ...] = field(default=(), compare=False)
    places: tuple[Place, ...] = field(default=(), compare=False)

    def place(self, name: str) -> Place | None:
        """Where the component stood, or None if the URL was built and not parsed."""
        return next((place for place in self.places if place.name == name), None)

    @property
    def shown(self) -> str:
        """`text` with a password replaced by `****`: the only form for messages and records."""
        place = self.place("password")
        return self.text if place is None else f"{self.text[: place.start]}****{self.text[place.end :]}"

    def components(self) -> dict[str, JsonValue]:
        """Every component by its name, octets as one character each (ISO 8859-1), absent as None."""
        skip = {"text", "findings", "places"}
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in skip}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shown!r}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HostUrl(Url):
    """A URL with `//user:password@host:port` (RFC 1738 3.1).

    `port` is what the URL says, `effective_port` the one to use. Absent (None) differs from empty.
    """

    user: bytes | None = None
    password: bytes | None = None
    host: str = ""
    port: int | None = None
    default_port: int = 0

    @property
    def effective_port(self) -> int:
        return self.default_port if self.port is None else self.port


def _plain(value: object) -> JsonValue:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    assert value is None or isinstance(value, (str, int))
    return value


class UrlText:
    """A URL on its way through the parser: `text[start:end]` is what follows the scheme's colon, up to
    the fragment. Findings (each with the position that gave rise to it) and places collect here;
    positions count in the text as given. A scheme's `parse` gives its components; whoever called it
    adds text, fragment, findings and places."""

    def __init__(self, text: str, scheme: str, start: int, end: int, default_port: int | None) -> None:
        self.text = text
        self.scheme = scheme
        self.start = start
        self.end = end
        self.default_port = default_port
        self.fragment: str | None = None
        self.findings: dict[str, int] = {}
        self.places: list[Place] = []

    def note(self, finding: str, position: int) -> None:
        """Keep a finding, once per URL, in the order met."""
        self.findings.setdefault(finding, position)

    def cut(self, name: str, start: int, end: int) -> str:
        """The component `name` as written, `text[start:end]`; its place is kept."""
        self.places.append(Place(name, start, end))
        return self.text[start:end]
