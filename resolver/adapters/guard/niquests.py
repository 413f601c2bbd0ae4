"""SSRF protection for niquests: a session that checks each request and redirect, and each IP address.

    with GuardedSession() as session:
        response = session.get(url)

A guarded adapter would not be sufficient. A session of niquests drops all mounted adapters when it is pickled
or copied, and those for http and https when it is used after `close`. It also opens Unix sockets for URLs of
`http+unix`, even after a redirect. Therefore the session guards each adapter that is mounted.
"""

from __future__ import annotations

from typing import Any

from niquests import Session
from niquests.adapters import HTTPAdapter
from niquests.utils import select_proxy

import resolver
from resolver.adapters.guard.urllib3 import AdapterGuard


class GuardedSession(Session):
    """A session with a policy; the default policy is `untrusted`.

    `options` are the keywords of `niquests.Session`. The addresses that its `resolver` finds are checked too.
    The policy `untrusted` refuses each proxy except its `trusted_proxy` (S09). The session refuses WebSockets
    and Unix sockets.
    """

    __attrs__ = [*Session.__attrs__, "_policy"]  # noqa: RUF012 - attributes that pickling keeps

    def __init__(self, policy: resolver.Policy | str | None = None, **options: Any) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(**options)

    def mount(self, prefix: str, adapter: Any) -> None:
        """Guard an adapter, and use it for URLs that begin with the prefix."""
        if isinstance(adapter, HTTPAdapter) and not isinstance(adapter, AdapterGuard):
            _guard_adapter(adapter, self._policy)
        super().mount(prefix, adapter)


def _guard_adapter(adapter: Any, policy: resolver.Policy) -> None:
    """Add the checks to the class of an adapter, which keeps its settings, and to its pool manager."""
    kind, manager = type(adapter), adapter.poolmanager
    adapter._policy = policy
    adapter.__class__ = type(
        f"Guarded{kind.__name__}", (AdapterGuard, kind), {"_select_proxy": staticmethod(select_proxy)}
    )
    adapter.poolmanager = manager
