"""Fetch resources by URL, with the same parser, policy and result type for all schemes of RFC 1738.

    response = await resolver.fetch("gopher://gopher.example/0/about.txt")

Each public name is imported on first use (lazy import), so parsing and `explain` import neither trio nor
httpx. Type checkers read the names in `__init__.pyi`. A test checks that both files have the same names.
"""

from __future__ import annotations

import importlib

__version__: str

#: The public names, by the module that defines them.
_NAMES_BY_MODULE = {
    "protocols.contract": "Entry Finding Kind Limits Url Validators",
    "protocols.errors": (
        "AccessDenied Changed ChecksumMismatch Declined Disconnected IntegrityError InvalidUrl "
        "LimitExceeded LocalError LoginRequired NetworkError NotConfigured NotFound ProtocolError Refused "
        "ResolveError TimedOut TlsError Truncated TryLater Unreachable UnsupportedScheme"
    ),
    "protocols.file.url": "FileUrl",
    "protocols.ftp.url": "FtpUrl",
    "protocols.gopher.url": "GopherUrl",
    "protocols.http.url": "HttpUrl",
    "protocols.location": "Headers HostUrl Referrer",
    "protocols.mailto": "MailtoUrl",
    "protocols.news.url": "NewsUrl NntpUrl",
    "protocols.options": "Credentials Options",
    "protocols.other": "OtherUrl",
    "protocols.prospero.url": "ProsperoUrl",
    "protocols.script": "Transcript",
    "protocols.telnet": "TelnetUrl",
    "protocols.wais.url": "WaisUrl",
    "resolver.adapters.httpx_transport": "HttpxTransport",
    "resolver.blocking": "blocking",
    "resolver.network.events": (
        "Closed Connected Event Finished Kept LookedUp Progress Received Retrying Sent Started TlsBegun "
        "Warned"
    ),
    "resolver.policy.judgment": "check guard",
    "resolver.policy.settings": "Host Policy",
    "resolver.policy.subject": "Verdict",
    "resolver.terminal.prompts": "prompt",
    "resolver.terminal.text": "escape_controls",
    "resolver.transfer.functions": "entries fetch info save stream",
    "resolver.transfer.many": "Outcome SaveRequest",
    "resolver.transfer.plan": "Plan explain",
    "resolver.transfer.response": "Response Saved http_fields http_status",
    "resolver.transfer.session": "Resolver",
    "resolver.transfer.settings": "NetworkSettings RetryPolicy Settings",
    "resolver.transfer.streaming": "StreamingResponse",
    "resolver.transfer.terminal": "TerminalSession",
    "resolver.url.extraction": "Extracted extract",
    "resolver.url.parsing": "build convert_iri parse",
    "resolver.url.registry": "register schemes",
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from resolver.version import VERSION

        return VERSION
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_MODULES[name])
    value: object = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
