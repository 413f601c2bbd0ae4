"""Conversion of URL text to URL objects and back, IRIs, and relative references.

`parse` performs the steps that all schemes share: length, characters, wrapper, prefix, scheme, escapes and
fragment. The scheme definition from the registry parses the remaining text. Strict mode uses the same parser,
but raises the first finding as an error. The parser does not trim, repair or resolve text. `resolver.policy`
checks the parsed URL.
"""

from __future__ import annotations

import re
from dataclasses import replace
from os import PathLike, fsdecode
from typing import TYPE_CHECKING, Any, TypeAlias

from protocols.errors import InvalidUrl
from protocols.location import Origin, Url, UrlText
from protocols.syntax import encode, find, invalid
from protocols.text import Masked
from resolver.url import registry
from resolver.url.tracebacks import trim_traceback

if TYPE_CHECKING:
    from httpx import URL as HttpxUrl
    from httpx2 import URL as Httpx2Url

    from protocols.other import Status


#: The types of values that a caller may pass as a URL.
UrlLike: TypeAlias = "str | Url | PathLike[str] | PathLike[bytes] | HttpxUrl | Httpx2Url"

#: Maximum number of characters of a URL.
MAX_URL = 65_536

#: Maximum number of characters of a scheme name. The longest name in IANA's registry has 27.
MAX_SCHEME = 64

_BAD_CHARACTER = r"[^!#-;=?-~]"  # a control character, a blank, `"`, `<`, `>`, or a character outside ASCII
# A bad character, or a `%` without two hex digits. The pattern begins with a set, which `re` finds fast.
_BAD = re.compile(r"[^!#$&-;=?-~](?:(?<!%)|(?![0-9A-Fa-f]{2}))")
_SCHEME = re.compile(rf"(?i:url:)?(?!(?i:url:))([A-Za-z][A-Za-z0-9+.-]{{0,{MAX_SCHEME - 1}}}):")
# `re` compiles a pattern in a string on first use. The patterns below are only for invalid URLs.
_NOT_ASCII = r"[^\x00-\x7f]"
_BEFORE_ZONE = r"//[^/?#\[\]]*\[[0-9A-Fa-f:.]*\Z"
_START = r"<?(?i:URL:)?(?:[A-Za-z][A-Za-z0-9+.-]*:)?/*"


