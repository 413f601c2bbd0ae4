"""Which scheme is which module: a literal table, imported on use.

A scheme of ours is one row. Third parties register theirs under the entry-point group
`resolver.schemes`; that is looked up only when the table has no such row, so a plug-in can add a
scheme and never replace one. No module name is ever made from the text of a URL.
"""

from __future__ import annotations

import importlib
from functools import cache

from protocols.scheme import Scheme

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


def find(name: str) -> Scheme | None:
    """The scheme of that (lower-case) name, or None if there is neither a row nor a plug-in."""
    row = SCHEMES.get(name)
    if row is None:
        return _find_plugin(name)
    return _load(row)


def _load(row: str) -> Scheme:
    module, _, attribute = row.partition(":")
    scheme = getattr(importlib.import_module(module), attribute)
    assert isinstance(scheme, Scheme)
    return scheme


@cache
def _find_plugin(name: str) -> Scheme | None:
    from importlib.metadata import entry_points  # 40 ms: only on a miss

    for point in entry_points(group="resolver.schemes", name=name):
        scheme = point.load()
        if isinstance(scheme, Scheme) and scheme.name == name:
            return scheme
    return None


def plugins() -> list[str]:
    """Names of the schemes that plug-ins add."""
    from importlib.metadata import entry_points  # 40 ms: only when asked for

    return sorted({point.name for point in entry_points(group="resolver.schemes")} - set(SCHEMES))
