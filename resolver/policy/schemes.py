"""The permissions of each scheme: one row each, a strictest row for all others, and gateways.

A scheme's own row (`protocols.scheme`) describes the protocol; this one describes what its URLs may do. An
unforeseen scheme, a plug-in's too, is refused too much and never too little. In `resolver` only the registry
and this module name schemes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from protocols.errors import InvalidUrl, UnsupportedScheme
from protocols.location import Action, Url
from resolver.url import registry
from resolver.url.parsing import parse, strip_user

#: The columns of S04's table: the scheme's own port, those of the two lists, others below 1024, and the rest.
PortKind: TypeAlias = Literal["own", "fetch", "service", "low", "other"]
PortRules: TypeAlias = Mapping[PortKind, Action]

LINE_END = frozenset(b"\0\n\r")
_FIELD_END = LINE_END | frozenset(b"\t")
_CONTROLS = frozenset([*range(0x20), 0x7F])
_NOT_GRAPHIC = frozenset(range(256)) - frozenset(range(0x21, 0x7F))
_NONE: frozenset[int] = frozenset()

_LONGEST_FTP = 4000  # servers answer 500, close, or fall silent above 4 KiB (ftp page, section 11)
_LONGEST_GOPHER = 4096  # a whole request (gopher-plus page, section 15)
_LONGEST_NEWS_LOGIN = 496  # 512 octets a command (RFC 3977 3.1) less `AUTHINFO USER ` and CR LF


class ComponentRule(NamedTuple):
    """S02 for one component: octets that are refused, octets that are warned of, and how many it may have."""

    refused: frozenset[int] = _NONE
    warned: frozenset[int] = _NONE
    longest: int | None = None


#: Of a component that no row names: it may be a word of a line, sent as it is or decoded first.
STRICTEST = ComponentRule(LINE_END, _CONTROLS)
#: Of one that is counted, or sent nowhere.
FREE = ComponentRule()

_WEB: PortRules = {"own": "allow", "fetch": "refuse", "service": "allow", "low": "warn", "other": "allow"}
_TEXT: PortRules = {"own": "allow", "fetch": "refuse", "service": "refuse", "low": "refuse", "other": "warn"}
_TERMINAL: PortRules = {"own": "allow", "fetch": "warn", "service": "warn", "low": "warn", "other": "warn"}


class SchemeRules(NamedTuple):
    """`components` are those of S02. `line` names the components that share one line of a request, and how
    long that may be; `form` the one that may hold a filled-in form (S03), `fields` the one whose parts become
    header fields of a mail. `ports` is the scheme's row in S04's table.

    `leads_to` are the schemes that a link from this one may lead to unasked, besides its own (S10);
    `followed`: may one of its URLs be followed unasked at all? `kin` are schemes of the same protocol: what
    leads to them stays in its place. `offers` are those that a listing of this scheme may offer to a person,
    besides its own (S20); None for any. `local`: it names files of this machine (S12). `session` opens for a
    person alone (S18); `host_is_data`: no program could ever get the host as a word of its command line.
    `logs_in`: every retrieval does, so a login for any host is meant for it (S11). `at_once` is how many
    retrievals of a batch one host has under way, unless somebody says more; None where it matters to no host.
    `at_once_of_many` is how many where `MANY` more of it wait.
    """

    components: Mapping[str, ComponentRule] = MappingProxyType({})
    line: tuple[tuple[str, ...], int] | None = None
    form: str | None = None
    fields: str | None = None
    ports: PortRules = _TEXT
    leads_to: frozenset[str] = frozenset()
    followed: bool = True
    kin: frozenset[str] = frozenset()
    offers: frozenset[str] | None = None
    local: bool = False
    session: bool = False
    host_is_data: bool = False
    logs_in: bool = False
    at_once: int | None = 2
    at_once_of_many: int | None = None


def _repeat_rule(names: Iterable[str], rule: ComponentRule) -> dict[str, ComponentRule]:
    return dict.fromkeys(names, rule)


_WEB_SCHEMES = frozenset({"http", "https"})
_FILE = SchemeRules(
    components=_repeat_rule(("user", "password", "host", "segments"), FREE),  # nothing of it is sent
    followed=False,
    local=True,
    host_is_data=True,
    at_once=None,
)
_FTP = SchemeRules(
    components=_repeat_rule(
        ("user", "password", "cwds", "name"), ComponentRule(LINE_END, _CONTROLS, _LONGEST_FTP)
    ),
    host_is_data=True,
    logs_in=True,
    at_once_of_many=4,  # each waits through some round trips for a file, and one is logged in for many
)
_GOPHER = SchemeRules(
    components={
        **_repeat_rule(("selector", "search"), ComponentRule(_FIELD_END, _CONTROLS)),
        "gopherplus": ComponentRule(warned=_CONTROLS - _FIELD_END),  # the rest of it is S03's
    },
    line=(("selector", "search", "gopherplus"), _LONGEST_GOPHER),
    form="gopherplus",
    offers=_WEB_SCHEMES | {"ftp", "gopher", "gophers", "news", "nntp", "wais", "telnet"},
    host_is_data=True,
)
_HTTP = SchemeRules(
    components={
        **_repeat_rule(("path", "search"), ComponentRule(_NOT_GRAPHIC)),
        # Basic splits at the first colon (RFC 7617).
        "user": ComponentRule(LINE_END | frozenset(b":"), _CONTROLS),
        "password": ComponentRule(LINE_END, _CONTROLS),
    },
    ports=_WEB,
    leads_to=_WEB_SCHEMES,
    host_is_data=True,
    at_once=6,  # as browsers have it
)
#: A draft has several lines: what stands in them is judged by `fields`.
_MAILTO = SchemeRules(components={"headers": FREE}, fields="headers", followed=False, host_is_data=True)
_NEWS = SchemeRules(
    components={
        # The grammar has no room for these either, but a URL need not have come from the parser.
        **_repeat_rule(("group", "message_id"), ComponentRule(_NOT_GRAPHIC | frozenset(b"<>"))),
        # Servers split at white space (news page, section 7).
        **_repeat_rule(
            ("user", "password"), ComponentRule(LINE_END, _CONTROLS | frozenset(b" "), _LONGEST_NEWS_LOGIN)
        ),
    },
    host_is_data=True,
)
_PROSPERO = SchemeRules(
    components=_repeat_rule(("hsoname", "fields"), ComponentRule(LINE_END, _CONTROLS)),
    leads_to=_WEB_SCHEMES | {"ftp", "gopher", "news", "nntp", "prospero", "wais"},
    host_is_data=True,
)
_TELNET = SchemeRules(
    components=_repeat_rule(("user", "password"), ComponentRule(warned=_CONTROLS)),
    ports=_TERMINAL,
    followed=False,
    session=True,
)
_WAIS = SchemeRules(
    components={
        "database": ComponentRule(frozenset(b"\0\x1f@"), longest=255),  # wais page, section 14, as below
        "search": ComponentRule(longest=4000),
        "wtype": ComponentRule(longest=64),
        "wpath": ComponentRule(longest=2048),
    },
    host_is_data=True,
)

#: From so many on that wait for a host, a further connection has several of them, and its login pays.
MANY = 16

RULES: Mapping[str, SchemeRules] = MappingProxyType(
    {
        "file": _FILE,
        "ftp": _FTP,
        "ftps": _FTP,
        "gopher": _GOPHER,
        "gophers": _GOPHER,
        "http": _HTTP,
        "https": _HTTP,
        "mailto": _MAILTO,
        "news": _NEWS._replace(kin=frozenset({"nntp"})),
        "nntp": _NEWS,
        "nntps": _NEWS,
        "prospero": _PROSPERO,
        "snews": _NEWS,
        "telnet": _TELNET,
        "telnets": _TELNET,
        "wais": _WAIS,
    }
)
_STRICTEST_ROW = SchemeRules()
#: Of a scheme that is nobody's: a gateway gets the URL as it is written (S19).
_UNKNOWN = SchemeRules(components={"schemepart": ComponentRule(_NOT_GRAPHIC)})


def rules_of(scheme: str, *, known: bool = True) -> SchemeRules:
    """The row of a scheme; for a `known` one, a plug-in's, that no row names the strictest."""
    return RULES.get(scheme, _STRICTEST_ROW if known else _UNKNOWN)


