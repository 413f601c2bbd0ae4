"""Our errors in the words of the standard library, which is what callers of fsspec catch: an `OSError`, with
ours as its cause."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import resolver

#: The first that fits; each has to be what Python makes of its number itself, so that it can be pickled.
_FAULTS: tuple[tuple[type[resolver.ResolveError], type[OSError], int], ...] = (
    (resolver.NotFound, FileNotFoundError, errno.ENOENT),
    (resolver.AccessDenied, PermissionError, errno.EACCES),
    (resolver.LoginRequired, PermissionError, errno.EACCES),
    (resolver.Refused, PermissionError, errno.EPERM),
    (resolver.TimedOut, TimeoutError, errno.ETIMEDOUT),
    (resolver.Unreachable, OSError, errno.EHOSTUNREACH),
    (resolver.Disconnected, ConnectionResetError, errno.ECONNRESET),
    (resolver.InvalidUrl, OSError, errno.EINVAL),
    (resolver.UnsupportedScheme, OSError, errno.EPROTONOSUPPORT),
    (resolver.ResolveError, OSError, errno.EIO),
)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """What fails inside is about this name."""
    try:
        yield
    except resolver.ResolveError as error:
        raise fault(error, name) from error


def fault(error: resolver.ResolveError, name: str) -> OSError:
    kind, number = next((kind, number) for ours, kind, number in _FAULTS if isinstance(error, ours))
    return kind(number, error.message, name)


def no_server(name: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, "a name begins with its server, as in host/directory/file", name)


def no_file(name: str) -> NoReturn:
    raise IsADirectoryError(errno.EISDIR, "this is a listing: ls gives what is in it", name)


def read_only(name: str) -> NoReturn:
    raise OSError(errno.EROFS, "what URLs name is read, and never written, by url-resolver", name)
