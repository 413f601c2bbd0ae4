"""What the retrievals of one run share on their way out, and where each of them is judged."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from protocols.contract import Credentials, Limits, Options, Origin, Referrer, Url
from resolver.events import Event, OnEvent
from resolver.gate.lookup import Lookup, LookupCache, look_up
from resolver.gate.passage import Ask, Family, Passage, Shared
from resolver.gate.pool import Pool
from resolver.gate.row import Rows
from resolver.gate.trust import Trust
from resolver.news_server import find_setting, needs_server, server_of
from resolver.policy import Policy, Server


async def nobody(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
    """Nobody is there to give credentials."""
    return None


class Door:
    """Policy, limits, look-ups and TLS trust of one run. Opens nothing by itself.

    An async context manager: connections are kept for one another only inside it. `gateways` maps a
    scheme to the URL of its gateway (S19). `family` is the only IP version to use.
    `cafile` adds authorities to the system's, `certfile` is a certificate of our own. `lookup` asks for
    the addresses of a name; tests replace it. `news_server` is the caller's choice for `news:` URLs.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        limits: Limits | None = None,
        gateways: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
        family: Family | None = None,
        cafile: str | None = None,
        certfile: str | None = None,
        lookup: Lookup = look_up,
        credentials: Ask = nobody,
        news_server: str | None = None,
    ) -> None:
        self._on_event = on_event
        self._news_server = news_server
        pool = Pool()
        self._shared = Shared(
            policy=policy,
            limits=Limits() if limits is None else limits,
            gateways=dict(gateways or {}),
            lookups=LookupCache(lookup),
            trust=Trust(cafile, certfile),
            family=family,
            tell=on_event,
            ask=credentials,
            pool=pool,
            rows=Rows(pool),
        )

    async def __aenter__(self) -> Door:
        self._shared.pool.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._shared.pool.aclose()

    @property
    def policy(self) -> Policy:
        return self._shared.policy

    @property
    def gateways(self) -> Mapping[str, str]:
        return self._shared.gateways

    @property
    def limits(self) -> Limits:
        return self._shared.limits

    def on_event(self, event: Event) -> None:
        """Tell whoever listens."""
        if self._on_event is not None:
            self._on_event(event)

    def admit(
        self,
        url: Url,
        *,
        origin: Origin = "user",
        referrer: Referrer | None = None,
        server: Server | None = None,
        options: Options | None = None,
    ) -> Passage:
        """Judge a URL; the passage is the one way to open what it names.

        `server` is where to ask for a `news:` URL that names no server, if not the user's own; `options`
        is what the caller asks for beyond the URL. Raises `Refused` and `UnsupportedScheme`
        before anything is looked up, and `NotConfigured` for a `news:` URL that names no server where
        the user has none either.
        """
        if server is None and needs_server(url):
            server = server_of(find_setting(self._news_server), url.scheme)
        return Passage(self._shared, url, origin=origin, referrer=referrer, server=server, options=options)
