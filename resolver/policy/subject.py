"""The input of the policy rules (a URL, its origin, referrer and endpoint), and the rules' verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from protocols.authority import comparable_host
from protocols.errors import InvalidUrl, Refused, ResolveError, UnsupportedScheme
from protocols.location import Action, Finding, Origin, Referrer, Url
from protocols.scheme import Scheme
from protocols.text import Masked
from resolver.policy.schemes import FREE, RULES, SchemeRules, find_rules
from resolver.policy.settings import Policy, format_names
from resolver.url import registry
from resolver.url.parsing import parse


class NewsServer(NamedTuple):
    """The user's own news server, for `news:` URLs without a server."""

    host: str
    port: int


_NO_VARIABLES: Mapping[str, str] = {}


class Endpoint(NamedTuple):
    """The host and port that a URL connects to. `is_own`: they are the user's, not in the URL."""

    host: str
    port: int
    default_port: int
    is_own: bool = False


class ReferringUrl(NamedTuple):
    """The URL that led to the checked URL.

    `scheme` is empty if the referrer is not a URL. `address` is the IP address that sent the referring
    document, or None if the address is unknown.
    """

    scheme: str
    endpoint: Endpoint | None
    address: str | None


class Subject:
    """A URL to check, with its context.

    Args:
        referrer: the URL that led to this URL, and the IP address it was fetched from.
        server: the user's news server, for `news:` URLs without a server.
        variables: the proxy variables of the environment.

    Attributes:
        row: the scheme definition, or None for an unknown scheme.
        rules: the permissions of the scheme.
        endpoint: the host and port, or None for a URL that connects to no host.
        address_origin: the origin for S08 (address scopes), which is "user" for the host in the user's
            settings.
        server_origin: the origin for S04 (ports) and S07 (look-alike names). It is also "user" for a link
            with the same scheme, host and port as the URL that contains the link.
    """

    def __init__(
        self,
        url: Url,
        policy: Policy,
        origin: Origin,
        referrer: Referrer | None = None,
        server: NewsServer | None = None,
        variables: Mapping[str, str] = _NO_VARIABLES,
    ) -> None:
        row = registry.find(url.scheme)
        self.url = url
        self.policy = policy
        self.origin: Origin = origin
        self.variables = variables
        self.row = row
        self.rules = RULES[url.scheme] if url.scheme in RULES else _plugin_rules(url.scheme, row)
        self.source = None if referrer is None else _parse_referrer(*referrer)
        self.endpoint = _endpoint_by(row, url, server)
        is_own = self.endpoint is not None and self.endpoint.is_own
        self.address_origin: Origin = "user" if is_own else origin
        is_user = origin == "user" or self.endpoint is None or is_own or self.is_same_server
        self.server_origin: Origin = "user" if is_user else origin

    @property
    def is_same_server(self) -> bool:
        """Return whether the URL has the same scheme, host and port as the referring URL.

        The links in a group of news://S are nntp://S/… URLs. The schemes news and nntp name the same server
        and protocol (RFC 1738 3.6, 3.7).
        """
        if self.source is None or self.endpoint is None:
            return False
        start, target = self.source.scheme, self.url.scheme
        is_same_protocol = start == target or target in find_rules(start).kin
        return is_same_protocol and is_same_endpoint(self.source.endpoint, self.endpoint)

    def find_start(self, component: str) -> int | None:
        """Return the index in the URL text of the start of a component."""
        place = self.url.place(component)
        return None if place is None else place.start


def _plugin_rules(scheme: str, row: Scheme | None) -> SchemeRules:
    """Return the rules of a plug-in's scheme.

    A plug-in cannot grant other permissions. A plug-in can only declare the components that are sent with a
    length prefix.
    """
    rules = find_rules(scheme, known=row is not None)
    return rules if row is None else rules._replace(components=dict.fromkeys(row.counted, FREE))


def find_endpoint(url: Url, server: NewsServer | None = None) -> Endpoint | None:
    """Return the host and port of the connection for `url`. `server` is for news URLs without a server.

    The default port comes from the scheme definition, because the URL object of a plug-in may contain a wrong
    default port.
    """
    return _endpoint_by(registry.find(url.scheme), url, server)


def _endpoint_by(row: Scheme | None, url: Url, server: NewsServer | None) -> Endpoint | None:
    default_port = None if row is None else row.default_port
    # The class of the URL is not checked, because some URLs have no host, and other classes than `HostUrl`
    # also have the attribute `host`.
    host: object = getattr(url, "host", None)
    if isinstance(host, str) and host:
        port: object = getattr(url, "effective_port", default_port)
        return Endpoint(host, port, default_port or 0) if isinstance(port, int) else None
    if server is not None and row is not None and row.server:
        return Endpoint(server.host, server.port, default_port or 0, is_own=True)
    return None


