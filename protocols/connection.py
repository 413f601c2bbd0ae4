"""What octets come and go through: a stream, datagrams, and the file a body is moved into.

These are the shapes of what a gate hands to a scheme, and of the machine that a scheme has datagrams carried
by. They are part of the contract and are imported from there; they stand here because they know nothing of
URLs, replies or limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from protocols.values import NamedTuple


class Line(NamedTuple):
    """Octets that may leave on a connection. Only `wire` makes one, which is what keeps a command
    from ending where we did not end it. `shown` is the same with secrets as `****`; `secrets` are what
    that hides, for the peer may repeat them."""

    octets: bytes
    shown: bytes
    secrets: tuple[bytes, ...] = ()


class StreamCodec(Protocol):
    """What two peers compress all that they say with: a machine without I/O."""

    @property
    def has_more(self) -> bool:
        """May `read` have more to give before anything else comes?"""
        ...

    def pack(self, octets: bytes) -> bytes:
        """What is to be sent in place of these octets."""
        ...

    def feed(self, octets: bytes) -> None:
        """These came, and all before them has been read."""
        ...

    def read(self, most: int) -> bytes:
        """The next octets, at most so many; none where more has to come first."""
        ...


class Stream(Protocol):
    """One TCP connection that the gate opened, plain or inside TLS."""

    @property
    def peer(self) -> str:
        """The numeric address connected to: the one that was checked."""
        ...

    @property
    def secured(self) -> bool:
        """Inside TLS?"""
        ...

    @property
    def agreed(self) -> str | None:
        """The protocol that the peer chose in the handshake (ALPN); None where it chose none."""
        ...

    @property
    def received(self) -> int:
        """Octets taken from this connection so far by `receive` and `move`; right after an error too."""
        ...

    async def send(self, *lines: Line) -> None:
        """Send all lines in one write."""
        ...

    async def receive(self) -> bytes:
        """The next octets, at most 64 KiB; `b""` at the orderly end (also where TLS ended without
        close_notify: see `close_notify_seen`). `Disconnected` on a reset, `TimedOut` on silence."""
        ...

    @property
    def close_notify_seen(self) -> bool:
        """Did the peer end TLS properly? False until it has; always False without TLS."""
        ...

    async def move(self, sink: Sink, count: int | None) -> int:
        """Move up to `count` octets (None: until the end) into `sink` in bulk. Returns how many came:
        fewer than `count` only at the end. `Disconnected` on a reset, `TimedOut` on silence, `LocalError`
        where the sink takes no more; what came until then is in the sink, `received` counts it."""
        ...

    async def start_tls(self) -> None:
        """Wrap this connection in TLS for the URL's host. `TlsError` if that fails. A data connection
        offers the session of the first connection, as FTP servers demand."""
        ...

    async def aclose(self) -> None:
        """Close without waiting for the peer; harmless when closed already."""
        ...


class Datagram(NamedTuple):
    """One datagram that came, and from where: a numeric address and a port."""

    octets: bytes
    address: str
    port: int


class Datagrams(Protocol):
    """A UDP socket of the gate, not connected: anyone may answer, the dialogue decides whom to believe."""

    @property
    def peer(self) -> str:
        """The numeric address sent to, in its one spelling: one that was checked."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """All addresses of the host that were checked and may be sent to, the preferred ones first."""
        ...

    @property
    def port(self) -> int:
        """The port sent to."""
        ...

    def now(self) -> float:
        """The clock that deadlines are on, in seconds."""
        ...

    async def send(self, packet: Line) -> None:
        """One datagram to the peer."""
        ...

    async def receive(self, deadline: float) -> Datagram | None:
        """The next datagram, at most 65,535 octets; None when nothing came until `deadline`. What
        waits already is delivered also after the deadline."""
        ...

    def send_at_once(self, packet: Line) -> None:
        """One datagram without waiting, while being cancelled too; one that cannot leave now is lost. For
        what tells the peer that nobody waits any more."""
        ...

    def draw_number(self) -> int:
        """A number from 1 to 65,535 that nobody can foresee, for answers to be known by."""
        ...

    def switch_to(self, address: str) -> None:
        """Send to this one of `addresses` from now on."""
        ...

    def redirect_to(self, address: str, port: int) -> None:
        """Send to another place from now on, because the peer said so. `Refused` where the policy does
        not let a URL of that place be followed from this one."""
        ...


class RedirectAddress(NamedTuple):
    """Send to this place from now on; `lasting` says that later requests belong there too."""

    address: str
    port: int
    lasting: bool


class SwitchAddress(NamedTuple):
    """Send to this one of the server's addresses from now on."""

    address: str


DatagramAction: TypeAlias = "Line | RedirectAddress | SwitchAddress"


class DatagramExchange(Protocol):
    """One request in datagrams and its reply: a machine without I/O and without a clock. Each call takes the
    time, and gives what is to be done now; `deadline` says when to call again if nothing comes until then."""

    @property
    def packets(self) -> Sequence[Line]:
        """The request as it leaves where nothing is lost."""
        ...

    @property
    def pieces(self) -> Sequence[bytes]:
        """The reply, packet by packet, once it is complete."""
        ...

    @property
    def complete(self) -> bool: ...

    @property
    def deadline(self) -> float: ...

    def begin(self, now: float) -> Sequence[DatagramAction]: ...

    def take(self, datagram: bytes, address: str, now: float) -> Sequence[DatagramAction]:
        """A datagram has come from `address`."""
        ...

    def wake(self, now: float) -> Sequence[DatagramAction]:
        """Nothing waits to be read, or the deadline has passed."""
        ...

    def lose(self, address: str, now: float) -> bool:
        """Nothing can be sent to that address. Is there another one of the server's to go on with?"""
        ...

    def cancel(self) -> Line:
        """Tells the server that nobody waits any more."""
        ...


class Sink(Protocol):
    """A file of ours that a body is moved into. Only the gate makes one."""

    def fileno(self) -> int: ...

    def write(self, octets: bytes | memoryview) -> None:
        """Write all octets; a full disk is `LocalError`. A caller may also write to `fileno()` itself,
        in bulk, and leave to this method what did not go in: it then names the reason."""
        ...
