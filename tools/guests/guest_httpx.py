"""A pytest plugin that makes `HttpxTransport` the default transport of all httpx and httpx2 clients."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import resolver

#: The policy allows loopback addresses, because the servers of the test suite are on this machine.
_POLICY = resolver.Policy(allow_address={"127.0.0.0/8", "::1"})


def _make_transport(self: object, *args: object, transport: Any = None, **kwargs: object) -> Any:
    return resolver.HttpxTransport(policy=_POLICY) if transport is None else transport


for _name in ("httpx", "httpx2"):
    with suppress(ModuleNotFoundError):
        _family: Any = importlib.import_module(_name)
        _family.Client._init_transport = _family.AsyncClient._init_transport = _make_transport
