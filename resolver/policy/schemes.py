"""The permissions of each scheme, the strictest permissions for other schemes, and gateways.

A scheme definition (`protocols.scheme`) describes the protocol of a scheme. A `SchemeRules` object in this
module contains the permissions of the scheme's URLs. The permissions for plug-in schemes and unknown schemes
are deliberately too strict. In the package `resolver`, only this module and the registry contain scheme
names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from protocols.errors import InvalidUrl, UnsupportedScheme
from protocols.location import Action, Url
from resolver.url import registry
from resolver.url.parsing import parse, strip_user

#: The columns of the table of S04: the scheme's own port, the ports of `FETCH`, the ports of `SERVICE`, other
#: ports below 1024, all other ports.
PortKind: TypeAlias = Literal["own", "fetch", "service", "low", "other"]
PortRules: TypeAlias = Mapping[PortKind, Action]

LINE_END = frozenset(b"\0\n\r")
_FIELD_END = LINE_END | frozenset(b"\t")
_CONTROLS = frozenset([*range(0x20), 0x7F])
_NOT_GRAPHIC = frozenset(range(256)) - frozenset(range(0x21, 0x7F))
_NONE: frozenset[int] = frozenset()

_MAX_FTP = 4000  # in bytes; for longer lines, servers send 500, close, or stop responding (ftp page 11)
_MAX_GOPHER = 4096  # length of a complete request (gopher-plus page, section 15)
_MAX_NEWS_LOGIN = 496  # 512 bytes per command (RFC 3977 3.1) minus `AUTHINFO USER ` and CR LF


class ComponentRule:
    """The S02 rule of a component: refused bytes, bytes that cause a warning, and the maximum length."""

    def __init__(
        self, refused: frozenset[int] = _NONE, warned: frozenset[int] = _NONE, max_length: int | None = None
    ) -> None:
        self.refused = refused
        self.warned = warned
        self.max_length = max_length
        self.harmless = bytes(frozenset(range(256)) - refused - warned)


#: The rule for a component that has no other rule. A component of this kind may become an argument of a
#: protocol command, either as written or percent-decoded.
STRICTEST = ComponentRule(LINE_END, _CONTROLS)
#: The rule for a component that is not sent, or is sent with a length prefix.
FREE = ComponentRule()

_WEB: PortRules = {"own": "allow", "fetch": "refuse", "service": "allow", "low": "warn", "other": "allow"}
_TEXT: PortRules = {"own": "allow", "fetch": "refuse", "service": "refuse", "low": "refuse", "other": "warn"}
_TERMINAL: PortRules = {"own": "allow", "fetch": "warn", "service": "warn", "low": "warn", "other": "warn"}


class SchemeRules(NamedTuple):
    """The permissions of one scheme.

    Attributes:
        components: the S02 rule of each component, by name.
        line: the components that form one line of a request, and the maximum length of the line.
        form: the component that may hold a filled-in form (S03).
        fields: the component whose elements become header fields of a mail.
        ports: the scheme's row in the table of S04 (ports).
        leads_to: other schemes that are permitted for redirects and links in a document of this scheme,
            without confirmation (S10).
        followed: whether URLs of the scheme may be followed without confirmation (S10).
        kin: other schemes of the same protocol, such as nntp for news. A link to a URL of these schemes may
            stay on the same server.
        offers: other schemes that the links of a listing may have (S20), or None for any scheme.
        local: whether URLs of the scheme name files of this machine (S12).
        session: whether a URL of the scheme opens an interactive session. Only the user may start a session
            (S18).
        host_is_data: whether the host can never become a command-line argument of a program (S18).
        logs_in: whether every retrieval logs in. If so, a configured login without a host applies too (S11).
        connections: the default number of concurrent retrievals per host in a batch, or None for no limit.
        many_connections: the default number if at least `MANY` further retrievals wait for the host.
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
    connections: int | None = 2
    many_connections: int | None = None


