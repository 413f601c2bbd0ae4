"""The next request of a retrieval after a redirect (S10, S11), and the mirrors that the user named.

One function, and no I/O: from the answered request and its answer to the next request, which is judged like
any other, as `derived`. Secrets of one place stay there.
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
    """It is a listing, and none was wanted."""


#: Judges where a redirect leads: from the first URL to the second. Raises `ResolveError` for where it may
#: not.
Leads: TypeAlias = Callable[[Url, Url], None]


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """What is asked for: a URL, who chose it, what led to it (safety page, "Origins"), and what is wanted of
    it beyond the URL. `in_clear` says that a person was told, one hop before, that a password goes to this
    very place without TLS. `transfer` is the number that its events have. `count_learnt` is how much the run
    knew when it was made (cookies), and `since` counts the URLs before it that were asked when it knew less:
    to ask one of those again is no circle. `leads` says more of where it may be led than S10 does."""

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
    """The request that follows `request`, whose answer was `moved` and came from the address `peer`.
    `earlier` are the URLs asked before it; `in_clear` is what a person was told of this one.

    Raises `ProtocolError` where the location is no URL, `Refused` (S10) for a circle and for more than
    `hops` in a row; whether it may be followed is judged when it is admitted.
    """
    try:
        url = join(request.url, moved.location)
    except InvalidUrl as error:
        raise ProtocolError(f"the answer {moved.code} leads nowhere: {error.message}") from error
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
    """The host and the name that a person gave, however often it was led on from there."""
    url = request.url
    if request.options.asked is not None or not isinstance(url, HostUrl):
        return request.options.asked
    return url.host, last_part(url)


def count_learnt(options: Options) -> int:
    """How often what dialogues of the run remember has changed."""
    return sum(getattr(each, "revision", 0) for each in options.memory.values())


def _retry(request: RetrievalRequest) -> Options:
    """To the same place goes what it was given: also by the URL, which is not repeated (S06)."""
    user: bytes | None = getattr(request.url, "user", None)
    password: bytes | None = getattr(request.url, "password", None)
    if user is None and password is None:
        return request.options
    return replace(request.options, login=Credentials(user or b"", password or b""))


def _drop(options: Options) -> Options:
    return replace(options, headers=select_harmless(options.headers), login=None)


def list_mirrors(url: Url, mirrors: Sequence[str]) -> Iterable[str]:
    """The path of the URL behind each of the mirrors, which few hosts have."""
    return _join_mirrors(url, _path(url), mirrors) if mirrors else ()


class MirrorPrefixes:
    """What is below one URL is below others, too. The longest prefix counts, and whole segments of it: behind
    `http://h/pub` there is no `http://h/public`. However it writes host and port, and whoever logs in."""

    def __init__(self, said: Mapping[str, Sequence[str]]) -> None:
        """Raises `NotConfigured` for a prefix or a mirror that is no URL with a path."""
        self._said: dict[tuple[str, str], dict[str, tuple[str, Sequence[str]]]] = {}
        for prefix, mirrors in said.items():
            if isinstance(mirrors, str):
                raise NotConfigured(f"the mirrors of {prefix} are a list of URLs, not a text")
            url = check_mirror(prefix)
            if not (isinstance(url, HostUrl) and url.host):
                raise NotConfigured(f"{url.shown} leads to no host, and has no mirrors")
            for mirror in mirrors:
                check_mirror(mirror)
            self._said.setdefault(_place(url), {})[_path(url).rstrip("/")] = (prefix, mirrors)

    def find(self, url: Url) -> tuple[str, tuple[str, ...]] | None:
        """The prefix that counts for a URL, and the URLs that its mirrors make of it."""
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
    """Raises `NotConfigured` for a text that is no URL behind which a path can be put."""
    try:
        url = parse(text)
    except InvalidUrl as error:
        raise NotConfigured(f"not a URL: {error.message}") from error
    if "?" in text or "#" in text or "://" not in text:
        raise NotConfigured(f"{url.shown} is no URL that a path can be put behind")
    return url


def _place(url: HostUrl) -> tuple[str, str]:
    return url.scheme, names_of(url.host, url.effective_port)[0]


def _path(url: Url) -> str:
    return strip_user(url).partition("://")[2].partition("/")[2]


def _join_mirrors(url: Url, rest: str | None, mirrors: Iterable[str]) -> Iterator[str]:
    """None is the prefix itself, in whose place a mirror stands as it is. What the URL's scheme alone
    understands (a transfer type, a search, ftp's way up to the root) goes along to no other scheme: that
    mirror is passed over."""
    for mirror in mirrors:
        same = mirror.lower().startswith(f"{url.scheme}:")
        if same or not (set(rest or "") & set(";?") or (rest or "").lower().startswith("%2f")):
            yield mirror if rest is None else f"{mirror.rstrip('/')}/{rest}"
