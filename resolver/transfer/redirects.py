"""The next request of a retrieval after a redirect (S10, S11), and the mirrors that the user configured.

`next_request` is a function without I/O: from a request and its response to the next request. The next
request is checked against the policy like any other, with the origin `derived`. Secrets for one host and port
are not sent to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from protocols.contract import Credentials, Moved, Options
from protocols.errors import InvalidUrl, NotConfigured, ProtocolError, Refused
from protocols.location import HostUrl, Origin, Referrer, Url
from resolver.policy.redirects import (
    check_chain,
    check_hops,
    is_same_place,
    may_carry_credentials,
    select_harmless,
)
from resolver.policy.settings import Policy, names_of
from resolver.transfer.naming import last_part
from resolver.url.parsing import join, parse, strip_user


class NoDocument(Refused):
    """The object is a listing, but a document was wanted."""


#: Checks a redirect from the first URL to the second. Raises `ResolveError` if it is not allowed.
Leads: TypeAlias = Callable[[Url, Url], None]


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A URL, how it was chosen, the URL that led to it, and its options.

    - `in_clear`: the previous hop already warned that a password goes to this host and port without TLS.
    - `transfer` is the number that identifies its events.
    - `learnt` counts the changes of the run's memory (cookies) before the request was made.
    - `since` is the number of earlier URLs that were requested before the last change of the memory:
      requesting one of them again is not a redirect loop.
    - `leads` restricts redirects further than S10 (redirects) does.
    """

    url: Url
    origin: Origin = "user"
    referrer: Referrer | None = None
    options: Options = field(default_factory=Options)
    in_clear: bool = False
    transfer: int = 0
    learnt: int = 0
    since: int = 0
    leads: Leads | None = None


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
    """Return the request that follows a redirect; the policy checks its URL later, at its admission.

    Args:
        request: the request that was redirected.
        moved: the redirect response.
        peer: the IP address that sent the response.
        earlier: the URLs requested before this one.
        policy: the policy, for the credentials that may be sent along.
        hops: the maximum number of consecutive redirects.
        in_clear: whether the user was warned of a password without TLS for this request.

    Raises:
        ProtocolError: if the location is not a URL.
        Refused: for a redirect loop, and for more than `hops` consecutive redirects (S10).
    """
    try:
        url = join(request.url, moved.location)
    except InvalidUrl as error:
        raise ProtocolError(f"invalid location in the answer {moved.code}: {error.message}") from error
    now = count_learnt(request.options)
    chain = [strip_user(each) for each in (*earlier, request.url)]
    since = request.since if now == request.learnt else len(chain)
    check_hops(len(chain), hops)
    check_chain(chain[since:], strip_user(url), hops)
    if request.leads is not None:
        request.leads(request.url, url)
    carried = may_carry_credentials(request.url, url, policy)
    return RetrievalRequest(
        url,
        origin="derived",
        referrer=moved.found_in or Referrer(request.url.shown, peer),
        options=replace(
            _retry(request) if carried else _drop(request.options), asked=_find_original_user(request)
        ),
        in_clear=in_clear and is_same_place(request.url, url),
        transfer=request.transfer,
        learnt=now,
        since=since,
        leads=request.leads,
    )


def _find_original_user(request: RetrievalRequest) -> tuple[str, bytes] | None:
    """Return the host and the name of the URL that the user gave, before any redirects."""
    url = request.url
    if request.options.asked is not None or not isinstance(url, HostUrl):
        return request.options.asked
    return url.host, last_part(url)


def count_learnt(options: Options) -> int:
    """Return how often the memory of the run's dialogues has changed."""
    return sum(getattr(each, "revision", 0) for each in options.memory.values())


def _retry(request: RetrievalRequest) -> Options:
    """Return the options for the same host and port, with the login of the request's URL.

    The location in a redirect does not repeat this login (S06, passwords sent without encryption).
    """
    user: bytes | None = getattr(request.url, "user", None)
    password: bytes | None = getattr(request.url, "password", None)
    if user is None and password is None:
        return request.options
    return replace(request.options, login=Credentials(user or b"", password or b""))


def _drop(options: Options) -> Options:
    return replace(options, headers=select_harmless(options.headers), login=None)


def list_mirrors(url: Url, mirrors: Sequence[str]) -> Iterable[str]:
    """Return the URL's path appended to each mirror; most hosts have no mirrors."""
    return _join_mirrors(url, _path(url), mirrors) if mirrors else ()


class MirrorPrefixes:
    """The mirrors of URL prefixes.

    The longest prefix applies, and only at the end of a path segment: `http://h/pub` does not match
    `http://h/public`. The user, and the case of the host or an explicit default port, do not matter.
    """

    def __init__(self, said: Mapping[str, Sequence[str]]) -> None:
        """Check the prefixes and mirrors. Raises `NotConfigured` if one is not a URL with a path."""
        self._said: dict[tuple[str, str], dict[str, tuple[str, Sequence[str]]]] = {}
        for prefix, mirrors in said.items():
            if isinstance(mirrors, str):
                raise NotConfigured(f"the mirrors of {prefix} must be a list of URLs, got str")
            url = check_mirror(prefix)
            if not (isinstance(url, HostUrl) and url.host):
                raise NotConfigured(f"{url.shown} must have a host to have mirrors")
            for mirror in mirrors:
                check_mirror(mirror)
            self._said.setdefault(_place(url), {})[_path(url).rstrip("/")] = (prefix, mirrors)

    def find(self, url: Url) -> tuple[str, tuple[str, ...]] | None:
        """Return the prefix that applies to a URL, and the URL's mirrors."""
        if not (self._said and isinstance(url, HostUrl)):
            return None
        there = self._said.get(_place(url), {})
        path = _path(url)
        fitting = [each for each in there if path == each or not each or path.startswith(f"{each}/")]
        if not fitting:
            return None
        longest = max(fitting, key=len)
        prefix, mirrors = there[longest]
        rest = path.removeprefix(longest).removeprefix("/") if path != longest or not path else None
        return prefix, tuple(_join_mirrors(url, rest, mirrors))


def check_mirror(text: str) -> Url:
    """Parse a mirror. Raises `NotConfigured` if the text is not a URL to which a path can be appended."""
    try:
        url = parse(text)
    except InvalidUrl as error:
        raise NotConfigured(f"not a URL: {error.message}") from error
    if "?" in text or "#" in text or "://" not in text:
        raise NotConfigured(f"{url.shown} must be a URL to which a path can be appended")
    return url


def _place(url: HostUrl) -> tuple[str, str]:
    return url.scheme, names_of(url.host, url.effective_port)[0]


def _path(url: Url) -> str:
    return strip_user(url).partition("://")[2].partition("/")[2]


def _join_mirrors(url: Url, rest: str | None, mirrors: Iterable[str]) -> Iterator[str]:
    """Yield the URLs of the mirrors; without a `rest`, a mirror replaces the complete URL.

    A mirror of another scheme is skipped if the rest has syntax that only the URL's scheme knows: a transfer
    type, a search, ftp's `%2F` for the root.
    """
    for mirror in mirrors:
        same = mirror.lower().startswith(f"{url.scheme}:")
        if same or not (set(rest or "") & set(";?") or (rest or "").lower().startswith("%2f")):
            yield mirror if rest is None else f"{mirror.rstrip('/')}/{rest}"
