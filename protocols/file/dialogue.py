"""The dialogue of a file URL, which opens one file or directory."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from protocols.contract import BuiltUrl, Entry, FileStatus, JsonValue, LocalFile, Reply
from protocols.errors import Changed, Truncated
from protocols.file.url import FileUrl, build, encode_segment, list_names
from protocols.listing import LineCountReader, join_lines, name_line
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

# The reply for a file contains the bytes of the file and a media type. The media type is guessed from the
# file name. After the last byte, the size of the file is checked.

#: The media types of compressed files. The client does not decompress a file, so the media type names the
#: compression format and not the content.
_COMPRESSED = {
    "br": "application/octet-stream",
    "bzip2": "application/x-bzip2",
    "compress": "application/x-compress",
    "gzip": "application/gzip",
    "xz": "application/x-xz",
}


def guess_media_type(name: bytes) -> str | None:
    """Return the media type for the extension of a file name, or None.

    The function uses the media types of the operating system, which are read once in about 10 ms.
    """
    if b"." not in name:
        return None
    import mimetypes  # lazy import: the import and its table take 30 ms, and only documents need the table

    # `guess_type` would parse a name such as `a:b` as a URL. With the prefix `./`, a file name is not parsed
    # as a URL.
    media_type, compression = mimetypes.guess_type("./" + name.decode("latin-1"))
    return media_type if compression is None else _COMPRESSED.get(compression)


def emit_document(name: bytes, file: LocalFile, options: Options) -> Dialogue[None]:
    """Emit the file as a document.

    If the file has not changed since the caller's partial copy, the body begins at `Options.start` (resume).

    `verified` contains `length` if the size of the file is still the same as when the file was opened. More
    bytes are not an error, because files grow.

    Raises:
        Truncated: The file has fewer bytes than when it was opened.
        Changed: The file has the same size, but was modified while it was read.
    """
    current = Validators(size=file.status.size, modified=file.status.modified)
    can_resume = current.size is not None and options.start <= current.size and options.known.agree(current)
    start = options.start if can_resume else 0
    reply = Reply(
        kind=Kind.DOCUMENT,
        media_type=guess_media_type(name),
        size=current.size,
        start=start,
        modified=current.modified,
    )
    if options.held is not None and not options.start and options.held.covers(current):
        yield StartBody(replace(reply, unchanged=True))
        return
    yield StartBody(reply)
    body = yield from copy_body(CopyBody("the bytes of the file", source="file", begin=start))
    if current.size is not None:
        _check_complete(body, current.size - start, reply)


def _check_complete(body: CopiedBody, size: int, reply: Reply) -> None:
    if body.octets < size:
        raise Truncated(
            f"the file ended after {body.octets} of {size} bytes: it shrank while it was read",
            received=body.octets,
            expected=size,
        )
    if body.octets == size:
        if body.modified:
            raise Changed("the file was modified while it was read", again=True)
        reply.verified.add("length")


class _RehearsedFile:
    """A file in a plan. Its attributes are unknown."""

    kind = Kind.DOCUMENT
    size = modified = None

    @property
    def status(self) -> _RehearsedFile:
        return self


def read_file(url: FileUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """Return the reply for a file or a directory.

    The kind of the reply is document or directory.

    Raises:
        NotFound: The file does not exist, or a URL with a trailing slash does not name a directory.
        AccessDenied: The file permissions do not allow reading.
        Refused: Rule S12 (local files) does not allow the file.
        LocalError: The file cannot be read.
    """
    file: LocalFile = yield OpenFile(url.segments, cast("LocalFile", _RehearsedFile()))
    yield PlanNote(
        "a directory is read as its names, one per line; an empty last segment requires a directory"
    )
    if file.status.kind is Kind.DIRECTORY:
        yield from emit_directory(url, file)
    else:
        # A plan does not show the media type, because reading the table of types takes 30 ms.
        name = b"" if isinstance(file, _RehearsedFile) else url.segments[-1]
        yield from emit_document(name, file, options or Options())


# A directory: the body has one name per line.
#
# For entries, the caller feeds the body to a `DirectoryReader`. The reader only counts the lines of the body.
# Each name comes from the list of the reader, so a name is never parsed from a line. The reader requests the
# status of a name when it receives the line with the name.


class DirectoryReader(LineCountReader):
    """A parser that converts the lines of the body into entries, in the order of `names`."""

    def __init__(self, url: FileUrl, file: LocalFile, names: list[bytes]) -> None:
        super().__init__(map(self._entry, names))
        self._base = build(child_url(url, b"", Kind.DOCUMENT))
        self._file = file

    def _entry(self, name: bytes) -> Entry:
        status = self._file.status_of(name)
        slash = "/" if status.kind is Kind.DIRECTORY else ""
        return Entry(
            name=name.decode("utf-8", "surrogateescape"),
            url=BuiltUrl(f"{self._base}{encode_segment(name)}{slash}"),
            kind=status.kind,
            size=status.size,
            modified=status.modified,
            raw=name,
            extra=_identity(status),
        )


def _identity(status: FileStatus) -> dict[str, JsonValue] | None:
    """Return the members that identify a directory of this machine.

    The path does not identify a directory, because a directory may have several paths.
    """
    if status.identity is None:
        return None
    link = {} if status.link is None else {"link": status.link.decode("utf-8", "surrogateescape")}
    return {"unique": status.identity, **link}


def child_url(url: FileUrl, name: bytes, kind: Kind) -> FileUrl:
    """Return the URL of a name in the directory `url`. The URL of a directory has a trailing slash.

    The password is omitted, because entries are displayed and stored.
    """
    last = (name, b"") if kind is Kind.DIRECTORY else (name,)
    segments = (*list_names(url), *last)
    return replace(url, segments=segments, password=None, fragment=None, text="", findings=(), places=())


def emit_directory(url: FileUrl, file: LocalFile) -> Dialogue[None]:
    """Emit the names in the directory as the body and as entries."""
    names: list[bytes] = yield ReadNames()
    reply = Reply(
        kind=Kind.DIRECTORY,
        media_type="text/plain",
        modified=file.status.modified,
        listing=DirectoryReader(url, file, names),
        extra=_identity(file.status),
    )
    yield StartBody(reply)
    for lines in join_lines(map(name_line, names)):
        yield EmitBody(lines)
    reply.verified.add("terminator")  # getdents(2) returned 0, so the list of names is complete
