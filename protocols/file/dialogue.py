"""The dialogue of a file URL: one object is opened, which turns out to be a file or a directory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from protocols.contract import BuiltUrl, Entry, FileStatus, JsonValue, LocalFile, Reply
from protocols.errors import Changed, Truncated
from protocols.file.url import FileUrl, build, encode_segment
from protocols.location import Kind
from protocols.options import Limits, Options, Validators
from protocols.step import (
    CopiedBody,
    CopyBody,
    Dialogue,
    EmitBody,
    OpenFile,
    PlanNote,
    ReadNames,
    StartBody,
    copy_body,
)

# A document: its bytes, the media type that its name suggests, and whether it is complete.

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
    if b"." not in name:
        return None
    import mimetypes  # with its table 30 ms, and only a document needs it

    # Behind "./" nothing in a name can look like a URL, which the function would take apart.
    media_type, compression = mimetypes.guess_type("./" + name.decode("latin-1"))
    return media_type if compression is None else _COMPRESSED.get(compression)


def give_document(name: bytes, file: LocalFile, options: Options) -> Dialogue[None]:
    """The file as a document; from where the caller is, if it is still the file that the caller knows.

    `Truncated` when there are fewer octets than it had when it was opened; more are no error, for files grow.
    `verified` gets `length` when it is exactly those; `Changed` when somebody wrote to it meanwhile all the
    same.
    """
    now = Validators(size=file.status.size, modified=file.status.modified)
    can_go_on = now.size is not None and options.start <= now.size and options.known.agree(now)
    start = options.start if can_go_on else 0
    reply = Reply(
        kind=Kind.DOCUMENT,
        media_type=guess_media_type(name),
        size=now.size,
        start=start,
        modified=now.modified,
    )
    if options.held is not None and not options.start and options.held.covers(now):
        yield StartBody(replace(reply, unchanged=True))
        return
    yield StartBody(reply)
    passed = yield from copy_body(CopyBody("the octets of the file", source="file", begin=start))
    if now.size is not None:
        _check_whole(passed, now.size - start, reply)


def _check_whole(passed: CopiedBody, size: int, reply: Reply) -> None:
    if passed.octets < size:
        raise Truncated(
            f"the file ended after {passed.octets} of {size} octets: it shrank while it was read",
            received=passed.octets,
            expected=size,
        )
    if passed.octets == size:
        if passed.modified:
            raise Changed("the file was written to while it was read", again=True)
        reply.verified.add("length")


class _RehearsedFile:
    """What a plan opens: a file of which nothing is known."""

    kind = Kind.DOCUMENT
    size = modified = None

    @property
    def status(self) -> _RehearsedFile:
        return self


def read_file(url: FileUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """A reply of kind document or directory. `NotFound` where there is nothing, and for a file where the URL
    wants a directory; `AccessDenied`, `Refused` (S12), `LocalError`."""
    file = cast("LocalFile", (yield OpenFile(url.segments, cast("LocalFile", _RehearsedFile()))))
    yield PlanNote("a directory gives the names in it, one a line; an empty last segment wants a directory")
    if file.status.kind is Kind.DIRECTORY:
        yield from give_directory(url, file)
    else:
        # The table of types takes 30 ms to read, and a plan shows none.
        name = b"" if isinstance(file, _RehearsedFile) else url.segments[-1]
        yield from give_document(name, file, options or Options())


# A directory: the body is the names, one a line.
#
# A caller that reads entries feeds the body to a `DirectoryReader`, which counts the lines and looks up the
# next names. So names that are not read are not looked up, and a name is never parsed out of a line.

#: Octets of lines that a body gives in one piece.
_PIECE = 16_384

_LINE_END = re.compile(rb"[\x0a\x0d]")


def name_line(name: bytes) -> bytes:
    """A name as a line of its own: what would end the line is written as an escape."""
    if b"\n" in name or b"\r" in name:
        name = _LINE_END.sub(lambda found: b"\\x%02x" % found[0][0], name)
    return name + b"\n"


def name_lines(names: Iterable[bytes]) -> Iterator[bytes]:
    """One line a name, in pieces."""
    lines = bytearray()
    for name in names:
        lines += name_line(name)
        if len(lines) >= _PIECE:
            yield bytes(lines)
            lines.clear()
    if lines:
        yield bytes(lines)


class DirectoryReader:
    """Turns the lines of the body into entries, in the order of `names`."""

    def __init__(self, url: FileUrl, file: LocalFile, names: list[bytes]) -> None:
        self._base = build(child_url(url, b"", Kind.DOCUMENT))
        self._file = file
        self._names = iter(names)

    def feed(self, octets: bytes) -> Iterator[Entry]:
        for _ in range(octets.count(b"\n")):
            yield self._entry(next(self._names))

    def finish(self) -> Iterator[Entry]:
        return iter(())

    def _entry(self, name: bytes) -> Entry:
        status = self._file.status_of(name)
        below = "/" if status.kind is Kind.DIRECTORY else ""
        return Entry(
            name=name.decode("utf-8", "surrogateescape"),
            url=BuiltUrl(f"{self._base}{encode_segment(name)}{below}"),
            kind=status.kind,
            size=status.size,
            modified=status.modified,
            raw=name,
            extra=_identity(status),
        )


def _identity(status: FileStatus) -> dict[str, JsonValue] | None:
    """What tells that two names are of one directory."""
    if status.identity is None:
        return None
    link = {} if status.link is None else {"link": status.link.decode("utf-8", "surrogateescape")}
    return {"unique": status.identity, **link}


def child_url(url: FileUrl, name: bytes, kind: Kind) -> FileUrl:
    """What a name in the directory `url` is to be asked for; a directory ends in an empty segment. A password
    is left out, for entries are shown and stored."""
    above = url.segments
    while above and above[-1] == b"":
        above = above[:-1]
    below = (name, b"") if kind is Kind.DIRECTORY else (name,)
    segments = (*above, *below)
    return replace(url, segments=segments, password=None, fragment=None, text="", findings=(), places=())


def give_directory(url: FileUrl, file: LocalFile) -> Dialogue[None]:
    """The names as a body, and as entries."""
    names = cast("list[bytes]", (yield ReadNames()))
    reply = Reply(
        kind=Kind.DIRECTORY,
        media_type="text/plain",
        modified=file.status.modified,
        listing=DirectoryReader(url, file, names),
        extra=_identity(file.status),
    )
    yield StartBody(reply)
    for lines in name_lines(names):
        yield EmitBody(lines)
    reply.verified.add("terminator")  # getdents(2) returned 0: the names are all
