"""The plan of a retrieval (dry run): the verdict of the policy, and the data that would be sent.

The plan uses the same protocol implementation as a real retrieval, with the expected replies of a server
(`protocols.conversation.rehearsal`). Nothing is sent. This module imports neither trio nor httpx.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, assert_never, cast

from protocols.contract import Line
from protocols.conversation.rehearsal import rehearse, rehearse_steps
from protocols.errors import InvalidUrl, NotConfigured, Refused, ResolveError, UnsupportedScheme
from protocols.location import Action, Finding, JsonValue, Origin, Referrer, Url
from protocols.options import Limits, Options
from protocols.scheme import Scheme
from protocols.step import (
    Acquire,
    AwaitData,
    CloseData,
    Connect,
    CopyBody,
    Dialogue,
    EmitBody,
    EndResponse,
    ExchangeDatagrams,
    JoinPipeline,
    OpenData,
    OpenDatagrams,
    OpenFile,
    ParseBuffered,
    Peek,
    PlanNote,
    RandomBytes,
    ReadNames,
    Receive,
    ReleaseToPool,
    RequestAgreed,
    RequestCredentials,
    RequestEnd,
    RequestPeer,
    Send,
    SendBody,
    StartBody,
    StartPacking,
    StartRequest,
    StartResponse,
    StartTimer,
    StartTls,
    Step,
)
from protocols.text import Masked, brief, quote_text
from protocols.wire import Rest
from resolver.policy.addresses import literal_addresses
from resolver.policy.environment import SERVER_HELP, NewsServerSetting, needs_server, parse_server
from resolver.policy.judgment import judge
from resolver.policy.proxies import proxy_variables, variables_at
from resolver.policy.schemes import no_handler, through_gateway
from resolver.policy.settings import HostSettings, Policy
from resolver.policy.subject import Endpoint, NewsServer, find_endpoint, no_host_error
from resolver.policy.tunnels import ProxyLogins, ProxyRoute, find_route
from resolver.transfer import extras
from resolver.url import registry
from resolver.url.parsing import make_url, redact

if TYPE_CHECKING:
    from resolver.policy.settings import Host

PlanStep: TypeAlias = "dict[str, JsonValue]"

#: The note for the start of TLS on an open connection (STARTTLS) in a plan.
TLS_BEGINS = "TLS begins on this connection"
#: A note in a plan. The note stands between the end of a data connection and the next reply on the control
#: connection.
DATA_CLOSED = "the data connection is closed before more is read from the first"


class Plan(NamedTuple):
    """The policy's verdict on a URL, and the steps of its retrieval. A refused URL has no steps.

    `error` is the error that the retrieval raises even if all servers accept its requests. It is `None`
    without such an error. `proxy` is the URL of the proxy that the retrieval would use, without user name and
    password.

    Examples:
        >>> resolver.explain("http://h.example:25/").verdict
        'refuse'
    """

    url: Masked
    scheme: str | None
    verdict: Action
    findings: tuple[Finding, ...]
    steps: tuple[PlanStep, ...]
    error: ResolveError | None
    proxy: Masked | None = None

    def __repr__(self) -> str:
        return brief(self, self.verdict, f"{len(self.steps)} steps", quote_text(self.url))

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "url": self.url,
            "scheme": self.scheme,
            "verdict": self.verdict,
            "findings": [finding.as_json() for finding in self.findings],
            "proxy": self.proxy,
            "steps": list(self.steps),
        }


def explain(
    url: str | Url,
    *,
    policy: Policy | str | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    gateways: Mapping[str, str] | None = None,
    news_server: str | None = None,
    strict: bool = False,
    options: Options | None = None,
    environment: Mapping[str, str] | None = None,
    proxy: str | None = None,
    hosts: Mapping[str, Host] | None = None,
) -> Plan:
    """Return the plan for the retrieval of a URL.

    The function never raises an exception for an invalid URL: the verdict of its plan is `refuse` (S01).

    Args:
        url: the URL to explain.
        policy: the policy or its name.
        origin: how the URL was chosen.
        referrer: the URL and IP address of the document that contained the URL.
        gateways: the URLs of the gateways, by scheme.
        news_server: the server for a news URL without a host. The function makes no DNS lookup for the
            server.
        strict: accept only URLs that conform to RFC 1738.
        options: the options of the retrieval.
        environment: the environment variables for proxies (S09), empty by default. Pass `os.environ` to use
            the environment of the process.
        proxy: the URL of the proxy for all schemes, or `none`.
        hosts: the settings by host, which may include a proxy.

    Examples:
        >>> plan = resolver.explain("gopher://h.example/0about")
        >>> [step["action"] for step in plan.steps if step["action"] != "note"]
        ['connect', 'send', 'receive']
    """
    policy = Policy.default() if policy is None else Policy.of(policy)
    try:
        parsed = make_url(url, strict=strict, origin=origin)
    except InvalidUrl as error:
        refused = Finding("S01", "refuse", error.message)
        return Plan(redact(cast(str, url)), None, "refuse", (refused,), (), error)
    where = None if referrer is None else Referrer(*referrer)
    server = _server(parsed, news_server)
    target = through_gateway(parsed, gateways or {}) or parsed
    env = proxy_variables(environment or {}, proxy)
    variables, on_target = (_variables_at(find_endpoint(at, server), env, hosts) for at in (parsed, target))
    verdict = judge(
        parsed,
        policy,
        origin=origin,
        referrer=where,
        gateways=gateways or {},
        server=server,
        variables=variables,
    )
    findings = (*verdict.findings, *parsed.spelling)
    plan = Plan(parsed.shown, parsed.scheme, verdict.action, findings, (), verdict.error(parsed))
    if plan.error is not None:
        return plan
    try:
        way = find_route(target, find_endpoint(target, server), on_target, ProxyLogins())
    except (NotConfigured, UnsupportedScheme) as error:
        return plan._replace(error=error.at(parsed.shown))
    plan = plan._replace(proxy=None if way is None else way.proxy.shown)
    steps, failure = _steps(target, server, options or Options(), policy, way)
    if isinstance(failure, (InvalidUrl, Refused, UnsupportedScheme)):
        rule = "S01" if isinstance(failure, InvalidUrl) else failure.rule
        objection = Finding(rule, "refuse", failure.message)
        return plan._replace(verdict="refuse", findings=(objection, *findings), error=failure)
    return plan._replace(steps=steps, error=failure)


def _variables_at(
    place: Endpoint | None, proxies: Mapping[str, str], hosts: Mapping[str, Host] | None
) -> Mapping[str, str]:
    if not hosts or place is None:
        return proxies
    return variables_at(proxies, HostSettings(hosts).find_host(place.host, place.port).proxy)


def opens_anything(url: Url) -> bool:
    """Return whether a retrieval of this URL would open a connection or a file."""
    steps, _ = _steps(url, None, Options(), Policy.default(), None)
    return any(step["action"] in ("connect", "open") for step in steps)


def _server(url: Url, news_server: str | None) -> NewsServer | None:
    if news_server is None or not needs_server(url):
        return None
    return parse_server(NewsServerSetting(news_server, "news_server"), url.scheme)


def _steps(
    url: Url, server: NewsServer | None, options: Options, policy: Policy, way: ProxyRoute | None
) -> tuple[tuple[PlanStep, ...], ResolveError | None]:
    """Return the steps of a retrieval for an allowed URL, and the error that would end it or None."""
    scheme = registry.find(url.scheme)
    if scheme is None or not registry.can_resolve(scheme):
        return (), no_handler(url)
    try:
        registry.check_tls(url, options.tls)
    except NotConfigured as error:
        return (), error
    place = find_endpoint(url, server)
    options = replace(_options_for(scheme, options, policy), via=None if way is None else way.via)
    begun = registry.converse(scheme, url, options, Limits())
    dialogue = cast(Dialogue[object], begun)
    played, failure = rehearse_steps(dialogue)
    steps = [shown for step in played for shown in _plan_steps(step, place, scheme, way)]
    if server is None and needs_server(url):
        steps.insert(0, _note(f"no news server is named: {SERVER_HELP}"))
    elif place is None and any(
        isinstance(step, (Connect, Acquire, JoinPipeline, OpenDatagrams)) for step in played
    ):
        failure = no_host_error(url)
    if failure is not None and failure.url is None:
        failure = failure.at(url.shown)
    return tuple(steps), failure


def _options_for(scheme: Scheme, options: Options, policy: Policy) -> Options:
    """Return the options with the additions that every retrieval makes.

    The additions are the user data that the policy allows to disclose (S17), the installed content codings,
    and HTTP/2 support. Content codings and HTTP/2 are added only for schemes that negotiate them, because the
    search for installed packages is slow.
    """
    if policy.ftp_email is not None:
        options = replace(options, anonymous_password=policy.ftp_email.encode("ascii"))
    if not scheme.negotiates:
        return options
    speaks = extras.find_frames() if scheme.tls == "always" else None
    return replace(options, codings=extras.find_codings, http2=speaks)


def _plan_steps(step: Step, place: Endpoint | None, scheme: Scheme, way: ProxyRoute | None) -> list[PlanStep]:
    """Convert a protocol step to plan steps: usually one plan step or none.

    A datagram exchange becomes one plan step per packet. A connection through a proxy gets additional plan
    steps for the messages to the proxy.
    """
    if way is not None and place is not None:
        if isinstance(step, (Connect, Acquire, JoinPipeline)):
            return _steps_through(way, place, scheme, place.port, step.tls)
        if isinstance(step, OpenData):
            return _steps_through(way, place, scheme, step.port, step.tls)
    sent = (
        [_send_step((packet,)) for packet in step.exchange.packets]
        if isinstance(step, ExchangeDatagrams)
        else []
    )
    shown = _plan_step(step, place, scheme)
    return sent if shown is None else [*sent, shown]


def _plan_step(step: Step, place: Endpoint | None, scheme: Scheme) -> PlanStep | None:
    """Convert a protocol step to a plan step, or None if it only affects the connection pool."""
    match step:
        case Connect(tls=tls) | Acquire(tls=tls) | JoinPipeline(tls=tls):
            return _connect_step(place, scheme, None, tls)
        case OpenData(port=port, tls=tls):
            return _connect_step(place, scheme, port, tls)
        case OpenDatagrams():
            return _connect_step(place, scheme, None, False)
        case StartRequest() | StartResponse() | EndResponse() | ReleaseToPool() | RequestEnd():
            return None
        case Peek() | ParseBuffered() | ReadNames() | Rest() | RandomBytes() | StartTimer():
            return None
        case StartBody(note=note):
            return None if note is None else _note(note)
        case EmitBody(what=what):
            return None if what is None else {"action": "receive", "what": what}
        case Send(lines=lines) | SendBody(lines=lines):
            return _send_step(lines)
        case Receive(what=what) | AwaitData(what=what) | ExchangeDatagrams(what=what) | CopyBody(what=what):
            return {"action": "receive", "what": what}
        case OpenFile(path=path):
            return {"action": "open", "path": path}
        case PlanNote(text=text) | RequestPeer(text=text):
            return _note(text)
        case RequestAgreed():
            return _note("if the server chooses HTTP/2, the same request is sent in its frames")
        case StartTls():
            return _note(TLS_BEGINS)
        case StartPacking():
            return _note("compression starts in both directions; data after this is shown uncompressed")
        case CloseData():
            return _note(DATA_CLOSED)
        case RequestCredentials(user=user):
            return _note(_describe_request(user))
    assert_never(step)


def _steps_through(way: ProxyRoute, place: Endpoint, scheme: Scheme, port: int, tls: bool) -> list[PlanStep]:
    """Return the plan steps for a tunnel through the proxy."""
    proxy = way.proxy
    steps: list[PlanStep] = [_make_connect_step(proxy.host, proxy.port, proxy.secured, "tcp")]
    if proxy.resolves:
        steps.append(_note("the proxy looks up the addresses of the host"))
    if way.via is not None:
        return steps
    host = place.host
    if not proxy.resolves and literal_addresses(host) is None:
        host = "0.0.0.0"
        steps.append(_note(f"{place.host} is looked up locally; {host} stands for its address"))
    for step in rehearse(way.open_tunnel(host, port)):
        steps += _plan_steps(step, place, scheme, None)
    return [*steps, *_plan_steps(StartTls(), place, scheme, None)] if tls else steps


def _note(text: str) -> PlanStep:
    return {"action": "note", "text": text}


def _send_step(lines: tuple[Line, ...]) -> PlanStep:
    return {"action": "send", "octets": b"".join(line.shown for line in lines).decode("latin-1")}


def _connect_step(place: Endpoint | None, scheme: Scheme, port: int | None, tls: bool) -> PlanStep:
    """Return the plan step for the connection to the URL's host.

    `port` is the port number, or None for the port of the URL. A missing `place` means that the news server
    is unknown.
    """
    default = scheme.default_port if place is None else place.port
    host = None if place is None else place.host
    return _make_connect_step(host, default if port is None else port, tls, scheme.transport or "tcp")


def _make_connect_step(host: str | None, port: int | None, tls: bool, transport: str) -> PlanStep:
    return {"action": "connect", "host": host, "port": port, "tls": tls, "transport": transport}


def _describe_request(user: bytes | None) -> str:
    if user is None:
        return "a user and password configured for this host would be sent"
    return "unless a password is configured for this user and host, a prompt asks for it"
