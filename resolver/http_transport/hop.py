"""Which requests of a client's are redirects that it follows, and what may go along (S10, S11).

httpx makes a hop a request of its own, with headers that it thinks may go along and with the extensions of
the request that was answered. So each request that is answered by a redirect is marked there. A request
that bears a mark and is not the one that got it is a hop, however the client came to send it; the same one
sent again, as for authentication, is not.
"""

from __future__ import annotations

from typing import TypeAlias, cast
from weakref import ReferenceType, ref

import httpx

from protocols.location import Origin, Referrer, Url
from protocols.values import NamedTuple
from resolver.clock import Clock
from resolver.policy import Policy, harmless, may_carry_credentials
from resolver.url import parse, without_user

_MARK = "resolver.hop"
Headers: TypeAlias = "tuple[tuple[bytes, bytes], ...]"


class _RedirectMark(NamedTuple):
    """`request` was answered by a redirect, found in `referrer`, which makes `hops` in a row. `left` says
    that it is not at the place any more that the first one was for. `clock` began with the first one."""

    request: ReferenceType[httpx.Request]
    referrer: Referrer
    hops: int
    left: bool
    clock: Clock


class RequestRoute(NamedTuple):
    """How a client came to a request. `hops` were followed before it; `left` and `clock` as above."""

    origin: Origin
    referrer: Referrer | None
    hops: int = 0
    left: bool = False
    clock: Clock | None = None

    def retry(self, url: Url, headers: Headers, policy: Policy) -> tuple[RequestRoute, Url, Headers]:
        """What may go along to `url`. What was given for one place stays there, also behind another; a user
        is not repeated in a redirect (S06), as httpx would."""
        if self.origin != "derived" or self.referrer is None:
            return self, url, headers
        stays = may_carry_credentials(parse(self.referrer.url), url, policy)
        there = parse(without_user(url)) if stays else url
        if stays and not self.left:
            return self, there, headers
        return self._replace(left=True), there, harmless(headers)

    def mark(self, request: httpx.Request, found_in: Referrer, clock: Clock) -> None:
        """The client may follow the answer to this request."""
        mark = _RedirectMark(ref(request), found_in, self.hops + 1, self.left, clock)
        request.extensions = {**request.extensions, _MARK: mark}


def route_of(request: httpx.Request, origin: Origin) -> RequestRoute:
    """How the client came to this request: by a hop, as its own extensions say, or as all of them do."""
    mark = cast("_RedirectMark | None", request.extensions.get(_MARK))
    if mark is not None and mark.request() is not request:
        return RequestRoute("derived", mark.referrer, mark.hops, mark.left, mark.clock)
    led_by = cast("tuple[str, str | None] | None", request.extensions.get("referrer"))
    chosen = cast(Origin, request.extensions.get("origin", origin))
    return RequestRoute(chosen, None if led_by is None else Referrer(*led_by))
