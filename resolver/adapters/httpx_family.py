"""The two libraries of the httpx family: httpx and its successor httpx2, with the same class names.

A transport works with both libraries. The class of the request determines the classes of the response and of
the exceptions. This module does not import httpx or httpx2, because each import takes 70 to 120 ms. The
caller has already imported the library of the request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, overload

if TYPE_CHECKING:
    import httpx
    import httpx2

    AnyRequest: TypeAlias = httpx.Request | httpx2.Request

T = TypeVar("T")

_NAMES = ("httpx", "httpx2")


class HttpxFamily(Protocol):
    """The type of the modules `httpx` and `httpx2`, with the names that the transports use."""

    __name__: str
    __version__: str
    AsyncBaseTransport: type[httpx.AsyncBaseTransport]
    AsyncByteStream: type[httpx.AsyncByteStream]
    BaseTransport: type[httpx.BaseTransport]
    ByteStream: type[httpx.ByteStream]
    Response: Callable[..., httpx.Response]
    SyncByteStream: type[httpx.SyncByteStream]
    TransportError: type[httpx.TransportError]


def error_class(family: HttpxFamily, name: str) -> type[httpx.TransportError]:
    """Return an exception class of httpx or httpx2 by name, for example `ConnectError`."""
    return cast("type[httpx.TransportError]", getattr(family, name))


def find_family(request: AnyRequest) -> HttpxFamily:
    """Return the module (httpx or httpx2) to which a request belongs.

    Raises:
        TypeError: The request is neither an `httpx.Request` nor an `httpx2.Request`.
    """
    kind: type = type(request)
    return _find_family(kind)


@lru_cache(maxsize=64)
def _find_family(kind: type) -> HttpxFamily:
    for base in kind.__mro__:
        name = base.__module__.partition(".")[0]
        if name in _NAMES:
            return cast(HttpxFamily, sys.modules[name])
    raise TypeError(f"a request must be an httpx.Request or httpx2.Request, got {kind.__name__!r}")


def join_classes(base: type[T], other: type[object]) -> type[T]:
    """Return a common subclass of a class of this library and a class of httpx or httpx2.

    The common subclass is necessary, because each library accepts only its own classes of bodies and
    exceptions.
    """
    joined: type[T] | None = _CLASS_BY_BASES.get((base, other))
    if joined is None:
        names = {"__module__": base.__module__, "__doc__": base.__doc__}
        joined = _CLASS_BY_BASES.setdefault((base, other), type(base.__name__, (base, other), names))
    return joined


_CLASS_BY_BASES: dict[tuple[type, type], Any] = {}


if TYPE_CHECKING:

    class TransportBase(
        httpx.AsyncBaseTransport, httpx.BaseTransport, httpx2.AsyncBaseTransport, httpx2.BaseTransport
    ):
        """The base class of a transport for the clients of both families."""

        @overload
        def handle_request(self, request: httpx.Request) -> httpx.Response: ...
        @overload
        def handle_request(self, request: httpx2.Request) -> httpx2.Response: ...
        def handle_request(self, request: Any) -> Any: ...

        @overload
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response: ...
        @overload
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response: ...
        async def handle_async_request(self, request: Any) -> Any: ...

else:

    class _Transport:
        """The methods of a transport that the clients of httpx and httpx2 call."""

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.close()

        async def __aenter__(self):
            return self

        async def __aexit__(self, *error):
            await self.aclose()

    class TransportBase(_Transport):
        """The base class of a transport for the clients of both families.

        Some libraries require a subclass of the transport classes of httpx or httpx2. So the transport
        classes become base classes, if httpx or httpx2 is imported before a transport is created.
        """

        def __new__(cls, *given, **settings):
            for name in _NAMES:
                if (family := sys.modules.get(name)) is not None:
                    bases = (family.AsyncBaseTransport, family.BaseTransport)
                    if not issubclass(TransportBase, bases):
                        TransportBase.__bases__ += bases
            return super().__new__(cls)
