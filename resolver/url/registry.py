"""The registry of schemes: a literal table of their modules, imported on use.

A built-in scheme is one row. Third parties add schemes through the entry-point group `resolver.schemes`. The
group is read only if the table has no row for a name, so a plug-in can add a scheme and never replace one. A
program may `register` a scheme for the life of the process; `register` cannot replace a scheme either. The
text of a URL never becomes a module name.

A scheme whose extra is missing is still known: its URLs raise the error of `explain_missing`.
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

#: Names that RFC 1738 section 4 reserves, with their intended use.
RESERVED: dict[str, str] = {
    "afs": "Andrew File System global file names",
    "cid": "Content identifiers for MIME body parts",
    "mailserver": "Access to data available from mail servers",
    "mid": "Message identifiers for electronic mail",
    "nfs": "Network File System file names",
    "tn3270": "Interactive 3270 emulation sessions",
    "z39.50": "Z39.50 services",
}


#: The scheme names that a parser can find before a colon, in lower case. A scheme with another name could
#: never be used.
_NAME = re.compile(r"(?!url$)[a-z][a-z0-9+.-]{0,63}")

_registered: dict[str, Scheme] = {}


def register(scheme: Scheme) -> None:
    """Add a scheme to the schemes of this process.

    Its URLs are then parsed, checked, explained and fetched like a plug-in's. The same definition may be
    registered again.

    Args:
        scheme: the scheme definition: name, parser, exchange, default port, and capabilities.

    Raises:
        ValueError: another definition of this scheme exists, or a URL cannot have this name.

    Examples:
        >>> from protocols.gopher import GOPHER
        >>> resolver.register(GOPHER)
        >>> resolver.register(GOPHER._replace(default_port=71))
        Traceback (most recent call last):
        ValueError: scheme 'gopher' already exists and cannot be replaced
    """
    if _NAME.fullmatch(scheme.name) is None:
        raise ValueError(f"{scheme.name!r} is not a lower-case scheme name")
    there = find(scheme.name)
    if there is None and explain_missing(scheme.name) is None:
        _registered[scheme.name] = scheme
    elif there != scheme:
        raise ValueError(f"scheme {scheme.name!r} already exists and cannot be replaced")


#: The most likely scheme of a text without a scheme, used only for suggestions and never for a request.
UNSAID: dict[str, str] = {"host": "http", "path": "file", "mailbox": "mailto"}

#: Schemes that are often the first label of their hosts' names.
LABELS = frozenset({"ftp", "gopher"})


def find(name: str) -> Scheme | None:
    """Return the scheme of a lower-case name: built-in, registered, or a plug-in's; None if unknown."""
    row = SCHEMES.get(name)
    if row is not None:
        scheme = _attribute(row)
        assert isinstance(scheme, Scheme)
        return scheme
    if name in _registered:
        return _registered[name]
    found = _find_plugin(name)
    return found if isinstance(found, Scheme) else None


def is_ours(scheme: Scheme) -> bool:
    """Return whether the scheme is built in: neither a plug-in's nor registered."""
    return scheme.name in SCHEMES


def explain_missing(name: str) -> str | None:
    """Return a sentence that names the missing requirement of a scheme and how to install it.

    Return None if the scheme is unknown, or if its requirements are installed.
    """
    scheme = find(name)
    if scheme is None:
        found = _find_plugin(name)
        return found if isinstance(found, str) else None
    if scheme.needs is None or _is_here(scheme.needs):
        return None
    return _explain_extra(name, scheme.needs)


def can_resolve(scheme: Scheme) -> bool:
    """Return whether this installation has the scheme's exchange and its requirements."""
    return scheme.converse is not None and (scheme.needs is None or _is_here(scheme.needs))


def schemes(*, web: bool = True) -> tuple[str, ...]:
    """Return the names of the schemes that can be resolved, registered schemes included.

    Never raises.

    Args:
        web: also include http and https, which other clients support.

    Examples:
        >>> sorted(set(resolver.schemes()) - set(resolver.schemes(web=False)))
        ['http', 'https']
    """
    rows = (*map(find, SCHEMES), *_registered.values())
    return tuple(
        row.name for row in rows if row and can_resolve(row) and (web or not is_of_the_web(row.name))
    )


def is_of_the_web(name: str) -> bool:
    """Return whether the scheme is http or https."""
    return SCHEMES.get(name, "").partition(":")[0] == SCHEMES[UNSAID["host"]].partition(":")[0]


def check_tls(url: Url, wanted: str | None) -> None:
    """Raise `NotConfigured` if the caller requires TLS (`--tls require`) and the scheme has no TLS.

    TLS from the first byte and STARTTLS both suffice. A scheme definition without a TLS declaration counts as
    clear text. Schemes without a connection do not need TLS.
    """
    row = find(url.scheme) if wanted == "require" else None
    if row is not None and row.transport is not None and row.tls == "never":
        words = f"TLS is required, and {url.scheme} URLs do not support TLS"
        raise NotConfigured(words, url=url.shown).with_setting("tls")


def converse(scheme: Scheme, url: Url, options: Options, limits: Limits) -> Dialogue:
    """Return the protocol exchange of a retrieval, not started yet."""
    assert scheme.converse is not None
    begin: Callable[[Url, Options, Limits], Dialogue] = _attribute(scheme.converse)
    return begin(url, options, limits)


def load(place: str) -> Any:
    """Return the object at `module:name`, imported on use.

    It is for callers in a layer below the module, and for callers that seldom need the object.
    """
    return _attribute(place)


@cache
def _attribute(place: str) -> Any:
    """Import the object that a row names; the number of rows limits the size of the cache."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _is_here(extra: Extra) -> bool:
    from importlib.util import find_spec  # imported here: few rows have requirements

    return all(find_spec(module) is not None for module in extra.modules)


def _explain_extra(name: str, extra: Extra) -> str:
    return f"{name} URLs need {missing_libraries(extra.name, extra.distribution)}"


def _find_plugin(name: str) -> Scheme | str | None:
    return _load_plugin(name) if name in _points() else None


@cache
def _points() -> Mapping[str, Sequence[EntryPoint]]:
    """Return the plug-ins by scheme name, read once, so that unknown names cost no time."""
    # importing this module takes 40 ms, so it is imported only for a name that is not in the table
    from importlib.metadata import entry_points

    points = entry_points(group="resolver.schemes")
    return {point.name: tuple(points.select(name=point.name)) for point in points}


@cache
def _load_plugin(name: str) -> Scheme | str | None:
    """Return the scheme of a plug-in; if it cannot be imported, a text that names the missing part."""
    lacking: str | None = None
    for point in _points()[name]:
        try:
            scheme = point.load()
        except ImportError as error:
            lacking = lacking or _not_imported(point, error)
            continue
        if isinstance(scheme, Scheme) and scheme.name == name:
            return scheme
    return lacking


def _not_imported(point: EntryPoint, error: ImportError) -> str:
    """Return the reason for a failed import.

    An entry point may name its extras (`name = module:object [extra]`).
    """
    plugin = "a plug-in" if point.dist is None else point.dist.name
    if point.extras:
        return _explain_extra(point.name, Extra(",".join(point.extras), (), plugin))
    return f"{point.name} URLs need {plugin}, which is installed but cannot be imported: {error}"


def plugins() -> list[str]:
    """Return the names of the schemes that plug-ins and this program add."""
    return sorted({*_registered, *_points()} - set(SCHEMES))
