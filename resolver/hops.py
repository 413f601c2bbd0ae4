"""Where a retrieval goes next when the peer says that the object has moved (S10, S11).

One function, and no I/O: from the request that was answered and what was said to the next request, which
is judged like any other, as `derived`. What was given for one place stays there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from protocols.contract import Credentials, Moved, Options
from protocols.errors import InvalidUrl, ProtocolError
from protocols.location import Origin, Referrer, Url
from resolver.policy import Policy, check_chain, may_carry_credentials
from resolver.reference import join
from resolver.url import without_user

#: Headers of the caller's that say nothing about the caller: they may go to another place too.
_HARMLESS = frozenset(
    {
        b"accept",
        b"accept-charset",
        b"accept-language",
        b"cache-control",
        b"if-modified-since",
        b"pragma",
        b"user-agent",
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for: a URL, who chose it, what led to it (safety page, "Origins"), and what is
    wanted of it beyond the URL."""

    url: Url
    origin: Origin = "user"
    referrer: Referrer | None = None
    options: Options = field(default_factory=Options)


def next_request(
    request: Request, moved: Moved, peer: str | None, earlier: Sequence[Url], policy: Policy, hops: int
) -> Request:
    """The request that follows `request`, whose answer was `moved` and came from the address `peer`.
    `earlier` are the URLs asked before it.

    Raises `ProtocolError` where the location is no URL, `Refused` (S10) for a circle and for more than
    `hops` in a row; whether it may be followed is judged when it is admitted.
    """
    try:
        url = join(request.url, moved.location)
    except InvalidUrl as error:
        raise ProtocolError(f"the answer {moved.code} leads nowhere: {error.message}") from error
    check_chain([without_user(each) for each in (*earlier, request.url)], without_user(url), hops)
    carried = may_carry_credentials(request.url, url, policy)
    return Request(
        url,
        origin="derived",
        referrer=moved.found_in or Referrer(request.url.shown, peer),
        options=_carry(request) if carried else _drop(request.options),
    )


def _carry(request: Request) -> Options:
    """To the same place goes what it was given: also by the URL, which is not repeated (S06)."""
    user: bytes | None = getattr(request.url, "user", None)
    password: bytes | None = getattr(request.url, "password", None)
    if user is None and password is None:
        return request.options
    return replace(request.options, login=Credentials(user or b"", password or b""))


def _drop(options: Options) -> Options:
    headers = tuple((name, value) for name, value in options.headers if name.lower() in _HARMLESS)
    return replace(options, headers=headers, login=None)
