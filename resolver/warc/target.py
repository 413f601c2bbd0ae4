"""The URL that a record is of: as records have it, and as it is looked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from protocols.location import HostUrl, Url
from protocols.values import replace
from resolver import registry
from resolver.url import build

#: What no URL may have as it is (RFC 3986 2).
_NEVER = re.compile(r"[^!#$&-;=?-\[\]_a-z~%]|%(?![0-9A-Fa-f]{2})")


def target_of(url: Url, *, has_user: bool, hide: Callable[[str], str] = str) -> str:
    """The URL as records have it: whose, but not who, never a password, and nothing that `hide` hides."""
    absent: dict[str, Any] = {
        name: None
        for name in ("password", "fragment", "zone", *(() if has_user else ("user",)))
        if getattr(url, name, None) is not None
    }
    text = build(replace(url, **absent)) if absent else url.text
    return _NEVER.sub(_escaped, hide(text))


def sought_as(url: Url) -> str:
    """The same text for all URLs that name the same thing, whoever wrote them: of their components, with the
    host in small letters and no port that is the scheme's. Nothing else is taken for the same."""
    row = registry.find(url.scheme)
    plain: dict[str, Any] = {"text": "", "findings": (), "places": (), "fragment": None}
    if isinstance(url, HostUrl):
        plain |= {"host": url.host.lower(), "password": None, "zone": None}
        if url.port == url.default_port:
            plain["port"] = None
        if row is None or not row.userinfo:
            plain["user"] = None
    text = _NEVER.sub(_escaped, build(replace(url, **plain)))
    is_bare = row is not None and row.kept_as == "exchange" and "/" not in text.partition("://")[2]
    return f"{text}/" if is_bare and "?" not in text else text  # RFC 9110 4.2.3


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in found[0].encode("utf-8", "surrogateescape"))
