"""The name that a server suggests for a file: Content-Disposition (RFC 6266, RFC 8187).

What comes out are octets as the server has them, separators and all: whoever makes a file of that name
cleans it first.
"""

from __future__ import annotations

import re

from protocols.syntax import decode

_TOKEN = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_PARAMETER = re.compile(rf'[ \t]*;[ \t]*({_TOKEN})[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;"]+)', re.DOTALL)
#: RFC 8187 3.2: a character set, a language, and octets, encoded as in a URL.
_EXTENDED = re.compile(r"(?i:(utf-8)|(iso-8859-1))'[-A-Za-z0-9]*'((?:%[0-9A-Fa-f]{2}|[!-$&-~])+)")


def suggested_name(value: str) -> bytes | None:
    """The file name in a field value, which has one character per octet; `filename*` counts before
    `filename`. None where there is none, or the field is not written as the RFC has it."""
    kind = re.match(rf"[ \t]*{_TOKEN}", value)
    at = 0 if kind is None else kind.end()
    found: dict[str, str] = {}
    while (parameter := _PARAMETER.match(value, at)) is not None:
        found.setdefault(parameter[1].lower(), parameter[2])
        at = parameter.end()
    if kind is None or value[at:].strip(" \t;"):
        return None
    extended = _decode_extended(found.get("filename*", ""))
    if extended is not None:
        return extended
    plain = found.get("filename")
    return None if plain is None else _unquote(plain).encode("latin-1")


def _decode_extended(text: str) -> bytes | None:
    written = _EXTENDED.fullmatch(text)
    if written is None:
        return None
    octets = decode(written[3])
    return octets if written[1] else octets.decode("latin-1").encode()


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text.startswith('"') else text
