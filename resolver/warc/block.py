"""The block of one record, read when it is wanted: an archive is held in no memory."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.errors import ChecksumMismatch, LimitExceeded, ProtocolError
from protocols.values import NamedTuple
from resolver.warc.digests import ComputedDigest
from resolver.warc.head import RecordHead, read_head
from resolver.warc.stretch import AT_ONCE, Budget, DamagedRecord, RecordSource, RecordStream, open_stretch

#: Of a block no longer than this the digest is compared before its first octet is given.
HELD = 1_048_576

#: Octets between two records.
_BEHIND = 4


class RecordPosition(NamedTuple):
    """Where a record is: the number of its file, where it, or the member that it is in, begins, and how many
    records of that member come before it."""

    file: int
    offset: int
    number: int


def open_block(
    source: RecordSource, seat: RecordPosition, budget: Budget
) -> tuple[RecordHead, Iterator[bytes]]:
    """The head of a record, and its block in pieces. `budget` is that of all that is wanted of its member at
    once, for each time all before it is unpacked. Raises `ProtocolError` where the file is no longer what
    it was, and `ChecksumMismatch`, for a long block at its end, where it is not the one that was written."""
    stretch = open_stretch(source, seat.offset, budget)
    head = None
    try:
        if stretch is not None:
            for _ in range(seat.number):
                _pass_over(stretch)
            head = read_head(stretch)
    except DamagedRecord as error:
        raise _changed(str(error)) from error
    if head is None or stretch is None:
        raise _changed("no record begins there")
    return head, _verified(head, _pieces(stretch, head))


def joined(pieces: Iterator[bytes], most: int, what: str) -> bytes:
    """All of them. Raises `LimitExceeded`."""
    held = bytearray()
    for octets in pieces:
        held += octets
        if len(held) > most:
            raise LimitExceeded("body", f"the archive has {what} of more than {most} octets")
    return bytes(held)


def _pass_over(stretch: RecordStream) -> None:
    head = read_head(stretch)
    left = 0 if head is None else head.length + _BEHIND
    while left and (octets := stretch.read(min(left, AT_ONCE))):
        left -= len(octets)


def _pieces(stretch: RecordStream, head: RecordHead) -> Iterator[bytes]:
    left = head.length
    while left:
        try:
            octets = stretch.read(min(left, AT_ONCE))
        except DamagedRecord as error:
            raise _changed(str(error)) from error
        if not octets:
            raise _changed(f"it ends {left} octets before the end of a block")
        left -= len(octets)
        yield octets


def _verified(head: RecordHead, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same, held to the digest. Of a revisit it proves nothing: wget writes that of no octets there."""
    claim = head.first("WARC-Block-Digest")
    if claim is None or head.type == "revisit":
        yield from pieces
        return
    digest = ComputedDigest(claim)
    held: list[bytes] = []
    is_short = head.length <= HELD
    for octets in pieces:
        digest.take(octets)
        if is_short:
            held.append(octets)
        else:
            yield octets
    if digest.verdict() == "mismatch":
        raise ChecksumMismatch(
            "the archive has other octets than were kept: the digest of the block is not theirs"
        )
    yield from held


def _changed(what: str) -> ProtocolError:
    return ProtocolError(f"the archive cannot be read any more: {what}")
