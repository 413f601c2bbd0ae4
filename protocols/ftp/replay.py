"""A server of one object that is kept: it grants each login, goes into each directory, and has this one file,
or this one listing, in the form in which it came."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.replay import ArchivedObject
from protocols.wire import encode_line

_LISTING = "text/x-ftp-"
_GRANTED = {
    **dict.fromkeys((b"USER", b"PASS", b"ACCT"), b"230"),
    **dict.fromkeys((b"TYPE", b"PBSZ", b"PROT", b"NOOP"), b"200"),
    **dict.fromkeys((b"CWD", b"CDUP"), b"250"),
    b"EPSV": b"229",
    b"QUIT": b"221",
}
#: What a client does not ask for, once it is logged in.
_ANY_PORT = b"(|||1024|)"
_ARCHIVE = b"archive"


class FtpReplayServer:
    """See `protocols.replay.ReplayPeer`."""

    def __init__(self, kept: ArchivedObject) -> None:
        self._kept = kept
        self._listed = kept.media_type.removeprefix(_LISTING).upper().encode("ascii", "replace")
        self._is_listing = kept.media_type.startswith(_LISTING)

    @property
    def greeting(self) -> bytes:
        return encode_line(b"230", _ARCHIVE).octets

    def answer(self, line: bytes) -> Iterator[bytes | None]:
        verb = line.split(b" ")[0].strip().upper()
        if verb == (self._listed if self._is_listing else b"RETR"):
            yield encode_line(b"150", _ARCHIVE).octets
            yield None
            yield encode_line(b"226", _ARCHIVE).octets
            return
        yield encode_line(*self._reply(verb)).octets

    def _reply(self, verb: bytes) -> tuple[bytes, ...]:
        kept = self._kept
        if verb in _GRANTED:
            return _GRANTED[verb], _ANY_PORT if verb == b"EPSV" else _ARCHIVE
        if verb == b"FEAT" and self._listed == b"MLSD":
            return b"211", b"MLSD"
        if self._is_listing and verb in (b"RETR", b"SIZE", b"MDTM"):
            return b"550", _ARCHIVE
        if verb == b"SIZE" and kept.size is not None:
            return b"213", b"%d" % kept.size
        if verb == b"MDTM" and kept.modified is not None:
            return b"213", f"{kept.modified:%Y%m%d%H%M%S}".encode("ascii")
        return b"502", _ARCHIVE
