"""A pytest plugin that mounts the adapter for http and https in all sessions of requests."""

from __future__ import annotations

import socket
from functools import wraps
from typing import Any

import requests

import resolver
from resolver.adapters.requests import mount

#: The policy allows loopback addresses, because the servers of the test suite are on this machine. The suite
#: also connects to port 1, and redirects from https to http.
_POLICY = resolver.Policy(allow_port={1}, allow_address={"127.0.0.0/8", "::1"}, allow_redirect={"http"})
#: The DNS result for a host that the suite requests through a local proxy. With `socks5`, the client itself
#: resolves the host name.
_NAMES = {b"httpbin.org": "8.8.8.8"}

_make_session = requests.Session.__init__
_look_up = socket.getaddrinfo


@wraps(_make_session)
def _make_mounted(self: requests.Session) -> None:
    _make_session(self)
    web = dict(self.adapters)
    mount(self, http=True, policy=_POLICY)
    for prefix in set(self.adapters) - set(web):  # a test of the suite counts the adapters
        del self.adapters[prefix]


def _look_up_without_network(host: Any, *args: Any, **kwargs: Any) -> Any:
    return _look_up(_NAMES.get(host, host), *args, **kwargs)


requests.Session.__init__ = _make_mounted  # type: ignore[method-assign]
socket.getaddrinfo = _look_up_without_network
