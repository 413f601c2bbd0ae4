"""Suggestions ("did you mean") for a text that is not a URL or has an unknown scheme.

A suggestion is only printed, and never applied. Several corrections are tried: invalid characters are
percent-encoded, a scheme or its slashes are added, or the name of the scheme is corrected. A suggestion is
printed only if the URL parser accepts the corrected text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from shlex import quote

from protocols.contract import HostUrl, Url
from protocols.errors import InvalidUrl, ResolveError, UnsupportedScheme
from resolver.cli import streams
from resolver.policy.schemes import rules_of
from resolver.url import registry
from resolver.url.parsing import convert_iri, parse, redact

_MOST_SHOWN = 200  # maximum characters of a suggestion
_HOST = re.compile(
    r"(?P<host>localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]|(?:[\w-]+\.)+[^\W\d_]{2,}\.?)"
    r"(?P<port>:[0-9]{1,5})?(?![^/?#])"
)
_HOST_AND_PORT = re.compile(r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):[0-9]{1,5}(?![^/?#])")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)(?P<behind>:/{0,3}|//)")
_OTHERS = frozenset({"sftp", "tftp"})  # schemes that are not mistyped: their protocols are not supported
_NEAR = 0.75  # minimum similarity (difflib) of a mistyped scheme; `nttp` and `nntp` have 0.75
_WILDCARD = re.compile(r"[*?]|\[[^\]]+\]")
_NEVER = re.compile(r'[ <>"]|%(?![0-9A-Fa-f]{2})')


def hint(error: ResolveError, text: str) -> str | None:
    """Return a hint for an error about the URL `text` (as typed), or None."""
    if not isinstance(error, (InvalidUrl, UnsupportedScheme)):
        return None
    reason = _reason(text, error.position) if isinstance(error, InvalidUrl) else None
    meant = proposal(text)
    said = [each for each in (reason, None if meant is None else f"did you mean {meant} ?") if each]
    return ": ".join(said) or None


def hint_at_pattern(text: str) -> str | None:
    """Return a hint if the last name of a missing object has wildcards, and its scheme has directories."""
    scheme = text.partition(":")[0].lower()
    row = registry.find(scheme)
    path = text.partition("#")[0]
    name = (path.partition("?")[0] if registry.is_of_the_web(scheme) else path).rpartition("/")[2]
    if row is None or row.tree is None or not _WILDCARD.search(name):
        return None
    return f"names are literal; for a pattern: resolve get --glob {quote(redact(text))}"


def proposal(text: str) -> str | None:
    """Return a valid URL that is similar to the text, with its password redacted, or None."""
    mended = (repair for mend in _MENDED for repair in mend(text.strip()))
    for meant in map(_escape_text, (text.strip(), *mended)):
        if meant != text and len(meant) <= _MOST_SHOWN and _is_ours(meant):
            return redact(meant)
    return None


def _reason(text: str, position: int) -> str | None:
    """Explain how to percent-encode an invalid character, or return None.

    Returns None for a URL with a password, because a character of the password must not be shown (S17).
    """
    character = text[position : position + 1]
    around = character == " " and not (text[:position].strip() and text[position:].strip())
    if around or redact(text) != text or not _NEVER.match(character):
        return None
    names = {" ": "a space", "%": "a literal %"}
    return f"{names.get(character, repr(character))} must be escaped as {_escape_text(character)}"


def _escape_text(text: str) -> str:
    """Percent-encode all characters that are not valid in a URL."""
    escaped = _NEVER.sub(lambda found: f"%{ord(found[0]):02X}", text)
    try:
        return convert_iri(escaped)
    except InvalidUrl:
        return escaped


def _is_ours(text: str) -> bool:
    """Return whether the text is a URL of a supported scheme."""
    try:
        return registry.find(parse(text).scheme) is not None
    except InvalidUrl:
        return False


def _as_host(text: str) -> Iterator[str]:
    found = _HOST.match(text) or _HOST_AND_PORT.match(text)
    if found is not None:
        first = found["host"].partition(".")[0].lower()
        scheme = first if first in registry.LABELS else registry.UNSAID["host"]
        yield f"{scheme}://{text}{'' if len(text) > found.end() else '/'}"


def _as_authority(text: str) -> Iterator[str]:
    if text.startswith("//"):
        yield f"{registry.UNSAID['host']}:{text}"


def _as_path(text: str) -> Iterator[str]:
    if text.startswith("/"):
        yield f"{registry.UNSAID['path']}://{text}"


def _as_mailbox(text: str) -> Iterator[str]:
    if re.fullmatch(r"[^@:/?#]+@[^@:/?#]+\.[A-Za-z]+", text):
        yield f"{registry.UNSAID['mailbox']}:{text}"


def _with_slashes(text: str) -> Iterator[str]:
    found = _SCHEME.match(text)
    if found is not None:
        yield f"{found['scheme']}://{text[found.end() :]}"


def _suggest_schemes(text: str) -> Iterator[str]:
    found = _SCHEME.match(text)
    if found is None or found["scheme"].lower() in {*_OTHERS, *registry.SCHEMES}:
        return
    for scheme in get_close_matches(found["scheme"].lower(), registry.SCHEMES, 3, _NEAR):
        rest = text[found.end("scheme") :]
        yield f"{scheme}{rest}"
        yield from _with_slashes(f"{scheme}{rest}")


_MENDED: tuple[Callable[[str], Iterator[str]], ...] = (
    _as_host,
    _as_authority,
    _as_path,
    _as_mailbox,
    _with_slashes,
    _suggest_schemes,
)


def advise(url: Url, *, quiet: bool) -> None:
    """Print the user name that the URL of an interactive service suggests for the login (RFC 1738, 3.8)."""
    if quiet or not isinstance(url, HostUrl) or not url.user or not rules_of(url.scheme).session:
        return
    password = "" if url.password is None else "; its password is neither sent nor shown"
    login = url.user.decode("utf-8", "replace")
    streams.complain(f"{url.shown}: the URL suggests the login {login}{password}")
