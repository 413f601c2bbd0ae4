"""Hints in messages of the command: a correction of the URL, and the login that a URL suggests."""

from __future__ import annotations

import re
from shlex import quote

from protocols.contract import HostUrl, Url
from protocols.errors import InvalidUrl, ResolveError, UnsupportedScheme
from protocols.text import Masked, own_text
from resolver.cli import streams
from resolver.policy.schemes import find_rules
from resolver.url import registry
from resolver.url.parsing import redact
from resolver.url.suggestions import INVALID, closest_url, escape_text

_WILDCARD = re.compile(r"[*?]|\[[^\]]+\]")


def find_hint(error: ResolveError, text: str) -> Masked | None:
    """Return a hint for an error about the URL `text` (as typed), or None."""
    if not isinstance(error, (InvalidUrl, UnsupportedScheme)):
        return None
    reason = _explain_escape(text, error.position) if isinstance(error, InvalidUrl) else None
    url = suggest_url(text)
    if url is None and isinstance(error, UnsupportedScheme) and registry.find(error.scheme) is None:
        return None if error.setting else own_text("resolve schemes lists the supported schemes")
    parts = [part for part in (reason, None if url is None else Masked(f"did you mean {url} ?")) if part]
    return Masked(": ".join(parts)) if parts else None


def find_pattern_hint(text: str) -> Masked | None:
    """Return a hint if the URL of a missing object is perhaps a glob pattern, or None.

    The hint requires a wildcard in the last path segment, and a scheme with directories.
    """
    scheme = text.partition(":")[0].lower()
    row = registry.find(scheme)
    path = re.split("#|%09", text)[0]  # %09: a search or a Gopher+ form, such as `%09%09?`
    name = (path.partition("?")[0] if registry.is_web(scheme) else path).rpartition("/")[2]
    if row is None or row.tree is None or not _WILDCARD.search(name):
        return None
    shown = own_text(quote(redact(text)))
    return Masked(f"names are literal; for a pattern: resolve get --glob {shown}")


def suggest_url(text: str) -> Masked | None:
    """Return a valid URL that is similar to the text, with its password redacted, or None."""
    url = closest_url(text)
    return None if url is None else redact(url)


def _explain_escape(text: str, position: int) -> Masked | None:
    """Explain how to percent-encode an invalid character, or return None.

    Returns None if the URL has a password, because no character of the password must be shown (S17).
    """
    character = text[position : position + 1]
    is_surrounding = character == " " and not (text[:position].strip() and text[position:].strip())
    if is_surrounding or redact(text) != text or not INVALID.match(character):
        return None
    names = {" ": "a space", "%": "a literal %"}
    return own_text(f"{names.get(character, repr(character))} must be escaped as {escape_text(character)}")


def advise_login(url: Url, *, quiet: bool) -> None:
    """Print the login name that the URL of an interactive service suggests (RFC 1738, 3.8)."""
    if quiet or not isinstance(url, HostUrl) or not url.user or not find_rules(url.scheme).session:
        return
    password = Masked("" if url.password is None else "; its password is neither sent nor shown")
    login = own_text(url.user.decode("utf-8", "replace"))
    streams.complain(Masked(f"{url.shown}: the URL suggests the login {login}{password}"))
