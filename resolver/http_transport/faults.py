"""Errors of ours become those that httpx promises its users, here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

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


def translated(
    error: ResolveError, timed_out: Callable[[str], httpx.TimeoutException]
) -> httpx.TransportError:
    """What is raised of httpx's for an error of ours; for silence what `timed_out` makes of its words."""
    if isinstance(error, Refused):
        return RequestRefused(error)
    if isinstance(error, TimedOut):
        return timed_out(error.message)
    for ours, theirs in _TRANSLATIONS:
        if isinstance(error, ours):
            return theirs(error.message)
    return httpx.TransportError(error.message)
