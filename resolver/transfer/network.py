"""The network state that all retrievals of a run share, and the policy check of each URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol, TypeVar, Unpack

from protocols.contract import Finding, Limits, Options, Origin, Referrer, Url
from protocols.errors import NotConfigured
from protocols.text import Masked
from resolver.loops import Loop, running
from resolver.network.admission import Admission, RunState
from resolver.network.clock import Bucket, Clock, check_rate
from resolver.network.events import (
    ATTEMPTS,
    WIRE,
    Event,
    Warned,
    combine_listeners,
    is_enabled,
    select_listener,
)
from resolver.network.lookup import Lookup, LookupCache, look_up
from resolver.network.mask import CredentialCache, Mask
from resolver.network.pool import ConnectionPool, Pipelines
from resolver.network.stream_settings import Contacts
from resolver.network.tls import Pins, Trust
from resolver.network.url_gate import UrlGate
from resolver.policy.environment import find_setting, parse_server, read_proxies
from resolver.policy.proxies import HOST_PROXY, proxy_variables
from resolver.policy.proxy import check_proxy
from resolver.policy.settings import NO_SETTINGS, Host, HostSettings, Policy, normal_pin
from resolver.policy.subject import NewsServer, find_endpoint
from resolver.policy.tunnels import ProxyLogins
from resolver.transfer.limits import Quota
from resolver.transfer.settings import Settings, as_tuple, merge_limits

_ANOTHER_RUN = (
    "this Resolver (or HttpxTransport) was entered in another run of an event loop, or in another thread, "
    "and keeps its connections there: create one for each"
)

_NOT_ENTERED = "this Resolver was not entered: its background tasks must run inside async with"


class Closeable(Protocol):
    """An operation in progress that can be closed, and that calls `when_ended` when it ends."""

    when_ended: Callable[[], object]

    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class Network:
    """The policy, limits, DNS cache, connection pool and trusted certificates of one run.

    A `Network` is an async context manager. The connection pool is active only inside the context. A
    `Network` uses only the settings for outbound connections and for credentials.

    Args:
        lookup: the DNS lookup function; tests replace it.
        settings: the settings of the run.

    Raises:
        NotConfigured: if the proxy or the rate is invalid.
        TypeError: if the settings of a host have a wrong type.
    """

    def __init__(self, *, lookup: Lookup = look_up, **settings: Unpack[Settings]) -> None:
        proxy, environment = settings.get("proxy"), settings.get("environment")
        credentials = settings.get("credentials")
        check_proxy(proxy)
        check_rate(rate := settings.get("rate"))
        hosts = settings.get("hosts")
        for name, host in () if hosts is None else hosts.items():
            if not isinstance(host, Host):
                raise TypeError(f"hosts[{name!r}] must be a resolver.Host, got {type(host).__name__}")
            as_tuple("mirrors", host.mirrors)
            check_proxy(host.proxy, HOST_PROXY)
            if host.pin is not None:
                normal_pin(host.pin)
        policy = settings.get("policy")
        self.policy = Policy.default() if policy is None else Policy.of(policy)
        self.caller_listener = settings.get("on_event")
        self._is_logged, self.listener = is_enabled(), combine_listeners(self.caller_listener)
        self.on_attempt = combine_listeners(select_listener(self.caller_listener, ATTEMPTS))
        self._reported: set[Finding] = set()
        self._transfers = 0
        self._run: object = None
        self._loop: Loop | None = None
        self._closing: set[Closeable] = set()
        self.proxy, self.environment = proxy, environment
        self._news_server = settings.get("news_server")
        self.recorder, self.archive = settings.get("recorder"), settings.get("archive")
        if self.recorder is not None and self.archive is not None:
            raise NotConfigured(
                "recorder and archive cannot be combined: write to an archive, or read from one"
            )
        pool = ConnectionPool()
        self._shared = RunState(
            policy=self.policy,
            limits=self.policy.bound(merge_limits(settings)),
            gateways=dict(settings.get("gateways") or {}),
            lookups=LookupCache(lookup),
            trust=Trust(
                settings.get("cafile"),
                settings.get("certfile"),
                settings.get("certfile_password"),
                settings.get("pin"),
            ),
            pins=Pins(),
            family=settings.get("family"),
            report=combine_listeners(select_listener(self.caller_listener, WIRE)),
            credentials=None if credentials is None else CredentialCache(credentials),
            pool=pool,
            pipelines=Pipelines(pool),
            variables=self._variables(),
            logins=ProxyLogins(),
            contacts=Contacts(),
            hosts=HostSettings(hosts).with_limits(self.policy.bound) if hosts else None,
            bucket=None if rate is None else Bucket(rate),
            taps=self.recorder is not None,
        )
        self.limits = self._shared.limits
        self.quota = None if self.limits.quota is None else Quota(self.limits.quota)
        self.gateways = self._shared.gateways

    def _variables(self) -> Mapping[str, str]:
        """Return the environment variables for proxies, or none if responses come from an archive."""
        if self.archive is not None:
            return {}
        if self.environment is None:
            return read_proxies(self.proxy)
        return proxy_variables(self.environment, self.proxy)

    async def __aenter__(self) -> Network:
        if self.check_run() is None:
            loop = running().bind()
            run = loop.run()
            self._shared.trust.check()
            self._shared.pool.open()
            self._loop, self._run = loop, run
        self._update_listeners()
        return self

    async def __aexit__(self, *_: object) -> None:
        # The exit stack closes all resources, even if the closing of one resource is cancelled.
        async with AsyncExitStack() as leaving:
            leaving.push_async_callback(self._leave)
            for operation in self._closing:
                leaving.push_async_callback(operation.aclose)

    async def _leave(self) -> None:
        self._run = self._loop = None
        await self._shared.pool.aclose()

    def track(self, closing: C) -> C:
        """Register an operation, which is closed when this network is exited.

        Raises `RuntimeError` outside the context of this network.
        """
        if self._run is None:
            raise RuntimeError(_NOT_ENTERED)
        self.check_run()
        self._closing.add(closing)
        closing.when_ended = partial(self._closing.discard, closing)
        return closing

    def _update_listeners(self) -> None:
        """Update the event listeners, because logging may have been turned on or off since `__init__`."""
        if is_enabled() is not self._is_logged:
            self._is_logged, self.listener = is_enabled(), combine_listeners(self.caller_listener)
            self.on_attempt = combine_listeners(select_listener(self.caller_listener, ATTEMPTS))
            self._shared.report = combine_listeners(select_listener(self.caller_listener, WIRE))

    def limits_of(self, url: Url) -> Limits:
        """Return the limits for the host of the URL."""
        limits = None if self._shared.hosts is None else self.find_host_settings(url).limits
        return self.limits if limits is None else limits

    def start_clock(self, url: Url) -> Clock:
        """Return the deadline for a retrieval of the URL that starts now."""
        return Clock(self.limits_of(url).total, loop=self.check_run())

    def find_host_settings(self, url: Url) -> Host:
        """Return the settings of the URL's host."""
        hosts = self._shared.hosts
        place = None if hosts is None else find_endpoint(url)
        return NO_SETTINGS if hosts is None or place is None else hosts.find_host(place.host, place.port)

    def check_run(self) -> Loop | None:
        """Return the event loop of the run, bound to the run, or None if this network was not entered.

        Open connections belong to one event loop. Raises `RuntimeError` if the current event loop is another
        event loop than that of the run, for example in another thread.
        """
        if self._loop is not None and self._run is not running().run():
            raise RuntimeError(_ANOTHER_RUN)
        return self._loop

    def on_event(self, event: Event) -> None:
        """Pass the event to the listener, if there is one."""
        if self.listener is not None:
            self.listener(event)

    def next_transfer(self) -> int:
        """Return a new number for a transfer, which identifies the events of a retrieval."""
        self._transfers += 1
        return self._transfers

    def warn(self, url: Masked, finding: Finding) -> None:
        """Report a policy warning, which is a finding on an allowed URL.

        A finding about this machine is reported only once per run. Examples of findings about this machine
        are a configured proxy (S09) and a lack of file descriptors.
        """
        is_of_machine = finding.rule in ("S09", "descriptors")
        if is_of_machine and finding in self._reported:
            return
        if is_of_machine:
            self._reported.add(finding)
        self.on_event(Warned(url, finding))

    def admit(
        self,
        url: Url,
        *,
        origin: Origin = "user",
        referrer: Referrer | None = None,
        options: Options | None = None,
    ) -> UrlGate:
        """Check a URL against the policy, and return the gate that opens its connections.

        `judge_url` describes the arguments and errors. If all responses come from archives, the method raises
        `NotConfigured`.
        """
        if self.archive is not None:
            words = "cannot connect: everything is read from archives"
            raise NotConfigured(words).with_setting("from_warc")
        return UrlGate(self.judge_url(url, origin=origin, referrer=referrer, options=options))

    def judge_url(
        self,
        url: Url,
        *,
        origin: Origin = "user",
        referrer: Referrer | None = None,
        server: NewsServer | None = None,
        options: Options | None = None,
        in_clear: bool = False,
        mask: Mask | None = None,
        loop: Loop | None = None,
    ) -> Admission:
        """Check a URL against the policy, and return the admission that a gate needs.

        `server` is the server for a `news:` URL that does not name a server. The default is the user's
        setting. `options` are the options of the retrieval. `Admission` describes `in_clear` and `mask`.
        `loop` is the current event loop, if the caller knows it.

        Raises:
            Refused: if the policy forbids the URL, before any DNS lookup.
            UnsupportedScheme: if the scheme is not supported, before any DNS lookup.
            NotConfigured: if the server of a `news:` URL is neither in the URL nor configured.
        """
        if loop is None or loop is not self._loop:
            loop = self.check_run()
        shared = self._shared
        admission = Admission(shared, url, origin, referrer, server, options, None, in_clear, mask, loop)
        if admission.row is None or not admission.row.server or not admission.needs_server or self.archive:
            return admission
        # the setting is read only after the policy has allowed the URL
        server = parse_server(find_setting(self._news_server), url.scheme)
        return Admission(shared, url, origin, referrer, server, options, None, in_clear, mask, loop)