def is_followed(scheme: str) -> bool:
    """S10: may URLs of that scheme ever be followed without a person looking?"""
    return rules_of(scheme).followed


def at_once(scheme: str, waiting: int = 0, *, wanted: int | None = None) -> int | None:
    """How many retrievals of a batch one host has under way, for which so many more are `waiting`: as many as
    are `wanted`, else a polite few."""
    rules = rules_of(scheme)
    if rules.at_once is not None and wanted is not None:
        return wanted
    return rules.at_once if waiting < MANY or rules.at_once_of_many is None else rules.at_once_of_many


# Gateways: schemes without a handler, resolved through a gateway of the user's choosing (RFC 1738 section 4,
# S19). The URL goes to the gateway as encoded data, without user information and fragment; the result is an
# ordinary URL that passes every rule like any other.


def through_gateway(url: Url, gateways: Mapping[str, str]) -> Url | None:
    """The gateway's URL for `url`; None where its scheme has a handler or no gateway is configured.

    Raises `InvalidUrl` when the configured gateway is no URL.
    """
    gateway = gateways.get(url.scheme)
    scheme = registry.find(url.scheme)
    if gateway is None or (scheme is not None and registry.can_resolve(scheme)):
        return None
    return parse(gateway + quote(strip_user(url), safe=""))


def no_handler(url: Url) -> UnsupportedScheme:
    """What a retrieval comes to where there is a row for the scheme, and nothing behind it."""
    return UnsupportedScheme(url.scheme, f"this build has no handler for {url.scheme} URLs", url=url.shown)


def check_gateway(name: str, gateway: str) -> tuple[str, str]:
    """A scheme, folded as schemes are, and where its URLs go. Raises `ValueError` for what could not mean
    anything: no scheme, one with a handler of its own, or a gateway that is no URL."""
    scheme = name.lower()
    if re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) is None:
        raise ValueError(f"{name!r} is not the name of a scheme")
    row = registry.find(scheme)
    if row is not None and registry.can_resolve(row):
        raise ValueError(f"{scheme} URLs are resolved without a gateway")
    try:
        parse(f"{gateway}{scheme}")
    except InvalidUrl as error:
        raise ValueError(f"{scheme}: {gateway!r} does not begin a URL: {error.message}") from error
    return scheme, gateway
