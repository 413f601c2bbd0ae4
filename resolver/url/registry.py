"""The registry of schemes: a literal table of their modules, imported on use.

A scheme of ours is one row. Third parties name theirs under the entry-point group `resolver.schemes`;
that is looked up only when the table has no such row, so a plug-in can add a scheme and never replace one.
A program may `register` a row for as long as it runs, and replaces none by it either. No module name is ever
made from the text of a URL.

A scheme whose extra is missing is known all the same: what `explain_missing` says of it is what its URLs come
to.
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

#: RFC 1738 section 4 sets these names aside; what each was meant for.
RESERVED: dict[str, str] = {
    "afs": "Andrew File System global file names",
    "cid": "Content identifiers for MIME body parts",
    "mailserver": "Access to data available from mail servers",
    "mid": "Message identifiers for electronic mail",
    "nfs": "Network File System file names",
    "tn3270": "Interactive 3270 emulation sessions",
    "z39.50": "Z39.50 services",
}


#: What a parser finds before a colon, in lower case: a row of another name would never be found.
_NAME = re.compile(r"(?!url$)[a-z][a-z0-9+.-]{0,63}")

_registered: dict[str, Scheme] = {}


def register(scheme: Scheme) -> None:
    """Add a scheme to those that this process resolves, by its row.

    From then on its URLs are parsed, judged, explained and fetched as a plug-in's are. The same row may be
    registered again.

    Args:
        scheme: its row: name, parser, dialogue, default port, and what it can do.

    Raises:
        ValueError: for another row of a scheme that there is, and for a name that no URL could have.

    Examples:
        >>> from protocols.gopher import GOPHER
        >>> resolver.register(GOPHER)
        >>> resolver.register(GOPHER._replace(default_port=71))
        Traceback (most recent call last):
        ValueError: there is a scheme 'gopher' already, and none is replaced
    """
    if _NAME.fullmatch(scheme.name) is None:
        raise ValueError(f"{scheme.name!r} is not the name of a scheme, in lower case")
    there = find(scheme.name)
    if there is None and explain_missing(scheme.name) is None:
        _registered[scheme.name] = scheme
    elif there != scheme:
        raise ValueError(f"there is a scheme {scheme.name!r} already, and none is replaced")


#: What is most often meant by a text that has no scheme: for a proposal, never to act on.
UNSAID: dict[str, str] = {"host": "http", "path": "file", "mailbox": "mailto"}

#: Schemes that hosts are named for by their first label, most often.
LABELS = frozenset({"ftp", "gopher"})


def find(name: str) -> Scheme | None:
    """The scheme of that (lower-case) name: ours, one that was registered, or a plug-in's. None if there is
    no row."""
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
    """Is it a row of this package, and not a plug-in's or one that was registered?"""
    return scheme.name in SCHEMES


def explain_missing(name: str) -> str | None:
    """What this installation would need for the scheme of that name, and how to install it, in a sentence;
    None where nothing is missing, or nobody knows the scheme."""
    scheme = find(name)
    if scheme is None:
        found = _find_plugin(name)
        return found if isinstance(found, str) else None
    if scheme.needs is None or _is_here(scheme.needs):
        return None
    return _explain_extra(name, scheme.needs)


def can_resolve(scheme: Scheme) -> bool:
    """Has this build a dialogue for it, and all that the dialogue needs?"""
    return scheme.converse is not None and (scheme.needs is None or _is_here(scheme.needs))


def schemes(*, web: bool = True) -> tuple[str, ...]:
    """The names of the schemes whose URLs are resolved here, those that were registered too. Never raises.

    Args:
        web: also http and https, which other clients have.

    Examples:
        >>> sorted(set(resolver.schemes()) - set(resolver.schemes(web=False)))
        ['http', 'https']
    """
    rows = (*map(find, SCHEMES), *_registered.values())
    return tuple(
        row.name for row in rows if row and can_resolve(row) and (web or not is_of_the_web(row.name))
    )


def is_of_the_web(name: str) -> bool:
    """Is it a scheme of http, with TLS or without?"""
    return SCHEMES.get(name, "").partition(":")[0] == SCHEMES[UNSAID["host"]].partition(":")[0]


def check_tls(url: Url, wanted: str | None) -> None:
    """Raises `NotConfigured` where `--tls require` demands TLS, from the first octet or begun on the way, and
    the URL's scheme can only speak in the clear: one whose row does not say that it has TLS. What connects to
    nothing needs none."""
    row = find(url.scheme) if wanted == "require" else None
    if row is not None and row.transport is not None and row.tls == "never":
        raise NotConfigured(f"--tls require: there is no TLS for {url.scheme} URLs", url=url.shown)


def converse(scheme: Scheme, url: Url, options: Options, limits: Limits) -> Dialogue:
    """The dialogue of a retrieval, not begun yet."""
    assert scheme.converse is not None
    begin: Callable[[Url, Options, Limits], Dialogue] = _attribute(scheme.converse)
    return begin(url, options, limits)


def load(place: str) -> Any:
    """What is at `module:name`, for who stands below that module, or has no need of it most of the time."""
    return _attribute(place)


@cache
def _attribute(place: str) -> Any:
    """What a row names. A row is ours or a plug-in's, and there are no more places than rows."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _is_here(extra: Extra) -> bool:
    from importlib.util import find_spec  # few rows need anything

    return all(find_spec(module) is not None for module in extra.modules)


def _explain_extra(name: str, extra: Extra) -> str:
    return f"{name} URLs need {missing_libraries(extra.name, extra.distribution)}"


def _find_plugin(name: str) -> Scheme | str | None:
    return _load_plugin(name) if name in _points() else None


@cache
def _points() -> Mapping[str, Sequence[EntryPoint]]:
    """What plug-ins there are, by name: looked up once, so that names that there are not cost nothing."""
    from importlib.metadata import entry_points  # 40 ms: only on a miss

    points = entry_points(group="resolver.schemes")
    return {point.name: tuple(points.select(name=point.name)) for point in points}


@cache
def _load_plugin(name: str) -> Scheme | str | None:
    """Its row; where it cannot be imported, what it lacks."""
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
    """An entry point may name the extras that it needs (`name = module:object [extra]`)."""
    plugin = "a plug-in" if point.dist is None else point.dist.name
    if point.extras:
        return _explain_extra(point.name, Extra(",".join(point.extras), (), plugin))
    return f"{point.name} URLs need {plugin}, which is installed and cannot be imported: {error}"


def plugins() -> list[str]:
    """Names of the schemes that plug-ins and this program add."""
    return sorted({*_registered, *_points()} - set(SCHEMES))
