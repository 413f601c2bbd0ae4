"""Limits and options of a caller: bounds, credentials, and settings beyond the URL.

The contract re-exports these names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime

    from protocols.location import JsonValue, Url

#: The tolerance for comparing times, in seconds: file systems and protocols round times to the second, FAT to
#: two seconds.
_CLOCKS_DIFFER = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds on the size and duration of a peer's reply (rule S16): bytes, counts, seconds.

    `body` limits a body collected in memory. Streams and files are limited only if `body_everywhere` is set;
    the command sets it if the user gives `--max-size` or `--limit body=N`. `total` limits all tries of one
    URL together. `head` limits the time before the body in one try, redirects included: connections,
    greeting, login, head. None means no limit. Under the policy `untrusted`, None means 600 s for `total` and
    60 s for `head`, and infinity is not allowed as "no limit". A body or other answer that has started is
    aborted if fewer than `min_rate` bytes arrive per second, averaged over some seconds of waiting. A body
    that has not started after `idle` seconds is also aborted.

    `quota` limits the bytes of all bodies that a session receives, tries that failed included. A body that is
    announced to be larger than the rest of the quota is refused before its first byte. If other bodies grow
    beyond the quota, the one that receives the byte too many is aborted, and each later request fails. The
    quota of a single host is ignored.

    Examples:
        >>> await resolver.fetch("http://127.0.0.1:8920/about.txt", limits=resolver.Limits(body=36))
        Traceback (most recent call last):
        protocols.errors.LimitExceeded: ...: 37 bytes are announced, the limit is 36
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
    quota: int | None = None

    def waiting(self, connect: float | None, idle: float | None) -> Limits:
        """Return a copy with another library's timeouts in seconds; None leaves a value unchanged."""
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
    """A pattern to wait for in a text; `str` shows it."""

    def end_in(self, window: bytes) -> int | None:
        """Return the end of the pattern's first match in `window`; None without a match.

        Raises:
            LocalError: The search would take too long.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    r"""The course of a telnet session without a user.

    The session ends after `seconds`, or at a `prompt`, which may never arrive. Each text of `send` is typed,
    with a line end after it, each time the prompt has arrived. Without a prompt, the texts are typed after
    the service has sent text. The texts may be passwords and are never shown, but text that a service echoes
    is in the transcript. `tell` is called for each event: `event` is one of option, data, sent, command,
    finding, end, and the other members describe it.

    Examples:
        >>> wanted = resolver.Transcript(prompt=resolver.prompt(b"login: "), send=(b"guest",), seconds=20)
        >>> plan = resolver.explain("telnet://h.example/", options=resolver.Options(transcript=wanted))
        >>> [step["octets"] for step in plan.steps if step["action"] == "send"]
        ['****\r\n']
    """

    seconds: float | None = None
    prompt: Prompt | None = None
    send: tuple[bytes, ...] = field(default=(), repr=False)
    tell: Callable[[dict[str, JsonValue]], None] | None = field(default=None, repr=False, compare=False)


class ProxyAuth(Protocol):
    """The authentication to an HTTP proxy that forwards requests with complete URLs."""

    def fields(self, method: bytes, target: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Return the authentication fields of a request; empty before the proxy has asked for a login."""
        ...

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """Return the secret parts of these fields, for all pending requests."""
        ...

    def heed(
        self, challenges: Sequence[str], sent: tuple[tuple[bytes, bytes], ...], unguessable: bytes
    ) -> None:
        """Process the proxy's request for a login (407).

        Args:
            challenges: The challenges of the proxy.
            sent: The fields of the request to which the proxy responded.
            unguessable: Random bytes for the client nonce of Digest.

        Raises:
            LoginRequired: There are no credentials.
            AccessDenied: The proxy refused the credentials.
            Declined: The proxy requires an unsupported method.
        """
        ...


class ForwardProxy(NamedTuple):
    """The proxy for HTTP requests.

    `place` is the text before the path of the URL in a request to the proxy (RFC 9112 3.2.2).
    """

    place: bytes
    login: ProxyAuth


Wanted: TypeAlias = Literal["content", "file", "facts", "listing"]


