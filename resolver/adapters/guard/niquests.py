"""SSRF protection for niquests: an adapter that checks each request and redirect, and each IP address.

    session = niquests.Session()
    for prefix in PREFIXES:
        session.mount(prefix, GuardedAdapter())

A session of niquests opens Unix sockets for URLs of `http+unix`, also after a redirect. The adapter refuses
such URLs, so mount it for that prefix too. The adapter refuses WebSockets, and does not guard
`niquests.AsyncSession`.
"""

from __future__ import annotations

from typing import Any

from niquests.adapters import HTTPAdapter
from niquests.utils import select_proxy

import resolver
from resolver.adapters.guard.urllib3 import AdapterGuard

#: The prefixes of URLs for which a session of niquests has adapters.
PREFIXES = ("http://", "https://", "http+unix://")


class GuardedAdapter(AdapterGuard, HTTPAdapter):
    """An adapter with a policy; the default policy is `untrusted`.

    `options` are the arguments of `niquests.adapters.HTTPAdapter`. The addresses that its `resolver` finds
    are checked too. The policy `untrusted` refuses each proxy except its `trusted_proxy` (S09).
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_policy"]  # noqa: RUF012 - attributes that pickling keeps
    _select_proxy = staticmethod(select_proxy)

    def __init__(self, policy: resolver.Policy | str | None = None, **options: Any) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(**options)
