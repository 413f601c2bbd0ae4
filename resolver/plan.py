"""What would be sent and what the policy says; nothing is sent.

The steps come from the scheme's own dialogue, driven with the answers of a willing server
(`conversation.rehearse`), so the plan is the dialogue. Neither trio nor httpx is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias, assert_never, cast

from protocols.errors import InvalidUrl, ResolveError
from protocols.location import Action, Finding, JsonValue, Origin, Referrer, Url
from protocols.options import Options
from protocols.scheme import Scheme
from protocols.step import (
    AskAgreed,
    AskCredentials,
    AskPeer,
    AwaitData,
    AwaitTurn,
    Borrow,
    CloseData,
    Connect,
    Dialogue,
    HandOver,
    Hear,
    Join,
    Keep,
    Note,
    OpenData,
    OpenFile,
    Say,
    StartTls,
    Step,
    TakeFloor,
    rehearse,
)
from resolver import registry
from resolver.gateways import through_gateway
from resolver.news_server import HOW_TO_SET, Setting, needs_server, server_of
from resolver.policy import Endpoint, Policy, Server, endpoint_of, judge
from resolver.records import finding_record, spelling_of
from resolver.url import parse, redact

PlanStep: TypeAlias = "dict[str, JsonValue]"


class Plan(NamedTuple):
    """A verdict and the steps that would follow from it: none when it is `refuse`.

    `error` is what a retrieval would raise, None where it would go ahead.
    """

    url: str
    scheme: str | None
    verdict: Action
    findings: tuple[Finding, ...]
    steps: tuple[PlanStep, ...]
    error: ResolveError | None

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "url": self.url,
            "scheme": self.scheme,
            "verdict": self.verdict,
            "findings": [finding_record(finding) for finding in self.findings],
            "steps": list(self.steps),
        }


def explain(
    url: str | Url,
    *,
    policy: Policy | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    gateways: Mapping[str, str] | None = None,
    news_server: str | None = None,
    strict: bool = False,
    options: Options | None = None,
) -> Plan:
    """The plan for a URL that is fetched by itself, with these options. `news_server` is where to ask for a
    news URL that names no server, and nothing is looked up to find one. Never raises for a URL: what is no
    URL has verdict `refuse` (S01)."""
    policy = Policy.default() if policy is None else policy
    try:
        parsed = parse(url, strict=strict) if isinstance(url, str) else url
    except InvalidUrl as error:
        refused = Finding("S01", "refuse", error.message)
        return Plan(redact(cast(str, url)), None, "refuse", (refused,), (), error)
    where = None if referrer is None else Referrer(*referrer)
    server = _server(parsed, news_server)
    verdict = judge(parsed, policy, origin=origin, referrer=where, gateways=gateways or {}, server=server)
    target = through_gateway(parsed, gateways or {}) or parsed
    return Plan(
        url=parsed.shown,
        scheme=parsed.scheme,
        verdict=verdict.action,
        findings=(*verdict.findings, *spelling_of(parsed)),
        steps=() if verdict.action == "refuse" else _steps(target, server, options or Options(), policy),
        error=verdict.error(parsed),
    )


def opens_anything(url: Url) -> bool:
    """Would a retrieval of this URL connect to, or open, anything at all? Some only point elsewhere."""
    return any(
        step["action"] in ("connect", "open") for step in _steps(url, None, Options(), Policy.default())
    )


def _server(url: Url, news_server: str | None) -> Server | None:
    if news_server is None or not needs_server(url):
        return None
    return server_of(Setting(news_server, "news_server"), url.scheme)


def _steps(url: Url, server: Server | None, options: Options, policy: Policy) -> tuple[PlanStep, ...]:
    scheme = registry.find(url.scheme)
    if scheme is None or scheme.dialogue is None:
        return ({"action": "note", "text": f"this build has no handler for {url.scheme} URLs yet"},)
    dialogue = cast(Dialogue[object], scheme.dialogue(url, _wishes(scheme, options, policy)))
    place = endpoint_of(url, server)
    steps = [_plan_step(step, place, scheme) for step in rehearse(dialogue)]
    if server is None and needs_server(url):
        steps.insert(0, {"action": "note", "text": f"no news server is named: {HOW_TO_SET}"})
    return tuple(step for step in steps if step is not None)


def _wishes(scheme: Scheme, options: Options, policy: Policy) -> Options:
    """As a retrieval has them: with what the policy tells of the person (S17), and what this installation
    can undo and speak. That is looked for only where http says it, for it takes time."""
    if policy.ftp_email is not None:
        options = replace(options, anonymous_password=policy.ftp_email.encode("ascii"))
    if scheme.name not in ("http", "https"):
        return options
    from resolver import codings, http2

    speaks = http2.installed() if scheme.tls else None
    return replace(options, codings=codings.installed(), http2=speaks)


def _plan_step(step: Step, place: Endpoint | None, scheme: Scheme) -> PlanStep | None:
    """None for a step that is the business of those who talk on one connection."""
    match step:
        case Connect(tls=tls) | Borrow(tls=tls) | Join(tls=tls):
            return _connect_step(place, scheme, None, tls)
        case OpenData(port=port, tls=tls):
            return _connect_step(place, scheme, port, tls)
        case TakeFloor() | AwaitTurn() | Keep():
            return None
        case Say(lines=lines):
            return {"action": "send", "octets": b"".join(line.shown for line in lines).decode("latin-1")}
        case Hear(what=what) | AwaitData(what=what) | HandOver(what=what):
            return {"action": "receive", "what": what}
        case OpenFile(path=path):
            return {"action": "open", "path": path}
        case Note(text=text) | AskPeer(text=text):
            return {"action": "note", "text": text}
        case AskAgreed():
            return {"action": "note", "text": "a peer that chooses HTTP/2 is asked the same in its frames"}
        case StartTls():
            return {"action": "note", "text": "TLS begins on this connection"}
        case CloseData():
            return {
                "action": "note",
                "text": "the data connection is closed before more is read from the first",
            }
        case AskCredentials(user=user):
            return {"action": "note", "text": _asking(user)}
    assert_never(step)


def _connect_step(place: Endpoint | None, scheme: Scheme, port: int | None, tls: bool) -> PlanStep:
    """To the place of the URL, there to `port` if it is not the URL's. Without a place, a news server is
    still to be named."""
    own = scheme.default_port if place is None else place.port
    return {
        "action": "connect",
        "host": None if place is None else place.host,
        "port": own if port is None else port,
        "tls": tls,
        "transport": scheme.transport or "tcp",
    }


def _asking(user: bytes | None) -> str:
    if user is None:
        return "a name and password set for this place would be sent"
    return "if no password is set for this name and place, the person is asked for it"
