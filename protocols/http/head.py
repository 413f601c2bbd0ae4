"""The head of an answer as a value, and what its fields say (RFC 9110 6 and 8, RFC 9112 6.3).

Names are in lower case, values are the octets that came, one character each. What a field says is read
leniently where only a fact is lost; whatever decides about framing was checked by h11 before.
"""

from __future__ import annotations

import enum
import re

from protocols.errors import LimitExceeded, ProtocolError
from protocols.options import Limits
from protocols.values import NamedTuple

#: Octets that all heads of one answer may have, interim ones (1xx) too: a thousand lines of 64 KiB would be
#: 62 MiB. Browsers take 256 KiB to 400 KiB, curl 300 KiB.
LARGEST_HEAD = 262_144

#: No file is longer; a number beyond it would not fit where files are positioned.
_LARGEST = 2**63 - 1

_PARAMETER = re.compile(r';[ \t]*charset[ \t]*=[ \t]*(?:"([^"\\]*)"|([^\s;"]+))', re.IGNORECASE)
_ESSENCE = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+/[-!#$%&'*+.^_`|~0-9A-Za-z]+")


class BodyFraming(enum.Enum):
    """What tells where the body ends (RFC 9112 6.3)."""

    NONE = "there is no body"
    LENGTH = "Content-Length"
    CHUNKED = "the last chunk"
    CLOSE = "the end of the connection"


class ResponseHead(NamedTuple):
    """A final status line and its fields. `length` is None unless `framing` is by it."""

    status: int
    reason: str
    fields: tuple[tuple[str, str], ...]
    framing: BodyFraming = BodyFraming.CLOSE
    length: int | None = None

    def values(self, name: str) -> list[str]:
        """The values of all fields of that (lower-case) name."""
        found: list[str] = []
        for field, value in self.fields:
            if field == name:
                found += (value,)
        return found

    def first(self, name: str) -> str:
        """The value of the first field of that name; empty where there is none."""
        for field, value in self.fields:
            if field == name:
                return value
        return ""

    @property
    def shown(self) -> str:
        """Status and reason for a message."""
        return f"{self.status} {self.reason}".rstrip()

    @property
    def media_type(self) -> str | None:
        """Type and subtype in lower case, None where none can be read."""
        essence = self.first("content-type").partition(";")[0].strip()
        return essence.lower() if _ESSENCE.fullmatch(essence) else None

    @property
    def charset(self) -> str | None:
        """The charset parameter, as written."""
        found = _PARAMETER.search(self.first("content-type"))
        return None if found is None else (found[1] or found[2] or None)

    @property
    def announced(self) -> int | None:
        """Content-Length, which an answer to HEAD has though nothing follows. Where there is a transfer
        coding it means nothing (RFC 9112 6.3), nor where there can be no content (RFC 9110 15.3.5)."""
        values = self.values("content-length")
        void = self.status == 204 or self.values("transfer-encoding")
        return content_length(values[0]) if values and not void else None

    @property
    def codings(self) -> list[str]:
        """The content codings that were applied, in lower case, `identity` left out."""
        if not (values := self.values("content-encoding")):
            return []
        named = [coding.strip().lower() for coding in ",".join(values).split(",")]
        return [coding for coding in named if coding not in ("", "identity")]


def check_head_size(octets: int, limits: Limits) -> None:
    """So many octets of head have come. Raises `LimitExceeded`. A line may be as long as `limits` let it."""
    most = max(LARGEST_HEAD, limits.line)
    if octets > most:
        raise LimitExceeded("lines", f"the head of the answer is longer than {most} octets in all")


def content_length(value: str) -> int:
    """A Content-Length that h11 has taken for digits. Raises `ProtocolError` beyond 2^63."""
    length = int(value)
    if length > _LARGEST:
        raise ProtocolError(f"Content-Length {length} is longer than any file")
    return length


def framing_of(
    method: bytes, status: int, fields: tuple[tuple[str, str], ...], version: str = "1.1"
) -> tuple[BodyFraming, int | None]:
    """RFC 9112 6.3, for fields that h11 has taken; the number of octets where that is known.

    Raises `ProtocolError` for a transfer coding beside a length, or in HTTP/1.0: of two peers on the way one
    reads a body that ends elsewhere, and the rest of it as another answer (RFC 9112 6.1, 11.2).
    """
    if method == b"CONNECT" and 200 <= status < 300:  # what follows is the tunnel's, whatever they say
        return BodyFraming.NONE, None
    names = dict(fields)
    if "transfer-encoding" in names and "content-length" in names:
        raise ProtocolError("the answer has Transfer-Encoding and Content-Length, of which one alone may be")
    if "transfer-encoding" in names and version != "1.1":
        raise ProtocolError(f"the answer is HTTP/{version}, which has no Transfer-Encoding")
    if method == b"HEAD" or status in (204, 304):
        return BodyFraming.NONE, None
    if "transfer-encoding" in names:
        return BodyFraming.CHUNKED, None
    if "content-length" in names:
        return BodyFraming.LENGTH, content_length(names["content-length"])
    return BodyFraming.CLOSE, None
