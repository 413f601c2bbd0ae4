"""Limits and options of a caller: bounds, credentials, and settings beyond the URL.

Part of the contract and imported from there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime

    from protocols.location import JsonValue, Url

#: File systems and protocols round times to the second, FAT to two.
_CLOCKS_DIFFER = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a peer may send and how long it may take (rule S16). Octets, counts, seconds.

    `body` bounds a body collected in memory; streams and files are unbounded unless `body_everywhere`
    is set, which is what a `--max-size` or `--limit body=N` of the caller's own does. `total` is for all
    tries of one URL, `head` for all that comes before the body in one try, redirects too: connections,
    greeting, login, head. None is no limit, but under the policy `untrusted` 600 s in all and 60 s before the
    body, and infinity is none there either. A body, and any other answer that has begun, is given up if it
    brings fewer than `min_rate` octets a second, averaged over some seconds of waiting for it; so is a body
    that has not begun after `idle` seconds.

    Examples:
        >>> await resolver.fetch("http://127.0.0.1:8920/about.txt", limits=resolver.Limits(body=36))
        Traceback (most recent call last):
        protocols.errors.LimitExceeded: ...: 37 octets are announced, the limit is 36 (--max-size)
    """

    line: int = 65_536
    lines: int = 1_000
    entries: int = 100_000
    hops: int = 10
    body: int = 67_108_864
    body_everywhere: bool = False
    ratio: int = 100
    connect: float = 30.0
    idle: float = 60.0
    head: float | None = None
    total: float | None = None
    min_rate: int | None = None

    def waiting(self, connect: float | None, idle: float | None) -> Limits:
        """The same with the seconds that timeouts of other libraries give a wait; None leaves what is."""
        return replace(
            self,
            connect=self.connect if connect is None else connect,
            idle=self.idle if idle is None else idle,
        )


@dataclass(frozen=True, slots=True)
class Credentials:
    """A name and a password for one scheme, host and port (S11). The password is never shown.

    Examples:
        >>> resolver.Credentials(b"me", b"secret")
        Credentials(user=b'me')
    """

    user: bytes
    password: bytes = field(repr=False)


class Prompt(Protocol):
    """What is waited for in a text: a pattern, which `str` shows."""

    def end_in(self, window: bytes) -> int | None:
        """Where its first match in these octets ends; None where there is none. Raises `LocalError` where
        that would take too long."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What is wanted of a telnet session that nobody sits at: `seconds` of it, or all of it up to a `prompt`,
    which may never come; each text of `send` is typed, with a line end behind it, when the prompt has come
    once more. Without a prompt they are typed when the service has said something. They may be passwords, and
    are shown nowhere; but what a service echoes is in the transcript. `tell` hears what happens, as it does:
    `event` is one of option, data, sent, command, finding, end, and the other members are of that.

    Examples:
        >>> wanted = resolver.Transcript(prompt=resolver.prompt(b"login: "), send=(b"guest",), seconds=20)
        >>> plan = resolver.explain("telnet://h.example/", options=resolver.Options(transcript=wanted))
        >>> [step["octets"] for step in plan.steps if step["action"] == "send"]
        ['****\\r\\n']
    """

    seconds: float | None = None
    prompt: Prompt | None = None
    send: tuple[bytes, ...] = field(default=(), repr=False)
    tell: Callable[[dict[str, JsonValue]], None] | None = field(default=None, repr=False, compare=False)


