"""URL text to value and back: one parser, two modes, for every scheme.

`parse` takes the steps that all schemes share (length, characters, wrapper, prefix, scheme, escapes,
fragment) and leaves the rest to the scheme that the registry finds. Strict is the same parser, with
the first finding raised. Nothing is trimmed, repaired or looked up, and a URL is judged elsewhere.
"""

from __future__ import annotations

import re
from os import PathLike, fsdecode
from typing import TYPE_CHECKING, Any, TypeAlias

from protocols.errors import InvalidUrl
from protocols.location import Origin, Url, UrlText
from protocols.syntax import find, invalid
from protocols.values import replace
from resolver import registry
from resolver.tracebacks import outermost

if TYPE_CHECKING:
    from httpx import URL as HttpxUrl

    from protocols.other import Status

#: What a caller may name a URL by.
UrlLike: TypeAlias = "str | Url | PathLike[str] | PathLike[bytes] | HttpxUrl"

#: Characters of a text that is taken for a URL at all.
LONGEST = 65_536

#: Characters of a scheme's name. The longest that IANA has registered has 27.
LONGEST_SCHEME = 64

_NEVER = re.compile(r'[\x00-\x20\x7f<>"]')
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BEFORE_ZONE = re.compile(r"//[^/?#\[\]]*\[[0-9A-Fa-f:.]*\Z")
_BEFORE_COLON = re.compile(r"[^:/?#]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_START = r"<?(?i:URL:)?(?:[A-Za-z][A-Za-z0-9+.-]*:)?/*"  # compiled when a text is no URL


def parse(text: str, *, strict: bool = False, origin: Origin = "derived") -> Url:
    """The URL's components, with findings for what RFC 1738 would have written differently.

    Args:
        text: the URL as it is written, with or without `<URL:…>` around it (RFC 1738, appendix).
        strict: also the first finding is an error, and its name the error's kind.
        origin: who wrote it. Only a person, `user`, may write the zone of a link-local address (RFC 9844).

    Raises:
        InvalidUrl: for what is no URL, with `kind` and `position`.

    Examples:
        >>> url = resolver.parse("ftp://h.example/pub/README;type=i")
        >>> url.host, url.effective_port, url.cwds, url.name
        ('h.example', 21, (b'pub',), b'README')
        >>> resolver.parse("http://h.example/a b")
        Traceback (most recent call last):
        protocols.errors.InvalidUrl: http://h.example/a b: bad-char: ...
    """
    try:
        return _parse(text, strict=strict, zoned=origin == "user")
    except InvalidUrl as error:
        raise outermost(error.at(redact(text))) from error.__cause__


def url_of(named: UrlLike, *, strict: bool = False, origin: Origin = "derived") -> Url:
    """What a caller named: text is parsed, and so is a URL of httpx's; a path is a local file, from the
    working directory on. Raises `TypeError` for anything else."""
    if isinstance(named, str):
        return parse(named, strict=strict, origin=origin)
    if isinstance(named, Url):
        return named if origin == "user" else _without_zone(named)
    if isinstance(named, PathLike):
        from pathlib import Path  # few name a file so

        return parse(Path(fsdecode(named)).absolute().as_uri())
    if any(kind.__module__.partition(".")[0] == "httpx" for kind in type(named).__mro__):
        return parse(str(named), strict=strict, origin=origin)
    raise TypeError(
        "a URL is a str, a resolver.Url, an httpx.URL or, where it is a local file, an os.PathLike; this is"
        f" {type(named).__name__!r}"
    )


def zone_of(url: Url) -> str | None:
    """The interface of this machine that a URL names, whatever its scheme."""
    zone: str | None = getattr(url, "zone", None)  # not every Url has a host
    return zone


def _without_zone(url: Url) -> Url:
    """Raises `bad-host` for one that no person wrote."""
    if zone_of(url) is not None:
        raise InvalidUrl("bad-host", 0, "bad-host: only a person may write a zone", url=url.shown)
    return url


def _parse(text: str, *, strict: bool, zoned: bool) -> Url:
    url_text = _read_common(text)
    url_text.may_have_zone = zoned
    scheme = registry.find(url_text.scheme)
    is_ours = url_text.scheme in registry.SCHEMES
    url: Url
    if scheme is None:
        from protocols import other  # also below: few URLs are of a scheme without a module

        url = other.parse(url_text, _status(url_text.scheme))
    else:
        url_text.default_port = scheme.default_port
        url = scheme.parse(url_text)
        if not is_ours:
            _hide_password(url_text)
    if strict and url_text.findings:
        finding, position = next(iter(url_text.findings.items()))
        raise invalid(text, finding, "not written as RFC 1738 has it", position)
    if is_ours:
        url_text.complete(url)
        return url
    return replace(  # a plug-in may have it still
        url,
        text=text,
        fragment=url_text.fragment,
        findings=tuple(url_text.findings),
        places=tuple(url_text.places),
    )


def _hide_password(text: UrlText) -> None:
    """Whatever a plug-in's parser noted: a password is not shown (S17)."""
    from protocols import other

    other.place_password(text)


def _read_common(text: str) -> UrlText:
    """What comes before the scheme's own part, in the order that decides which error a doubly wrong
    text gives."""
    if not text:
        raise invalid(text, "empty", "text", 0)
    if len(text) > LONGEST:
        raise invalid(text, "too-long", f"text of {len(text)} characters", LONGEST)
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
        raise invalid(text, "bad-escape", _escape_wanted(text, wrong.start()), wrong.start())
    _cut_fragment(url_text)
    return url_text


def _escape_wanted(text: str, sign: int) -> str:
    is_zone = _BEFORE_ZONE.search(text, 0, sign) is not None
    return "% without two hex digits; a zone is written %25eth0" if is_zone else "% without two hex digits"


def _cut_scheme(text: UrlText) -> None:
    before = _BEFORE_COLON.match(text.text, text.start, text.end)
    colon = text.start if before is None else before.end()
    if colon == text.end or text.text[colon] != ":":
        raise invalid(text.text, "no-scheme", "text without a scheme", text.start)
    good = _SCHEME.match(text.text, text.start, colon)
    if good is None or good.end() < colon:
        position = text.start if good is None else good.end()
        raise invalid(text.text, "bad-scheme", "scheme", position)
    if colon - text.start > LONGEST_SCHEME:
        name = f"scheme of {colon - text.start} characters"
        raise invalid(text.text, "bad-scheme", name, text.start + LONGEST_SCHEME)
    text.scheme = text.cut("scheme", text.start, colon).lower()
    if text.scheme == "url":
        raise invalid(text.text, "bad-scheme", "scheme that is only a prefix", text.start)
    text.start = colon + 1


def _cut_fragment(text: UrlText) -> None:
    sign = text.text.find("#", text.start, text.end)
    if sign < 0:
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
    the components themselves are the cause of.

    Args:
        url: what `parse` gave, or `dataclasses.replace` made of it.

    Raises:
        InvalidUrl: for components that no URL can hold; its position counts in the component.

    Examples:
        >>> resolver.build(resolver.FtpUrl(scheme="ftp", host="h.example", cwds=(b"a b",), name=b"c"))
        'ftp://h.example/a%20b/c'
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
    absent: dict[str, Any] = {
        name: None for name in ("user", "password", "fragment", "zone") if hasattr(url, name)
    }
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
        return _parse(text, strict=False, zoned=True).shown
    except InvalidUrl:
        return _redact_unparsed(text)


def _redact_unparsed(text: str) -> str:
    start = re.match(_START, text)
    at = text.rfind("@")
    begin = start.end() if start else 0
    return text if at < begin else f"{text[:begin]}****{text[at:]}"


def place_in_shown(text: str, shown: str, position: int) -> int:
    """Where a place in `text` is in `shown`, which is the same with a password cut out."""
    if text == shown:
        return position
    same_before = next((i for i, (a, b) in enumerate(zip(text, shown, strict=False)) if a != b), len(shown))
    from_end = len(text) - position
    if position <= same_before:
        return position
    return max(same_before, len(shown) - from_end)
