"""Errors of ours become those that httpx promises its users, here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from protocols.errors import (
    Disconnected,
    InvalidUrl,
    LocalError,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    Unreachable,
    UnsupportedScheme,
)
from resolver.tracebacks import outermost


class RequestRefused(Refused, httpx.TransportError):
    """The policy refused a request of httpx's: an error of ours and of theirs."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.rule, refused.message)
        vars(self).update(vars(refused))

    def __setattr__(self, name: str, value: object) -> None:
        """httpx says of each of its errors which request it is about."""
        if name == "request":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


_TRANSLATIONS: tuple[tuple[type[ResolveError], type[httpx.TransportError]], ...] = (
    (Unreachable, httpx.ConnectError),
    (TlsError, httpx.ConnectError),
    (Disconnected, httpx.ReadError),
    (ProtocolError, httpx.RemoteProtocolError),
    (Truncated, httpx.RemoteProtocolError),
    (InvalidUrl, httpx.UnsupportedProtocol),
    (UnsupportedScheme, httpx.UnsupportedProtocol),
    (LocalError, httpx.LocalProtocolError),
)


@contextmanager
def translated(timed_out: Callable[[str], httpx.TimeoutException]) -> Iterator[None]:
    """An error of ours leaves as one of httpx's; silence as what `timed_out` makes of its words."""
    try:
        yield
    except Refused as error:
        raise RequestRefused(error) from outermost(error)
    except TimedOut as error:
        raise timed_out(error.message) from outermost(error)
    except ResolveError as error:
        for ours, theirs in _TRANSLATIONS:
            if isinstance(error, ours):
                raise theirs(error.message) from outermost(error)
        raise httpx.TransportError(error.message) from outermost(error)
