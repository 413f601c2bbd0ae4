"""The subject of the rules, a URL with its origin, referrer and target; and the verdict on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from protocols.authority import comparable_host
from protocols.errors import InvalidUrl, Refused, ResolveError, UnsupportedScheme
from protocols.location import Action, Finding, Origin, Referrer, Url
from protocols.scheme import Scheme
from resolver.policy.schemes import FREE, RULES, SchemeRules, rules_of
from resolver.policy.settings import Policy, names_of
from resolver.url import registry
from resolver.url.parsing import parse


class NewsServer(NamedTuple):
    """A news server of the user's own, for `news:` URLs that name none."""

    host: str
    port: int


_NO_VARIABLES: Mapping[str, str] = {}


class Endpoint(NamedTuple):
    """Where a URL connects to. `ours` says that the user's settings name it and not the URL."""

    host: str
    port: int
    default_port: int
    ours: bool = False


class ReferringUrl(NamedTuple):
    """What is known of the URL that led here. `scheme` is empty when its text was no URL; `address`
    is the one it was fetched from, None if unknown."""

    scheme: str
    endpoint: Endpoint | None
    address: str | None


class Subject(NamedTuple):
    """One URL to judge. `row` says what its scheme is, None for one that nobody has, and `rules` what is
    allowed to it. `endpoint` is None for a URL that connects to nothing; `variables` are those of the
    environment that speak of proxies."""

    url: Url
    row: Scheme | None
    rules: SchemeRules
    policy: Policy
    origin: Origin
    source: ReferringUrl | None
    endpoint: Endpoint | None
    variables: Mapping[str, str]

    @property
    def origin_at_place(self) -> Origin:
        """The origin by which S04 and S07 judge: what a person accepted for a scheme, host and port
        holds for what lies in it, and a server of the user's own choice is the user's."""
        if self.origin == "user" or self.endpoint is None or self.endpoint.ours:
            return "user"
        return "user" if self.stays_in_place else self.origin

    @property
    def stays_in_place(self) -> bool:
        """Is this the scheme, host and port of the URL that led here? What a group of news://S lists is
        nntp://S/…: the same server by the same protocol (RFC 1738 3.6, 3.7)."""
        if self.source is None or self.endpoint is None:
            return False
        start, target = self.source.scheme, self.url.scheme
        alike = start == target or target in rules_of(start).kin
        return alike and _same_place(self.source.endpoint, self.endpoint)

    @property
    def origin_of_address(self) -> Origin:
        """The origin by which S08 judges."""
        return "user" if self.endpoint is not None and self.endpoint.ours else self.origin

    def start_of(self, component: str) -> int | None:
        """Where a component begins in the URL text."""
        place = self.url.place(component)
        return None if place is None else place.start


def subject_of(
    url: Url,
    policy: Policy,
    origin: Origin,
    referrer: Referrer | None,
    server: NewsServer | None = None,
    variables: Mapping[str, str] = _NO_VARIABLES,
) -> Subject:
    row = registry.find(url.scheme)
    rules = RULES.get(url.scheme) or _rules_of_others(url.scheme, row)
    source = None if referrer is None else _source_of(*referrer)
    endpoint = _endpoint_by(row, url, server)
    return Subject(url, row, rules, policy, origin, source, endpoint, variables)


def _rules_of_others(scheme: str, row: Scheme | None) -> SchemeRules:
    """A plug-in's scheme may say which of its components are counted, and no more."""
    rules = rules_of(scheme, known=row is not None)
    return rules if row is None else rules._replace(components=dict.fromkeys(row.counted, FREE))


def endpoint_of(url: Url, server: NewsServer | None = None) -> Endpoint | None:
    """Where `url` connects to; `server` is for news URLs without a server of their own. The scheme's port
    is that of its row: what a URL says of it, a plug-in may have got wrong."""
    return _endpoint_by(registry.find(url.scheme), url, server)


def _endpoint_by(row: Scheme | None, url: Url, server: NewsServer | None) -> Endpoint | None:
    own = None if row is None else row.default_port
    host: object = getattr(url, "host", None)  # not every Url has one, and not only a HostUrl has
    if isinstance(host, str) and host:
        port: object = getattr(url, "effective_port", own)
        return Endpoint(host, port, own or 0) if isinstance(port, int) else None
    if server is not None and row is not None and row.server:
        return Endpoint(server.host, server.port, own or 0, ours=True)
    return None


