"""`urllib.request.urlopen` for the schemes that it never had, and for ftp.

    resolver.adapters.urllib.install()
    urllib.request.urlopen("gopher://gopher.example/0/about.txt").read()

So everything reads them that hands a URL to urllib: pandas, numpy, xarray, feedparser. What is of the web
stays with urllib, redirects and all, unless `http=True` says otherwise. Only reads: data to send, and
methods but GET, are an error before anything is sent.
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
    """From now on `urlopen` reads every scheme; http and https too, if asked. The settings are those of a
    `Resolver`. It stands in place of what was installed before."""
    urllib.request.install_opener(opener(http=http, **settings))


def opener(*, http: bool = False, **settings: Unpack[resolver.Settings]) -> urllib.request.OpenerDirector:
    """The same for one caller: `opener().open(url)`."""
    return urllib.request.build_opener(Handler(http=http, **settings))


class Handler(urllib.request.BaseHandler):
    """For `build_opener`, beside handlers of one's own. A time limit of a request is that of each wait for
    the peer, as a socket has it; header fields of a request stand in place of those of the settings."""

    handler_order = 400  # before urllib's own for ftp

    def __init__(self, *, http: bool = False, **settings: Unpack[resolver.Settings]) -> None:
        self._settings = settings
        self._resolver = resolver.blocking.Resolver(**settings)
        for scheme in resolver.schemes(web=http):  # urllib finds a handler's methods by their names
            setattr(self, f"{scheme}_open", self._open)

    def close(self) -> None:
        self._resolver.close()

    def _open(self, request: urllib.request.Request) -> addinfourl:
        if request.data is not None or request.get_method() != "GET":
            raise URLError(f"{request.type}: only GET is done here, without data: nothing was sent")
        opened = ExitStack()
        try:
            reply = opened.enter_context(self._stream(request))
        except resolver.ResolveError as error:
            raise _translate_error(error, request.full_url) from error
        body = resolver.blocking.as_file(reply, opened.close, partial(_translate_error, url=reply.url))
        answer = addinfourl(body, _message(reply), reply.url, reply.status)
        vars(answer)["msg"] = "OK"  # urllib's own handlers of http ask for it
        return answer

    def _stream(self, request: urllib.request.Request) -> AbstractContextManager[resolver.blocking.LiveReply]:
        """What urllib was led to was chosen by who led it there."""
        origin: Literal["user", "derived"] = "derived" if request.unverifiable else "user"
        said = self._said_by(request)
        if not said:
            return self._resolver.stream(request.full_url, origin=origin)
        settings = self._settings.copy()
        settings.update(said)
        return resolver.blocking.stream(request.full_url, origin=origin, **settings)

    def _said_by(self, request: urllib.request.Request) -> resolver.Settings:
        said = resolver.Settings()
        if isinstance(seconds := request.timeout, (int, float)):  # else urllib's mark for none
            limits = self._settings.get("limits") or resolver.Limits()
            said["limits"] = limits.waiting(seconds, seconds)
        if request.headers:  # those that the caller set
            said["headers"] = request.headers
        return said


def _message(reply: resolver.blocking.LiveReply) -> HTTPMessage:
    message = HTTPMessage()
    for name, value in resolver.http_fields(reply):
        message.add_header(name, value)
    return message


def _translate_error(error: resolver.ResolveError, url: str) -> URLError:
    """An `OSError`, as everybody expects of urllib; ours is its `reason` and its cause."""
    scheme = url.partition(":")[0].lower()
    if isinstance(error, resolver.Declined) and scheme not in resolver.schemes(web=False):
        return HTTPError(url, resolver.http_status(error), error.text, HTTPMessage(), io.BytesIO())
    return URLError(error)
