"""A session for one tree: what it asks for stays in the tree, and what it saves in a directory."""

from __future__ import annotations

from protocols.contract import Credentials, Origin, Url, Wanted
from protocols.errors import ResolveError
from protocols.values import replace
from resolver.clock import Clock
from resolver.retrieval.hops import Leads, RetrievalRequest
from resolver.retrieval.limits import located, most_streamed
from resolver.retrieval.retry import FIVE_TRIES, Fill, give_way_for_room
from resolver.retrieval.session import Resolver
from resolver.retrieval.stores import Store
from resolver.retrieval.streaming import StreamingResponse
from resolver.tracebacks import outermost
from resolver.url import UrlLike


class ConfinedSession(Resolver):
    """What another session is, and has: connections, limits, what was learnt. It is neither entered nor left.
    Redirects lead only where `leads` lets them, or `lists` where a listing is wanted; files are written
    `below` a directory, through no link; listings have details, and are of all that there is. What the URL
    `top` says of a login counts for all below it, where it is not repeated."""

    def __init__(self, session: Resolver, top: Url, *, leads: Leads, lists: Leads, below: str) -> None:
        vars(self).update(vars(session))
        self._leads = leads
        self._lists = lists
        self._below = below
        entries = self._options.entries
        self._options = replace(
            self._options, detailed=True, placed=True, keep=True, entries=0 if entries is None else entries
        )
        self._patience = self._patience or FIVE_TRIES
        user: bytes | None = getattr(top, "user", None)
        password: bytes | None = getattr(top, "password", None)
        if password is not None:
            self._options = replace(self._options, login=Credentials(user or b"", password))

    async def read_listing(
        self, url: Url, keep: Store, fill: Fill, origin: Origin, referrer: tuple[str, str | None] | None
    ) -> StreamingResponse:
        """Bring a listing into a keep, try after try. Raises `ResolveError`."""
        request = self._request(url, origin, referrer, "listing")
        retrier = self._retrier(request, keep, fill, most_streamed)
        try:
            return await retrier.retry(Clock(self.limits_of(url).total))
        except ResolveError as error:
            give_way_for_room(error, url, self._network)
            raise outermost(located(error, url.shown)) from error.__cause__

    def _request(
        self,
        url: UrlLike,
        origin: Origin,
        referrer: tuple[str, str | None] | None,
        want: Wanted = "content",
        *,
        prompt: bool = False,
    ) -> RetrievalRequest:
        leads = self._lists if want == "listing" else self._leads
        return replace(super()._request(url, origin, referrer, want, prompt=prompt), leads=leads)