def parse(text: str, *, strict: bool = False, origin: Origin = "derived") -> Url:
    """Parse a URL, with findings for deviations from RFC 1738.

    Args:
        text: the URL, with or without `<URL:…>` around it (RFC 1738, appendix).
        strict: raise the first finding as an error. The `kind` of the error is the finding's name.
        origin: the author of the URL. Only the user ("user") may write the zone of a link-local address (RFC
            9844).

    Returns:
        The components of the URL.

    Raises:
        InvalidUrl: the text is not a URL. The error has `kind` and `position`.

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
        raise trim_traceback(error.at(redact(text))) from error.__cause__


def make_url(value: UrlLike, *, strict: bool = False, origin: Origin = "derived") -> Url:
    """Return the URL that a caller passed as text, URL object, URL of httpx or httpx2, or path.

    Text and the URLs of httpx and httpx2 are parsed. A path becomes the URL of a local file, relative to the
    working directory.

    Raises:
        TypeError: the value has another type.
    """
    if isinstance(value, str):
        return parse(value, strict=strict, origin=origin)
    if isinstance(value, Url):
        if origin != "user" and find_zone(value) is not None:
            raise InvalidUrl(
                "bad-host", 0, "bad-host: only a URL from the user may have a zone", url=value.shown
            )
        return value
    if isinstance(value, PathLike):
        from pathlib import Path  # lazy import: few callers pass a path

        return parse(Path(fsdecode(value)).absolute().as_uri())
    if any(kind.__module__.partition(".")[0] in ("httpx", "httpx2") for kind in type(value).__mro__):
        return parse(str(value), strict=strict, origin=origin)
    raise TypeError(
        "a URL must be a str, resolver.Url, httpx.URL, httpx2.URL or, for a local file, os.PathLike, got"
        f" {type(value).__name__!r}"
    )


def find_zone(url: Url) -> str | None:
    """Return the IPv6 zone of a URL (RFC 6874), which names a network interface of this machine, or None."""
    zone: str | None = getattr(url, "zone", None)  # a `Url` without a host lacks the attribute `zone`
    return zone


def _parse(text: str, *, strict: bool, zoned: bool) -> Url:
    url_text = _read_common(text)
    url_text.may_have_zone = zoned
    scheme = registry.find(url_text.scheme)
    is_builtin = url_text.scheme in registry.SCHEMES
    url: Url
    if scheme is None:
        from protocols import other  # lazy import: only schemes without a module need `other`

        url = other.parse(url_text, _status(url_text.scheme))
    else:
        url_text.default_port = scheme.default_port
        url = scheme.parse(url_text)
        if not is_builtin:
            from protocols import other

            other.place_password(url_text)  # a plug-in's parser may not record its position (S17)
    if strict and url_text.findings:
        finding, position = next(iter(url_text.findings.items()))
        raise invalid(text, finding, "not in the form of RFC 1738", position)
    if is_builtin:
        return url
    return replace(  # a plug-in's parser may not set these values
        url,
        text=text,
        fragment=url_text.fragment,
        findings=tuple(url_text.findings),
        places=tuple(url_text.places),
    )


def _read_common(text: str) -> UrlText:
    """Parse the components that all schemes share, before the scheme-specific remainder.

    The checks run in a fixed order. If a URL has two errors, the first failed check determines the error.
    """
    if not text:
        raise invalid(text, "empty", "text", 0)
    length = len(text)
    if length > MAX_URL:
        raise invalid(text, "too-long", f"text of {length} characters", MAX_URL)
    start, end = (1, length - 1) if text[0] == "<" and text[-1] == ">" else (0, length)
    bad = _BAD.search(text, start, end)
    if bad is not None:
        _check_characters(text, start, end)
    match = _SCHEME.match(text, start, end)
    if match is None:
        raise _explain_scheme(text, start, end)
    if bad is not None:
        raise invalid(text, "bad-escape", _explain_escape(text, bad.start()), bad.start())
    begin, colon = match.span(1)
    url_text = UrlText(text, text[begin:colon].lower(), colon + 1, end, None)
    url_text.cut("scheme", begin, colon)
    if start:
        url_text.note("wrapper", 0)
    if "#" in text:
        _cut_fragment(url_text)
    return url_text


def _check_characters(text: str, start: int, end: int) -> None:
    if wrong := re.search(_NOT_ASCII, text):
        raise invalid(text, "non-ascii", "character outside ASCII", wrong.start())
    if wrong := re.compile(_BAD_CHARACTER).search(text, start, end):
        raise invalid(text, "bad-char", "character not allowed in URLs", wrong.start())


def _explain_scheme(text: str, start: int, end: int) -> InvalidUrl:
    """Return the error for text that does not begin with a scheme."""
    if text[start : start + 4].lower() == "url:":
        start += 4
    if start == end:
        return invalid(text, "empty", "nothing inside", end)
    name = re.split(r"[:/?#]", text[start:end], maxsplit=1)[0]
    if text[start + len(name) : end][:1] != ":":
        return invalid(text, "no-scheme", "text without a scheme", start)
    good = re.match(r"[A-Za-z][A-Za-z0-9+.-]*", name)
    length = 0 if good is None else good.end()
    if not name or length < len(name):
        return invalid(text, "bad-scheme", "scheme", start + length)
    if length > MAX_SCHEME:
        return invalid(text, "bad-scheme", f"scheme of {length} characters", start + MAX_SCHEME)
    return invalid(text, "bad-scheme", "scheme that is only a prefix", start)


def _explain_escape(text: str, sign: int) -> str:
    is_zone = re.compile(_BEFORE_ZONE).search(text, 0, sign) is not None
    return "% without two hex digits (write a zone as %25eth0)" if is_zone else "% without two hex digits"


def _cut_fragment(text: UrlText) -> None:
    sign, end = text.text.index("#"), text.end
    text.end = sign
    text.fragment = text.cut("fragment", sign + 1, end)
    second = find(text, "#", sign + 1, end)
    if second < end:
        text.note("unsafe-char", second)


def _status(scheme: str) -> Status:
    if scheme.startswith("x-"):
        return "experimental"
    return "reserved" if scheme in registry.RESERVED else "unknown"


def build(url: Url) -> str:
    """Return the text of a URL, with its password.

    `parse` returns the same components for the built text. The default port is omitted, and a slash is
    written before the search part (round trip). `parse` reports a finding for the built text only if a
    component itself deviates from RFC 1738.

    Args:
        url: the result of `parse`, or of `dataclasses.replace` on it.

    Raises:
        InvalidUrl: a URL cannot contain these components. The position is an index into the component.

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


def strip_user(url: Url) -> str:
    """Return the text of a URL without user, password, zone and fragment, for gateways and comparisons."""
    if registry.find(url.scheme) is None:
        from protocols import other

        assert isinstance(url, other.OtherUrl), url.scheme
        return other.build(replace(other.strip_user(url), fragment=None))
    absent: dict[str, Any] = {
        name: None for name in ("user", "password", "fragment", "zone") if hasattr(url, name)
    }
    return build(replace(url, **absent))


def redact(text: str) -> Masked:
    """Return the text with `****` for a password (S17).

    If the text is not a URL, everything between the scheme and the last `@` is replaced.
    """
    try:
        return _parse(text, strict=False, zoned=True).shown
    except InvalidUrl:
        start = re.match(_START, text)
        at = text.rfind("@")
        begin = start.end() if start else 0
        return Masked(text if at < begin else f"{text[:begin]}****{text[at:]}")


def place_in_shown(text: str, shown: str, position: int) -> int:
    """Convert a position in `text` to the position in `shown`. `shown` is `text` with a masked password."""
    if text == shown:
        return position
    same_before = next((i for i, (a, b) in enumerate(zip(text, shown, strict=False)) if a != b), len(shown))
    from_end = len(text) - position
    if position <= same_before:
        return position
    return max(same_before, len(shown) - from_end)


