"""The registry of schemes: a table of built-in schemes, and the schemes of plug-ins.

Each built-in scheme has one row in the table; its modules are imported on first use. Third-party packages add
schemes through the entry-point group `resolver.schemes`. The entry points are read only for a scheme name
that is not in the table of built-in schemes. A plug-in can therefore add a scheme, but cannot replace a
built-in scheme. A program may call `register` to add a scheme to its own process, but cannot replace a
scheme. Text from a URL is never used as a module name.

If the extra of a scheme is not installed, the registry still contains the scheme. A request for a URL of this
scheme raises an error with the message of `explain_missing`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from protocols.errors import NotConfigured, missing_libraries
from protocols.scheme import Dialogue, Extra, Scheme

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from protocols.location import Url
    from protocols.options import Limits, Options

SCHEMES: dict[str, str] = {
    "file": "protocols.file:FILE",
    "ftp": "protocols.ftp:FTP",
    "ftps": "protocols.ftp:FTPS",
    "gopher": "protocols.gopher:GOPHER",
    "gophers": "protocols.gopher:GOPHERS",
    "http": "protocols.http:HTTP",
    "https": "protocols.http:HTTPS",
    "mailto": "protocols.mailto:MAILTO",
    "news": "protocols.news:NEWS",
    "nntp": "protocols.news:NNTP",
    "nntps": "protocols.news:NNTPS",
    "prospero": "protocols.prospero:PROSPERO",
    "snews": "protocols.news:SNEWS",
    "telnet": "protocols.telnet:TELNET",
    "telnets": "protocols.telnet:TELNETS",
    "wais": "protocols.wais:WAIS",
}

#: The scheme names that RFC 1738 section 4 reserves, with their intended use.
RESERVED: dict[str, str] = {
    "afs": "Andrew File System global file names",
    "cid": "Content identifiers for MIME body parts",
    "mailserver": "Access to data available from mail servers",
    "mid": "Message identifiers for electronic mail",
    "nfs": "Network File System file names",
    "tn3270": "Interactive 3270 emulation sessions",
    "z39.50": "Z39.50 services",
}


#: Matches the valid scheme names, in lower case. The URL parser never finds any other name before a colon.
_NAME = r"(?!url$)[a-z][a-z0-9+.-]{0,63}"

_registered: dict[str, Scheme] = {}


def register(scheme: Scheme) -> None:
    """Add a scheme to this process.

    URLs of the scheme are then parsed, checked, explained and fetched like the URLs of a plug-in. The same
    definition may be registered again.

    Args:
        scheme: the scheme definition, with name, parser, protocol exchange, default port and capabilities.

    Raises:
        ValueError: another definition of this scheme exists, or the name is not valid in a URL.

    Examples:
        >>> from protocols.gopher import GOPHER
        >>> resolver.register(GOPHER)
        >>> resolver.register(GOPHER._replace(default_port=71))
        Traceback (most recent call last):
        ValueError: scheme 'gopher' already exists and cannot be replaced
    """
    if re.fullmatch(_NAME, scheme.name) is None:
        raise ValueError(f"{scheme.name!r} is not a lower-case scheme name")
    existing = find(scheme.name)
    if existing is None and explain_missing(scheme.name) is None:
        _registered[scheme.name] = scheme
    elif existing != scheme:
        raise ValueError(f"scheme {scheme.name!r} already exists and cannot be replaced")


#: The most likely scheme for a text without a scheme. The scheme is only suggested to the user, and no
#: request is sent.
LIKELY_SCHEMES: dict[str, str] = {"host": "http", "path": "file", "mailbox": "mailto"}

#: The schemes that are often the first label of a host name (`ftp.example.org`).
LABELS = frozenset({"ftp", "gopher"})


def find(name: str) -> Scheme | None:
    """Return the scheme for a name in lower case, or None if the scheme is unknown.

    The scheme may be built in, registered by the program, or defined by a plug-in.
    """
    if name in SCHEMES:
        scheme: Scheme = load(SCHEMES[name])
        return scheme
    if name in _registered:
        return _registered[name]
    plugin = _find_plugin(name)
    return plugin if isinstance(plugin, Scheme) else None


def explain_missing(name: str) -> str | None:
    """Return a message with the missing requirement of a scheme, and the command for the installation.

    Return None if the scheme is unknown, or if its requirements are installed.
    """
    scheme = find(name)
    if scheme is None:
        plugin = _find_plugin(name)
        return plugin if isinstance(plugin, str) else None
    if scheme.needs is None or is_installed(*scheme.needs.modules):
        return None
    return _explain_extra(name, scheme.needs)


def can_resolve(scheme: Scheme) -> bool:
    """Return whether the scheme has a protocol exchange, and its requirements are installed."""
    return scheme.converse is not None and (scheme.needs is None or is_installed(*scheme.needs.modules))


def schemes(*, web: bool = True) -> tuple[str, ...]:
    """Return the names of all schemes that can be resolved, including registered schemes.

    The function never raises.

    Args:
        web: whether to include http and https, which other HTTP clients also support.

    Examples:
        >>> sorted(set(resolver.schemes()) - set(resolver.schemes(web=False)))
        ['http', 'https']
    """
    rows = (*map(find, SCHEMES), *_registered.values())
    return tuple(row.name for row in rows if row and can_resolve(row) and (web or not is_web(row.name)))


def is_web(name: str) -> bool:
    """Return whether the scheme is http or https."""
    return SCHEMES.get(name, "").partition(":")[0] == SCHEMES[LIKELY_SCHEMES["host"]].partition(":")[0]


def check_tls(url: Url, setting: str | None) -> None:
    """Check that the URL's scheme can use TLS, if the caller requires TLS (`--tls require`).

    The check succeeds if the scheme supports implicit TLS (TLS from the first byte) or STARTTLS. The check
    also succeeds if the scheme does not open connections. A scheme definition without information about TLS
    counts as clear text.

    Raises:
        NotConfigured: the scheme supports only clear text.
    """
    row = find(url.scheme) if setting == "require" else None
    if row is not None and row.transport is not None and row.tls == "never":
        words = f"TLS is required, and {url.scheme} URLs do not support TLS"
        raise NotConfigured(words, url=url.shown).with_setting("tls")


def converse(scheme: Scheme, url: Url, options: Options, limits: Limits) -> Dialogue:
    """Return the protocol exchange of a retrieval, not started yet."""
    assert scheme.converse is not None
    begin: Callable[[Url, Options, Limits], Dialogue] = load(scheme.converse)
    return begin(url, options, limits)


@cache
def load(place: str) -> Any:
    """Return the object at `module:name`, imported on first use.

    Callers use this function for modules in a higher layer of the architecture, and for objects that are
    rarely needed. The cache has at most one entry for each object in the scheme definitions.
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def is_installed(*modules: str) -> bool:
    """Return whether the modules of an extra can be imported."""
    from importlib.util import find_spec  # lazy import: few plans need to know about an extra

    return all(find_spec(module) is not None for module in modules)


