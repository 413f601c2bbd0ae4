"""What the octets of a header field mean to a reader (RFC 5322, RFC 2047). Nothing here ever fails.

Header fields of news have been 8-bit in practice since long before anyone declared a charset: octets
are UTF-8 if they can be, else in the charset that the article declares for its body, else ISO 8859-1.
Encoded words are decoded afterwards; what is not a proper one is left as it is written.
"""

from __future__ import annotations

import binascii
import re

from protocols.charset import codec_of

_ONE = r"=\?[^?\s]+\?[BbQq]\?[^?\s]*\?="
_WORD = re.compile(r"=\?([^?\s*]+)(?:\*[^?\s]*)?\?([BbQq])\?([^?\s]*)\?=")  # RFC 2231 5: a language
_RUN = re.compile(rf"{_ONE}(?:\s*{_ONE})*")
_ESCAPE = re.compile(rb"=([0-9A-Fa-f]{2})")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s\";]+)", re.IGNORECASE)


def known_charset(name: str) -> str | None:
    """The charset, if octets can be decoded by it here."""
    return name if codec_of(name) is not None else None


def declared_charset(content_type: str | None) -> str | None:
    """The charset that a Content-Type declares (RFC 2045 5.1), if it is known."""
    found = None if content_type is None else _CHARSET.search(content_type)
    return None if found is None else known_charset(found[1])


def decode_field(octets: bytes, charset: str | None = None) -> str:
    """The value of a header field. `charset` is a known one, that of the article's body."""
    return decode_words(_decode(octets, charset)).strip()


def _decode(octets: bytes, charset: str | None) -> str:
    for codec in ("utf-8", None if charset is None else codec_of(charset)):
        if codec is not None:
            try:
                return octets.decode(codec)
            except UnicodeError:
                pass
    return octets.decode("latin-1")


def decode_words(text: str) -> str:
    """RFC 2047: the encoded words of a field's value decoded, adjacent ones joined."""
    return _RUN.sub(_decode_run, text) if "=?" in text else text


def _decode_run(found: re.Match[str]) -> str:
    """A run of encoded words. White space between two of them is not part of the text; a character may
    be cut between two of the same charset, so their octets are joined before they are decoded."""
    text, end, pending, charset = "", 0, b"", ""
    for word in _WORD.finditer(found[0]):
        octets = _decode_word(word)
        if octets is None or word[1].lower() != charset:
            text, pending = text + _show(pending, charset), b""
        if octets is None:
            text, charset = text + found[0][end : word.end()], ""
        else:
            text += "" if charset or end == 0 else found[0][end : word.start()]
            charset, pending = word[1].lower(), pending + octets
        end = word.end()
    return text + _show(pending, charset)


def _show(octets: bytes, charset: str) -> str:
    return octets.decode(codec_of(charset) or "latin-1", "replace") if octets else ""


def _decode_word(word: re.Match[str]) -> bytes | None:
    """The octets of an encoded word; None if it is none: an unknown charset, bad base64."""
    if known_charset(word[1].lower()) is None:
        return None
    try:
        encoded = word[3].encode("ascii")
        if word[2] in "Bb":
            return binascii.a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
    except ValueError:  # binascii.Error and UnicodeError are ones
        return None
    plain = encoded.replace(b"_", b" ")
    if plain.count(b"=") != len(_ESCAPE.findall(plain)):
        return None
    return _ESCAPE.sub(lambda escape: bytes((int(escape[1], 16),)), plain)
