"""The request after a redirect (S10, S11), and the configured mirrors of a URL.

`next_request` builds the next request from a request and its redirect response, without I/O. The policy
checks the next request like any other request, with the origin `derived`. Credentials for one host and port
are not sent to another host or port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from protocols.contract import Credentials, Moved, Options
from protocols.errors import InvalidUrl, NotConfigured, ProtocolError, Refused
from protocols.location import HostUrl, Origin, Referrer, Url
from resolver.policy.redirects import (
    check_chain,
    check_hops,
    is_same_origin,
    may_carry_credentials,
    select_harmless,
)
from resolver.policy.settings import Policy, format_names
from resolver.transfer.limits import SizeLimit, max_streamed
from resolver.transfer.naming import last_part
from resolver.url.parsing import join, parse, strip_user


class NoDocument(Refused):
    """The object is a listing, but the caller requires a document."""


#: A function that checks a redirect from one URL to another. The function raises `ResolveError` if the
#: redirect is forbidden.
Leads: TypeAlias = Callable[[Url, Url], None]


class RetrievalRequest(NamedTuple):
    """A request for a URL: the URL, its origin, its referrer and the options.

    - `in_clear`: whether the user was already warned that this host and port receive a password without TLS.
    - `transfer` is the number that identifies the events of the retrieval.
    - `cookie_changes` is the number of cookie changes of the run before this request.
    - `chain_start` is the number of earlier URLs that were requested before the last change of the cookies. A
      second request for these URLs is not a redirect loop, because the cookies have changed.
    - `leads` is a function that checks redirects in addition to rule S10.
    - `limit` is the function that returns the maximum size of the body.
    """

    url: Url
    options: Options
    origin: Origin = "user"
    referrer: Referrer | None = None
    in_clear: bool = False
    transfer: int = 0
    cookie_changes: int = 0
    chain_start: int = 0
    leads: Leads | None = None
    limit: SizeLimit = max_streamed


def next_request(
    request: RetrievalRequest,
    moved: Moved,
    peer: str | None,
    earlier: Sequence[Url],
    policy: Policy,
    hops: int,
    *,
    in_clear: bool = False,
) -> RetrievalRequest:
    """Return the request that follows a redirect. The policy checks its URL later, in `Network.admit`.

    Args:
        request: the request that was redirected.
        moved: the redirect response.
        peer: the IP address that sent the response.
        earlier: the URLs that were requested before the URL of `request`.
        policy: the policy, which decides whether credentials are sent again.
        hops: the maximum number of consecutive redirects.
        in_clear: whether the user was warned that this request sends a password without TLS.

    Raises:
        ProtocolError: if the Location of the redirect is not a valid URL.
        Refused: for a redirect loop or for more than `hops` consecutive redirects (S10).
    """
    try:
        url = join(request.url, moved.location)
    except InvalidUrl as error:
        raise ProtocolError(f"invalid location in the answer {moved.code}: {error.message}") from error
    changes = count_changes(request.options)
    chain = [strip_user(previous) for previous in (*earlier, request.url)]
    start = request.chain_start if changes == request.cookie_changes else len(chain)
    check_hops(len(chain), hops)
    check_chain(chain[start:], strip_user(url), hops)
    if request.leads is not None:
        request.leads(request.url, url)
    carries = may_carry_credentials(request.url, url, policy)
    members = _carry(request) if carries else _strip(request.options)
    return request._replace(
        url=url,
        options=replace(request.options, asked=_find_original_user(request), **members),
        origin="derived",
        referrer=moved.found_in or Referrer(request.url.shown, peer),
        in_clear=in_clear and is_same_origin(request.url, url),
        cookie_changes=changes,
        chain_start=start,
    )


def _find_original_user(request: RetrievalRequest) -> tuple[str, bytes] | None:
    """Return the host and the object name of the URL before all redirects, or None without a redirect."""
    url = request.url
    if request.options.asked is not None or not isinstance(url, HostUrl):
        return request.options.asked
    return url.host, last_part(url)


def count_changes(options: Options) -> int:
    """Return how often the cookies, which all requests of the run share, have changed."""
    return sum([getattr(memory, "revision", 0) for memory in options.memory.values()])


def _carry(request: RetrievalRequest) -> dict[str, Any]:
    """Return the changed members of the options for a redirect to the same host and port.

    The options contain the credentials from the old URL, because the URL of the redirect does not contain
    credentials (S06).
    """
    user: bytes | None = getattr(request.url, "user", None)
    password: bytes | None = getattr(request.url, "password", None)
    if user is None and password is None:
        return {}
    return {"login": Credentials(user or b"", password or b"")}


def _strip(options: Options) -> dict[str, Any]:
    return {"headers": select_harmless(options.headers), "login": None}


def list_mirrors(url: Url, mirrors: Sequence[str]) -> Iterable[str]:
    """Return the URL of the object on each mirror: the path of `url`, appended to the mirror."""
    return _join_mirrors(url, _path(url), mirrors) if mirrors else ()


class MirrorPrefixes:
    """The configured mirrors by URL prefix.

    Only the longest matching URL prefix applies. A prefix matches only complete path segments: `http://h/pub`
    does not match `http://h/public`. The comparison ignores the user, the case of the host and a default
    port.
    """

    def __init__(self, mirrors_by_prefix: Mapping[str, Sequence[str]]) -> None:
        """Raise `NotConfigured` if a prefix or a mirror is not a URL with a path."""
        self._prefixes: dict[tuple[str, str], dict[str, tuple[str, Sequence[str]]]] = {}
        for prefix, mirrors in mirrors_by_prefix.items():
            if isinstance(mirrors, str):
                raise NotConfigured(f"the mirrors of {prefix} must be a list of URLs, got str")
            url = check_mirror(prefix)
            if not (isinstance(url, HostUrl) and url.host):
                raise NotConfigured(f"{url.shown} must have a host to have mirrors")
            for mirror in mirrors:
                check_mirror(mirror)
            self._prefixes.setdefault(_place(url), {})[_path(url).rstrip("/")] = (prefix, mirrors)

    def find(self, url: Url) -> tuple[str, tuple[str, ...]] | None:
        """Return the longest prefix that matches the URL, and its mirrors, or None."""
        if not (self._prefixes and isinstance(url, HostUrl)):
            return None
        mirrors_by_path = self._prefixes.get(_place(url), {})
        path = _path(url)
        matches = [key for key in mirrors_by_path if path == key or not key or path.startswith(f"{key}/")]
        if not matches:
            return None
        longest = max(matches, key=len)
        prefix, mirrors = mirrors_by_path[longest]
        rest = path.removeprefix(longest).removeprefix("/") if path != longest or not path else None
        return prefix, tuple(_join_mirrors(url, rest, mirrors))


def check_mirror(text: str) -> Url:
    """Parse the URL of a mirror. Raises `NotConfigured` if no path can be appended to it."""
    try:
        url = parse(text)
    except InvalidUrl as error:
        raise NotConfigured(f"not a URL: {error.message}") from error
    if "?" in text or "#" in text or "://" not in text:
        raise NotConfigured(f"{url.shown} must be a URL to which a path can be appended")
    return url


def _place(url: HostUrl) -> tuple[str, str]:
    return url.scheme, format_names(url.host, url.effective_port)[0]


def _path(url: Url) -> str:
    return strip_user(url).partition("://")[2].partition("/")[2]


def _join_mirrors(url: Url, rest: str | None, mirrors: Iterable[str]) -> Iterator[str]:
    """Yield the URL of the object on each mirror: the mirror's URL, with the path `rest` appended.

    Without `rest`, the URL of the mirror is already the complete URL of the object.

    If `rest` has syntax that only its scheme has, mirrors of other schemes are skipped. In ftp, a transfer
    type, a search, and `%2F` for the root directory are scheme-specific syntax.
    """
    for mirror in mirrors:
        same = mirror.lower().startswith(f"{url.scheme}:")
        if same or not (set(rest or "") & set(";?") or (rest or "").lower().startswith("%2f")):
            yield mirror if rest is None else f"{mirror.rstrip('/')}/{rest}"
