"""Fetch what URLs locate: one parser, one safety policy, one result type for every scheme of RFC 1738.

    response = await resolver.fetch("gopher://gopher.example/0/about.txt")

Everything public is named here and imported on first use: parsing and explaining import neither trio
nor httpx.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in typing, whose import is most of the cost of a bare start
if TYPE_CHECKING:
    from protocols.contract import (
        Credentials,
        Entry,
        Finding,
        Kind,
        Limits,
        Options,
        Referrer,
        Url,
        Validators,
    )
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
    from protocols.file.url import FileUrl
    from protocols.ftp.url import FtpUrl
    from protocols.gopher.url import GopherUrl
    from protocols.headers import Headers
    from protocols.http.url import HttpUrl
    from protocols.location import HostUrl
    from protocols.mailto import MailtoUrl
    from protocols.news.url import NewsUrl, NntpUrl
    from protocols.options import Transcript
    from protocols.other import OtherUrl
    from protocols.prospero.url import ProsperoUrl
    from protocols.telnet import TelnetUrl
    from protocols.wais.url import WaisUrl
    from resolver import blocking
    from resolver.events import (
        Closed,
        Connected,
        Event,
        Finished,
        Kept,
        LookedUp,
        Progress,
        Received,
        Retrying,
        Sent,
        Started,
        TlsBegun,
        Warned,
    )
    from resolver.extraction import Extracted, extract
    from resolver.hosts import Host
    from resolver.http_transport import HttpxTransport
    from resolver.iri import convert_iri
    from resolver.once import entries, fetch, info, save, stream
    from resolver.plan import Plan, explain
    from resolver.policy import Policy, Verdict, check
    from resolver.policy.hosts import guard
    from resolver.prompts import prompt
    from resolver.registry import register, schemes
    from resolver.representation import http_fields, http_status
    from resolver.retrieval.many import SaveRequest
    from resolver.retrieval.outcome import Outcome
    from resolver.retrieval.response import Response, Saved
    from resolver.retrieval.retry import Patience, RetryPolicy
    from resolver.retrieval.session import Resolver
    from resolver.retrieval.streaming import LiveReply, StreamingResponse
    from resolver.retrieval.terminal_session import TerminalSession
    from resolver.settings import NetworkSettings, Settings
    from resolver.terminal import escape_controls
    from resolver.url import build, parse

__version__: str

_HOMES: dict[str, str] = {
    "AccessDenied": "protocols.errors",
    "Changed": "protocols.errors",
    "ChecksumMismatch": "protocols.errors",
    "Closed": "resolver.events",
    "Connected": "resolver.events",
    "Credentials": "protocols.options",
    "Declined": "protocols.errors",
    "Disconnected": "protocols.errors",
    "Entry": "protocols.contract",
    "Event": "resolver.events",
    "Extracted": "resolver.extraction",
    "FileUrl": "protocols.file.url",
    "Finding": "protocols.contract",
    "Finished": "resolver.events",
    "FtpUrl": "protocols.ftp.url",
    "GopherUrl": "protocols.gopher.url",
    "Headers": "protocols.headers",
    "Host": "resolver.hosts",
    "HostUrl": "protocols.location",
    "HttpUrl": "protocols.http.url",
    "HttpxTransport": "resolver.http_transport",
    "IntegrityError": "protocols.errors",
    "InvalidUrl": "protocols.errors",
    "Kept": "resolver.events",
    "LookedUp": "resolver.events",
    "Kind": "protocols.contract",
    "LimitExceeded": "protocols.errors",
    "Limits": "protocols.contract",
    "LiveReply": "resolver.retrieval.streaming",
    "LocalError": "protocols.errors",
    "LoginRequired": "protocols.errors",
    "MailtoUrl": "protocols.mailto",
    "NetworkError": "protocols.errors",
    "NetworkSettings": "resolver.settings",
    "NewsUrl": "protocols.news.url",
    "NntpUrl": "protocols.news.url",
    "NotConfigured": "protocols.errors",
    "NotFound": "protocols.errors",
    "Options": "protocols.options",
    "OtherUrl": "protocols.other",
    "Outcome": "resolver.retrieval.outcome",
    "Patience": "resolver.retrieval.retry",
    "Plan": "resolver.plan",
    "Policy": "resolver.policy",
    "Progress": "resolver.events",
    "ProsperoUrl": "protocols.prospero.url",
    "ProtocolError": "protocols.errors",
    "Received": "resolver.events",
    "Referrer": "protocols.location",
    "Refused": "protocols.errors",
    "ResolveError": "protocols.errors",
    "Resolver": "resolver.retrieval.session",
    "Response": "resolver.retrieval.response",
    "RetryPolicy": "resolver.retrieval.retry",
    "Retrying": "resolver.events",
    "SaveRequest": "resolver.retrieval.many",
    "Saved": "resolver.retrieval.response",
    "TlsBegun": "resolver.events",
    "Sent": "resolver.events",
    "Settings": "resolver.settings",
    "Started": "resolver.events",
    "StreamingResponse": "resolver.retrieval.streaming",
    "TelnetUrl": "protocols.telnet",
    "TerminalSession": "resolver.retrieval.terminal_session",
    "TimedOut": "protocols.errors",
    "TlsError": "protocols.errors",
    "Transcript": "protocols.options",
    "Truncated": "protocols.errors",
    "TryLater": "protocols.errors",
    "Unreachable": "protocols.errors",
    "UnsupportedScheme": "protocols.errors",
    "Url": "protocols.contract",
    "Validators": "protocols.contract",
    "Verdict": "resolver.policy",
    "WaisUrl": "protocols.wais.url",
    "Warned": "resolver.events",
    "blocking": "resolver.blocking",
    "build": "resolver.url",
    "check": "resolver.policy",
    "convert_iri": "resolver.iri",
    "entries": "resolver.once",
    "escape_controls": "resolver.terminal",
    "explain": "resolver.plan",
    "extract": "resolver.extraction",
    "fetch": "resolver.once",
    "guard": "resolver.policy.hosts",
    "http_fields": "resolver.representation",
    "http_status": "resolver.representation",
    "info": "resolver.once",
    "parse": "resolver.url",
    "prompt": "resolver.prompts",
    "register": "resolver.registry",
    "save": "resolver.once",
    "schemes": "resolver.registry",
    "stream": "resolver.once",
}

__all__ = [  # a test holds this, the table and the imports above to one another
    "AccessDenied",
    "Changed",
    "ChecksumMismatch",
    "Closed",
    "Connected",
    "Credentials",
    "Declined",
    "Disconnected",
    "Entry",
    "Event",
    "Extracted",
    "FileUrl",
    "Finding",
    "Finished",
    "FtpUrl",
    "GopherUrl",
    "Headers",
    "Host",
    "HostUrl",
    "HttpUrl",
    "HttpxTransport",
    "IntegrityError",
    "InvalidUrl",
    "Kept",
    "Kind",
    "LimitExceeded",
    "Limits",
    "LiveReply",
    "LocalError",
    "LoginRequired",
    "LookedUp",
    "MailtoUrl",
    "NetworkError",
    "NetworkSettings",
    "NewsUrl",
    "NntpUrl",
    "NotConfigured",
    "NotFound",
    "Options",
    "OtherUrl",
    "Outcome",
    "Patience",
    "Plan",
    "Policy",
    "Progress",
    "ProsperoUrl",
    "ProtocolError",
    "Received",
    "Referrer",
    "Refused",
    "ResolveError",
    "Resolver",
    "Response",
    "RetryPolicy",
    "Retrying",
    "SaveRequest",
    "Saved",
    "Sent",
    "Settings",
    "Started",
    "StreamingResponse",
    "TelnetUrl",
    "TerminalSession",
    "TimedOut",
    "TlsBegun",
    "TlsError",
    "Transcript",
    "Truncated",
    "TryLater",
    "Unreachable",
    "UnsupportedScheme",
    "Url",
    "Validators",
    "Verdict",
    "WaisUrl",
    "Warned",
    "blocking",
    "build",
    "check",
    "convert_iri",
    "entries",
    "escape_controls",
    "explain",
    "extract",
    "fetch",
    "guard",
    "http_fields",
    "http_status",
    "info",
    "parse",
    "prompt",
    "register",
    "save",
    "schemes",
    "stream",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from resolver.version import VERSION

        return VERSION
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(home)
    value: object = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