_WEB_SCHEMES = frozenset({"http", "https"})
_FILE = SchemeRules(
    components=dict.fromkeys(("user", "password", "host", "segments"), FREE),  # file URLs are not sent
    followed=False,
    local=True,
    host_is_data=True,
    connections=None,
)
_FTP = SchemeRules(
    components=dict.fromkeys(
        ("user", "password", "cwds", "name"), ComponentRule(LINE_END, _CONTROLS, _MAX_FTP)
    ),
    host_is_data=True,
    logs_in=True,
    # An FTP transfer takes several round trips, so several connections save time. One login serves many
    # files.
    many_connections=4,
)
_GOPHER = SchemeRules(
    components={
        **dict.fromkeys(("selector", "search"), ComponentRule(_FIELD_END, _CONTROLS)),
        "gopherplus": ComponentRule(warned=_CONTROLS - _FIELD_END),  # S03 checks the bytes in `_FIELD_END`
    },
    line=(("selector", "search", "gopherplus"), _MAX_GOPHER),
    form="gopherplus",
    offers=_WEB_SCHEMES | {"ftp", "gopher", "gophers", "news", "nntp", "wais", "telnet"},
    host_is_data=True,
)
_HTTP = SchemeRules(
    components={
        **dict.fromkeys(("path", "search"), ComponentRule(_NOT_GRAPHIC)),
        # Basic authentication splits user name and password at the first colon (RFC 7617).
        "user": ComponentRule(LINE_END | frozenset(b":"), _CONTROLS),
        "password": ComponentRule(LINE_END, _CONTROLS),
    },
    ports=_WEB,
    leads_to=_WEB_SCHEMES,
    host_is_data=True,
    connections=6,  # like browsers, which open at most 6 connections to a host
)
#: The text of a mail draft may have several lines, so line ends are permitted. `_judge_mail_headers` checks
#: the headers in `fields`.
_MAILTO = SchemeRules(components={"headers": FREE}, fields="headers", followed=False, host_is_data=True)
_NEWS = SchemeRules(
    components={
        # The URL grammar excludes these bytes too, but a caller may build a URL without the parser.
        **dict.fromkeys(("group", "message_id"), ComponentRule(_NOT_GRAPHIC | frozenset(b"<>"))),
        # Servers split the command at white space (news page, section 7).
        **dict.fromkeys(
            ("user", "password"), ComponentRule(LINE_END, _CONTROLS | frozenset(b" "), _MAX_NEWS_LOGIN)
        ),
    },
    host_is_data=True,
)
_PROSPERO = SchemeRules(
    components=dict.fromkeys(("hsoname", "fields"), ComponentRule(LINE_END, _CONTROLS)),
    leads_to=_WEB_SCHEMES | {"ftp", "gopher", "news", "nntp", "prospero", "wais"},
    host_is_data=True,
)
_TELNET = SchemeRules(
    components=dict.fromkeys(("user", "password"), ComponentRule(warned=_CONTROLS)),
    ports=_TERMINAL,
    followed=False,
    session=True,
)
_WAIS = SchemeRules(
    components={
        "database": ComponentRule(frozenset(b"\0\x1f@"), max_length=255),  # see the wais page, section 14
        "search": ComponentRule(max_length=4000),
        "wtype": ComponentRule(max_length=64),
        "wpath": ComponentRule(max_length=2048),
    },
    host_is_data=True,
)

#: The minimum number of waiting retrievals per host for which further connections are opened. With fewer
#: retrievals, the time for another login exceeds the time that a further connection saves.
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
#: The rule for an unknown scheme: the URL is sent to a gateway as written (S19).
_UNKNOWN = SchemeRules(components={"schemepart": ComponentRule(_NOT_GRAPHIC)})


def find_rules(scheme: str, *, known: bool = True) -> SchemeRules:
    """Return the permissions of a scheme: the strictest for a plug-in (`known`) without its own."""
    return RULES.get(scheme, _STRICTEST_ROW if known else _UNKNOWN)


def max_connections(scheme: str, waiting: int = 0, *, setting: int | None = None) -> int | None:
    """Return the maximum number of concurrent retrievals from one host in a batch.

    Args:
        scheme: the scheme of the URLs.
        waiting: the number of other retrievals that wait for the host.
        setting: the configured number, or None for the default of the scheme.
    """
    rules = find_rules(scheme)
    if rules.connections is not None and setting is not None:
        return setting
    return rules.connections if waiting < MANY or rules.many_connections is None else rules.many_connections


# Gateways (RFC 1738 section 4, S19). If a scheme has no handler, the user may configure a gateway, which
# resolves the URLs of the scheme. The URL is appended to the gateway's URL as percent-encoded text, without
# user information and fragment. All rules apply to the combined URL.


def through_gateway(url: Url, gateways: Mapping[str, str]) -> Url | None:
    """Return the combined URL of the gateway and `url`.

    Return None if the scheme of `url` has a handler, or if the scheme has no configured gateway.

    Raises:
        InvalidUrl: the combined text is not a URL.
    """
    gateway = gateways.get(url.scheme)
    scheme = registry.find(url.scheme)
    if gateway is None or (scheme is not None and registry.can_resolve(scheme)):
        return None
    from urllib.parse import quote  # lazy import: few runs have a gateway

    return parse(gateway + quote(strip_user(url), safe=""))


def no_handler(url: Url) -> UnsupportedScheme:
    """Return the error for a scheme that is defined but has no handler."""
    return UnsupportedScheme(url.scheme, f"no handler for {url.scheme} URLs is installed", url=url.shown)


def check_gateway(name: str, gateway: str) -> tuple[str, str]:
    """Check a gateway setting, and return the scheme in lower case and the gateway.

    Raises:
        ValueError: the name is not a scheme, the scheme has its own handler, or the gateway is not the start
            of a URL.
    """
    scheme = name.lower()
    if re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) is None:
        raise ValueError(f"{name!r} is not the name of a scheme")
    row = registry.find(scheme)
    if row is not None and registry.can_resolve(row):
        raise ValueError(f"{scheme} URLs do not need a gateway")
    try:
        parse(f"{gateway}{scheme}")
    except InvalidUrl as error:
        raise ValueError(f"{scheme}: {gateway!r} is not the start of a URL: {error.message}") from error
    return scheme, gateway
