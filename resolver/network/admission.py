"""An admitted URL, and the later judgements for it: addresses, passwords, and the targets of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from protocols.authority import comparable_host
from protocols.contract import Finding, Limits, Options, Origin, Referrer, Url
from resolver.loops import Loop, running
from resolver.network.clock import Bucket
from resolver.network.events import OnEvent
from resolver.network.lookup import LookupCache
from resolver.network.mask import CredentialCache, Mask
from resolver.network.pool import ConnectionPool, Pipelines
from resolver.network.stream_settings import Contacts, Tap
from resolver.network.tls import Pins, Trust
from resolver.policy.judgement import judge_credentials, judge_subject, sift_addresses
from resolver.policy.proxies import variables_at
from resolver.policy.redirects import may_go_unasked
from resolver.policy.settings import NOTHING, Host, HostSettings, Policy
from resolver.policy.subject import ALLOW, NewsServer, Verdict, endpoint_of, no_place, subject_of
from resolver.policy.tunnels import ProxyLogins, ProxyRoute, way_of
from resolver.url import registry

#: `-4`, `-6`: the only IP version to use; None means both.
Family: TypeAlias = Literal["4", "6"]


@dataclass(frozen=True, slots=True)
class RunState:
    """What the retrievals of one run have in common. `credentials` gives those for a place, and is None where
    there are none; `variables` are what the environment and the caller say of proxies, `logins` who we are to
    those, `hosts` is what holds for single ones, `bucket` the rate of all. `taps`: what is said is kept."""

    policy: Policy
    limits: Limits
    gateways: Mapping[str, str]
    lookups: LookupCache
    trust: Trust
    pins: Pins
    family: Family | None
    report: OnEvent | None
    credentials: CredentialCache | None
    pool: ConnectionPool
    pipelines: Pipelines
    variables: Mapping[str, str]
    logins: ProxyLogins
    contacts: Contacts = field(default_factory=Contacts)
    hosts: HostSettings | None = None
    bucket: Bucket | None = None
    taps: bool = False


class Admission:
    """Making one *is* judging its URL: raises `Refused`, `UnsupportedScheme`, or `NotConfigured` for a proxy
    that is none, and nothing has been looked up or sent by then.

    `findings` are the policy's warnings and grow as addresses are judged. `outer` is the admission whose
    answer led to this one. With `in_clear` the person was told before that a password goes to this place
    without TLS; `reported_in_clear` says that it happened now. `mask` hides what may not be shown of what
    this retrieval reports, and `shown` is the URL as it may be. `way` is that through a proxy, None where it
    goes direct. `host` is what holds for the place alone, `limits` those that hold there. `tap` keeps what is
    said on its connections, and is set before there are any.
    """

    def __init__(
        self,
        shared: RunState,
        url: Url,
        origin: Origin,
        referrer: Referrer | None,
        server: NewsServer | None,
        options: Options | None = None,
        outer: Admission | None = None,
        in_clear: bool = False,
        mask: Mask | None = None,
        loop: Loop | None = None,
    ) -> None:
        self.shared = shared
        self._loop = loop
        self.options = options or Options()
        if shared.policy.ftp_email is not None:
            self.options = _options_under(shared.policy.ftp_email, self.options)
        self.url = url
        self.host = NOTHING if shared.hosts is None else _host_of(url, server, shared.hosts)
        own = self.host.proxy
        self._variables = shared.variables if own is None else variables_at(shared.variables, own)
        self._subject = subject_of(url, shared.policy, origin, referrer, server, self._variables)
        self.limits = self.host.limits or shared.limits
        self.row = self._subject.row
        self._is_hop = outer is not None
        self._in_clear = in_clear
        self.reported_in_clear = False
        self.tap: Tap | None = None if outer is None else outer.tap
        self.mask: Mask = mask if mask is not None else Mask() if outer is None else outer.mask
        self.shown = url.shown
        if self.mask.watched:  # a peer led here
            self.shown = self.mask.hide_in_text(self.shown)
        self.findings: list[Finding] = [] if outer is None else outer.findings
        self._heed(judge_subject(self._subject, shared.gateways))
        if self.options.tls == "require":
            registry.check_tls(url, self.options.tls)
        self.way = self._way() if self._variables else None
        if self.host.certfile is not None:
            shared.trust.context(certfile=self.host.certfile)  # one that cannot be used: nothing was sent
        if shared.trust.has_own and origin == "user" and self._subject.endpoint is not None:
            shared.trust.name(self.full_place)

    def _way(self) -> ProxyRoute | None:
        way = way_of(self.url, self._subject.endpoint, self._variables, self.shared.logins)
        via = None if way is None else way.via
        if via != self.options.via:
            self.options = replace(self.options, via=via)
        return way

    @property
    def loop(self) -> Loop:
        """The one that all of it is done on."""
        return self._loop or running()

    @property
    def place(self) -> tuple[str, int]:
        """The host and port that the URL leads to. Raises `InvalidUrl` for one that leads to none."""
        endpoint = self._subject.endpoint
        if endpoint is None:
            raise no_place(self.url)
        return endpoint.host, endpoint.port

    @property
    def needs_server(self) -> bool:
        """Is the server of such a URL a setting of the user's, and none was given?"""
        row = self._subject.row
        return self._subject.endpoint is None and row is not None and row.server

    @property
    def full_place(self) -> tuple[str, str, int]:
        """The scheme, host and port, which a certificate of ours is for."""
        host, port = self.place
        return self.url.scheme, comparable_host(host), port

    @property
    def may_log_in_unasked(self) -> bool:
        """S06: see `may_go_unasked`. Only TLS from the first octet is sure to come."""
        row = self._subject.row
        tls = row is not None and row.tls == "always"
        host = self.place[0] if self.way is None else ""  # what is here for us is elsewhere for a proxy
        return may_go_unasked(host, self.shared.policy, tls=tls)

    def check_addresses(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Those that may be connected to. Raises `Refused` (S08) where none may."""
        allowed, verdict = sift_addresses(self._subject, addresses)
        self._heed(verdict)
        return allowed

    def check_secret(self, peer: str, secured: bool, secrets: Sequence[bytes]) -> None:
        """S06: may a password leave on this connection? In a request to a proxy it is that of the proxy, or
        it goes on to the host."""
        via = self.options.via
        if via is not None and set(secrets) <= set(via.login.secrets):
            self.check_login(peer, secured, secrets)
            return
        for reached in (peer,) if via is None else (peer, self.place[0]):
            self._judge_secret(reached, secured)

    def _judge_secret(self, peer: str, secured: bool) -> None:
        origin = "user" if self._in_clear else self._subject.origin
        verdict = judge_credentials(self.url, peer, self.shared.policy, tls=secured, origin=origin)
        self._heed(verdict)
        self.reported_in_clear |= verdict.action == "warn"

    def check_login(self, peer: str, secured: bool, secrets: Sequence[bytes]) -> None:
        """S06 for the user and password of a proxy, which are the user's own, whoever chose the URL."""
        hidden = secured or (self.way is not None and self.way.proxy.secured)
        self._heed(judge_credentials(self.url, peer, self.shared.policy, tls=hidden, origin="user"))

    def led_to(self, url: Url, peer: str | None) -> Admission:
        """Nobody chose it but the server at `peer`."""
        return Admission(
            self.shared,
            url,
            origin="derived",
            referrer=Referrer(self.url.shown, peer),
            server=None,
            options=replace(self.options, headers=(), login=None),  # S11
            outer=self,
            loop=self._loop,
        )

    def _heed(self, verdict: Verdict) -> None:
        if verdict is ALLOW:
            return
        error = verdict.error(self.url)
        if error is not None:
            error = error.at(self.shown)
            raise error.of_hop() if self._is_hop else error
        self.findings += [finding for finding in verdict.findings if finding not in self.findings]


def _host_of(url: Url, server: NewsServer | None, hosts: HostSettings) -> Host:
    place = endpoint_of(url, server)
    return NOTHING if place is None else hosts.find_host(place.host, place.port)


def _options_under(email: str, options: Options) -> Options:
    """What the person tells of themselves is the policy's to say (S17)."""
    return replace(options, anonymous_password=email.encode("ascii"))
