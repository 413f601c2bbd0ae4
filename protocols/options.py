"""Limits and options of a retrieval: limits, credentials, and settings that are not in the URL.

The module `contract` exports these types too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from protocols.errors import LimitExceeded

if TYPE_CHECKING:  # lazy import: `explain` does not need `datetime`
    from datetime import datetime

    from protocols.location import Url
    from protocols.script import Transcript

#: The tolerance in seconds for a comparison of modification times. Most file systems and protocols round
#: times to one second. The file system FAT rounds times to two seconds.
_CLOCKS_DIFFER = 2.0

#: The limits with which numbers are compared directly, so None is stored as infinity.
_COMPARED = ("lines", "entries", "hops", "body", "ratio", "connect", "idle")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on the size and duration of a peer's response (S16): bytes, numbers, seconds.

    None means no limit, except for `total` and `head` with policy `untrusted`. Infinity means no limit. The
    limit `line` must be an integer, because a line is read into a buffer.
    - `body`: the maximum size of a body in memory. Streams and files are limited only if `body_everywhere` is
      set. The command sets `body_everywhere` for `--max-size` and `--limit body=N`.
    - `total`: the maximum time for all attempts of one URL. With policy `untrusted`, None means 600 s.
    - `head`: the maximum time before the body in one attempt, for connections, greeting, login, response head
      and redirects. With policy `untrusted`, None means 60 s.
    - `min_rate`: the minimum rate in bytes per second, averaged over some seconds of waiting. A slower
      response is aborted (slow-loris).
    - `idle`: the maximum time without received data (idle timeout). The idle timeout also limits the time
      before a body starts.

    `quota` limits the bytes of all bodies that a session receives, including failed attempts. If the
    announced size of a body exceeds the remaining quota, the request fails before the first byte of the body.
    A body of unknown size is aborted when its bytes exceed the quota. When the quota is exhausted, each
    further request fails. A quota in the settings of a single host is ignored.

    Raises:
        ValueError: a limit is negative, not a number or above 1e308, or `line` is not an integer.

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

    def __post_init__(self) -> None:
        if not isinstance(self.line, int):
            raise ValueError(f"the limit line must be an integer, got {self.line!r}")
        for name in _COMPARED:
            if getattr(self, name) is None:
                object.__setattr__(self, name, math.inf)
        for name in self.__slots__:
            limit: float | None = getattr(self, name)
            # No value exceeds NaN, so NaN would disable the limit. A larger integer is not a time of a clock.
            if limit is not None and not (0 <= limit < 1e308 or limit == math.inf):
                raise ValueError(f"the limit {name} must be from 0 to 1e308 or infinity, got {limit}")

    def waiting(self, connect: float | None, idle: float | None) -> Limits:
        """Return a copy with other timeouts in seconds. `None` leaves a timeout unchanged."""
        return replace(
            self,
            connect=self.connect if connect is None else connect,
            idle=self.idle if idle is None else idle,
        )


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and a password for one scheme, host and port (S11). The password is never displayed.

    Raises:
        TypeError: the user or the password is not bytes.

    Examples:
        >>> resolver.Credentials(b"me", b"secret")
        Credentials(user=b'me')
    """

    user: bytes
    password: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.user, bytes) and isinstance(self.password, bytes)):
            raise TypeError("user and password must be bytes")  # without the values, which are secret


