"""Indexes of archives as programs write them: CDXJ, and CDX whose first line says which columns it has.

A line is only a hint, whoever wrote it: which record may have a payload of some digest. An index is a
stranger's octets: lines are bounded, and so is what is read of one (S16). It may be packed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from protocols.errors import LocalError
from protocols.values import NamedTuple
from resolver.warc.digests import read_claim
from resolver.warc.stretch import Budget, DamagedRecord, RecordSource, open_stretch

#: Octets of a line, and lines of an index.
MOST_LINE = 65_536
MOST_LINES = 20_000_000

_OFFSET = re.compile(r"[0-9]{1,18}", re.ASCII)
_SHA1 = 20
#: Columns of CDX that are of use: checksum, offset of what is packed or of what is not, file.
_CHECKSUM, _OFFSETS, _FILE = "k", "Vv", "g"
#: A record that has no payload of its own.
_REVISITS = ('"warc/revisit"', " warc/revisit ")


class CdxHint(NamedTuple):
    """The payload whose SHA-1 that is, is in the record at `offset` of a file of this name, which has no
    directory in it."""

    digest: bytes
    name: str
    offset: int


def read_hints(source: RecordSource) -> Iterator[CdxHint | None]:
    """One for each line that is of no revisit, in order; None where it tells nothing of use. Raises
    `LocalError` where this is no index, and behind so many lines."""
    columns: dict[str, int] = {}
    for number, line in enumerate(_lines(source)):
        if number >= MOST_LINES:
            raise LocalError(f"the index has more than {MOST_LINES} lines")
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not number and text[1:5] == "CDX ":
            columns = {letter: at for at, letter in enumerate(text[5:].split(text[0]))}
            continue
        if any(word in text for word in _REVISITS):
            continue
        yield _of_columns(text, columns) if columns else _of_json(text)


def _lines(source: RecordSource) -> Iterator[bytes]:
    begun, budget = 0, Budget(0)
    try:
        while (stretch := open_stretch(source, begun, budget)) is not None:
            while line := stretch.line(MOST_LINE):
                yield line
            begun = stretch.end
    except DamagedRecord as error:
        raise LocalError(f"this is no index of archives: {error}") from error


def _of_columns(text: str, columns: dict[str, int]) -> CdxHint | None:
    words = text.split(" ")

    def word(letter: str) -> str:
        at = columns.get(letter, len(words))
        return words[at] if at < len(words) else ""

    offset = next((found for letter in _OFFSETS if _OFFSET.fullmatch(found := word(letter))), "")
    return _hint(word(_CHECKSUM), word(_FILE), offset)


def _of_json(text: str) -> CdxHint | None:
    """Of a line with a key, a time and an object of JSON."""
    words = text.split(" ", 2)
    if len(words) < 3:
        return None
    try:
        said = json.loads(words[2])
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    return _hint(*(str(said.get(name, "")) for name in ("digest", "filename", "offset")))


def _hint(digest: str, file: str, offset: str) -> CdxHint | None:
    """Some write the digest without its algorithm, and the file with the directory that it was in."""
    claim = read_claim(digest if ":" in digest else f"sha1:{digest}")
    name = file.rpartition("/")[2]
    if claim is None or len(claim.digest) != _SHA1 or not _is_name(name) or not _OFFSET.fullmatch(offset):
        return None
    return CdxHint(claim.digest, name, int(offset))


def _is_name(name: str) -> bool:
    """Can a file have it?"""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return name not in ("", ".", "..") and "\0" not in name
