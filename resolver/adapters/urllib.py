"""urllib handlers, so that `urllib.request.urlopen` supports all schemes of this library.

    resolver.adapters.urllib.install()
    urllib.request.urlopen("gopher://gopher.example/0/about.txt").read()

After `install`, libraries that use urllib support these schemes too: pandas, numpy, xarray, feedparser. For
ftp, this handler replaces urllib's own handler. By default, urllib itself handles http and https, including
redirects. With `http=True`, the handler of this module also handles http and https. The handler is read-only:
a request body or a method other than GET raises an error before data is sent.
"""

from __future__ import annotations

import io
import urllib.request
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from http.client import HTTPMessage
from typing import Literal, Unpack
from urllib.error import HTTPError, URLError
from urllib.response import addinfourl

import resolver


def install(*, http: bool = False, **settings: Unpack[resolver.Settings]) -> None:
    """Install a urllib opener for all schemes, which `urlopen` then uses.

    Args:
        http: Whether to handle also http and https.
        settings: The settings of a `Resolver`.
    """
    urllib.request.install_opener(opener(http=http, **settings))


def opener(*, http: bool = False, **settings: Unpack[resolver.Settings]) -> urllib.request.OpenerDirector:
    """Return a urllib opener for all schemes, without installing the opener: `opener().open(url)`.

    Args:
        http: Whether to handle also http and https.
        settings: The settings of a `Resolver`.
    """
    return urllib.request.build_opener(Handler(http=http, **settings))


class Handler(urllib.request.BaseHandler):
    """A urllib handler for `build_opener`, which can be combined with other handlers.

    The timeout of a request is an idle timeout: it applies to each wait for the server. If a request has
    header fields, they replace the header fields of the settings.
    """

    handler_order = 400  # urllib's own handler for ftp has 500, and the lowest number is called first

    def __init__(self, *, http: bool = False, **settings: Unpack[resolver.Settings]) -> None:
        self._settings = settings
        self._resolver = resolver.blocking.Resolver(**settings)
        for scheme in resolver.schemes(web=http):  # urllib finds handlers by method name: `gopher_open`
            setattr(self, f"{scheme}_open", self._open)

    def close(self) -> None:
        self._resolver.close()

    def _open(self, request: urllib.request.Request) -> addinfourl:
        if request.data is not None or request.get_method() != "GET":
            raise URLError(f"{request.type} supports only GET without data (nothing was sent)")
        opened = ExitStack()
        try:
            reply = opened.enter_context(self._stream(request))
        except resolver.ResolveError as error:
            raise _translate_error(error, request.full_url) from error
        body = resolver.blocking.as_file(reply, opened.close, partial(_translate_error, url=reply.url))
        answer = addinfourl(body, _message(reply), reply.url, reply.status)
        vars(answer)["msg"] = "OK"  # the http handlers of urllib read the attribute `msg` (reason phrase)
        return answer

    def _stream(self, request: urllib.request.Request) -> AbstractContextManager[resolver.blocking.LiveReply]:
        """Open the URL of a request.

        If urllib followed a redirect to the URL, the origin of the URL is `derived`: a server chose the URL.
        """
        origin: Literal["user", "derived"] = "derived" if request.unverifiable else "user"
        overrides = self._read_overrides(request)
        if not overrides:
            return self._resolver.stream(request.full_url, origin=origin)
        settings = self._settings.copy()
        settings.update(overrides)
        return resolver.blocking.stream(request.full_url, origin=origin, **settings)

    def _read_overrides(self, request: urllib.request.Request) -> resolver.Settings:
        overrides = resolver.Settings()
        if isinstance(seconds := request.timeout, (int, float)):  # any other object means the default timeout
            limits = self._settings.get("limits") or resolver.Limits()
            overrides["limits"] = limits.waiting(seconds, seconds)
        if request.headers:  # header fields from the caller
            overrides["headers"] = request.headers
        return overrides


def _message(reply: resolver.blocking.LiveReply) -> HTTPMessage:
    message = HTTPMessage()
    for name, value in resolver.http_fields(reply):
        message.add_header(name, value)
    return message


def _translate_error(error: resolver.ResolveError, url: str) -> URLError:
    """Convert an error to `URLError`, which callers of urllib expect. Its `reason` is the original error."""
    scheme = url.partition(":")[0].lower()
    if isinstance(error, resolver.Declined) and scheme not in resolver.schemes(web=False):
        return HTTPError(url, resolver.http_status(error), error.text, HTTPMessage(), io.BytesIO())
    return URLError(error)