class Validators(NamedTuple):
    """The attributes that distinguish states of an object, each None if unknown.

    They are its size in bytes, its modification time, and http's strong entity tag.

    Examples:
        >>> held = resolver.Validators(size=37, etag="1")
        >>> held.agree(resolver.Validators(size=37)), held.agree(resolver.Validators(size=38))
        (True, False)
    """

    size: int | None = None
    modified: datetime | None = None
    etag: str | None = None

    def agree(self, now: Validators) -> bool:
        """Return whether the object in its present state `now` may equal the object described here.

        False if an attribute that is known in both differs. True if they have no attribute in common.
        """
        pairs = ((self.size, now.size), (self.modified, now.modified), (self.etag, now.etag))
        return all(then == found for then, found in pairs if then is not None and found is not None)

    def covers(self, now: Validators) -> bool:
        """Return whether a copy in this state is current for an object in the state `now`.

        Entity tags decide if both states have one, otherwise the times. If the times are equal, the sizes
        decide. False without such evidence.
        """
        if self.etag is not None and now.etag is not None:
            return self.etag == now.etag
        if self.modified is None or now.modified is None:
            return False
        from datetime import UTC  # imported lazily: a plan has no dates

        held, found = (each.replace(tzinfo=each.tzinfo or UTC) for each in (self.modified, now.modified))
        later = (found - held).total_seconds()
        if abs(later) > _CLOCKS_DIFFER:
            return later < 0
        return self.size is None or now.size is None or self.size == now.size

    def completed_by(self, now: Validators) -> Validators:
        """Return the attributes of `now`; attributes that are unknown there are taken from this state."""
        return Validators(
            size=self.size if now.size is None else now.size,
            modified=now.modified or self.modified,
            etag=now.etag or self.etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    r"""The requests of a caller beyond the URL, for the schemes that support them.

    The connection and its login:
    - `tls`: TLS on a connection that begins without it: `never`, if the peer supports it (`try`), or
      mandatory (`require`).
    - `anonymous_password`: sent to FTP servers that ask the user anonymous for a password (S17, privacy).
    - `login`: the credentials that an earlier hop of this retrieval used for this host and port (S11,
      credential scope).
    - `asked`: the host and the user name of the first hop, if there was one.
    - `login_in_clear`: send a news password to another machine without TLS, which is refused otherwise; the
      caller's `--tls never`.
    - `keep`: further retrievals will follow. FTP then asks for its current directory, so that it can return
      to it for the next retrieval.
    - `memory`: state shared by the dialogues of one run; the owner of each key limits the size of its value.

    The part of the object:
    - `start`: the number of bytes that the caller holds already, of the object in the state `known`. The body
      begins after these bytes if the object is unchanged and the peer can resume, else at byte 0.
      `Reply.start` has the actual position.
    - `stop`: the byte at which a body that begins at `start` ends, for a part of an object in the state
      `known`. A peer that cannot send exactly that part sends another one, as its `Reply` reports.
    - `held`: the state of a complete copy. If the copy is current, the body is absent and `Reply.unchanged`
      is set, provided that the scheme can know this before the body.
    - `listed`: the certain attributes from a listing. FTP does not request them again, and a body with fewer
      bytes than listed raises `Changed`.
    - `most`: the maximum number of bytes of a body, None without a limit. The retrieval sets it and counts
      the bytes that it receives. A scheme that converts the bytes counts its input (S16, resource limits).
    - `prompt`: the caller promises to read the complete body as fast as it arrives, so that other dialogues
      may wait on the same connection.

    The form of the body:
    - `want`: the use of the body. `content`: taken as it comes. `file`: stored as the peer holds it (http
      without a content coding). `listing`: read as entries, also from a document that lists some (http's
      index pages). `facts`: not read (http's HEAD).
    - `raw`: the body has the bytes that the peer sent. Doubled periods and the period at the end, network
      line ends and content codings are not decoded. A listing is not parsed into entries.
    - `refusals`: return the reply of a refusal, with `failure` and its complete body, before the error
      (http). Otherwise only the error is raised, with the start of that body (`ResolveError.body`).
    - `codings`: supported content codings beyond gzip and deflate, by name.

    Requests of http:
    - `headers`, `user_agent`: added to http requests, text in UTF-8; the fields may be a mapping.
    - `suffix_of`: returns the public suffix of a name, if that is known (cookies).
    - `http2`: creates the HTTP/2 state machine (`Frames`) of an https connection whose peer chose HTTP/2.
      HTTP/2 is offered only if this is set.
    - `via`: the proxy that receives http requests instead of the URL's host; the gate sets it.

    Listings and sessions:
    - `mlsd`: request FTP's listing with facts (MLSD, RFC 3659) without checking for support.
    - `nlst`: request only the names of an FTP directory (NLST).
    - `detailed`: the caller wants kinds, sizes and dates, also if `want` is not `listing`. They are read from
      MLSD if the server advertises it, else from the lines of LIST.
    - `clock`: returns the current time, which determines missing years of dates in LIST.
    - `placed`: ask for the real path of a directory (FTP's PWD).
    - `entries`: the number of a group's newest articles, or of a search's hits: 0 for all, None for the
      scheme's default.
    - `before`: only articles of a group with lower numbers.
    - `relevant`: documents for relevance feedback, which a WAIS search also matches by similarity; at most 16
      of its database.
    - `transcript`: the course of a telnet session; without it the session is announced and not opened (S18,
      no execution).

    Examples:
        >>> options = resolver.Options(user_agent=b"me", raw=True)
        >>> response = await resolver.fetch("gopher://127.0.0.1:8910/00/about", options=options)
        >>> response.content[-3:]
        b'.\r\n'
    """

    tls: Literal["never", "try", "require"] = "never"
    anonymous_password: bytes = b"anonymous@"
    mlsd: bool = False
    nlst: bool = False
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


#: Fields of http requests, as a mapping or in pairs; text is sent in UTF-8.
HeaderFields: TypeAlias = (
    Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
)


def header_fields(headers: HeaderFields) -> tuple[tuple[bytes, bytes], ...]:
    """Return the fields as pairs of bytes.

    Raises:
        TypeError: A field has a wrong type. The message does not show the value, which is often secret.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return tuple([(_octets(name), _octets(value)) for name, value in pairs])
    except (TypeError, ValueError):
        raise TypeError("headers must be a mapping, or pairs of name and value, in str or bytes") from None


def _octets(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError


class FrameEvent(NamedTuple):
    """The part of an answer in one HTTP/2 frame.

    A frame has a header section, bytes of the body, the end of the body, or the reason (`broken`) why the
    answer stops.
    """

    fields: tuple[tuple[bytes, bytes], ...] | None = None
    octets: bytes = b""
    ended: bool = False
    broken: str = ""


class Frames(Protocol):
    """The frames of one HTTP/2 connection, one request at a time: a machine without I/O.

    The constructor takes the maximum size in bytes of a header section from the peer (RFC 9113 6.5.2).
    """

    def request(self, fields: Sequence[tuple[bytes, bytes]], secrets: Collection[tuple[bytes, bytes]]) -> int:
        """Start a request without a body, and return the number of its stream.

        The `secrets` among `fields` are never put into a compression table (HPACK).

        Raises:
            Refused: The fields cannot be sent (S02, command injection).
            Disconnected: The peer does not accept further requests on this connection.
        """
        ...

    def read(self, frame: bytes) -> FrameEvent:
        """Process one complete frame; raise `ProtocolError` or `LimitExceeded`."""
        ...

    def take_unsent(self) -> bytes:
        """Return the bytes to send, each byte once."""
        ...


class Unpacking(Protocol):
    """The incremental decoding of a content coding: a machine without I/O.

    Bytes that are not of that coding raise `ProtocolError`.
    """

    def feed(self, octets: bytes) -> None:
        """Accept bytes to decode; `read` must have returned all earlier output."""
        ...

    def read(self, most: int) -> bytes:
        """Return the next bytes, about `most` of them; empty if more input is needed, or at the end."""
        ...

    @property
    def taken(self) -> int:
        """Return the number of bytes that were decoded so far, without those still waiting."""
        ...

    @property
    def whole(self) -> bool:
        """Return whether the input may end here."""
        ...
