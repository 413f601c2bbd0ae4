"""Text for display and logs: charset names (RFC 2978), short values for `repr`, and times.

The charset name of a peer is never passed to Python's codec lookup. For each new name, the lookup imports a
module and caches the result forever, even if the codec does not exist (memory exhaustion). Instead, the name
is compared with the names of the existing codecs, and only these codecs are loaded.
"""

from __future__ import annotations

from encodings import normalize_encoding
from encodings.aliases import aliases

TYPE_CHECKING = False  # type checkers assume True; without the import of `typing`, the program starts faster

if TYPE_CHECKING:
    from datetime import datetime


class Masked(str):
    """A text without secrets, with `****` in their place; every output of text requires one.

    `Url.shown` and `redact` mask a URL. `Mask` masks the text of a server, also in errors and findings. Other
    code may compose a masked text only from literals, numbers and masked texts: `Masked(f"{url.shown}: {n}")`
    (checked by the mypy plugin in `tests/octets_in_text.py`).
    """

    __slots__ = ()


def own_text(text: str) -> Masked:
    """Return a text of this machine that contains no secret: a path, an option, a host, an address."""
    return Masked(text)


_MAX_CHARSET = 40  # the maximum number of characters of a charset name (RFC 2978 2.3)

#: The codecs that are missing in Python's table of aliases.
_UNALIASED = frozenset(
    {"cp1006", "cp720", "cp737", "cp856", "cp874", "cp875", "iso8859_1", "koi8_t", "koi8_u", "mac_arabic"}
    | {"mac_croatian", "mac_farsi", "mac_romanian", "palmos", "utf_8_sig"}
)
#: Python codecs that must not decode text. Some convert bytes to bytes, some take quadratic time, one raises
#: an error for any input, and one depends on the settings of Windows.
_NO_CHARSETS = frozenset(
    {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}
    | {"idna", "mbcs", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"}
)
_CODECS = (frozenset(aliases.values()) | _UNALIASED) - _NO_CHARSETS


def find_codec(charset: str) -> str | None:
    """Return the codec name of a charset, or None for an unknown charset."""
    if len(charset) > _MAX_CHARSET or not (charset.isascii() and charset.isprintable()):
        return None
    name = normalize_encoding(charset.lower())
    codec = aliases.get(name) or aliases.get(name.replace(".", "_")) or name
    return codec if codec in _CODECS and _has_codec(codec) else None


def _has_codec(codec: str) -> bool:
    """Return whether this Python has the codec. Debian's python3-minimal has only a few codecs."""
    try:
        b"aaaa".decode(codec)
    except LookupError:
        return False
    except UnicodeError:
        pass
    return True


def decode_text(octets: bytes) -> str:
    """Decode bytes from a server as UTF-8 or, if they are invalid UTF-8, as ISO 8859-1."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")


_MAX_BRIEF = 200
_MAX_TEXT = 80
_ELLIPSIS = "..."  # in ASCII, for terminals that cannot display other characters


def brief(value: object, *facts: str | None) -> str:
    """Return `<Class fact fact …>`, without the arguments that are `None`."""
    line = " ".join([type(value).__name__, *(fact for fact in facts if fact is not None)])
    return f"<{_shorten(line, _MAX_BRIEF - 2)}>"


def quote_text(text: str | None) -> str | None:
    """Return an untrusted text in quotes, escaped as in Python, and shortened if the text is long."""
    return None if text is None else _shorten(repr(text[:_MAX_BRIEF]), _MAX_TEXT)


def _shorten(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - len(_ELLIPSIS)] + _ELLIPSIS


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in singular or plural: `1 byte`, `12,345 bytes`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def instant(moment: datetime | None) -> str | None:
    """Return a time in RFC 3339 format, in UTC and whole seconds. Without a time zone, it counts as UTC."""
    if moment is None:
        return None
    from datetime import UTC  # lazy import: `explain` formats no time

    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    utc = aware.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    # `strftime` of glibc writes the year 1 with one digit, and RFC 3339 requires four.
    return f"{utc.isoformat()}Z"
