"""Suggestions ("did you mean") for a text that is not a URL or has an unknown scheme.

A suggestion is only shown, and never applied. Several corrections are tried: invalid characters are
percent-encoded, a scheme or its slashes are added, or the name of the scheme is corrected. A suggestion is
made only if the URL parser accepts the corrected text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from protocols.errors import InvalidUrl
from resolver.url import registry
from resolver.url.parsing import convert_iri, parse

_MAX_SUGGESTION = 200  # maximum length of a suggestion in characters
_HOST = re.compile(
    r"(?P<host>localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]|(?:[\w-]+\.)+[^\W\d_]{2,}\.?)"
    r"(?P<port>:[0-9]{1,5})?(?![^/?#])"
)
_HOST_AND_PORT = re.compile(r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):[0-9]{1,5}(?![^/?#])")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)(?P<behind>:/{0,3}|//)")
_UNSUPPORTED = frozenset(
    {"sftp", "tftp"}
)  # the names of known schemes that are not supported, and for which no correction is suggested
_MIN_SIMILARITY = 0.75  # minimum similarity (difflib) of a mistyped scheme; `nttp` and `nntp` have 0.75
INVALID = re.compile(r'[ <>"]|%(?![0-9A-Fa-f]{2})')


def closest_url(text: str) -> str | None:
    """Return a valid URL that is similar to the text, with its password, or None."""
    stripped = text.strip()
    for candidate in map(escape_text, (stripped, *_find_repairs(stripped))):
        if candidate != text and len(candidate) <= _MAX_SUGGESTION and _is_supported(candidate):
            return candidate
    return None


def escape_text(text: str) -> str:
    """Percent-encode all characters that are not valid in a URL."""
    escaped = INVALID.sub(lambda match: f"%{ord(match[0]):02X}", text)
    try:
        return convert_iri(escaped)
    except InvalidUrl:
        return escaped


def _is_supported(text: str) -> bool:
    """Return whether the text is a URL of a supported scheme."""
    try:
        return registry.find(parse(text).scheme) is not None
    except InvalidUrl:
        return False


def _find_repairs(text: str) -> Iterator[str]:
    """Yield the texts that may have been meant, the most likely text first."""
    match = _HOST.match(text) or _HOST_AND_PORT.match(text)
    if match is not None:
        first = match["host"].partition(".")[0].lower()
        scheme = first if first in registry.LABELS else registry.LIKELY_SCHEMES["host"]
        yield f"{scheme}://{text}{'' if len(text) > match.end() else '/'}"
    if text.startswith("//"):
        yield f"{registry.LIKELY_SCHEMES['host']}:{text}"
    if text.startswith("/"):
        yield f"{registry.LIKELY_SCHEMES['path']}://{text}"
    if re.fullmatch(r"[^@:/?#]+@[^@:/?#]+\.[A-Za-z]+", text):
        yield f"{registry.LIKELY_SCHEMES['mailbox']}:{text}"
    yield from _with_slashes(text)
    yield from _suggest_schemes(text)


def _with_slashes(text: str) -> Iterator[str]:
    match = _SCHEME.match(text)
    if match is not None:
        yield f"{match['scheme']}://{text[match.end() :]}"


def _suggest_schemes(text: str) -> Iterator[str]:
    match = _SCHEME.match(text)
    if match is None or match["scheme"].lower() in {*_UNSUPPORTED, *registry.SCHEMES}:
        return
    for scheme in get_close_matches(match["scheme"].lower(), registry.SCHEMES, 3, _MIN_SIMILARITY):
        rest = text[match.end("scheme") :]
        yield f"{scheme}{rest}"
        yield from _with_slashes(f"{scheme}{rest}")
