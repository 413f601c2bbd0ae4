"""Fetch what URLs locate: one parser, one safety policy, one result type for every scheme of RFC 1738.

    response = await resolver.fetch("gopher://gopher.example/0/about.txt")

Everything public is named here and imported on first use: parsing and explaining import neither trio
nor httpx.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in typing, whose import is most of the cost of a bare start
if TYPE_CHECKING:
    from protocols.contract import Credentials, Entry, Finding, Kind, Limits, Options, Referrer, Url
    from protocols.errors import (
        AccessDenied,
        Changed,
        ChecksumMismatch,
        Declined,
        Disconnected,
        IntegrityError,
        InvalidUrl,
        LimitExceeded,
        LocalError,
        LoginRequired,
        NetworkError,
        NotConfigured,
        NotFound,
        ProtocolError,
        Refused,
        ResolveError,
        TimedOut,
        TlsError,
        Truncated,
        TryLater,
        Unreachable,
        UnsupportedScheme,
    )
    from resolver.events import Connected, Finished, Progress, Received, Retrying, Sent, Started, Warned
    from resolver.extraction import Extracted, extract
    from resolver.http_transport import HttpxTransport
    from resolver.iri import convert_iri
    from resolver.live import LiveReply
    from resolver.once import entries, fetch, info, save, stream
    from resolver.plan import Plan, explain
    from resolver.policy import Policy, Verdict, check
    from resolver.response import Response, Saved
    from resolver.session import Resolver
    from resolver.tries import Patience
    from resolver.url import build, parse

_HOMES: dict[str, str] = {
    "AccessDenied": "protocols.errors",
    "Changed": "protocols.errors",
    "ChecksumMismatch": "protocols.errors",
    "Connected": "resolver.events",
    "Credentials": "protocols.options",
    "Declined": "protocols.errors",
    "Disconnected": "protocols.errors",
    "Entry": "protocols.contract",
    "Extracted": "resolver.extraction",
    "Finding": "protocols.contract",
    "Finished": "resolver.events",
    "HttpxTransport": "resolver.http_transport",
    "IntegrityError": "protocols.errors",
    "InvalidUrl": "protocols.errors",
    "Kind": "protocols.contract",
    "LimitExceeded": "protocols.errors",
    "Limits": "protocols.contract",
    "LiveReply": "resolver.live",
    "LocalError": "protocols.errors",
    "LoginRequired": "protocols.errors",
    "NetworkError": "protocols.errors",
    "NotConfigured": "protocols.errors",
    "NotFound": "protocols.errors",
    "Options": "protocols.options",
    "Patience": "resolver.tries",
    "Plan": "resolver.plan",
    "Policy": "resolver.policy",
    "Progress": "resolver.events",
    "ProtocolError": "protocols.errors",
    "Received": "resolver.events",
    "Referrer": "protocols.location",
    "Refused": "protocols.errors",
    "ResolveError": "protocols.errors",
    "Resolver": "resolver.session",
    "Response": "resolver.response",
    "Retrying": "resolver.events",
    "Saved": "resolver.response",
    "Sent": "resolver.events",
    "Started": "resolver.events",
    "TimedOut": "protocols.errors",
    "TlsError": "protocols.errors",
    "Truncated": "protocols.errors",
    "TryLater": "protocols.errors",
    "Unreachable": "protocols.errors",
    "UnsupportedScheme": "protocols.errors",
    "Url": "protocols.contract",
    "Verdict": "resolver.policy",
    "Warned": "resolver.events",
    "build": "resolver.url",
    "check": "resolver.policy",
    "convert_iri": "resolver.iri",
    "entries": "resolver.once",
    "explain": "resolver.plan",
    "extract": "resolver.extraction",
    "fetch": "resolver.once",
    "info": "resolver.once",
    "parse": "resolver.url",
    "save": "resolver.once",
    "stream": "resolver.once",
}

__all__ = [  # a test holds this, the table and the imports above to one another
    "AccessDenied",
    "Changed",
    "ChecksumMismatch",
    "Connected",
    "Credentials",
    "Declined",
    "Disconnected",
    "Entry",
    "Extracted",
    "Finding",
    "Finished",
    "HttpxTransport",
    "IntegrityError",
    "InvalidUrl",
    "Kind",
    "LimitExceeded",
    "Limits",
    "LiveReply",
    "LocalError",
    "LoginRequired",
    "NetworkError",
    "NotConfigured",
    "NotFound",
    "Options",
    "Patience",
    "Plan",
    "Policy",
    "Progress",
    "ProtocolError",
    "Received",
    "Referrer",
    "Refused",
    "ResolveError",
    "Resolver",
    "Response",
    "Retrying",
    "Saved",
    "Sent",
    "Started",
    "TimedOut",
    "TlsError",
    "Truncated",
    "TryLater",
    "Unreachable",
    "UnsupportedScheme",
    "Url",
    "Verdict",
    "Warned",
    "build",
    "check",
    "convert_iri",
    "entries",
    "explain",
    "extract",
    "fetch",
    "info",
    "parse",
    "save",
    "stream",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