def host_key(url: Url) -> str:
    """Return a key for the host of a URL, which is equal for any scheme and port.

    For local files, the key is "". If the host of a scheme comes from a setting, all its URLs have the same
    key.
    """
    place = find_endpoint(url)
    if place is not None:
        return format_names(place.host, place.port)[1]
    return "" if find_rules(url.scheme).local else f"{url.scheme}:"


def no_host_error(url: Url) -> InvalidUrl:
    """Return the error for a URL without a host, or without a known port."""
    return InvalidUrl(
        "no-host", 0, f"no-host: this {url.scheme} URL has no host to connect to", url=url.shown
    )


@lru_cache(maxsize=64)
def _parse_referrer(text: str, address: str | None) -> ReferringUrl:
    """Parse the URL of a referrer; cached, because all entries of a listing have the same referrer."""
    try:
        url = parse(text, origin="user")  # the referrer was already fetched, so the origin is irrelevant
    except InvalidUrl:
        return ReferringUrl("", None, address)
    return ReferringUrl(url.scheme, find_endpoint(url), address)


def is_same_endpoint(first: Endpoint | None, second: Endpoint) -> bool:
    """Return whether both endpoints have the same host and port."""
    if first is None or first.port != second.port:
        return False
    return first.host == second.host or comparable_host(first.host) == comparable_host(second.host)


# A rule yields a `Decision` for each objection. If no user reads the warnings, each warning becomes a
# refusal. A `Verdict` contains the strictest action, and all decisions with this action. The message of a
# refusal contains the name of the rule. The command adds the option that would allow the URL.


class Decision(NamedTuple):
    """An objection of one rule.

    Attributes:
        flag: the command-line option that would allow the URL, or None if the rule has no override.
        position: the index of the cause in the text of the URL, or None if the cause has no single position.
    """

    rule: str
    action: Action
    detail: str
    flag: str | None = None
    position: int | None = None

    @property
    def text(self) -> str:
        """Return the objection of the rule; for a refusal, with the option that would allow the URL."""
        if self.action == "refuse" and self.flag is not None:
            return f"{self.detail}; {self.flag} would allow it"
        return self.detail

    def refusal(self, url: Masked | None = None) -> Refused:
        """Return the objection as an error with a redacted `url`."""
        message = f"{self.rule}: {self.detail}"
        return Refused(self.rule, message, flag=self.flag, position=self.position, url=url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The strictest action (allow, warn or refuse), with all decisions that have this action.

    The decisions are in the order of the rules. `invalid` is the error of the parser if the text is not a URL
    (S01).

    Examples:
        >>> verdict = resolver.check("http://h.example/", policy=resolver.Policy.untrusted())
        >>> verdict.action, verdict.findings
        ('allow', ())
    """

    action: Action = "allow"
    decisions: tuple[Decision, ...] = ()
    invalid: InvalidUrl | None = field(default=None, compare=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(Finding(decision.rule, decision.action, decision.text) for decision in self.decisions)

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the names of the rules that caused the decisions, each once."""
        return tuple(dict.fromkeys(decision.rule for decision in self.decisions))

    def error(self, url: Url | None = None) -> ResolveError | None:
        """Return the error that a retrieval of `url` raises, or None if the policy allows it.

        The first decision determines the class of the error: `InvalidUrl` (S01), `UnsupportedScheme` (S19) or
        `Refused` (other rules).
        """
        if self.action != "refuse":
            return None
        if self.invalid is not None:
            return self.invalid
        first, shown = self.decisions[0], None if url is None else url.shown
        if first.rule != "S19":
            return first.refusal(shown)
        error = UnsupportedScheme("" if url is None else url.scheme, f"S19: {first.detail}", url=shown)
        return error.with_setting(first.refusal().setting)


ALLOW = Verdict()
_SEVERITY: dict[Action, int] = {"allow": 0, "warn": 1, "refuse": 2}


def combine_decisions(decisions: Iterable[Decision]) -> Verdict:
    """Return the verdict of several decisions: the strictest action, with all decisions of this action."""
    all_decisions = tuple(decisions)
    if not all_decisions:
        return ALLOW
    action = max((decision.action for decision in all_decisions), key=_SEVERITY.__getitem__)
    return Verdict(
        action=action, decisions=tuple(decision for decision in all_decisions if decision.action == action)
    )


def escalate_warnings(decisions: Iterable[Decision], policy: Policy, origin: Origin) -> list[Decision]:
    """Return the decisions. If warnings are not allowed, each warning becomes a refusal.

    Warnings are not allowed if the policy refuses warnings. Warnings are also not allowed for the origin
    `derived`, because no user reads the warnings about a derived URL.
    """
    if origin == "derived" or policy.refuses_warnings:
        return [decision._replace(action="refuse") for decision in decisions]
    return list(decisions)


def refusal(rule: str, detail: str, *, flag: str | None = None) -> Refused:
    """Return the error for a file or connection that a rule forbids to open."""
    return Decision(rule, "refuse", detail, flag).refusal()