def host_key(url: Url) -> str:
    """What is the same for all URLs of one host, of whatever scheme and port; "" for files of this machine.
    Of those that name no host, where a setting does, what is the same for their scheme."""
    place = endpoint_of(url)
    if place is not None:
        return names_of(place.host, place.port)[1]
    return "" if rules_of(url.scheme).local else f"{url.scheme}:"


def no_place(url: Url) -> InvalidUrl:
    """What is wrong with a URL that was to be connected to: it names no host, or no port that is known."""
    return InvalidUrl(
        "no-host", 0, f"no-host: this {url.scheme} URL names no place to connect to", url=url.shown
    )


@lru_cache(maxsize=64)
def _source_of(text: str, address: str | None) -> ReferringUrl:
    """Cached: all entries of one listing have the same referrer."""
    try:
        url = parse(text, origin="user")  # it was fetched, whoever wrote it
    except InvalidUrl:
        return ReferringUrl("", None, address)
    return ReferringUrl(url.scheme, endpoint_of(url), address)


def _same_place(one: Endpoint | None, other: Endpoint) -> bool:
    if one is None or one.port != other.port:
        return False
    return comparable_host(one.host) == comparable_host(other.host)


# A rule gives a `Decision` for each objection. A warning is escalated to a refusal where no user would read
# it. A `Verdict` is the strictest of them, with every decision at that level. The text of a refusal names the
# rule and the flag that would allow it.


class Decision(NamedTuple):
    """One objection of one rule.

    `flag` is the option that would allow it, None where the rule is fixed; `position` the index in
    the URL text of what is objected to, None where no single place is to blame.
    """

    rule: str
    action: Action
    detail: str
    flag: str | None = None
    position: int | None = None

    @property
    def text(self) -> str:
        """The objection and, for a refusal that can be lifted, how."""
        if self.action == "refuse" and self.flag is not None:
            return f"{self.detail}; {self.flag} would allow it"
        return self.detail

    def refusal(self, url: str | None = None) -> Refused:
        """The error that it is; `url` is redacted."""
        message = f"{self.rule}: {self.text}"
        return Refused(self.rule, message, flag=self.flag, position=self.position, url=url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Allow, warn or refuse, and every ruling at that level in the order of the rules.

    `invalid` is the parser's error where the text was no URL at all (S01).

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
        """The names of the rules that fired, each once."""
        return tuple(dict.fromkeys(decision.rule for decision in self.decisions))

    def error(self, url: Url | None = None) -> ResolveError | None:
        """What a retrieval of `url` raises because of this verdict: None unless it is a refusal.

        The first rule in the order of judgement decides between `InvalidUrl` (S01),
        `UnsupportedScheme` (S19) and `Refused`.
        """
        if self.action != "refuse":
            return None
        if self.invalid is not None:
            return self.invalid
        first, shown = self.decisions[0], None if url is None else url.shown
        if first.rule != "S19":
            return first.refusal(shown)
        return UnsupportedScheme("" if url is None else url.scheme, f"S19: {first.text}", url=shown)


ALLOW = Verdict()
_SEVERITY: dict[Action, int] = {"allow": 0, "warn": 1, "refuse": 2}


def combine_decisions(decisions: Iterable[Decision]) -> Verdict:
    """The verdict these rulings come to: the strictest wins, and all of that level are kept."""
    found = tuple(decisions)
    if not found:
        return ALLOW
    action = max((decision.action for decision in found), key=_SEVERITY.__getitem__)
    return Verdict(
        action=action, decisions=tuple(decision for decision in found if decision.action == action)
    )


def escalate_warnings(decisions: Iterable[Decision], policy: Policy, origin: Origin) -> list[Decision]:
    """The rulings with every warning a refusal where nobody is there to read it (`derived`), or
    where the policy says so."""
    if origin == "derived" or policy.refuses_warnings:
        return [decision._replace(action="refuse") for decision in decisions]
    return list(decisions)


def refusal(rule: str, detail: str, *, flag: str | None = None) -> Refused:
    """The policy's no where only who opens something can see the reason."""
    return Decision(rule=rule, action="refuse", detail=detail, flag=flag).refusal()