class ProxyAuth(Protocol):
    """Who we are to a proxy that is asked for URLs as a whole."""

    def fields(self, method: bytes, target: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """The fields that say so in a request, as far as the proxy has asked."""
        ...

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What is secret in those, of all requests that are under way."""
        ...

    def heed(
        self, challenges: Sequence[str], sent: tuple[tuple[bytes, bytes], ...], unguessable: bytes
    ) -> None:
        """It wants a login: what it says of that, and what had been sent. Raises `LoginRequired` and
        `AccessDenied` where there is nothing more to say."""
        ...


class ForwardProxy(NamedTuple):
    """The proxy that http requests are put to: `place` is what stands before the path of the URL then (RFC
    9112 3.2.2)."""

    place: bytes
    login: ProxyAuth


Wanted: TypeAlias = Literal["content", "file", "facts", "listing"]


class Validators(NamedTuple):
    """What tells one state of an object from another: its size in octets, when it was last modified, and
    http's strong entity tag. None where it is not known.

    Examples:
        >>> held = resolver.Validators(size=37, etag="1")
        >>> held.agree(resolver.Validators(size=37)), held.agree(resolver.Validators(size=38))
        (True, False)
    """

    size: int | None = None
    modified: datetime | None = None
    etag: str | None = None

    def agree(self, now: Validators) -> bool:
        """May the object as it is now still be the one described here? False as soon as one thing that
        both know differs; nothing in common is no objection."""
        pairs = ((self.size, now.size), (self.modified, now.modified), (self.etag, now.etag))
        return all(then == found for then, found in pairs if then is not None and found is not None)

    def covers(self, now: Validators) -> bool:
        """Is a copy in this state no older than the object as it is now? Entity tags decide where both have
        one, then the times; of one time, the sizes. False where nobody knows."""
        if self.etag is not None and now.etag is not None:
            return self.etag == now.etag
        if self.modified is None or now.modified is None:
            return False
        from datetime import UTC  # as above

        held, found = (each.replace(tzinfo=each.tzinfo or UTC) for each in (self.modified, now.modified))
        later = (found - held).total_seconds()
        if abs(later) > _CLOCKS_DIFFER:
            return later < 0
        return self.size is None or now.size is None or self.size == now.size

    def completed_by(self, now: Validators) -> Validators:
        """What is known now, and of what is not said now, what was known before."""
        return Validators(
            size=self.size if now.size is None else now.size,
            modified=now.modified or self.modified,
            etag=now.etag or self.etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller asks for beyond the URL, for the schemes that know of it.

    `tls` is TLS on a connection that begins without: never, if the peer can (`try`), or not at all
    without it (`require`). `anonymous_password` goes to FTP servers that ask anonymous for one
    (S17). `mlsd` prefers FTP's listing with facts (RFC 3659), `detailed` does where the server says that it
    has it, for kinds, sizes and dates are wanted of a listing; else LIST's lines are read for them, and
    `clock` gives the moment by which their dates have a year. `placed` wants to know of a directory where it
    really is, by what its server says (FTP's PWD). `start` is the number of octets that are held
    already, of the object in the state that `known` describes: the body begins behind them if
    the object is still that one and the peer can do it, else at octet 0; `Reply.start` says which. `held` is
    the state of a whole copy: where that covers the object there is no body, and `Reply.unchanged` says so,
    as far as the scheme can know that beforehand. `listed` is what a listing has just said for certain of the
    object: it is not asked for again (FTP), and fewer octets than that are `Changed`.

    `want` says what becomes of the body: taken as it comes, kept as the peer holds it (`file`: http
    without a content coding), read as entries also where it is a document that lists some (`listing`:
    http's index pages), or not read at all (`facts`: http's HEAD). `headers` and `user_agent` go
    into http requests; `suffix_of` gives the public suffix of a name, where that is known (cookies);
    `codings` are content codings beyond gzip and deflate that can be undone, by
    name; `http2` makes the frames of an https connection whose peer wants HTTP/2, which is offered to it
    only where this is set. `login` is what an earlier hop of this retrieval was given for this place (S11),
    `asked` the host and the name that the first one was of, where there was one.
    `memory` is what dialogues of one run have in common, each key bounded by who made it.

    `entries` is how many of a group's newest articles, or of a search's hits, are wanted: 0 for all of
    them, None for what the scheme thinks fit; `before` bounds the numbers of a group's: only lower ones are.
    A search of WAIS is also for what is like the `relevant` documents, 16 of its database at most.
    `login_in_clear` lets a news password go to another machine without TLS, which else is not done: what a
    caller says with `--tls never`. `keep` says that further retrievals will follow: FTP then asks where it
    is, to find the way back for the next one.

    `stop` is the octet at which the body ends that begins at `start`, for a part of an object as `known`: a
    peer that cannot give just that gives something else, and its `Reply` says so.

    With `raw` the body has the octets that the peer sent, nothing undone in them: doubled periods and the one
    at the end, line ends of the network, content codings; a listing is octets, too, and has no entries.

    `refusals` wants the body of an answer that says no, too, before the error (http).

    `prompt` promises that the whole body is taken as fast as it comes, so that others may wait behind it
    on the same connection. `most` is what the octets of a body are bounded to, None where they are not: the
    retrieval sets it and counts what it takes; a scheme counts what it makes that of (S16). `via` is the
    proxy that http requests go to in place of the URL's host: the gate sets it. Text in `headers` and
    `user_agent` goes out in UTF-8, and the fields may be a mapping. `transcript` is what is
    wanted of a telnet session, which without it is announced and not opened (S18).

    Examples:
        >>> options = resolver.Options(user_agent=b"me", raw=True)
        >>> response = await resolver.fetch("gopher://127.0.0.1:8910/00/about", options=options)
        >>> response.content[-3:]
        b'.\\r\\n'
    """

    tls: Literal["never", "try", "require"] = "never"
    anonymous_password: bytes = b"anonymous@"
    mlsd: bool = False
    detailed: bool = False
    placed: bool = False
    refusals: bool = False
    start: int = 0
    stop: int | None = None
    known: Validators = field(default_factory=Validators)
    held: Validators | None = None
    listed: Validators = field(default_factory=Validators)
    want: Wanted = "content"
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    user_agent: bytes = b"url-resolver"
    codings: Mapping[str, Callable[[], Unpacking]] = field(default_factory=dict, repr=False)
    suffix_of: Callable[[str], str] | None = field(default=None, repr=False)
    http2: Callable[[int], Frames] | None = field(default=None, repr=False)
    login: Credentials | None = None
    asked: tuple[str, bytes] | None = field(default=None, compare=False)
    clock: Callable[[], datetime] | None = field(default=None, repr=False)
    memory: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
    entries: int | None = None
    before: int | None = None
    relevant: tuple[Url, ...] = ()
    login_in_clear: bool = False
    keep: bool = False
    raw: bool = False
    prompt: bool = False
    most: int | None = None
    transcript: Transcript | None = None
    via: ForwardProxy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.headers != ():
            object.__setattr__(self, "headers", header_fields(self.headers))
        if isinstance(self.user_agent, str):
            object.__setattr__(self, "user_agent", _octets(self.user_agent))


#: Fields of http requests, as a mapping or in pairs; text goes out in UTF-8.
HeaderFields: TypeAlias = (
    Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
)


def header_fields(headers: HeaderFields) -> tuple[tuple[bytes, bytes], ...]:
    """Raises `TypeError`, which shows no value: it is often a secret."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return tuple([(_octets(name), _octets(value)) for name, value in pairs])
    except (TypeError, ValueError):
        raise TypeError("headers are a mapping, or pairs of a name and a value, in str or bytes") from None


def _octets(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError


class FrameEvent(NamedTuple):
    """What a frame of HTTP/2 brought of the answer: a header section, octets of the body, its end, or in
    words why there is no more of it."""

    fields: tuple[tuple[bytes, bytes], ...] | None = None
    octets: bytes = b""
    ended: bool = False
    broken: str = ""


class Frames(Protocol):
    """The frames of one HTTP/2 connection, one request at a time: a machine without I/O. It is made with
    the size, in octets, that no header section of the peer's may exceed (RFC 9113 6.5.2)."""

    def request(self, fields: Sequence[tuple[bytes, bytes]], secrets: Collection[tuple[bytes, bytes]]) -> int:
        """A request without a body, and the number of its stream. The `secrets` among its fields are never
        put into a table. Raises `Refused` (S02) for fields that cannot be sent, `Disconnected` where the
        peer takes no more requests here."""
        ...

    def read(self, frame: bytes) -> FrameEvent:
        """Take one whole frame. Raises `ProtocolError` and `LimitExceeded`."""
        ...

    def take_unsent(self) -> bytes:
        """What has to leave, each octet once."""
        ...


class Unpacking(Protocol):
    """A coding being undone, step by step: a machine without I/O. Raises `ProtocolError` for octets that
    are not of that coding."""

    def feed(self, octets: bytes) -> None:
        """Octets to unpack, when `read` has given all that there was."""
        ...

    def read(self, most: int) -> bytes:
        """The next octets, about `most` of them; none when more is needed first, or at the end."""
        ...

    @property
    def taken(self) -> int:
        """Octets used up so far, those not counted that wait to be."""
        ...

    @property
    def whole(self) -> bool:
        """May the octets end here?"""
        ...