def _explain_extra(name: str, extra: Extra) -> str:
    return f"{name} URLs need {missing_libraries(extra.name, extra.distribution)}"


def _find_plugin(name: str) -> Scheme | str | None:
    return _load_plugin(name) if name in _points() else None


@cache
def _points() -> Mapping[str, Sequence[EntryPoint]]:
    """Return the plug-ins by scheme name, read only once to make lookups of unknown names fast."""
    # lazy import, only for a name that is not in the table: the import takes 40 ms
    from importlib.metadata import entry_points

    points = entry_points(group="resolver.schemes")
    return {point.name: tuple(points.select(name=point.name)) for point in points}


@cache
def _load_plugin(name: str) -> Scheme | str | None:
    """Return the scheme of a plug-in.

    If the plug-in cannot be imported, the result is a message that names the missing requirement. If no
    plug-in defines the scheme, the result is `None`.
    """
    problem: str | None = None
    for point in _points()[name]:
        try:
            scheme = point.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the module may run any code
            problem = problem or _explain_import(point, error)
            continue
        if isinstance(scheme, Scheme) and scheme.name == name:
            return scheme
    return problem


def _explain_import(point: EntryPoint, error: BaseException) -> str:
    """Return the reason why a plug-in cannot be imported.

    An entry point may name its required extras (`name = module:object [extra]`).
    """
    plugin = "a plug-in" if point.dist is None else point.dist.name
    if point.extras and isinstance(error, ImportError):
        return _explain_extra(point.name, Extra(",".join(point.extras), (), plugin))
    kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
    return f"{point.name} URLs need {plugin}, which is installed but cannot be imported: {kind}{error}"


def plugins() -> list[str]:
    """Return the names of the schemes that plug-ins define or this program registered."""
    return sorted({*_registered, *_points()} - set(SCHEMES))
