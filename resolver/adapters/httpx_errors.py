"""The conversion of this library's errors to the documented exceptions of httpx and httpx2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import resolver
from resolver.adapters.httpx_family import HttpxFamily, error_class, join_classes

if TYPE_CHECKING:
    import httpx

    from resolver.network.stream_settings import Phase


class RequestRefused(resolver.Refused):
    """The policy refused a request of httpx or httpx2.

    The raised exception is a subclass of this class and of `TransportError` of the client's library.
    """

    def __init__(self, refused: resolver.Refused) -> None:
        super().__init__(refused.rule, refused.message)
        vars(self).update(vars(refused))

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute. httpx needs this method, because httpx sets `request` on each exception."""
        if name == "request":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Return the data for pickle. The class is created at run time, so pickle cannot find it by name."""
        if type(self) is RequestRefused:
            return super().__reduce__()
        return _restore_refusal, (type(self).__bases__[1], vars(self).copy())


def _restore_refusal(library_type: type, facts: dict[str, object]) -> RequestRefused:
    error = BaseException.__new__(join_classes(RequestRefused, library_type), facts["message"])
    vars(error).update(facts)
    return error


_TRANSLATIONS: tuple[tuple[type[resolver.ResolveError], str], ...] = (
    (resolver.Unreachable, "ConnectError"),
    (resolver.TlsError, "ConnectError"),
    (resolver.Disconnected, "RemoteProtocolError"),
    (resolver.ProtocolError, "RemoteProtocolError"),
    (resolver.Truncated, "RemoteProtocolError"),
    (resolver.InvalidUrl, "UnsupportedProtocol"),
    (resolver.UnsupportedScheme, "UnsupportedProtocol"),
    (resolver.LocalError, "LocalProtocolError"),
)
_TIMEOUTS: Mapping[Phase, str] = {
    "connect": "ConnectTimeout",
    "write": "WriteTimeout",
    "read": "ReadTimeout",
}


def translate_error(
    error: resolver.ResolveError, family: HttpxFamily, phase: Phase = "read"
) -> httpx.TransportError | RequestRefused:
    """Return the exception of httpx or httpx2 for an error; `phase` is the phase of a timeout.

    As with the transport of httpx, a failed read is a `ReadError`. The end of the connection without an error
    of the system is a `RemoteProtocolError`.
    """
    if isinstance(error, resolver.Refused):
        return join_classes(RequestRefused, family.TransportError)(error)
    if isinstance(error, resolver.TimedOut):
        return error_class(family, _TIMEOUTS[phase])(error.message)
    lost = error.__cause__ if isinstance(error, resolver.Truncated) else error
    if isinstance(lost, resolver.Disconnected) and lost.__cause__ is not None:
        return error_class(family, "ReadError")(error.message)
    for error_type, name in _TRANSLATIONS:
        if isinstance(error, error_type):
            return error_class(family, name)(error.message)
    return family.TransportError(error.message)
