"""Names in a file system and the URLs they stand for.

A name is a URL without its scheme, and without a password, for names are shown and stored. It stays encoded,
so that no octet of it is taken for a delimiter; what could not stand in a URL is encoded where it is given.
"""

from __future__ import annotations

import re
from urllib.parse import quote

#: No URL has these (RFC 3986 2); a bracket may begin a pattern, and `%` an octet that is encoded already.
_FOREIGN = re.compile(r"[^!-~]+|[\"<>\\^`{|}]+")


def plain(name: str) -> str:
    """The name with neither a password nor what cannot stand in a URL. Of a plain name, the same."""
    authority, slash, path = name.partition("/")
    if "@" in authority:
        login, _, host = authority.rpartition("@")
        authority = f"{_FOREIGN.sub(_encoded, login.partition(':')[0])}@{host}"
    return f"{authority}{slash}{_FOREIGN.sub(_encoded, path)}"


def _encoded(found: re.Match[str]) -> str:
    return quote(found[0].encode("utf-8", "surrogateescape"), safe="")


def after_scheme(url: str) -> str:
    """The name that a URL is known by."""
    return plain(url.partition("://")[2])


def parent(name: str) -> str:
    """The directory that it is in, by its name; of a server's root none."""
    return name.rstrip("/").rpartition("/")[0]


def last(name: str) -> str:
    """What it is called in its directory."""
    return name.rstrip("/").rpartition("/")[2]
