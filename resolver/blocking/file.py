"""What a URL names as a file that is open for reading, for all that take one: pandas, tarfile, zipfile.

It can be sought in where the scheme can begin in the middle and the size is known. What is near is read past;
farther away another retrieval begins, of the same state of the object: `Changed` where it is another one.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, TypeAlias

from protocols.contract import Validators
from protocols.errors import Changed, ResolveError
from resolver import registry
from resolver.blocking.reply import LiveReply
from resolver.portal.ahead import MOST
from resolver.retrieval.retry import refuse_pointer

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Opens the object at an octet of it, if it is still the one that is known.
OpenAt: TypeAlias = Callable[[int, Validators], AbstractContextManager[LiveReply]]


class _SeekableObject(io.RawIOBase):
    """`close` is called at the end."""

    def __init__(self, open_at: OpenAt, close: Callable[[], None]) -> None:
        self._open_at = open_at
        self._opened = ExitStack()
        self._reply: LiveReply | None = None
        self._known = Validators()
        self._position = self._at = 0
        self._close = close
        try:
            self._reply = self._begin(0)
            refuse_pointer(self._reply)
        except BaseException:
            self.close()
            raise
        self._size = self._reply.size
        self._known = self._reply.validators
        self._row = registry.find(self._reply.request.url.scheme)
        self.name = self._reply.url

    def _begin(self, start: int) -> LiveReply:
        """At that octet, or at the first where the peer cannot do that."""
        self._opened.close()
        reply = self._opened.enter_context(self._open_at(start, self._known))
        if not self._known.agree(reply.validators):
            raise Changed("the object has changed since it was opened", url=reply.url)
        self._at = reply.start
        return reply

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._size is not None and self._row is not None and self._row.resumes

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self._size is None or not self.seekable():
            raise io.UnsupportedOperation(
                f"{self.name} cannot be sought in: the server tells no size, or cannot begin in the middle; "
                "save it, and open the file"
            )
        position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if position < 0:
            raise ValueError(f"negative position {position}")
        self._position = position
        return position

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        if self._size is not None and self._position >= self._size and self.seekable():
            return self._finish()
        octets = self._move().body.read_some(len(room))
        room[: len(octets)] = octets
        self._at += len(octets)
        self._position = self._at
        return len(octets)

    def _finish(self) -> int:
        """Nothing is left; what was read to its end is also heard to its end, where it may say that it is not
        whole."""
        if self._reply is not None and self._at == self._size:
            self._reply.body.read_some()
        return 0

    def _move(self) -> LiveReply:
        """A reply that is where the position is."""
        reply = self._reply
        if reply is None or not 0 <= self._position - self._at <= MOST:
            self._reply = None  # unless it begins anew
            reply = self._reply = self._begin(self._position)
        while self._at < self._position:
            passed = reply.body.read_some(self._position - self._at)
            if not passed:
                break
            self._at += len(passed)
        return reply

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
                self._opened.close()
            finally:
                self._close()


class _BodyFile(io.RawIOBase):
    """The octets of a reply as they come."""

    def __init__(
        self, reply: LiveReply, close: Callable[[], None], worded: Callable[[ResolveError], Exception]
    ) -> None:
        self._reply = reply
        self._close = close
        self._worded = worded
        self._ended = False
        self._failure: Exception | None = None
        self.name = reply.url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        if self._failure is not None:
            raise self._failure
        if self._ended:
            return 0
        try:
            octets = self._reply.body.read_some(len(room))
        except ResolveError as error:
            self._failure = self._worded(error)
            self._leave()
            raise self._failure from error
        if not octets:
            self._leave()
        room[: len(octets)] = octets
        return len(octets)

    def _leave(self) -> None:
        """Few who have read all of it, or have failed to, close it, too."""
        self._ended = True
        self._close()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._close()


def as_file(
    reply: LiveReply, close: Callable[[], None], worded: Callable[[ResolveError], Exception]
) -> io.BufferedReader:
    """The body of a reply as a file, for a library that is given a reply's facts besides. Its end and
    closing it call `close`, which may be called again; what goes wrong is raised as `worded` has it, with
    ours as its cause."""
    return io.BufferedReader(_BodyFile(reply, close, worded))


def opened(open_at: OpenAt, close: Callable[[], None]) -> io.BufferedReader:
    """Raises what opening it does. Closing it closes all. It reads ahead what crosses at once."""
    return io.BufferedReader(_SeekableObject(open_at, close), MOST)
