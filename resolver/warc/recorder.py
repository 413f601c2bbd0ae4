"""An archive that is written while URLs are fetched: `Recorder`."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from threading import Lock
from types import TracebackType
from uuid import uuid4

from protocols.errors import LocalError, NotConfigured
from resolver.disk.archive_output import ArchiveOutput
from resolver.disk.spool import Spool
from resolver.version import VERSION
from resolver.warc.capture import Capture
from resolver.warc.group import Group, Subject, fields_block
from resolver.warc.head import Head
from resolver.warc.records import Damage, read_records
from resolver.warc.writing import Block, Fields, Writer

_FORMAT = "WARC File Format 1.1"
_CONFORMS = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_FIELDS = "application/warc-fields"
_OURS = b"software: url-resolver/"


class Recorder:
    """Keeps what is fetched in `path`, which ends in `.warc.gz`, or in `.warc` where nothing is to be packed:
    a new file, or one of ours that is gone on with. It is made before the first URL is fetched and closed
    after the last, or is a context that does so. `policy` and `command` say in the file how it came to be;
    what is secret does not belong in them.

    Raises `NotConfigured` for another name, `LocalError` where the file is another's, is damaged, is being
    written, or cannot be.
    """

    def __init__(self, path: str | os.PathLike[str], *, policy: str = "", command: str = "") -> None:
        self.path = os.fspath(path)
        if not self.path.endswith((".warc.gz", ".warc")):
            raise NotConfigured(f"{self.path!r}: the name of an archive ends in .warc.gz, or in .warc")
        self._lock = Lock()
        self._policy, self._command = policy, command
        self._directory = os.path.dirname(self.path) or "."
        self.cut = 0
        self._file = ArchiveOutput(self.path)
        try:
            self._go_on()
            self._writer = Writer(self._file, packed=self.path.endswith(".gz"))
            self._info = self._write_info()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing more is kept."""
        with self._lock:
            self._file.close()

    def begin(self, subject: Subject, hide: Callable[[bytes], bytes]) -> Capture:
        """What is kept of one hop, from now on."""
        return Capture(subject, self, hide)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def spool(self) -> Spool:
        return Spool(self._directory)

    def keep(self, group: Group) -> None:
        """All records of a capture, one behind the other. Raises `LocalError`."""
        with self._lock:
            for type, fields, content_type, block in self._records(group):
                self._writer.write(type, fields, content_type, block)
            self._file.flush()

    def _records(self, group: Group) -> Iterator[tuple[str, Fields, str | None, Block]]:
        first: str | None = None
        if (kept := group.object) is not None:
            fields = self._fields(group)
            first = fields[0][1]
            if kept.payload_digest is not None:
                fields.append(("WARC-Payload-Digest", kept.payload_digest))
            if kept.truncated is not None:
                fields.append(("WARC-Truncated", kept.truncated))
            yield kept.type, fields, kept.content_type, kept.block
        concurrent = [] if first is None else [("WARC-Concurrent-To", first)]
        if group.request is not None:
            yield (
                "request",
                self._fields(group) + concurrent,
                "application/http;msgtype=request",
                group.request,
            )
        yield "metadata", self._fields(group) + concurrent, _FIELDS, Block.of(group.metadata)

    def _fields(self, group: Group) -> Fields:
        fields = [
            ("WARC-Record-ID", f"<urn:uuid:{uuid4()}>"),
            ("WARC-Date", _date(group.date)),
            ("WARC-Target-URI", group.subject.target),
            ("WARC-Warcinfo-ID", self._info),
        ]
        if group.address is not None:
            fields.append(("WARC-IP-Address", group.address.partition("%")[0]))
        fields += [("WARC-Protocol", word) for word in group.protocols]
        if group.cipher:
            fields.append(("WARC-Cipher-Suite", group.cipher))
        return fields

    def _write_info(self) -> str:
        lines = [f"software: url-resolver/{VERSION}", f"format: {_FORMAT}", f"conformsTo: {_CONFORMS}"]
        if self._policy:
            lines.append(f"policy: {self._policy}")
        if self._command:
            lines.append(f"command: {self._command}")
        lines.append("dialogue-format: 1")
        id = f"<urn:uuid:{uuid4()}>"
        fields = [
            ("WARC-Record-ID", id),
            ("WARC-Date", _date(self.now())),
            ("WARC-Filename", os.path.basename(self.path)),
        ]
        self._writer.write("warcinfo", fields, _FIELDS, Block.of(fields_block(lines)))
        self._file.flush()
        return id

    def _go_on(self) -> None:
        """Behind the last whole record of what is there; `cut` is how many octets were behind it."""
        if not self._file.size:
            return
        end, number = 0, 0
        for found in read_records(self._file.source, _First):
            if isinstance(found, Damage):
                if not found.is_cut or (not number and found.offset):
                    raise LocalError(
                        f"the archive {self.path!r} is damaged at octet {found.offset}, and is not touched: "
                        "resolve warc check says more"
                    )
                end = found.offset
                break
            if not number and not found.reader.is_ours:
                raise LocalError(f"{self.path!r} is an archive that another program began: name another file")
            end, number = found.end, number + 1
        self.cut = self._file.size - end
        if self.cut:
            self._file.cut(end)


class _First:
    """The first octets of a block."""

    def __init__(self, head: Head) -> None:
        self._is_info = head.type == "warcinfo"
        self._octets = b""

    def take(self, octets: bytes) -> None:
        if self._is_info and len(self._octets) < 65_536:
            self._octets += octets

    @property
    def is_ours(self) -> bool:
        """Does a program of ours say that it began the file?"""
        return any(line.startswith(_OURS) for line in self._octets.splitlines())


def _date(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
