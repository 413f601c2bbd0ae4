"""The matrix as data: scheme, fault, and what has to come of it. One row a fault, once and always.

`once` says what comes of it when only the first connection has the fault: nearly always the whole file,
with the second try. `always` is the error when no connection is spared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fixtures.faulty import NOBODY, Fact, Fault, Kind, Manner, Moment, changed
from resolver import (
    Disconnected,
    LimitExceeded,
    ProtocolError,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    TryLater,
    Unreachable,
)
from tests.faults.cell import CONTENT, SIZE

CHANGED = changed(CONTENT)
PLAIN = ("ftp", "http", "gopher", "nntp", "wais")
SECURED = ("ftps", "https", "gophers", "nntps")
RESUMING = ("ftp", "ftps", "http", "https", "wais")

Error = type[ResolveError]
ALL: tuple[Fact, ...] = ("size", "time", "tag")


@dataclass(frozen=True)
class Row:
    """`error` is None where the file is had; `tries` is how many it takes, None where that does not matter.
    `held` are octets of the object that stay for a later run, which goes on behind them, or behind
    `taken_up` of them. `received`, `expected`: of `Truncated`, where
    known. `content` is what the file has in the end, after a later run where there has to be one."""

    scheme: str
    manner: Manner
    error: Error | None
    tries: int | None = 2
    held: int = 0
    taken_up: int | None = None
    received: int | None = None
    expected: int | None = None
    content: bytes = CONTENT
    finding: str | None = None

    @property
    def name(self) -> str:
        manner, fault = self.manner, self.manner.fault
        words = [self.scheme, manner.framing if manner.framing != "length" else ""]
        words.append("" if manner.offsets == "yes" else f"offsets-{manner.offsets}")
        told = "-".join(manner.tells) or "nothing"
        words += ["changes" if manner.changes else "", "cut then" if manner.cuts else ""]
        words += ["" if manner.tells == ALL else f"tells-{told}"]
        if fault is not None:
            words += [fault.kind, fault.at, str(fault.share) if fault.at == "body" else ""]
            words.append("always" if fault.times is None else "once")
        return " ".join(word for word in words if word)


def both(row: Row) -> Iterator[Row]:
    """The row, and the same with only one connection that fails."""
    yield row
    fault = row.manner.fault
    assert fault is not None
    spared = replace(row.manner, fault=replace(fault, times=1))
    yield replace(row, manner=spared, error=None, tries=1 if row.error is None else 2, held=0)


#: The last one is for TLS alone.
KINDS: tuple[Kind, ...] = ("reset", "close", "silence", "cut")

#: When the connection fails, and as what that counts: reset, closed in order, silent, cut off without TLS's
#: close_notify. None: nobody is hurt.
BEFORE: tuple[Error | None, ...] = (Disconnected, Disconnected, TimedOut, Disconnected)
INSIDE: tuple[Error | None, ...] = (Truncated, Truncated, TimedOut, Truncated)
UNHURT: tuple[Error | None, ...] = (None, None, None, None)
SHARES = (0, 10, 50, 99)

#: Behind the last octet of the body. Of a WAIS document nothing follows, nor of one of known length.
BEHIND: dict[str, tuple[Error | None, ...]] = {
    "ftp": (Truncated, Truncated, Truncated),
    "ftps": (Truncated, Truncated, Truncated, Truncated),
    "http": UNHURT,
    "http chunked": INSIDE,
    "http close": (Truncated, None, TimedOut),
    "https": UNHURT,
    "https close": (Truncated, None, TimedOut, Truncated),
    "gopher": UNHURT,
    "gopher close": (Truncated, None, TimedOut),
    "gophers": UNHURT,
    "nntp": INSIDE,
    "nntps": INSIDE,
    "wais": UNHURT,
}
#: What cannot be told from an object that is whole: Gopher without a count ends with the connection, http
#: without a length too.
UNTOLD: set[tuple[str, Kind, Moment]] = {
    ("gopher close", "close", "body"),
    ("gopher close", "close", "connect"),
    ("gopher close", "close", "greeting"),
    ("http close", "close", "body"),
    ("https close", "close", "body"),
}


def connections() -> Iterator[Row]:
    """Reset, orderly close and silence at every moment."""
    for key, behind in BEHIND.items():
        scheme, _, framing = key.partition(" ")
        manner = Manner(framing=framing or "length", login=scheme.startswith("nntp"))  # type: ignore[arg-type]
        moments: list[Moment] = [] if framing else ["connect", "greeting"]
        moments += ["login"] if scheme.startswith(("ftp", "nntp")) else []
        for moment in moments:
            yield from _cells(key, manner, Fault("reset", moment), BEFORE, 0)
        for share in SHARES:
            yield from _cells(
                key, manner, Fault("reset", "body", share), INSIDE if share else BEFORE, SIZE * share // 100
            )
        yield from _cells(key, manner, Fault("reset", "end"), behind, SIZE)
        if framing == "chunked":
            yield from _cells(key, manner, Fault("reset", "trailer"), behind, SIZE)


def _cells(
    key: str, manner: Manner, fault: Fault, errors: tuple[Error | None, ...], reached: int
) -> Iterator[Row]:
    scheme = key.partition(" ")[0]
    kinds = KINDS if scheme in SECURED else KINDS[:-1]
    for kind, error in zip(kinds, errors, strict=False):
        if (key, kind, fault.at) in UNTOLD or (kind, fault.at) == ("cut", "connect"):
            continue
        if (key, kind, fault.at) == ("gopher", "close", "connect"):
            error = ProtocolError  # Gopher+ page, section 5; tried again all the same
        row = Row(scheme, replace(manner, fault=replace(fault, kind=kind)), error)
        if error is None:
            row = replace(row, tries=1)
        elif scheme == "wais" and reached:  # a range that does not come whole does not count
            row = replace(row, error=TimedOut if kind == "silence" else Disconnected, tries=None)
        elif scheme in RESUMING and reached:
            row = replace(row, held=reached)
        if row.error is Truncated:
            row = replace(row, received=None if scheme.startswith("nntp") else reached)
        # Who never greets has one try.
        if scheme in ("ftp", "nntp") and (kind, fault.at) == ("silence", "connect"):
            yield from (replace(each, error=error, tries=1) for each in both(row))
        else:
            yield from both(row)


def is_raced(row: Row) -> bool:
    """What breaks the dialogue comes on one connection while data still comes on another: of a server that
    runs beside us nobody can say which is here first, and so how much of the object is kept."""
    fault = row.manner.fault
    return fault is not None and fault.kind in ("stray", "endless") and fault.at == "end"


def refusals() -> Iterator[Row]:
    """Nobody listens; the peer says "not now"; what comes is no answer."""
    for scheme in PLAIN + SECURED:
        yield _final(scheme, Manner(fault=NOBODY), Unreachable)
    for scheme in ("ftp", "ftps", "http", "https", "nntp", "nntps"):
        yield from both(Row(scheme, Manner(fault=Fault("later", "greeting")), TryLater))
    yield from both(Row("nntp", Manner(fault=Fault("later", "body")), TryLater))
    for scheme in ("ftp", "nntp"):
        for moment in ("greeting", "login"):
            manner = Manner(login=scheme == "nntp")
            yield _final(scheme, replace(manner, fault=Fault("stray", moment)), ProtocolError)
            yield _final(scheme, replace(manner, fault=Fault("endless", moment)), LimitExceeded)
    yield replace(_final("ftp", Manner(fault=Fault("stray", "end")), ProtocolError), held=SIZE)
    yield replace(_final("ftp", Manner(fault=Fault("endless", "end")), LimitExceeded), held=SIZE)
    for scheme in ("http", "wais"):
        yield _final(scheme, Manner(fault=Fault("stray", "greeting")), ProtocolError)
    yield _final("http", Manner(fault=Fault("endless", "greeting")), LimitExceeded)
    yield _final("wais", Manner(fault=Fault("endless", "greeting")), ProtocolError)


def _final(scheme: str, manner: Manner, error: Error) -> Row:
    """What nothing is expected of: it is not tried again."""
    return Row(scheme, manner, error, tries=1)


def lengths() -> Iterator[Row]:
    """More or less than was announced, and octets that are said to have failed."""
    for scheme in ("ftp", "ftps"):
        for kind in ("short", "final", "later"):
            yield from both(_broken_off(scheme, Fault(kind, "body", 50), SIZE // 2))
        yield from both(_broken_off(scheme, Fault("final", "body", 100), SIZE))
    yield from both(_broken_off("ftp", Fault("short", "body", 0), 0))
    yield from both(Row("ftp", Manner(fault=Fault("final", "body", 0)), TryLater))
    yield Row("ftp", Manner(fault=Fault("later", "body", 0)), TryLater)
    yield Row("ftp", Manner(fault=Fault("later", "body", 0, times=1)), None, tries=1)  # ftp page, section 5
    fault, more = Fault("short", "end"), SIZE + 1_000
    once = replace(fault, times=1)
    for scheme in ("gopher", "gophers"):
        yield from both(Row(scheme, Manner(fault=fault), Truncated, received=SIZE, expected=more))
    for scheme in ("http", "https"):
        # What was announced was never there: the size that is announced later is that of another object.
        yield Row(scheme, Manner(fault=fault), Truncated, held=SIZE, received=SIZE, expected=more, taken_up=0)
        yield Row(scheme, Manner(fault=once), None, tries=3, finding="save:restarted")
        yield Row(scheme, Manner(fault=Fault("long", "end")), None, tries=1)
    yield Row("ftp", Manner(fault=Fault("long", "end")), None, tries=1)  # it has grown
    yield Row("gopher", Manner(fault=Fault("long", "end")), None, tries=1, content=CONTENT[:-1_000])
    yield from cut_then_longer()


def cut_then_longer() -> Iterator[Row]:
    """What is gone on with in the middle ends where the object does: octets too many are of another one."""
    manner = Manner(fault=Fault("long", "end"), cuts=(SIZE // 2,))
    for scheme in ("ftp", "ftps", "http", "https"):
        yield Row(scheme, manner, None, tries=3, finding="save:restarted")
    yield Row("wais", manner, ProtocolError)


def _broken_off(scheme: str, fault: Fault, reached: int) -> Row:
    return Row(scheme, Manner(fault=fault), Truncated, held=reached, received=reached, expected=SIZE)


#: What two states of an object differ in, for a client, and how many tries it takes to have the second: one
#: more where only the octets show that it goes on with another one.
CHANGES: dict[str, dict[tuple[Fact, ...], int]] = {
    "ftp": {ALL: 2, ("time",): 2, ("size",): 3, (): 2},
    "ftps": {ALL: 2},
    "http": {ALL: 2, ("tag",): 2, ("time",): 2, ("weak",): 3, ("weak", "time"): 2, (): 3},
    "https": {ALL: 2},
    "gopher": {ALL: 2},
    "nntp": {ALL: 2},
    "wais": {ALL: 3},
}


def offsets() -> Iterator[Row]:
    """Peers that cannot go on in the middle, or lie about it; objects that change between two tries."""
    cut = Fault("close", "body", 50, times=1)
    for scheme in ("ftp", "http"):
        for tells in (ALL, ()):
            manner = Manner(fault=cut, tells=tells)
            yield Row(scheme, replace(manner, offsets="no"), None, finding="save:restarted")
            lies = replace(manner, offsets="lies")
            can_ask = scheme == "http" or tells  # without a size, ftp is not asked to go on
            yield Row(scheme, lies, None, tries=3 if can_ask else 2, finding="save:restarted")
    yield Row("http", Manner(fault=cut, offsets="elsewhere"), None, finding="save:restarted")
    for scheme, told in CHANGES.items():
        for facts, tries in told.items():
            manner = Manner(fault=cut, changes=True, tells=facts)
            yield Row(scheme, manner, None, tries=tries, content=CHANGED, finding="save:restarted")


def data_connections() -> Iterator[Row]:
    """FTP's second connection: refused, silent, never there."""
    for scheme in ("ftp", "ftps"):
        for kind, error in (("close", Unreachable), ("silence", TimedOut), ("never", TimedOut)):
            yield from both(Row(scheme, Manner(fault=Fault(kind, "data")), error))  # type: ignore[arg-type]


def secured() -> Iterator[Row]:
    """What is no TLS, and an end without a length that TLS was not told of."""
    for scheme in SECURED:
        yield _final(scheme, Manner(fault=Fault("stray", "connect")), TlsError)
    finding = "gophers:end-not-authenticated"
    yield Row("gophers", Manner(fault=Fault("cut", "end"), framing="close"), None, tries=1, finding=finding)


ROWS: tuple[Row, ...] = (
    *connections(),
    *refusals(),
    *lengths(),
    *offsets(),
    *data_connections(),
    *secured(),
)