# Conversion of an internationalized address (IRI, RFC 3987) to a URL, only at the request of the caller.
#
# The host is converted to A-labels (IDNA 2008 with the mapping of UTS 46, non-transitional). Each other
# character outside of ASCII becomes percent-encoded UTF-8. ASCII characters stay unchanged, even if they are
# invalid in a URL. The result is text that `parse` and the policy must still check.

_BEFORE_HOST = r"<?(?i:URL:)?[A-Za-z][A-Za-z0-9+.-]*://([^/?#<>]*)"
_HOST = r"[0-9a-z.-]+\Z"


def convert_iri(text: str) -> str:
    """Convert an IRI to the text of a URL, without parsing the result (RFC 3987 3.1).

    Args:
        text: the user's input.

    Raises:
        InvalidUrl: `bad-host` for a host without an ASCII form, `non-ascii` for a lone surrogate.

    Examples:
        >>> resolver.convert_iri("http://bücher.example/straße")
        'http://xn--bcher-kva.example/stra%C3%9Fe'
    """
    if text.isascii():
        return text
    before = re.match(_BEFORE_HOST, text)
    if before is None:
        return _escape(text, 0, len(text))
    start, end = before.span(1)
    host = text.rfind("@", start, end) + 1 or start
    colon = text.find(":", host, end)
    port = end if colon < 0 else colon
    return f"{_escape(text, 0, host)}{_convert_host(text, host, port)}{_escape(text, port, len(text))}"


def _escape(text: str, start: int, end: int) -> str:
    try:
        return re.sub(f"{_NOT_ASCII}+", lambda found: encode(found[0].encode("utf-8")), text[start:end])
    except UnicodeEncodeError as error:
        wrong = re.compile("[\ud800-\udfff]").search(text, start)
        position = start if wrong is None else wrong.start()
        raise invalid(text, "non-ascii", "lone surrogate", position) from error


def _convert_host(text: str, start: int, end: int) -> str:
    host = text[start:end]
    if host.isascii():
        return host
    import idna  # lazy import: the tables of `idna` take half a megabyte

    try:
        converted = idna.encode(host, uts46=True, std3_rules=True, transitional=False).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise _no_host(text, start) from error
    # UTS 46 maps some characters to URL delimiters, for example U+FF0F to a slash (CVE-2019-9636).
    if not re.match(_HOST, converted):
        raise _no_host(text, start)
    return converted


def _no_host(text: str, start: int) -> InvalidUrl:
    return invalid(text, "bad-host", "host without an ASCII form", start)


# Relative references (RFC 3986 5.2), such as the value of the HTTP header Location.
#
# The functions join the texts of two URLs whose path consists of segments (http). The joined text is then
# parsed like any untrusted URL.

#: A pattern that matches the scheme at the start of a URL.
SCHEME_PREFIX = r"([A-Za-z][A-Za-z0-9+.-]*):"


def join(base: Url, location: str) -> Url:
    """Return the URL of `location`, an absolute URL or a relative reference found at `base`.

    User information of `base` is removed (S06, S11). If `location` has no fragment, the fragment of `base` is
    used (RFC 9110 10.2.2).

    Raises:
        InvalidUrl: the joined text is not a URL. The position is an index into the joined text.
    """
    is_absolute = re.match(SCHEME_PREFIX, location)
    complete = location if is_absolute else resolve_reference(strip_user(base), location)
    if base.fragment is not None and "#" not in location:
        complete = f"{complete}#{base.fragment}"
    return parse(complete)


def resolve_reference(base: str, location: str) -> str:
    """Resolve a reference without a scheme (RFC 3986 5.2.2); `base` has an authority and no fragment."""
    reference, sign, fragment = location.partition("#")
    path, question, search = reference.partition("?")
    target, base_question, base_search = base.partition("?")
    authority, base_path = _split_authority(target, target.index("//"))
    if path.startswith("//"):
        host, path = _split_authority(path, 0)
        authority = authority.partition("//")[0] + host
    elif not path:
        path = base_path
        if not question:
            question, search = base_question, base_search
    elif not path.startswith("/"):
        path = f"{base_path[: base_path.rfind('/') + 1] or '/'}{path}"
    return f"{authority}{_remove_dot_segments(path)}{question}{search}{sign}{fragment}"


def _split_authority(text: str, slashes: int) -> tuple[str, str]:
    """Split a URL before its path. `slashes` is the index of `//`."""
    path = text.find("/", slashes + 2)
    return (text, "") if path < 0 else (text[:path], text[path:])


def _remove_dot_segments(path: str) -> str:
    """Remove dot segments of an empty or absolute path (RFC 3986 5.2.4); an escaped dot is ordinary."""
    output: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del output[-1:]
        elif segment != ".":
            output.append(segment)
    if segments and segments[-1] in (".", ".."):
        output.append("")
    return "".join(f"/{segment}" for segment in output)
