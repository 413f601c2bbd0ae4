"""A file as a document: its octets, what its name says of their type, and whether all of them came."""

from __future__ import annotations

from protocols.contract import Kind, LocalFile, Options, Reply, Sink, Validators
from protocols.errors import Changed, Truncated
from protocols.file.url import FileUrl

#: The type of a compressed file is that of the compression: nothing undoes it here.
_COMPRESSED = {
    "br": "application/octet-stream",
    "bzip2": "application/x-bzip2",
    "compress": "application/x-compress",
    "gzip": "application/gzip",
    "xz": "application/x-xz",
}


def guess_media_type(name: bytes) -> str | None:
    """What the end of a file's name says of its type; None where it says nothing.

    The table is the system's, as for every program here; reading it takes some 10 ms, once.
    """
    import mimetypes  # with its table 30 ms, and only a document needs it

    # Behind "./" nothing in a name can look like a URL, which the function would take apart.
    media_type, compression = mimetypes.guess_type("./" + name.decode("latin-1"))
    return media_type if compression is None else _COMPRESSED.get(compression)


class FileBody:
    """The octets of a file from `start` until its end, counted from there. `Truncated` when there are fewer
    than it had when it was opened; more are no error, for files grow. `verified` gets `length` when it is
    exactly those; `Changed` when somebody wrote to it meanwhile all the same."""

    def __init__(self, file: LocalFile, start: int, verified: set[str]) -> None:
        self._file = file
        self._verified = verified
        self._announced = None if file.status.size is None else file.status.size - start
        self.received = 0

    def __aiter__(self) -> FileBody:
        return self

    async def __anext__(self) -> bytes:
        octets = await self._file.read()
        self.received += len(octets)
        if not octets:
            self._finish()
            raise StopAsyncIteration
        return octets

    async def drain(self, sink: Sink) -> int:
        moved = await self._file.move(sink)
        self.received += moved
        self._finish()
        return moved

    def _finish(self) -> None:
        size = self._announced
        if size is None:
            return
        if self.received < size:
            raise Truncated(
                f"the file ended after {self.received} of {size} octets: it shrank while it was read",
                received=self.received,
                expected=size,
            )
        if self.received == size:
            if self._file.modified_since():
                raise Changed("the file was written to while it was read", again=True)
            self._verified.add("length")


def reply_with_document(url: FileUrl, file: LocalFile, options: Options) -> Reply:
    """The file as a document; from where the caller is, if it is still the file that the caller knows."""
    verified: set[str] = set()
    now = Validators(size=file.status.size, modified=file.status.modified)
    can_go_on = now.size is not None and options.start <= now.size and options.known.agree(now)
    start = options.start if can_go_on else 0
    file.begin_at(start)
    return Reply(
        kind=Kind.DOCUMENT,
        body=FileBody(file, start, verified),
        media_type=guess_media_type(url.segments[-1]),
        size=now.size,
        start=start,
        modified=now.modified,
        verified=verified,
    )
