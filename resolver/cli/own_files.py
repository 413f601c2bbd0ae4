"""The files that the options of a run name, which no retrieval replaces and `--delete` never removes."""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

from protocols.errors import LocalError

if TYPE_CHECKING:
    from resolver.cli.options import CommandOptions

#: Options that name a file that the run writes.
WRITTEN_OPTIONS = ("failed", "trace", "trace_html", "ledger", "warc", "cookies")
#: Options that name one file. The value of `--warc` is the stem of several names.
_FILE_OPTIONS = (
    *(option for option in WRITTEN_OPTIONS if option != "warc"),
    *("config", "netrc_file", "password_file", "cacert"),
)
#: The files beside a ledger that SQLite creates during a run (sqlite.org/tempfiles.html).
_LEDGER_FILES = r"(-(wal|shm|journal))?"
#: The further files of an archive (`--warc-size`), and the indexes.
_ARCHIVE_FILES = r"(-[0-9]+)?\.(warc.*|cdxj)"


class OwnFiles:
    """The paths of the files of a run. A server must not choose the content of one of these files."""

    def __init__(self, command: CommandOptions) -> None:
        forms = dict.fromkeys(_list_paths(command), "")
        if command.ledger is not None:
            forms[command.ledger] = _LEDGER_FILES
        if command.warc is not None:
            forms[_archive_stem(command.warc)] = _ARCHIVE_FILES
        self._patterns: dict[str, list[str]] = defaultdict(list)
        for path, endings in forms.items():
            for form in {os.path.abspath(path), os.path.realpath(path)}:
                directory, name = os.path.split(form)
                self._patterns[os.path.realpath(directory)].append(re.escape(name) + endings)
        self._names = re.compile("|".join(chain(*self._patterns.values())) or r"(?!)", re.IGNORECASE)

    def check(self, path: str) -> None:
        """Raise `LocalError` if a retrieval would write to a file of the run.

        Names that differ only in case count as equal, as in `NameReservations`.
        """
        name = os.path.basename(path)
        if self._names.fullmatch(name) is None:
            return
        patterns = self._patterns.get(os.path.realpath(os.path.dirname(path)), [])
        if any(re.fullmatch(pattern, name, re.IGNORECASE) for pattern in patterns):
            raise LocalError(f"cannot write {path!r}: an option of this run names this file (choose another)")


def list_own_inodes(command: CommandOptions) -> list[tuple[int, int]]:
    """Return the device and inode numbers of the files of a run, and of its input lists."""
    from resolver.files.directory import find_inode  # lazy import: `--help` and `explain` save no files

    paths = [*_list_paths(command), *command.lists, *command.warc_dedup]
    if command.warc is not None:
        stem = glob.escape(_archive_stem(command.warc))
        for ending in (".warc*", ".cdxj"):
            paths += (*glob.iglob(stem + ending), *glob.iglob(f"{stem}-[0-9]*{ending}"))
    return [numbers for path in paths if (numbers := find_inode(path)) is not None]


def _list_paths(command: CommandOptions) -> list[str]:
    paths = [path for option in _FILE_OPTIONS if (path := getattr(command, option))]
    return [*paths, *command.from_warc, *filter(None, (command.cert or "").split(","))]


def _archive_stem(path: str) -> str:
    return path.removesuffix(".gz").removesuffix(".warc")
