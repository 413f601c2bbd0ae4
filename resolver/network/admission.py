"""A URL that passed the policy, and its later policy checks: IP addresses, passwords, redirects and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from resolver.policy.judgment import judge_credentials, judge_subject, sift_addresses
from resolver.policy.proxies import variables_at
from resolver.policy.redirects import may_send_early
from resolver.policy.settings import NO_SETTINGS, Host, HostSettings, Policy
from resolver.policy.subject import ALLOW, NewsServer, Subject, Verdict, find_endpoint, no_host_error
from resolver.policy.tunnels import ProxyLogins, ProxyRoute, find_route
from resolver.url import registry

#: The IP version to use, as set by `-4` or `-6`.
Family: TypeAlias = Literal["4", "6"]


@dataclass(slots=True, eq=False, repr=False)
class RunState:
    """The state shared by all retrievals of one run.

    Attributes:
        credentials: the source of user names and passwords by host and port; None without a source.
        variables: the proxy settings from the environment variables and from the caller.
        logins: the credentials for proxies.
        hosts: the settings for individual hosts.
        bucket: the rate limit that all transfers share.
        taps: whether the bytes of each connection are recorded.
    """

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
    contacts: Contacts
    hosts: HostSettings | None = None
    bucket: Bucket | None = None
    taps: bool = False


class Admission:
    """A URL that passed the policy; the constructor checks the URL.

    The constructor does not use the network.

    Args:
        outer: the admission of the URL whose response contained this URL as a redirect target or link.
        in_clear: whether an earlier warning told the user that this host and port get passwords without TLS.

    Attributes:
        findings: the policy's warnings. Later checks of IP addresses append warnings to the list.
        reported_in_clear: whether this retrieval warned about a password sent without TLS.
        mask: the filter that redacts the secrets in events and log lines of this retrieval.
        shown: the redacted URL.
        route: the route through a proxy. None for a direct connection.
        limits: the limits for this host and port.
        loop: the event loop of this retrieval.
        tap: the recorder of the bytes on the connections of this URL. The caller sets `tap` before a
            connection is opened.

    Raises:
        Refused: the policy forbids the URL.
        UnsupportedScheme: no handler supports the scheme.
        NotConfigured: a proxy setting is invalid.
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
        self.options = options or Options()
        if (email := shared.policy.ftp_email) is not None:  # S17
            self.options = replace(self.options, anonymous_password=email.encode("ascii"))
        self.url = url
        self.host = NO_SETTINGS if shared.hosts is None else _find_host(url, server, shared.hosts)
        proxy = self.host.proxy
        self._variables = shared.variables if proxy is None else variables_at(shared.variables, proxy)
        self._subject = Subject(url, shared.policy, origin, referrer, server, self._variables)
        self.limits = self.host.limits or shared.limits
        self.row = self._subject.row
        self._is_hop = outer is not None
        self._in_clear = in_clear
        self.reported_in_clear = False
        self.tap: Tap | None = None if outer is None else outer.tap
        self.mask: Mask = mask if mask is not None else Mask() if outer is None else outer.mask
        self.shown = url.shown
        if self.mask.watched:  # A URL from a server may contain a secret that was sent earlier.
            self.shown = self.mask.hide_in_text(self.shown)
        self.findings: list[Finding] = [] if outer is None else outer.findings
        self._apply_verdict(judge_subject(self._subject, shared.gateways))
        self.loop = loop or running()
        if self.options.tls == "require":
            registry.check_tls(url, self.options.tls)
        self.route = self._find_route() if self._variables else None
        if self.host.certfile is not None:
            # Report an unusable client certificate before any byte is sent.
            shared.trust.context(certfile=self.host.certfile)
        if shared.trust.has_personal and origin == "user" and self._subject.endpoint is not None:
            shared.trust.record_host(self.full_place)

    def _find_route(self) -> ProxyRoute | None:
        route = find_route(self.url, self._subject.endpoint, self._variables, self.shared.logins)
        via = None if route is None else route.via
        if via != self.options.via:
            self.options = replace(self.options, via=via)
        return route

    @property
    def place(self) -> tuple[str, int]:
        """Return the host and port of the URL.

        Raises:
            InvalidUrl: the URL has no host and port.
        """
        endpoint = self._subject.endpoint
        if endpoint is None:
            raise no_host_error(self.url)
        return endpoint.host, endpoint.port

    @property
    def needs_server(self) -> bool:
        """Return whether neither the URL nor the configuration names a server for the scheme."""
        row = self._subject.row
        return self._subject.endpoint is None and row is not None and row.server

    @property
    def full_place(self) -> tuple[str, str, int]:
        """Return scheme, host and port, the lookup key for the user's client certificates."""
        host, port = self.place
        return self.url.scheme, comparable_host(host), port

    @property
    def may_log_in_unasked(self) -> bool:
        """Return whether credentials may be sent before the server requests them (S06).

        Credentials are sent early only if the connections of the scheme use TLS from the first byte. See
        `may_send_early`.
        """
        row = self._subject.row
        tls = row is not None and row.tls == "always"
        # For a proxied request, "localhost" is the machine of the proxy.
        host = self.place[0] if self.route is None else ""
        return may_send_early(host, self.shared.policy, tls=tls)

    def check_addresses(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Return the IP addresses that the policy allows, as protection against SSRF (S08).

        Raises:
            Refused: the policy allows none of the addresses.
        """
        allowed, verdict = sift_addresses(self._subject, addresses)
        self._apply_verdict(verdict)
        return allowed

    def check_secret(self, peer: str, secured: bool, secrets: Sequence[bytes]) -> None:
        """Check whether a password may be sent on this connection (S06).

        On a connection to a proxy, the secret may be the password for the proxy. The secret may also be a
        password for the host: the proxy forwards such a password.

        Raises:
            Refused: the policy forbids sending the password.
        """
        via = self.options.via
        if via is not None and set(secrets) <= set(via.login.secrets):
            self.check_login(peer, secured, secrets)
            return
        for reached in (peer,) if via is None else (peer, self.place[0]):
            self._check_peer(reached, secured)

    def _check_peer(self, peer: str, secured: bool) -> None:
        origin = "user" if self._in_clear else self._subject.origin
        verdict = judge_credentials(self.url, peer, self.shared.policy, tls=secured, origin=origin)
        self._apply_verdict(verdict)
        self.reported_in_clear |= verdict.action == "warn"

    def check_login(self, peer: str, secured: bool, secrets: Sequence[bytes]) -> None:
        """Check whether the user name and password of a proxy may be sent (S06).

        The proxy login belongs to the user, even if the URL comes from a server.
        """
        hidden = secured or (self.route is not None and self.route.proxy.secured)
        self._apply_verdict(judge_credentials(self.url, peer, self.shared.policy, tls=hidden, origin="user"))

    def admit_derived(self, url: Url, peer: str | None) -> Admission:
        """Return the admission of a redirect target or a link that the server at `peer` sent.

        The origin of the new URL is "derived". Requests for the new URL do not contain the user's own headers
        and login (S11).
        """
        return Admission(
            self.shared,
            url,
            origin="derived",
            referrer=Referrer(self.url.shown, peer),
            server=None,
            options=replace(self.options, headers=(), login=None),  # S11
            outer=self,
            loop=self.loop,
        )

    def _apply_verdict(self, verdict: Verdict) -> None:
        if verdict is ALLOW:
            return
        error = verdict.error(self.url)
        if error is not None:
            error = error.at(self.shown)
            raise error.of_hop() if self._is_hop else error
        self.findings += [finding for finding in verdict.findings if finding not in self.findings]


def _find_host(url: Url, server: NewsServer | None, hosts: HostSettings) -> Host:
    place = find_endpoint(url, server)
    return NO_SETTINGS if place is None else hosts.find_host(place.host, place.port)
