r"""Untrusted text on a terminal (S15): control characters are escaped instead of sent.

These characters are shown as `\x1b` or `\u202e`:

- C0 controls except line feed and tab, DEL, C1 controls, and bidi controls
- invisible characters
- surrogates, which no terminal accepts; a surrogate that stands for a byte is shown as that byte

CR LF becomes a line feed.
"""

from __future__ import annotations

import codecs
import re

from protocols.text import codec_of

#: Characters that change the direction of a line (CVE-2021-42574).
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
#: Characters without a width, or that end a line in some programs. With them, two names look the same; tag
#: characters spell text that language models read and users do not see. Joiners (U+200C, U+200D) pass:
#: Persian, Hindi and many emoji need them.
UNSEEN = "\u180e\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
#: The pattern is compiled only when the first text contains such a character, because compiling takes as long
#: as importing fifty modules.
_DRIVING = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad{BIDI}{UNSEEN}\ud800-\udfff]"
#: The decoder's surrogates for invalid UTF-8 bytes -> the ISO 8859-1 characters that they are read as.
_LATIN = {0xDC00 + octet: chr(octet) for octet in range(0x80, 0x100)}


def escape(text: str) -> str:
    r"""Escape control characters for a terminal and for standard error (S15).

    Line feeds and tabs stay. Never raises.

    Args:
        text: untrusted text.

    Examples:
        >>> print(resolver.escape_controls(chr(27) + "[2J gone"))
        \x1b[2J gone
    """
    text = text.replace("\r\n", "\n")
    return text if _is_harmless(text.replace("\n", "")) else re.sub(_DRIVING, _show_match, text)


#: The public name of `escape`.
escape_controls = escape


def escape_line(text: str) -> str:
    """Escape text for one line of a terminal, including line ends."""
    return text if _is_harmless(text) else re.sub(_DRIVING, _show_match, text).replace("\n", "\\x0a")


def _is_harmless(text: str) -> bool:
    """Return whether Python calls the text printable: no controls, surrogates or bidi controls."""
    return text.replace("\t", "").isprintable()


def _show_match(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # a byte of invalid UTF-8
    return escape_of(code)


def escape_of(code: int) -> str:
    """Return a character as a Python escape sequence."""
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class TerminalText:
    """A converter from a text body, in chunks of bytes, to escaped text for a terminal.

    The declared charset decodes the body. Without a known charset, UTF-8 decodes it and invalid bytes are
    read as ISO 8859-1. No input raises an error.
    """

    def __init__(self, charset: str | None = None) -> None:
        self._declared = _decoder(charset)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""  # a CR that may be the first half of a line end

    def feed(self, octets: bytes) -> str:
        return self._escape(self._decode(octets, final=False), final=False)

    def finish(self) -> str:
        """Return the text that was held back, at the end of the body."""
        return self._escape(self._decode(b"", final=True), final=True)

    def _decode(self, octets: bytes, *, final: bool) -> str:
        if self._declared is None:
            return self._decoder.decode(octets, final).translate(_LATIN)
        try:
            return self._declared.decode(octets, final)
        except UnicodeError:  # UTF-16 without the required byte order mark
            self._declared = None
            return self._decode(octets, final=final)

    def _escape(self, text: str, *, final: bool) -> str:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") and not final else ""
        return escape(text.removesuffix(self._held))


def _decoder(charset: str | None) -> codecs.IncrementalDecoder | None:
    codec = None if charset is None else codec_of(charset)
    decoder = None if codec is None else codecs.lookup(codec).incrementaldecoder
    return None if decoder is None else decoder("replace")