class ProxyAuth(Protocol):
    """The authentication to an HTTP proxy that forwards requests with absolute URLs."""

    def fields(self, method: bytes, target: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Return the proxy login as header fields, or nothing before the proxy requested a login."""
        ...

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """Return the secret values in the authentication fields of all pending requests."""
        ...

    def heed(
        self, challenges: Sequence[str], sent: tuple[tuple[bytes, bytes], ...], unguessable: bytes
    ) -> None:
        """Process the authentication challenge of the proxy (status 407).

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
    """The HTTP proxy that forwards a request.

    `place` is the scheme, host and port of the requested URL, and not of the proxy. The client writes this
    text before the path (absolute-form, RFC 9112 3.2.2).
    """

    place: bytes
    login: ProxyAuth


Wanted: TypeAlias = Literal["content", "file", "facts", "listing"]


class Validators(NamedTuple):
    """The attributes that distinguish versions of an object (validators, RFC 9110 8.8).

    The attributes are the size in bytes, the modification time, and the entity tag of http. An unknown
    attribute is `None`.

    Examples:
        >>> held = resolver.Validators(size=37, etag="1")
        >>> held.agree(resolver.Validators(size=37)), held.agree(resolver.Validators(size=38))
        (True, False)
    """

    size: int | None = None
    modified: datetime | None = None
    etag: str | None = None

    @property
    def strong_etag(self) -> str | None:
        """Return the entity tag unless it is weak: equal strong tags mean equal bytes (RFC 9110 8.8.1)."""
        return None if (self.etag or "").startswith("W/") else self.etag

    def agree(self, now: Validators) -> bool:
        """Return whether this version and the version `now` may be equal.

        The result is False if at least one attribute is known in both versions and differs. Otherwise, the
        result is True. A weak entity tag equals the strong tag with the same text (RFC 9110 8.8.3.2).
        """
        tags = [tag and tag.removeprefix("W/") for tag in (self.etag, now.etag)]
        pairs = ((self.size, now.size), (self.modified, now.modified), tags)
        return all(old == new for old, new in pairs if old is not None and new is not None)

    def covers(self, now: Validators) -> bool:
        """Return whether a copy of this version is up to date, if the object now has the version `now`.

        If both versions have an entity tag, the entity tags are compared. Otherwise, the modification times
        are compared. For equal times, the sizes are compared. If a modification time is unknown, the result
        is False.
        """
        if self.etag is not None and now.etag is not None:
            return self.etag == now.etag
        if self.modified is None or now.modified is None:
            return False
        from datetime import UTC  # lazy import: `explain` does not need `datetime`

        old, new = (moment.replace(tzinfo=moment.tzinfo or UTC) for moment in (self.modified, now.modified))
        seconds = (new - old).total_seconds()
        if abs(seconds) > _CLOCKS_DIFFER:
            return seconds < 0
        return self.size is None or now.size is None or self.size == now.size

    def completed_by(self, now: Validators) -> Validators:
        """Return `now`, with its unknown attributes taken from this version."""
        return Validators(
            size=self.size if now.size is None else now.size,
            modified=now.modified or self.modified,
            etag=now.etag or self.etag,
        )


#: Empty validators, which match every object.
NOTHING = Validators()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    r"""The options of a retrieval that are not part of the URL, for the schemes that support them.

    Connection and login:
    - `tls`: whether a connection that starts without TLS changes to TLS (STARTTLS): `never`, `try` (if the
      peer supports TLS), or `require`.
    - `anonymous_password`: the password for FTP servers that request a password from the user anonymous (S17,
      privacy).
    - `login`: credentials from an earlier redirect of this retrieval to the same host and port (S11,
      credential scope).
    - `has_credentials`: whether the gate may have stored credentials. The session sets this option.
    - `asked`: the host and the user name of the first URL in the redirect chain, if the URL has them.
    - `login_in_clear`: send a news password to another machine without TLS. By default, the client refuses
      this login. The option `--tls never` permits the login.
    - `keep`: further retrievals will follow. An FTP client then requests the current directory, because the
      next retrieval may return to this directory.
    - `memory`: a dictionary with the state that the dialogues of one run share. The module that sets a key
      must limit the size of the value.

    Range of the object:
    - `start`: the size in bytes of the caller's partial copy, of the version `known`. The body begins at this
      offset if the object is unchanged and the peer can resume. Otherwise, the body begins at byte 0.
      `Reply.start` contains the actual offset.
    - `stop`: the offset in bytes at which the body ends (range request). If the peer cannot send exactly this
      range, it sends another range. `Reply.start` and `Reply.stop` contain the actual range.
    - `held`: the version of the caller's complete copy. If the copy is current, the body is absent and
      `Reply.unchanged` is set (conditional request). Only some schemes can compare the versions before the
      body.
    - `listed`: the size and time of the object from a listing, if they are exact. An FTP client does not
      request them again. If the body has fewer bytes than the size in the listing, `Changed` is raised.
    - `most`: the maximum number of bytes of a body, or None without a limit. The retrieval sets `most` and
      counts the received bytes. A scheme that converts the bytes counts its input (S16, resource limits).
    - `prompt`: the caller promises to read the complete body as fast as it arrives. Other dialogues may then
      wait on the same connection.

    Form of the body:
    - `want`: the use of the body. `content`: the decoded content. `file`: the bytes as the peer stores them
      (http without a content coding). `listing`: return entries, also if a document contains the links
      (http's index pages). `facts`: only the metadata, without the body (http's HEAD).
    - `raw`: return the bytes of the body as the peer sent them. Doubled periods, the final period, network
      line ends and content codings are not decoded. A listing is not parsed into entries.
    - `refusals`: for an error response of http, return a reply with `failure` and the complete body. The
      error is raised later. By default, only the error is raised, with the start of the body
      (`ResolveError.body`).
    - `codings`: returns the supported content codings besides gzip and deflate, by name.

    HTTP requests:
    - `headers`, `user_agent`: header fields that are added to http requests. Text is encoded in UTF-8.
      `headers` may be a mapping or a sequence of pairs.
    - `suffix_of`: a function that returns the public suffix of a host name. Without it, public suffixes are
      unknown. The client refuses cookies for a public suffix.
    - `http2`: creates the HTTP/2 state machine (`Frames`) of an https connection if the peer chose HTTP/2.
      The client offers HTTP/2 only if this option is set.
    - `via`: the forward proxy for http requests. Requests are sent to the proxy instead of the URL's host.
      The gate sets this option.

    Listings and sessions:
    - `mlsd`: request FTP's machine-readable listing (MLSD, RFC 3659) without checking for support.
    - `nlst`: request only the names of an FTP directory (NLST).
    - `detailed`: the caller needs kinds, sizes and dates, even if `want` is not `listing`. FTP then uses MLSD
      if the server advertises it. Otherwise, the lines of LIST are parsed.
    - `clock`: a function that returns the current time. A date without a year in LIST is completed from this
      time.
    - `placed`: request the canonical path of a directory (FTP's PWD).
    - `entries`: the maximum number of articles of a group (the newest), or of results of a search. 0 means
      all, and None means the default of the scheme.
    - `before`: list only articles of a group with lower numbers.
    - `relevant`: documents for relevance feedback. A WAIS search also finds documents that are similar to the
      documents in `relevant`. At most 16 documents of the searched database are allowed.
    - `transcript`: the script of a telnet session. Without a script, the session is described and not opened
      (S18, no execution).

    Raises:
        TypeError: `headers` has a wrong type.
        ValueError: `tls` is none of its three values.

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
    codings: Callable[[], Mapping[str, Callable[[], Unpacking]]] = field(default=dict, repr=False)
    suffix_of: Callable[[str], str] | None = field(default=None, repr=False)
    http2: Callable[[int], Frames] | None = field(default=None, repr=False)
    login: Credentials | None = None
    has_credentials: bool = field(default=True, repr=False)
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
        if self.tls not in ("never", "try", "require"):  # any other value would permit a login in the clear
            raise ValueError(f"tls must be never, try or require, got {self.tls!r}")
        if self.headers != ():
            object.__setattr__(self, "headers", header_fields(self.headers))
        if isinstance(self.user_agent, str):
            object.__setattr__(self, "user_agent", _octets(self.user_agent))


#: The header fields of http requests, as a mapping or as pairs. Text is encoded in UTF-8.
HeaderFields: TypeAlias = (
    Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
)


def header_fields(headers: HeaderFields) -> tuple[tuple[bytes, bytes], ...]:
    """Return the header fields as pairs of bytes.

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
    """The content of one HTTP/2 frame of a response.

    A frame contains a header section, bytes of the body, or the end of the body. If the response was aborted,
    `broken` is the reason.
    """

    fields: tuple[tuple[bytes, bytes], ...] | None = None
    octets: bytes = b""
    ended: bool = False
    broken: str = ""


class Frames(Protocol):
    """The state machine of an HTTP/2 connection, without I/O. It supports one request at a time.

    The constructor takes the maximum size in bytes of a header section of the peer (RFC 9113 6.5.2).
    """

    def request(self, fields: Sequence[tuple[bytes, bytes]], secrets: Collection[tuple[bytes, bytes]]) -> int:
        """Start a request without a body, and return the stream identifier.

        The fields in `secrets` are never added to a compression table (HPACK).

        Raises:
            Refused: The fields cannot be sent (S02, command injection).
            Disconnected: The peer does not accept further requests on this connection.
        """
        ...

    def read(self, frame: bytes) -> FrameEvent:
        """Process one complete frame.

        Raises:
            ProtocolError: The frame violates the protocol.
            LimitExceeded: The response exceeds a limit.
        """
        ...

    def take_unsent(self) -> bytes:
        """Return the bytes to send, and remove them from the buffer."""
        ...


class Unpacking(Protocol):
    """An incremental decoder of a content coding, without I/O.

    Bytes that are not valid in the coding raise `ProtocolError`.
    """

    def feed(self, octets: bytes) -> None:
        """Accept encoded bytes. Call this method only after `read` has returned all earlier output."""
        ...

    def read(self, most: int) -> bytes:
        """Return the next decoded bytes, about `most` at a time.

        A decoder of complete blocks may return more bytes: up to 96 KiB for `br`, and 2 MiB for `zstd`.
        The result is empty at the end, or if more input is needed.
        """
        ...

    @property
    def taken(self) -> int:
        """Return the number of encoded bytes that have been decoded."""
        ...

    @property
    def whole(self) -> bool:
        """Return whether the encoded data is complete. Only then may the input end."""
        ...


#: The number of decoded bytes before the expansion ratio is checked. A small body, such as a page of blanks,
#: may have a high ratio without being an attack.
_GRACE = 1_048_576

#: The maximum number of consecutive coded bytes without output. Empty members, empty blocks, metadata and
#: skippable frames produce no output, and a peer can send any number of them. A normal encoder writes only a
#: few of them between two members with output.
_IN_VAIN = 1_048_576

#: The maximum overhead in bytes of a coding for incompressible data: headers, a file name, and five bytes per
#: block of 16 KiB.
_WRAPPING = 1_024
_BLOCKS = 1_000


class DecodingBudget:
    """The limit of one decoder against decompression bombs (S16); each decoder requires a budget.

    After the first mebibyte, the decoded bytes are limited to `ratio` times the coded bytes. At most one
    mebibyte of consecutive coded bytes may produce no output.

    Args:
        ratio: The maximum expansion ratio.
        most: The maximum size of a coded body in bytes. None means no limit, for a connection.

    Attributes:
        given: The number of decoded bytes.
    """

    def __init__(self, ratio: int, most: int | None) -> None:
        self._ratio = ratio
        self._limit = most
        self._coded = 0
        self._in_vain = 0
        self.given = 0

    def feed(self, coded: int) -> None:
        """Count coded bytes before they are decoded. Raises `LimitExceeded`."""
        self._coded += coded
        if self._limit is not None and self._coded > self._limit + self._limit // _BLOCKS + _WRAPPING:
            raise LimitExceeded("body", f"the coded body is larger than the limit of {self._limit} bytes")
        if self._in_vain >= _IN_VAIN:
            raise LimitExceeded("ratio", f"{self._in_vain} coded bytes decode to nothing")
        self._in_vain += coded

    def take(self, given: int, taken: int) -> None:
        """Count decoded bytes; `taken` is the number of coded bytes so far. Raises `LimitExceeded`."""
        self.given += given
        self._in_vain = 0 if given else self._in_vain
        if self.given > _GRACE and self.given > self._ratio * taken:
            raise LimitExceeded(
                "ratio", f"{taken} coded bytes decode to more than {self._ratio} times as many"
            )
