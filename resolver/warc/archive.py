"""The class `Archive`, which reads archives, and the parser for the time limit of captures."""

from __future__ import annotations

import os
import re
from calendar import monthrange
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

from protocols.errors import LocalError, NotConfigured, NotFound
from protocols.location import Url
from resolver.files.archive import open_archive
from resolver.network.admission import Admission
from resolver.network.url_gate import UrlGate
from resolver.warc.catalog import ArchivedCapture, Catalog, choose_latest
from resolver.warc.http import normalize_target
from resolver.warc.records import make_date

_TIME = r"[T ]?([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?)?Z?"
_MOMENT = re.compile(rf"([0-9]{{4}})(?:-?([0-9]{{2}})(?:-?([0-9]{{2}})(?:{_TIME})?)?)?", re.ASCII)

#: The units of the components of a time. A year or a month ends with its last day.
_UNITS = ("days", "days", "days", "hours", "minutes", "seconds", "microseconds")


def read_moment(text: str) -> datetime:
    """Parse a time in UTC, in W3CDTF format or as 4 to 14 digits; return the end of the period.

    A text without a day or a time of day names a period. For example, `2026-01` is January 2026.

    Raises:
        NotConfigured: The text is not a time.
    """
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise _make_time_error(text)
    try:
        return _find_period_end(make_date(match), match.lastindex or 0)
    except ValueError as error:
        raise _make_time_error(text) from error


def _find_period_end(begin: datetime, components: int) -> datetime:
    """Return the last microsecond of a period, such as a month, which has 2 of the 7 components of a time."""
    if components == 1:
        begin = begin.replace(month=12)
    if components <= 2:
        begin = begin.replace(day=monthrange(begin.year, begin.month)[1])
    return begin + (timedelta(**{_UNITS[components - 1]: 1}) - timedelta(microseconds=1))


def _make_time_error(text: str) -> NotConfigured:
    return NotConfigured(
        f"invalid time {text!r}: expected 2026-11-22T10:00:00Z, 2026-11 or 20261122100000 (UTC)"
    )


class Archive:
    """WARC files from which a `Resolver(archive=…)` retrieves objects without using the network.

    Any program may have written the files. The constructor reads the files once to build a catalog. The
    caller must close the archive, or use it as a context manager. The archive responds to a request with the
    latest complete capture of the URL. If no capture is complete, it responds with a truncated capture.

    Args:
        paths: The names of the WARC files.
        at: The time after which captures are ignored. It is a datetime, or a text in the form of `--at`.

    Raises:
        LocalError: A file is not a WARC file or cannot be read.
        NotConfigured: `at` is not a time.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], *, at: datetime | str | None = None) -> None:
        self.at = read_moment(at) if isinstance(at, str) else at
        if self.at is not None and self.at.tzinfo is None:
            self.at = self.at.replace(tzinfo=UTC)
        self._catalog = Catalog([])
        self._files = ExitStack()
        try:
            for path in paths:
                self._read(os.fspath(path))
        except BaseException:
            self.close()
            raise

    def _read(self, path: str) -> None:
        try:
            self._catalog.read(self._files.enter_context(open_archive(path)))
        except LocalError as error:
            raise LocalError(f"{path}: {error.message}") from error

    def gate(self, admission: Admission) -> UrlGate:
        """Return a gate that reads responses from the archive and not from the network."""
        from resolver.warc.replay import ArchiveGate  # Imported lazily: replaying loads many modules.

        return ArchiveGate(admission, self.find)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._files.close()

    def find(self, url: Url, *, wants_facts: bool = False) -> ArchivedCapture:
        """Return the best capture of a URL. Raises `NotFound`."""
        catalog, target = self._catalog, normalize_target(url)
        objects, failed = catalog.find_objects(target), catalog.find_without_object(target, "failed")
        facts = catalog.find_without_object(target, "info") if wants_facts else []
        for candidates in ([*objects, *facts], failed):
            if (record := choose_latest(candidates, self.at)) is not None:
                parts = [] if record.is_whole else catalog.find_ranges(target, record.date, self.at)
                return ArchivedCapture(catalog, record, parts)
        if records := [*objects, *failed]:
            first = min(record.date for record in records)
            raise NotFound(
                f"not in the archive at that time: the first capture is of {first:%Y-%m-%dT%H:%M:%SZ}"
            ).with_setting("at")
        raise NotFound(_explain_missing(catalog, target))


def _explain_missing(catalog: Catalog, target: str) -> str:
    other = target.removesuffix("/") if target.endswith("/") else f"{target}/"
    if catalog.find_objects(other):
        return f"not in the archive, which has {other}"
    if catalog.damage:
        return f"not in the complete records of the archive, which is damaged: {catalog.damage}"
    return "not in the archive (`resolve warc ls FILE` lists its URLs)"
