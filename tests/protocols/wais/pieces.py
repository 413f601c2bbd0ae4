"""A reader test with chunked input: complete, in small chunks, and with following bytes that must remain."""

from __future__ import annotations

from typing import TypeVar

from protocols.wire import Buffer, Reader

T = TypeVar("T")

#: Chunk sizes; None means all bytes in one chunk.
SIZES: tuple[int | None, ...] = (None, 1, 2, 3)


def feed(reader: Reader[T], octets: bytes, size: int | None, *, ends: bool = True) -> tuple[T, bytes]:
    """Return the value and the bytes left in the buffer.

    With `ends`, the stream ends after the bytes, and a reader that then requests more fails the test. Without
    `ends`, a reader that has no value after the last byte fails the test.
    """
    buffer = Buffer()
    waiting = reader(buffer)
    step = len(octets) + 1 if size is None else size
    pieces = [octets[start : start + step] for start in range(0, len(octets), step)]
    fed = 0
    while True:
        try:
            next(waiting)
        except StopIteration as done:
            return done.value, buffer.take() + b"".join(pieces[fed:])
        assert not buffer.at_end, "a reader asked for more after the end"
        assert ends or fed < len(pieces), "a reader asked for more than the available bytes"
        buffer.feed(pieces[fed] if fed < len(pieces) else b"")
        fed += 1
