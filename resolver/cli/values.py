"""The parsers of option values.

A parser raises `BadValue` for an invalid value. The message describes the expected form.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from protocols.errors import InvalidUrl, NotConfigured, ResolveError
from resolver.policy.proxy import check_proxy
from resolver.url.parsing import parse

if TYPE_CHECKING:
    from resolver.transfer.verification import Checksum

_SIZE_FACTORS = {"k": 1024, "K": 1024, "M": 1024**2, "G": 1024**3}

_DECIMAL = r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}"
#: Matches a duration, such as `1h30m`. Each unit occurs at most once, in the order d, h, m, s, ms. systemd
#: and Go use the same letters.
_DURATION = "".join(f"(?:({_DECIMAL}){unit})?" for unit in ("d", "h", "m", "s", "ms"))
_UNIT_SECONDS = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)


class UsageError(Exception):
    """An invalid command line; user names and passwords of URLs are masked in the message (S17)."""

    def __init__(self, message: str) -> None:
        super().__init__(re.sub(r"//[^/?#\s]*@", "//****@", message))


class BadValue(ArgumentTypeError):
    """An invalid value of an option; the message describes the expected form."""


@contextmanager
def convert_to_bad_value(*kinds: type[Exception], prefix: str = "") -> Iterator[None]:
    """Convert exceptions of these classes to `BadValue`, with the same message after a prefix."""
    try:
        yield
    except kinds as error:
        message = error.message if isinstance(error, ResolveError) else error
        raise BadValue(f"{prefix}{message}") from error


def pair(text: str, option: str) -> tuple[str, str]:
    """Split NAME=VALUE. Raises `UsageError` with the name of the `option` in its message."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"{option}: expected NAME=VALUE, got {text!r}")
    return name, value


