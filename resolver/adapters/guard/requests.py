"""SSRF protection for requests: an adapter that checks each request and redirect, and each IP address.

    session = requests.Session()
    session.mount("http://", GuardedAdapter())
    session.mount("https://", GuardedAdapter())

A refusal raises `resolver.Refused` or `resolver.InvalidUrl`. Neither class is a subclass of
`RequestException`, so code that retries after network errors does not retry refusals.
"""

from __future__ import annotations

from typing import Any

from requests.adapters import HTTPAdapter
from requests.utils import select_proxy

import resolver
from resolver.adapters.guard.urllib3 import AdapterGuard


class GuardedAdapter(AdapterGuard, HTTPAdapter):
    """A requests adapter for http and https with a policy; the default policy is `untrusted`.

    `options` are the arguments of `requests.adapters.HTTPAdapter`. The policy `untrusted` refuses each proxy
    except its `trusted_proxy` (S09), because a proxy makes its own DNS lookups. The address of a pooled
    connection was checked when the connection was opened.
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_policy"]  # noqa: RUF012 - attributes that pickling keeps
    _select_proxy = staticmethod(select_proxy)

    def __init__(self, policy: resolver.Policy | str | None = None, **options: Any) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(**options)
