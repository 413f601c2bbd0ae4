"""A transport adapter of requests for every scheme.

    session = requests.Session()
    resolver.adapters.requests.mount(session)
    session.get("gopher://gopher.example/0/about.txt").text

What a peer that has no status codes says is told in those of http: 200, 404 for what is not there, 401 and
403 for what needs a login or is denied, 503 for "not now", 502 for any other no; the words are the
`reason`. What fails is an exception of requests, with ours as its cause. Only reads: other methods than GET
are an error before anything is sent.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, Unpack

from requests import PreparedRequest, Response, Session, exceptions
from requests.adapters import BaseAdapter
from requests.utils import get_encoding_from_headers

import resolver

_EXCEPTIONS: tuple[tuple[type[resolver.ResolveError], type[exceptions.RequestException]], ...] = (
    (resolver.InvalidUrl, exceptions.InvalidURL),
    (resolver.UnsupportedScheme, exceptions.InvalidSchema),
    (resolver.TimedOut, exceptions.Timeout),
    (resolver.TlsError, exceptions.SSLError),
    (resolver.NetworkError, exceptions.ConnectionError),
    (resolver.Truncated, exceptions.ChunkedEncodingError),
)


def mount(session: Session, *, http: bool = False, **settings: Unpack[resolver.Settings]) -> Session:
    """The session, which reads every scheme from now on; http and https too, if asked."""
    adapter = Adapter(**settings)
    for scheme in resolver.schemes(web=http):
        own = f"{scheme}://"
        session.mount(own if own in session.adapters else f"{scheme}:", adapter)  # the longest prefix counts
    return session


class Adapter(BaseAdapter):
    """The settings are those of a `Resolver`. A request may say more: its `timeout` is that of each wait
    for the peer, `verify` names authorities, `cert` a certificate with its key, `proxies` the proxy of its
    scheme. Certificates are always verified: `verify=False` is an error."""

    def __init__(self, **settings: Unpack[resolver.Settings]) -> None:
        super().__init__()
        self._settings = settings
        self._resolvers: dict[_Said, resolver.blocking.Resolver] = {}

    def close(self) -> None:
        while self._resolvers:
            self._resolvers.popitem()[1].close()

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float | None, float | None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        url = request.url or ""
        if request.method != "GET" or request.body is not None:
            raise exceptions.InvalidSchema(f"{request.method}: only GET is done here, and nothing was sent")
        if verify is False or isinstance(cert, tuple):
            words = (
                "certificates are always verified" if verify is False else "cert is one file, with the key"
            )
            raise exceptions.SSLError(f"{words}: nothing was sent")
        scheme = url.partition(":")[0].lower()
        proxy = (proxies or {}).get(scheme) or (proxies or {}).get("all")
        connect, idle = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        said = _Said(
            connect,
            idle,
            None if verify is True else verify,
            None if cert is None else os.fsdecode(cert),
            proxy,
        )
        return _send(request, self._resolver_for(said), stream=stream)

    def _resolver_for(self, said: _Said) -> resolver.blocking.Resolver:
        """One for all that say the same: it keeps their connections."""
        if said not in self._resolvers:
            own = self._resolvers.setdefault(said, resolver.blocking.Resolver(**said.over(self._settings)))
            return own
        return self._resolvers[said]


class _Said(NamedTuple):
    """What a request says beside its URL."""

    connect: float | None
    idle: float | None
    cafile: str | None
    certfile: str | None
    proxy: str | None

    def over(self, settings: resolver.Settings) -> resolver.Settings:
        """The settings, with this in place of what they say."""
        changed = settings.copy()
        limits = settings.get("limits") or resolver.Limits()
        changed["limits"] = limits.waiting(self.connect, self.idle)
        if self.cafile is not None:
            changed["cafile"] = self.cafile
        if self.certfile is not None:
            changed["certfile"] = self.certfile
        if self.proxy is not None:
            changed["proxy"] = self.proxy
        return changed


def _send(request: PreparedRequest, session: resolver.blocking.Resolver, *, stream: bool) -> Response:
    opened = ExitStack()
    try:
        reply = opened.enter_context(session.stream(request.url or ""))
    except resolver.Declined as error:
        return _declined(request, error)
    except resolver.ResolveError as error:
        raise _translated(error, request) from error
    response = _response(request, reply.status or 200, "OK", resolver.http_fields(reply))
    response.url = reply.url
    response.raw = resolver.blocking.as_file(reply, opened.close, partial(_translated, request=request))
    return response


def _response(
    request: PreparedRequest, status: int, reason: str, fields: Iterable[tuple[str, str]]
) -> Response:
    response = Response()
    response.request = request
    response.url = request.url or ""
    response.status_code = status
    response.reason = reason
    for name, value in fields:
        response.headers[name] = value
    response.encoding = get_encoding_from_headers(response.headers)
    return response


def _declined(request: PreparedRequest, error: resolver.Declined) -> Response:
    """The peer said no: its words in place of a body."""
    response = _response(request, resolver.http_status(error), error.text or error.message, ())
    response.raw = io.BytesIO(error.message.encode())
    response.encoding = "utf-8"
    return response


def _translated(error: resolver.ResolveError, request: PreparedRequest) -> exceptions.RequestException:
    kind = next((kind for ours, kind in _EXCEPTIONS if isinstance(error, ours)), exceptions.RequestException)
    return kind(str(error), request=request)