def _whole_number(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return the parser of whole numbers in a range."""

    def parse_number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and minimum <= int(text) <= maximum):
            raise BadValue(f"expected a number from {minimum} to {maximum}, got {text!r}")
        return int(text)

    return parse_number


count = _whole_number(1, 1_000)
number = _whole_number(0, 1_000)
depth = _whole_number(1, 64)
port = _whole_number(1, 65_535)
listening_port = _whole_number(0, 65_535)  # with 0, the system chooses a free port
page_size = _whole_number(1, 10_000)


def entry(text: str) -> int:
    """Parse the number of a listing entry: at most 9 digits, because a listing may have millions."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= 1):
        raise BadValue(f"expected the number of an entry, from 1, got {text!r}")
    return int(text)


def regex(text: str) -> str:
    """Check that the text is a valid regular expression."""
    with convert_to_bad_value(re.error, prefix="not a regular expression: "):
        re.compile(text)
    return text


def listening_address(text: str) -> str:
    """Parse the IP address of a listening socket, and return it in the form that browsers use.

    The server compares the Host header of each request with this address (protection against DNS rebinding).
    The wildcard addresses (0.0.0.0 and ::) and link-local addresses with a zone are therefore invalid.
    Multicast, broadcast and IPv4-mapped addresses are also invalid.
    """
    from ipaddress import ip_address  # lazy import: few command lines contain an IP address

    try:
        ip = ip_address(text)
    except ValueError as error:
        raise BadValue(f"expected a numeric address, got {text!r}") from error
    is_mapped = getattr(ip, "ipv4_mapped", None) is not None
    if ip.is_unspecified or ip.is_multicast or is_mapped or "%" in text or text == "255.255.255.255":
        raise BadValue(f"expected one address of this machine, got {text!r}")
    return str(ip)


def size(text: str) -> int:
    """Parse a number of bytes, optionally with k, M or G (powers of 1024)."""
    factor = _SIZE_FACTORS.get(text[-1:], 1)
    digits = text if factor == 1 else text[:-1]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise BadValue(f"expected a whole number (with k, M or G), got {text!r}")
    return int(digits) * factor


def rate(text: str) -> int:
    """Parse bytes per second, in the form of `size`, at least 1."""
    value = size(text)
    if not value:
        raise BadValue("expected bytes per second, 1 or more, got 0")
    return value


def seconds(text: str) -> float:
    """Parse a duration above 0: a decimal number of seconds, or numbers with d, h, m, s and ms (1h30m)."""
    match = re.fullmatch(_DURATION, text)
    if match is None or not text:
        return _decimal(text, "expected seconds above 0, or a duration such as 500ms, 2m or 1h30m")
    parts = zip(match.groups(), _UNIT_SECONDS, strict=True)
    value = sum(float(part) * unit for part, unit in parts if part is not None)
    if value <= 0:
        raise BadValue(f"expected a duration above 0, got {text!r}")
    return value


def frequency(text: str) -> float:
    """Parse a rate per second above 0, optionally with decimals."""
    return _decimal(text, "expected a number above 0 (0.5: every 2 s)")


def _decimal(text: str, expectation: str) -> float:
    value = float(text) if re.fullmatch(_DECIMAL, text) else 0.0
    if value <= 0:
        raise BadValue(f"{expectation}, got {text!r}")
    return value


def scheduler(text: str) -> str:
    """Check the value of `--scheduler`: the address of a Dask scheduler, `local`, or `local:N`."""
    host, colon, workers = text.partition(":")
    if host == "local":
        if colon:
            count(workers)
        return text
    if re.fullmatch(r"([a-z]+://)?[^\s/]+:[0-9]{1,5}", text) is None:
        raise BadValue(f"expected HOST:PORT, tls://HOST:PORT, or local:N, got {text!r}")
    return text


#: Matches an escape sequence of C in a separator, as in `printf`, `find -printf` and `xargs -d`.
_ESCAPE = r"(?s)\\(x[0-9A-Fa-f]{2}|[0-7]{1,3}|.|\Z)"
#: The escape letters of C: the letters for the bytes 7 to 13, `e` for ESC, and the backslash.
_ESCAPES = {letter: chr(code) for code, letter in enumerate("abtnvfr", 7)} | {"e": "\x1b", "\\": "\\"}


def separator(text: str) -> str:
    """Check the escapes of a separator, see `unescape`."""
    unescape(text)
    return text


def unescape(text: str) -> bytes:
    r"""Decode the escapes of C in a text, such as `\n`, `\0`, `\t`, `\x1e`, `\036` and `\\`."""

    def octet(match: re.Match[str]) -> str:
        code = match[1]
        if code[:1] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        if re.match("[0-7]", code) and int(code, 8) < 256:
            return chr(int(code, 8))
        if code not in _ESCAPES:
            raise BadValue(rf"unknown escape {match[0]} (expected \n, \0, \t, \r, \xHH or \\)")
        return _ESCAPES[code]

    # During the conversion, each byte is one character, so an escape sequence may produce any byte.
    octets = text.encode("utf-8", "surrogateescape")
    return re.sub(_ESCAPE, octet, octets.decode("latin-1")).encode("latin-1")


def path(text: str) -> str:
    """Check the path of a file or directory; refuse an empty path (often an unset shell variable)."""
    if not text:
        raise BadValue("expected a name, got ''")
    if "\0" in text:
        raise BadValue(f"a path cannot contain NUL, got {text!r}")
    return text


def moment(text: str) -> str:
    """Check a UTC time, or a prefix of it such as the year, for an archive."""
    from resolver.warc.archive import read_moment  # lazy import: few command lines have such a value

    with convert_to_bad_value(NotConfigured):
        read_moment(text)
    return text


def proxy(text: str) -> str:
    """Check the value of `--proxy`: the URL of a proxy, or `none`."""
    with convert_to_bad_value(NotConfigured):
        check_proxy(text, "the value")
    return text


def pin(text: str) -> str:
    """Check the digest of a server certificate."""
    from resolver.policy.settings import normal_pin  # lazy: few command lines have one

    with convert_to_bad_value(NotConfigured):
        return normal_pin(text)


def referrer(text: str) -> str:
    with convert_to_bad_value(InvalidUrl, prefix="not a URL: "):
        return parse(text).text


def checksum(text: str) -> Checksum:
    """Parse the value of `--checksum`: `auto`, or an algorithm and a digest as `ALG:HEX`."""
    from resolver.transfer.verification import Checksum  # lazy import: few command lines have such a value

    with convert_to_bad_value(ValueError):
        return Checksum.parse(text)


def suggest_nearest(word: str, names: Iterable[str]) -> str:
    """Return a suggestion of the keyword most similar to `word`, or an empty text.

    A keyword that starts with `word` is preferred.
    """
    words = sorted(set(names))
    completions = [name for name in words if len(word) > 2 and name.startswith(word)]
    max_distance = 1 if len(word.lstrip("-")) < 5 else 2
    matches = [(distance, name) for name in words if (distance := _edit_distance(word, name)) <= max_distance]
    match = completions[0] if completions else min(matches)[1] if matches else None
    return "" if match is None else f"; did you mean {match}?"


def _edit_distance(text: str, other: str) -> int:
    """Return the Damerau-Levenshtein distance of two strings (optimal string alignment).

    The edits are insertions, deletions, replacements and swaps of neighbors.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(text, 1):
        last, before, row = before, row, [i]
        for j, other_letter in enumerate(other, 1):
            distance = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other_letter))
            if i > 1 and j > 1 and (letter, other_letter) == (other[j - 2], text[i - 2]):
                distance = min(distance, last[j - 2] + 1)
            row.append(distance)
    return row[-1]
