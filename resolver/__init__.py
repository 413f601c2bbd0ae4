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
    from protocols.http.url import HttpUrl
    from protocols.location import Headers, HostUrl
    from protocols.mailto import MailtoUrl
    from protocols.news.url import NewsUrl, NntpUrl
    from protocols.options import Transcript
    from protocols.other import OtherUrl
    from protocols.prospero.url import ProsperoUrl
    from protocols.telnet import TelnetUrl
    from protocols.wais.url import WaisUrl
    from resolver import blocking
    from resolver.adapters.httpx_transport import HttpxTransport
    from resolver.network.events import (
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
    from resolver.policy import Policy, Verdict, check
    from resolver.policy.guard import guard
    from resolver.policy.hosts import Host
    from resolver.terminal.prompts import prompt
    from resolver.terminal.text import escape_controls
    from resolver.transfer.functions import entries, fetch, info, save, stream
    from resolver.transfer.many import SaveRequest
    from resolver.transfer.plan import Plan, explain
    from resolver.transfer.response import Outcome, Response, Saved, http_fields, http_status
    from resolver.transfer.session import Resolver
    from resolver.transfer.settings import NetworkSettings, RetryPolicy, Settings
    from resolver.transfer.streaming import StreamingResponse
    from resolver.transfer.terminal import TerminalSession
    from resolver.url.parsing import Extracted, build, convert_iri, extract, parse
    from resolver.url.registry import register, schemes

__version__: str

_HOMES: dict[str, str] = {
    "AccessDenied": "protocols.errors",
    "Changed": "protocols.errors",
    "ChecksumMismatch": "protocols.errors",
    "Closed": "resolver.network.events",
    "Connected": "resolver.network.events",
    "Credentials": "protocols.options",
    "Declined": "protocols.errors",
    "Disconnected": "protocols.errors",
    "Entry": "protocols.contract",
    "Event": "resolver.network.events",
    "Extracted": "resolver.url.parsing",
    "FileUrl": "protocols.file.url",
    "Finding": "protocols.contract",
    "Finished": "resolver.network.events",
    "FtpUrl": "protocols.ftp.url",
    "GopherUrl": "protocols.gopher.url",
    "Headers": "protocols.location",
    "Host": "resolver.policy.hosts",
    "HostUrl": "protocols.location",
    "HttpUrl": "protocols.http.url",
    "HttpxTransport": "resolver.adapters.httpx_transport",
    "IntegrityError": "protocols.errors",
    "InvalidUrl": "protocols.errors",
    "Kept": "resolver.network.events",
    "LookedUp": "resolver.network.events",
    "Kind": "protocols.contract",
    "LimitExceeded": "protocols.errors",
    "Limits": "protocols.contract",
    "LocalError": "protocols.errors",
    "LoginRequired": "protocols.errors",
    "MailtoUrl": "protocols.mailto",
    "NetworkError": "protocols.errors",
    "NetworkSettings": "resolver.transfer.settings",
    "NewsUrl": "protocols.news.url",
    "NntpUrl": "protocols.news.url",
    "NotConfigured": "protocols.errors",
    "NotFound": "protocols.errors",
    "Options": "protocols.options",
    "OtherUrl": "protocols.other",
    "Outcome": "resolver.transfer.response",
    "Plan": "resolver.transfer.plan",
    "Policy": "resolver.policy",
    "Progress": "resolver.network.events",
    "ProsperoUrl": "protocols.prospero.url",
    "ProtocolError": "protocols.errors",
    "Received": "resolver.network.events",
    "Referrer": "protocols.location",
    "Refused": "protocols.errors",
    "ResolveError": "protocols.errors",
    "Resolver": "resolver.transfer.session",
    "Response": "resolver.transfer.response",
    "RetryPolicy": "resolver.transfer.settings",
    "Retrying": "resolver.network.events",
    "SaveRequest": "resolver.transfer.many",
    "Saved": "resolver.transfer.response",
    "TlsBegun": "resolver.network.events",
    "Sent": "resolver.network.events",
    "Settings": "resolver.transfer.settings",
    "Started": "resolver.network.events",
    "StreamingResponse": "resolver.transfer.streaming",
    "TelnetUrl": "protocols.telnet",
    "TerminalSession": "resolver.transfer.terminal",
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
    "Warned": "resolver.network.events",
    "blocking": "resolver.blocking",
    "build": "resolver.url.parsing",
    "check": "resolver.policy",
    "convert_iri": "resolver.url.parsing",
    "entries": "resolver.transfer.functions",
    "escape_controls": "resolver.terminal.text",
    "explain": "resolver.transfer.plan",
    "extract": "resolver.url.parsing",
    "fetch": "resolver.transfer.functions",
    "guard": "resolver.policy.guard",
    "http_fields": "resolver.transfer.response",
    "http_status": "resolver.transfer.response",
    "info": "resolver.transfer.functions",
    "parse": "resolver.url.parsing",
    "prompt": "resolver.terminal.prompts",
    "register": "resolver.url.registry",
    "save": "resolver.transfer.functions",
    "schemes": "resolver.url.registry",
    "stream": "resolver.transfer.functions",
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
