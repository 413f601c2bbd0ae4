r"""Text from strangers on a terminal (S15): what would drive it is shown instead of sent.

Every C0 control but line feed and tab, DEL, every C1 control and the bidi controls come out as
`\x1b`, `\u202e`; so do characters that nobody sees, and surrogates, which no terminal takes: those that stand
for an octet as that octet. CR LF is a line end.
"""

from __future__ import annotations

import codecs
import re

from protocols.text import codec_of

#: What turns the direction of a line (CVE-2021-42574).
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
#: What has no width, or ends a line in some programs: two names look like one, and tag characters spell words
#: that models read and nobody sees. Joiners (U+200C, U+200D) stay: Persian, Hindi and many emoji need them.
UNSEEN = "\u180e\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
#: Compiled, which takes as long as fifty modules do, by the first text that may have one of these.
_DRIVING = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad{BIDI}{UNSEEN}\ud800-\udfff]"
#: Octets that were no UTF-8, as the decoder left them, and the ISO 8859-1 characters they are read as.
_LATIN = {0xDC00 + octet: chr(octet) for octet in range(0x80, 0x100)}


def escape(text: str) -> str:
    """Text fit for a terminal and for standard error (S15). Line feeds and tabs stay. Never raises.

    Args:
        text: whatever a stranger wrote.

    Examples:
        >>> print(resolver.escape_controls(chr(27) + "[2J gone"))
        \\x1b[2J gone
    """
    text = text.replace("\r\n", "\n")
    return text if _is_harmless(text.replace("\n", "")) else re.sub(_DRIVING, _show_match, text)


#: The public name of it.
escape_controls = escape


def escape_line(text: str) -> str:
    """`text` fit to be one line of a terminal: line ends in it are shown too."""
    return text if _is_harmless(text) else re.sub(_DRIVING, _show_match, text).replace("\n", "\\x0a")


def _is_harmless(text: str) -> bool:
    """What Python calls printable is no control, no surrogate and nothing that turns the direction."""
    return text.replace("\t", "").isprintable()


def _show_match(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # an octet that was no UTF-8
    return escape_of(code)


def escape_of(code: int) -> str:
    """Return a character as the source of a program writes it."""
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class TerminalText:
    """A text body on its way to a terminal: octets in pieces of any size in, escaped text out.

    Read by the declared charset; without one, or with one unknown here, as UTF-8, and what is no UTF-8
    as ISO 8859-1. Never fails for any octets.
    """

    def __init__(self, charset: str | None = None) -> None:
        self._declared = _decoder(charset)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""  # a CR that may be half of a line end

    def feed(self, octets: bytes) -> str:
        return self._escape(self._decode(octets, final=False), final=False)

    def finish(self) -> str:
        """The octets have ended: what was held back."""
        return self._escape(self._decode(b"", final=True), final=True)

    def _decode(self, octets: bytes, *, final: bool) -> str:
        if self._declared is None:
            return self._decoder.decode(octets, final).translate(_LATIN)
        try:
            return self._declared.decode(octets, final)
        except UnicodeError:  # UTF-16 without the mark that it has to begin with
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
