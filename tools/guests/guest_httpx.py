"""A plugin of pytest: each client of httpx and httpx2 has `HttpxTransport`, unless a transport is passed."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import resolver

#: The servers of the suite are on this machine.
_POLICY = resolver.Policy(allow_address={"127.0.0.0/8", "::1"})


def _make_transport(self: object, *args: object, transport: Any = None, **kwargs: object) -> Any:
    return resolver.HttpxTransport(policy=_POLICY) if transport is None else transport


for _name in ("httpx", "httpx2"):
    with suppress(ModuleNotFoundError):
        _family: Any = importlib.import_module(_name)
        _family.Client._init_transport = _family.AsyncClient._init_transport = _make_transport
