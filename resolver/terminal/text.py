r"""Escaping of untrusted text for terminals (S15), against terminal escape injection.

These characters are replaced by an escape such as `\x1b` or `\u202e`:

- C0 controls except line feed and tab, DEL, C1 controls, and bidi controls
- invisible characters
- surrogates, which terminals do not accept

A surrogate that represents an invalid byte is shown as the escape of that byte. CR LF becomes a line feed.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable

from protocols.text import find_codec

#: Bidi controls, which change the direction of text (Trojan Source, CVE-2021-42574).
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
#: Invisible characters, and characters that end a line in some programs. Two names that differ only in
#: invisible characters look the same. Tag characters can contain text that language models read but users do
#: not see (prompt injection). The joiners U+200C and U+200D are permitted, because Persian, Hindi and many
#: emoji need them.
INVISIBLE = "\u180e\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
#: The pattern of all characters to escape. The pattern is compiled only when the first text contains such a
#: character, because compilation takes as long as the import of fifty modules.
_ESCAPED = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad{BIDI}{INVISIBLE}\ud800-\udfff]"
#: A translation table from surrogates, which represent invalid UTF-8 bytes, to ISO 8859-1 characters.
_LATIN_1 = {0xDC00 + octet: chr(octet) for octet in range(0x80, 0x100)}


def escape(text: str) -> str:
    r"""Escape control characters for a terminal or for standard error (S15).

    Line feeds and tabs are not escaped. The function never raises an exception.

    Args:
        text: untrusted text.

    Examples:
        >>> print(resolver.escape_controls(chr(27) + "[2J gone"))
        \x1b[2J gone
    """
    text = text.replace("\r\n", "\n")
    return text if _is_printable(text.replace("\n", "")) else re.sub(_ESCAPED, _escape_match, text)


#: The public name of `escape`.
escape_controls = escape


def escape_line(text: str) -> str:
    """Escape text for a single line of a terminal; line ends are escaped, too."""
    return text if _is_printable(text) else re.sub(_ESCAPED, _escape_match, text).replace("\n", "\\x0a")


def _is_printable(text: str) -> bool:
    """Return whether a text, apart from tabs, is printable according to `str.isprintable`.

    A printable text has no control characters, surrogates or bidi controls.
    """
    return text.replace("\t", "").isprintable()


def _escape_match(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # the surrogate represents this byte of invalid UTF-8
    return format_escape(code)


def format_escape(code: int) -> str:
    """Return the Python escape sequence of a character code."""
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class TerminalText:
    """A converter of a text body, in chunks of bytes, to escaped text for a terminal.

    The body is decoded with its declared charset. If the charset is missing or unknown, the body is decoded
    as UTF-8, and invalid bytes as ISO 8859-1. No input raises an error.
    """

    def __init__(self, charset: str | None = None) -> None:
        self._declared = _decoder(charset)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._buffer = ""  # a CR at the end of a chunk: the next chunk may start with LF

    def feed(self, octets: bytes) -> str:
        return self._escape(self._decode(octets, final=False), final=False)

    def finish(self) -> str:
        """Return the buffered text at the end of the body."""
        return self._escape(self._decode(b"", final=True), final=True)

    def _decode(self, octets: bytes, *, final: bool) -> str:
        if self._declared is None:
            return self._decoder.decode(octets, final).translate(_LATIN_1)
        try:
            return self._declared.decode(octets, final)
        except UnicodeError:  # for example, UTF-16 without a byte order mark
            self._declared = None
            return self._decode(octets, final=final)

    def _escape(self, text: str, *, final: bool) -> str:
        text = self._buffer + text
        self._buffer = "\r" if text.endswith("\r") and not final else ""
        return escape(text.removesuffix(self._buffer))


def _decoder(charset: str | None) -> codecs.IncrementalDecoder | None:
    codec = None if charset is None else find_codec(charset)
    decoder = None if codec is None else codecs.lookup(codec).incrementaldecoder
    return None if decoder is None else decoder("replace")


def measure_width(text: str) -> int:
    """Return the width of a text in columns: 2 for a wide character, 0 for a combining character."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def cut_to_width(text: str, columns: float, measure: Callable[[str], float] = measure_width) -> str:
    """Return the longest prefix of a text that is not wider than `columns`."""
    width = 0.0
    for end, character in enumerate(text):
        width += measure(character)
        if width > columns:
            return text[:end]
    return text
