"""URL text to value and back: one parser, two modes, for every scheme.

`parse` takes the steps that all schemes share (length, characters, wrapper, prefix, scheme, escapes,
fragment) and leaves the rest to the scheme that the registry finds. Strict is the same parser, with
the first finding raised. Nothing is trimmed, repaired or looked up, and a URL is judged elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from protocols.errors import InvalidUrl
from protocols.location import Url, UrlText
from protocols.syntax import find, invalid
from resolver import registry

if TYPE_CHECKING:
    from protocols.other import Status

#: Characters of a text that is taken for a URL at all.
LONGEST = 65_536

_NEVER = re.compile(r'[\x00-\x20\x7f<>"]')
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BEFORE_COLON = re.compile(r"[^:/?#]*+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+")
_START = r"<?(?i:URL:)?(?:[A-Za-z][A-Za-z0-9+.-]*+:)?/*+"  # compiled when a text is no URL


def parse(text: str, *, strict: bool = False) -> Url:
    """The URL's components, with findings for what RFC 1738 would have written differently.

    Raises `InvalidUrl` for what is no URL. Strict raises it also for the first finding, whose name
    is then the error's kind.
    """
    try:
        return _parse(text, strict=strict)
    except InvalidUrl as error:
        error.url = redact(text)
        raise


def _parse(text: str, *, strict: bool) -> Url:
    url_text = _read_common(text)
    scheme = registry.find(url_text.scheme)
    url: Url
    if scheme is None:
        from protocols import other  # also below: few URLs are of a scheme without a module

        url = other.parse(url_text, _status(url_text.scheme))
    else:
        url_text.default_port = scheme.default_port
        url = scheme.parse(url_text)
    if strict and url_text.findings:
        finding, position = next(iter(url_text.findings.items()))
        raise invalid(text, finding, "not written as RFC 1738 has it", position)
    return replace(
        url,
        text=text,
        fragment=url_text.fragment,
        findings=tuple(url_text.findings),
        places=tuple(url_text.places),
    )


def _read_common(text: str) -> UrlText:
    """What comes before the scheme's own part, in the order that decides which error a doubly wrong
    text gives."""
    _check_length(text)
    if wrong := _NOT_ASCII.search(text):
        raise invalid(text, "non-ascii", "character outside ASCII", wrong.start())
    start, end = (1, len(text) - 1) if text.startswith("<") and text.endswith(">") else (0, len(text))
    if wrong := _NEVER.search(text, start, end):
        raise invalid(text, "bad-char", "character that no URL has", wrong.start())
    url_text = UrlText(text, "", start, end, None)
    if start:
        url_text.note("wrapper", 0)
    if text[start:end][:4].lower() == "url:":
        url_text.start += 4
    if url_text.start == end:
        raise invalid(text, "empty", "nothing inside", end)
    _cut_scheme(url_text)
    if wrong := _BAD_ESCAPE.search(text, url_text.start, end):
        raise invalid(text, "bad-escape", "% without two hex digits", wrong.start())
    _cut_fragment(url_text)
    return url_text


def _check_length(text: str) -> None:
    if not text:
        raise invalid(text, "empty", "text", 0)
    if len(text) > LONGEST:
        raise invalid(text, "too-long", f"text of {len(text)} characters", LONGEST)


def _cut_scheme(text: UrlText) -> None:
    before = _BEFORE_COLON.match(text.text, text.start, text.end)
    colon = text.start if before is None else before.end()
    if colon == text.end or text.text[colon] != ":":
        raise invalid(text.text, "no-scheme", "text without a scheme", text.start)
    good = _SCHEME.match(text.text, text.start, colon)
    if good is None or good.end() < colon:
        position = text.start if good is None else good.end()
        raise invalid(text.text, "bad-scheme", "scheme", position)
    text.scheme = text.cut("scheme", text.start, colon).lower()
    if text.scheme == "url":
        raise invalid(text.text, "bad-scheme", "scheme that is only a prefix", text.start)
    text.start = colon + 1


def _cut_fragment(text: UrlText) -> None:
    sign = find(text, "#", text.start)
    if sign == text.end:
        return
    end, text.end = text.end, sign
    text.fragment = text.cut("fragment", sign + 1, end)
    second = find(text, "#", sign + 1, end)
    if second < end:
        text.note("unsafe-char", second)


def _status(scheme: str) -> Status:
    if scheme.startswith("x-"):
        return "experimental"
    return "reserved" if scheme in registry.RESERVED else "unknown"


def build(url: Url) -> str:
    """The text of these components, password and all; `parse` reads the same components back.

    The default port is left out and a search gets its slash, and there are no findings but those that
    the components themselves are the cause of. Raises `InvalidUrl` for components that no URL can
    hold; its position counts in the component.
    """
    scheme = registry.find(url.scheme)
    if scheme is not None:
        return scheme.build(url)
    from protocols import other

    assert isinstance(url, other.OtherUrl), url.scheme
    return other.build(url)


def without_user(url: Url) -> str:
    """The URL as text without user, password and fragment: for gateways, and to compare."""
    if registry.find(url.scheme) is None:
        from protocols import other

        assert isinstance(url, other.OtherUrl), url.scheme
        return other.build(replace(other.without_user(url), fragment=None))
    absent: dict[str, Any] = {name: None for name in ("user", "password", "fragment") if hasattr(url, name)}
    return build(replace(url, **absent))


def display(url: Url) -> str:
    """The URL for the eye: as it was given, or built, with `****` for a password."""
    if url.text:
        return url.shown
    return redact(build(url))


def redact(text: str) -> str:
    """The text with `****` for a password. Where it is no URL, for everything between the scheme and
    the last `@` (rule S17)."""
    try:
        return _parse(text, strict=False).shown
    except InvalidUrl:
        return _redact_unparsed(text)


def _redact_unparsed(text: str) -> str:
    start = re.match(_START, text)
    at = text.rfind("@")
    begin = start.end() if start else 0
    return text if at < begin else f"{text[:begin]}****{text[at:]}"
