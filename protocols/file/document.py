"""A file as a document: its octets, what its name says of their type, and whether all of them came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.errors import Changed, Truncated
from protocols.location import Kind
from protocols.options import Options, Validators
from protocols.reply import Reply
from protocols.step import CopiedBody, CopyBody, Dialogue, StartBody, copy_body
from protocols.values import replace

if TYPE_CHECKING:  # a plan opens nothing
    from protocols.contract import LocalFile

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
