"""Runs of a session that writes all captures to a WARC archive, which each life of the process resumes.

The check of an archive reads all its records after each life. A record that is not marked as truncated must
have the complete object.
"""

from __future__ import annotations

import json
import os
import random
import re
from base64 import b32encode
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from unittest import mock
from uuid import UUID

from warcio.archiveiterator import ArchiveIterator

from resolver.files.archive import open_archive
from resolver.testing.world import LoopName, Schedule
from resolver.url.parsing import parse
from resolver.warc import recorder as recording
from resolver.warc.check import ArchiveCheck, Payload
from resolver.warc.http import make_target
from resolver.warc.records import DamagedSpan, RecordHead, WarcRecord, read_one, read_records
from tests.world.scenario import Life, Run, Transport, Wanted, check_content, fetch_all, read

_BEGAN = datetime(1994, 12, 1, tzinfo=UTC)
_RANGE = re.compile(rb"\r\ncontent-range: bytes ([0-9]+)-[0-9]+/", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")
_VOLUMES = re.compile(r"a(-[0-9]{5})?\.warc(\.gz)?")
_INDEXES = re.compile(r"a(-[0-9]{5})?\.cdxj")
#: The temporary files of an index, which a kill leaves.
_TEMPORARY = re.compile(rf"{_VOLUMES.pattern}\.[0-9a-f]{{16}}")


class VirtualRecorder(recording.Recorder):
    """A recorder whose clock advances by 1 ms with each reading."""

    _ticks = 0

    def now(self) -> datetime:
        self._ticks += 1
        return _BEGAN + timedelta(milliseconds=self._ticks)


class _Block:
    """A reader of the block of a record: the raw bytes and the payload."""

    def __init__(self, head: RecordHead) -> None:
        self._payload = Payload(head)
        self.raw = self.octets = b""

    def take(self, octets: bytes) -> None:
        self.raw += octets
        self.octets += self._payload.take(octets)


class ArchiveRun(Run):
    """A run of a session with an archive, with the faults of a schedule."""

    def __init__(
        self, schedule: Schedule, directory: str, loop: LoopName = "trio", transport: Transport = "tcp"
    ) -> None:
        super().__init__(schedule, directory, loop, transport)
        source = random.Random(f"archive {schedule.seed}")
        # An archive has no segments. Two sessions cannot write to one archive.
        self.plan = replace(self.plan, segments=1, twice=False)
        self._name = source.choice(("a.warc", "a.warc.gz"))
        self._size = source.choice((recording.SIZE, recording.SIZE, 60_000))
        self._is_synced = source.random() < 0.5
        self._ids = random.Random(f"ids {schedule.seed}")
        self._cut: set[str] = set()  # The files with an incomplete last record.
        self._previous: set[str] = set()
        self._whole: dict[str, bytes] = {}  # The complete records of each volume after the previous life.

    async def fetch(self, life: Life, other: Life) -> None:
        with VirtualRecorder(
            os.path.join(self.world.path, self._name),
            size=self._size,
            sync=self._is_synced,
            once=self.plan.ledger,
        ) as recorder:
            await fetch_all(self.plan, self.world.path, life, recorder)

    def live(self, *, calm: bool) -> None:
        with mock.patch("resolver.warc.recorder.uuid4", self._make_id):
            super().live(calm=calm)

    def _make_id(self) -> UUID:
        return UUID(int=self._ids.getrandbits(128), version=4)

    def is_known(self, short: str) -> bool:
        known = (_VOLUMES, _INDEXES, _TEMPORARY)
        return any(each.fullmatch(short) for each in known) or super().is_known(short)

    def check_life(self, life: Life, *, calm: bool) -> None:
        """Check the archive after a life."""
        super().check_life(life, calm=calm)
        self._previous = set(self._cut)  # Only the last file of an archive is truncated by the next life.
        files = os.listdir(self.world.path)
        left = list(filter(_TEMPORARY.fullmatch, files))
        self._check(not (calm and left) or self.world.lost_power, f"temporary indexes {left}")
        names = sorted(filter(_VOLUMES.fullmatch, files), key=lambda name: (len(name), name))
        for name in self._whole.keys() - set(names):  # A power loss may remove a new file.
            self._check(self.world.lost_power, f"{name} is missing")
            del self._whole[name]
        kept: Counter[str] = Counter()
        for name in names:
            kept += self._check_volume(name, calm=calm)
        if not self.world.lost_power or self._is_synced:
            done = [os.path.basename(each.path or "") for each in life.outcomes if each.status == "done"]
            lost = [name for name in done if not kept[name]]
            self._check(not lost, f"the archive has no complete record of {lost}")
        if calm:
            self._check_with_warcio(names)
            self._check_indexes(names)

    def _check_volume(self, name: str, *, calm: bool) -> Counter[str]:
        """Check all records of a file, and return the number of complete captures of each object."""
        path = os.path.join(self.world.path, name)
        octets = read(path) or b""
        kept: Counter[str] = Counter()
        end = 0
        self._cut.discard(name)
        wanted = {_target(each): each for each in self.plan.wanted}
        with open_archive(path) as file:
            for found in read_records(file, _Block) if octets else ():
                if isinstance(found, DamagedSpan):
                    is_excused = found.is_cut and self._may_be_cut(name)
                    self._check(is_excused, f"{name} is damaged: {found}")
                    self._cut.add(name)
                    continue
                end = found.end
                if found.head.target in wanted and found.head.type in ("response", "resource", "revisit"):
                    each = wanted[found.head.target]
                    kept[each.name] += self._is_complete(found, each)
            for finding in ArchiveCheck().read(file, name) if octets else ():
                self._check(not finding.is_fault or finding.name == "warc:damaged", f"{finding}")
        self._check_kept(name, octets[:end])
        return kept

    def _may_be_cut(self, name: str) -> bool:
        """Return whether the last record may be incomplete: after a kill, or if a truncation failed."""
        return self.world.was_killed or self._has_disk_errors or name in self._previous

    def _check_kept(self, name: str, octets: bytes) -> None:
        """Check that a life changed no complete record of an earlier life."""
        before = self._whole.get(name, b"")
        kept = octets.startswith(before) or (self.world.lost_power and before.startswith(octets))
        self._check(kept, f"{name}: the complete records of the previous life changed")
        self._whole[name] = octets

    def _is_complete(self, record: WarcRecord[_Block], wanted: Wanted) -> bool:
        """Compare the payload of a record with the object, and return whether the record is complete."""
        head, octets = record.head, record.reader.octets
        is_truncated = head.get_first("WARC-Truncated") is not None
        if head.type == "revisit":
            digest = f"sha1:{b32encode(sha1(wanted.content).digest()).decode()}"
            is_right = head.get_first("WARC-Payload-Digest") == digest
            self._check(is_right, f"a revisit record of {wanted.name} has another digest")
            return True
        right = wanted.content
        if head.media_type == "application/http":
            status = _STATUS.match(record.reader.raw)
            self._check(status is not None, f"a response of {wanted.name} has no status")
            assert status is not None
            if status[1] != b"200":
                begin = _RANGE.search(record.reader.raw)
                right = right[int(begin[1]) :] if begin is not None else b""
                check_content(f"a part of {wanted.name}", octets, right[: len(octets)])
                return begin is not None and octets == right  # The rest of a resumed download.
        if is_truncated:
            right = right[: len(octets)]
        check_content(f"the record of {wanted.name} at {record.offset}", octets, right)
        return not is_truncated

    def _check_indexes(self, names: list[str]) -> None:
        """Check that each line of an index has the position of a record of its URL."""
        for name in names:
            index = re.sub(r"\.warc(\.gz)?", ".cdxj", name)
            lines = (read(os.path.join(self.world.path, index)) or b"").decode().splitlines()
            with open_archive(os.path.join(self.world.path, name)) as file:
                for line in lines:
                    row = json.loads(line.split(" ", 2)[2])
                    # A power loss may remove records of an earlier file, but not the lines of its index.
                    if name == names[-1]:
                        head = read_one(file, int(row["offset"]), _Block).head
                        self._check(head.target == row["url"], f"{index}: another record than {row}")

    def _check_with_warcio(self, names: list[str]) -> None:
        """Read all records with warcio, too; a power loss may have removed all records of an earlier file."""
        for name in set(names) - self._cut:
            with open(os.path.join(self.world.path, name), "rb") as file:
                records = ArchiveIterator(file, check_digests="raise")
                count = sum(record.raw_stream.read() is not None for record in records)
                self._check(count > 0 or not self._whole[name], f"warcio reads no record of {name}")


def _target(wanted: Wanted) -> str:
    return make_target(parse(wanted.url), has_user=True)
