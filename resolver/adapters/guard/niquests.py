"""SSRF protection for niquests: a session that checks each request and redirect, and each IP address.

    with GuardedSession() as session:
        response = session.get(url)

A guarded adapter alone would not be sufficient. A session of niquests drops all mounted adapters when it is
pickled or copied. A session that is used after `close` mounts new adapters for http and https. A session also
opens a Unix socket for a URL with the scheme `http+unix`, even after a redirect. Therefore, the guarded
session adds the checks to each adapter that is mounted.
"""

from __future__ import annotations

from typing import Any

from niquests import Session
from niquests.adapters import HTTPAdapter
from niquests.utils import select_proxy

import resolver
from resolver.adapters.guard.urllib3 import AdapterGuard


class GuardedSession(Session):
    """A session of niquests with a policy; the default policy is `untrusted`.

    `options` are the keywords of `niquests.Session`. If the keyword `resolver` is passed, the IP addresses
    from this DNS resolver are checked too. The policy `untrusted` refuses each proxy except its
    `trusted_proxy` (S09). The session refuses WebSockets and Unix sockets.
    """

    __attrs__ = [*Session.__attrs__, "_policy"]  # noqa: RUF012 - attributes that pickling keeps

    def __init__(self, policy: resolver.Policy | str | None = None, **options: Any) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(**options)

    def mount(self, prefix: str, adapter: Any) -> None:
        """Add the checks to an adapter, and use the adapter for URLs that begin with the prefix."""
        if isinstance(adapter, HTTPAdapter) and not isinstance(adapter, AdapterGuard):
            _guard_adapter(adapter, self._policy)
        super().mount(prefix, adapter)


def _guard_adapter(adapter: Any, policy: resolver.Policy) -> None:
    """Add the checks to an adapter and to its pool manager; the settings of the adapter do not change."""
    kind, manager = type(adapter), adapter.poolmanager
    adapter._policy = policy
    adapter.__class__ = type(
        f"Guarded{kind.__name__}", (AdapterGuard, kind), {"_select_proxy": staticmethod(select_proxy)}
    )
    adapter.poolmanager = manager
