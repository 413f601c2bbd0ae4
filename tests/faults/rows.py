"""The matrix as data: scheme, fault, and expected result. A row per fault, once and always.

In an `once` row, only the first connection has the fault: nearly always the second attempt gets the complete
file. The `error` of an always row is the result if every connection has the fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fixtures.faulty import CLOSED, Fact, Fault, Kind, Moment, Profile, make_changed
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

CHANGED = make_changed(CONTENT)
PLAIN = ("ftp", "http", "gopher", "nntp", "wais")
SECURED = ("ftps", "https", "gophers", "nntps")
RESUMING = ("ftp", "ftps", "http", "https", "wais")

Error = type[ResolveError]
ALL: tuple[Fact, ...] = ("size", "time", "tag")


@dataclass(frozen=True)
class Row:
    """A cell of the matrix and its expected result.

    - `error`: None if the file is saved
    - `tries`: the number of attempts, None if it does not matter
    - `held` are bytes of the object kept for a later run, which resumes after them, or after `taken_up` of
      them
    - `received`, `expected` are those of `Truncated`, if known
    - `content` is the final content of the file, after a later run if the first one failed
    """

    scheme: str
    manner: Profile
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
        told = "-".join(manner.metadata) or "nothing"
        words += ["changes" if manner.changes else "", "cut then" if manner.cuts else ""]
        words += ["" if manner.metadata == ALL else f"tells-{told}"]
        if fault is not None:
            words += [fault.kind, fault.at, str(fault.share) if fault.at == "body" else ""]
            words.append("always" if fault.times is None else "once")
        return " ".join(word for word in words if word)


def once_and_always(row: Row) -> Iterator[Row]:
    """Yield the row, and a copy in which only the first connection fails."""
    yield row
    fault = row.manner.fault
    assert fault is not None
    spared = replace(row.manner, fault=replace(fault, times=1))
    yield replace(row, manner=spared, error=None, tries=1 if row.error is None else 2, held=0)


#: `cut` applies only to TLS.
KINDS: tuple[Kind, ...] = ("reset", "close", "silence", "cut")

#: The errors of KINDS by moment: reset, orderly close, silence, and closed without TLS's close_notify. None:
#: no effect on the result.
BEFORE: tuple[Error | None, ...] = (Disconnected, Disconnected, TimedOut, Disconnected)
INSIDE: tuple[Error | None, ...] = (Truncated, Truncated, TimedOut, Truncated)
UNHURT: tuple[Error | None, ...] = (None, None, None, None)
SHARES = (0, 10, 50, 99)

#: The errors after the last byte of the body. After a WAIS document or an object of known length, no more
#: bytes follow.
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
#: Faults that look like the end of a complete object: Gopher without a count and http without a length end
#: with the connection.
UNTOLD: set[tuple[str, Kind, Moment]] = {
    ("gopher close", "close", "body"),
    ("gopher close", "close", "connect"),
    ("gopher close", "close", "greeting"),
    ("http close", "close", "body"),
    ("https close", "close", "body"),
}


def connections() -> Iterator[Row]:
    """Yield rows for a reset, an orderly close and silence at every moment."""
    for key, behind in BEHIND.items():
        scheme, _, framing = key.partition(" ")
        manner = Profile(framing=framing or "length", login=scheme.startswith("nntp"))  # type: ignore[arg-type]
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
    key: str, manner: Profile, fault: Fault, errors: tuple[Error | None, ...], reached: int
) -> Iterator[Row]:
    scheme = key.partition(" ")[0]
    kinds = KINDS if scheme in SECURED else KINDS[:-1]
    for kind, error in zip(kinds, errors, strict=False):
        if (key, kind, fault.at) in UNTOLD or (kind, fault.at) == ("cut", "connect"):
            continue
        if (key, kind, fault.at) == ("gopher", "close", "connect"):
            error = ProtocolError  # Gopher+ page, section 5; retried nevertheless
        row = Row(scheme, replace(manner, fault=replace(fault, kind=kind)), error)
        if error is None:
            row = replace(row, tries=1)
        elif scheme == "wais" and reached:  # wais discards an incomplete range
            row = replace(row, error=TimedOut if kind == "silence" else Disconnected, tries=None)
        elif scheme in RESUMING and reached:
            row = replace(row, held=reached)
        if row.error is Truncated:
            row = replace(row, received=None if scheme.startswith("nntp") else reached)
        # A peer that never greets gets one attempt.
        if scheme in ("ftp", "nntp") and (kind, fault.at) == ("silence", "connect"):
            yield from (replace(each, error=error, tries=1) for each in once_and_always(row))
        else:
            yield from once_and_always(row)


def is_raced(row: Row) -> bool:
    """Return whether a protocol error and the last data race on two connections.

    The server runs concurrently, so either may arrive first. The kept length of the object is undefined.
    """
    fault = row.manner.fault
    return fault is not None and fault.kind in ("stray", "endless") and fault.at == "end"


def refusals() -> Iterator[Row]:
    """Yield rows for closed ports, temporary refusals, and replies that cannot be parsed."""
    for scheme in PLAIN + SECURED:
        yield _final_row(scheme, Profile(fault=CLOSED), Unreachable)
    for scheme in ("ftp", "ftps", "http", "https", "nntp", "nntps"):
        yield from once_and_always(Row(scheme, Profile(fault=Fault("later", "greeting")), TryLater))
    yield from once_and_always(Row("nntp", Profile(fault=Fault("later", "body")), TryLater))
    for scheme in ("ftp", "nntp"):
        for moment in ("greeting", "login"):
            manner = Profile(login=scheme == "nntp")
            yield _final_row(scheme, replace(manner, fault=Fault("stray", moment)), ProtocolError)
            yield _final_row(scheme, replace(manner, fault=Fault("endless", moment)), LimitExceeded)
    yield replace(_final_row("ftp", Profile(fault=Fault("stray", "end")), ProtocolError), held=SIZE)
    yield replace(_final_row("ftp", Profile(fault=Fault("endless", "end")), LimitExceeded), held=SIZE)
    for scheme in ("http", "wais"):
        yield _final_row(scheme, Profile(fault=Fault("stray", "greeting")), ProtocolError)
    yield _final_row("http", Profile(fault=Fault("endless", "greeting")), LimitExceeded)
    yield _final_row("wais", Profile(fault=Fault("endless", "greeting")), ProtocolError)


def _final_row(scheme: str, manner: Profile, error: Error) -> Row:
    """Return a row whose error is final: it is not retried."""
    return Row(scheme, manner, error, tries=1)


def lengths() -> Iterator[Row]:
    """Yield rows for fewer or more bytes than announced, and for bytes reported as failed."""
    for scheme in ("ftp", "ftps"):
        for kind in ("short", "final", "later"):
            yield from once_and_always(_broken_off(scheme, Fault(kind, "body", 50), SIZE // 2))
        yield from once_and_always(_broken_off(scheme, Fault("final", "body", 100), SIZE))
    yield from once_and_always(_broken_off("ftp", Fault("short", "body", 0), 0))
    yield from once_and_always(Row("ftp", Profile(fault=Fault("final", "body", 0)), TryLater))
    yield Row("ftp", Profile(fault=Fault("later", "body", 0)), TryLater)
    yield Row("ftp", Profile(fault=Fault("later", "body", 0, times=1)), None, tries=1)  # ftp page, section 5
    fault, more = Fault("short", "end"), SIZE + 1_000
    once = replace(fault, times=1)
    for scheme in ("gopher", "gophers"):
        yield from once_and_always(Row(scheme, Profile(fault=fault), Truncated, received=SIZE, expected=more))
    for scheme in ("http", "https"):
        # The announced bytes never existed: a later announced size is that of another object.
        yield Row(
            scheme, Profile(fault=fault), Truncated, held=SIZE, received=SIZE, expected=more, taken_up=0
        )
        yield Row(scheme, Profile(fault=once), None, tries=3, finding="save:restarted")
        yield Row(scheme, Profile(fault=Fault("long", "end")), None, tries=1)
    # the file has grown during the transfer
    yield Row("ftp", Profile(fault=Fault("long", "end")), None, tries=1)
    yield Row("gopher", Profile(fault=Fault("long", "end")), None, tries=1, content=CONTENT[:-1_000])
    yield from cut_then_longer()


def cut_then_longer() -> Iterator[Row]:
    """Yield rows in which a resumed object sends bytes after its end: they belong to another object."""
    manner = Profile(fault=Fault("long", "end"), cuts=(SIZE // 2,))
    for scheme in ("ftp", "ftps", "http", "https"):
        yield Row(scheme, manner, None, tries=3, finding="save:restarted")
    yield Row("wais", manner, ProtocolError)


def _broken_off(scheme: str, fault: Fault, reached: int) -> Row:
    return Row(scheme, Profile(fault=fault), Truncated, held=reached, received=reached, expected=SIZE)


#: The facts in which two states of an object differ for a client, and the attempts needed for the second
#: state: one more if only the bytes show that the resumed object is another one.
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
    """Yield rows for servers that cannot resume or use wrong offsets, and for objects that change."""
    cut = Fault("close", "body", 50, times=1)
    for scheme in ("ftp", "http"):
        for tells in (ALL, ()):
            manner = Profile(fault=cut, metadata=tells)
            yield Row(scheme, replace(manner, offsets="no"), None, finding="save:restarted")
            lies = replace(manner, offsets="lies")
            # without a size, the client does not request a resumed ftp transfer
            can_ask = scheme == "http" or tells
            yield Row(scheme, lies, None, tries=3 if can_ask else 2, finding="save:restarted")
    yield Row("http", Profile(fault=cut, offsets="elsewhere"), None, finding="save:restarted")
    for scheme, told in CHANGES.items():
        for facts, tries in told.items():
            manner = Profile(fault=cut, changes=True, metadata=facts)
            yield Row(scheme, manner, None, tries=tries, content=CHANGED, finding="save:restarted")


def data_connections() -> Iterator[Row]:
    """Yield rows for an FTP data connection that is refused, silent, or never opened."""
    for scheme in ("ftp", "ftps"):
        for kind, error in (("close", Unreachable), ("silence", TimedOut), ("never", TimedOut)):
            yield from once_and_always(Row(scheme, Profile(fault=Fault(kind, "data")), error))  # type: ignore[arg-type]


def secured() -> Iterator[Row]:
    """Yield rows for servers without TLS, and for bodies without a length that end without close_notify."""
    for scheme in SECURED:
        yield _final_row(scheme, Profile(fault=Fault("stray", "connect")), TlsError)
    finding = "gophers:end-not-authenticated"
    yield Row("gophers", Profile(fault=Fault("cut", "end"), framing="close"), None, tries=1, finding=finding)


ROWS: tuple[Row, ...] = (
    *connections(),
    *refusals(),
    *lengths(),
    *offsets(),
    *data_connections(),
    *secured(),
)
