"""The names of saved files (rule S14). They are derived from the requested URL, and are unique within a run.

A file name does not come from a redirect target, a header or a listing, because servers control these data
(path traversal). There are two exceptions. In both cases, the file name is sanitized:
- If the user allows file names from servers, the name comes from the Content-Disposition header.
- The file name of an attachment comes from the article, because an attachment has no other name.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from os.path import join, normpath
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from protocols.location import HostUrl, Url
from resolver.policy.files import local_name, local_path, name_key, number_name
from resolver.url import registry
from resolver.url.parsing import build, parse

if TYPE_CHECKING:
    from sqlite3 import Connection


#: The file name for a URL with a trailing slash. The media type of the response determines the suffix.
_INDEX = "index"
_SUFFIXES = {
    "application/atom+xml": ".atom",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/rss+xml": ".rss",
    "application/xhtml+xml": ".xhtml",
    "application/xml": ".xml",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "text/html": ".html",
    "text/plain": ".txt",
    "text/xml": ".xml",
}


def last_part(url: Url) -> bytes:
    """Return the last path segment of the URL, percent-decoded.

    The result is empty in two cases: the URL does not name an object, or URLs of the scheme have no component
    for a name.
    """
    return _split_path(url)[-1]


def _split_path(url: Url) -> list[bytes]:
    """Return the directories and the name (see `last_part`) of the object, percent-decoded."""
    row = registry.find(url.scheme)
    if row is None:
        return [b""]
    above = () if row.within is None else getattr(url, row.within)
    for component in row.named_by:
        value: object = getattr(url, component)
        if value is None or value == ():
            continue
        if isinstance(value, tuple):
            return [*above, *value]
        if isinstance(value, bytes):
            return [*above, value]
        # a component of type `str` is still percent-encoded
        return [*above, *map(unquote_to_bytes, str(value).split("/"))]
    return [b""]


def _make_distinction(url: Url) -> bytes:
    """Return a suffix that distinguishes URLs with the same path, such as `_id=1` for `x?id=1`."""
    row = registry.find(url.scheme)
    names = () if row is None else row.told_apart_by
    values = [b"_" + unquote_to_bytes(str(value)) for name in names if (value := getattr(url, name))]
    return b"".join(values).replace(b"/", b"_").replace(b"\\", b"_")


def listed_name(url: Url) -> str:
    """Return the name that a listing shows for the URL's object.

    The name is a file name, an article number or a newsgroup. If the URL contains none of these names, the
    result is the URL itself.
    """
    row = registry.find(url.scheme)
    if row is None or not row.listed:
        return url.shown
    return last_part(url).decode("utf-8", "surrogateescape") or url.shown


def local_file_name(url: Url) -> str:
    """Return a safe local file name for a URL, or `index` for a trailing slash.

    Raises `Refused` (S14, names of saved files) if the safe name is empty. The user can then choose the name
    with `-O FILE`.
    """
    name = last_part(url)
    if (not name or name.endswith(b"/")) and is_index(url):
        name = _INDEX.encode()
    return local_name(name + _make_distinction(url) if name else name)


def is_index(url: Url) -> bool:
    """Return whether the path of the URL ends in a slash, as in `http://host/`."""
    row = registry.find(url.scheme)
    if row is None or not row.named_by:
        return False
    last = last_part(url)
    if not last.endswith(b"/"):
        return not last
    return row.within is None and any(isinstance(getattr(url, name), bytes) for name in row.named_by)


def may_be_index(path: str) -> bool:
    """Return whether a reserved path may belong to a URL with a trailing slash; also for an empty path."""
    return not path or path.rpartition("/")[2].startswith(_INDEX)


def index_suffix(media_type: str | None) -> str:
    """Return the suffix of an index file for a media type, or an empty text for an unusual one."""
    return _SUFFIXES.get((media_type or "").lower(), "")


def local_directory(url: Url, *, host: bool, cut: int | None) -> str:
    """Return the local directory of a URL: a relative path, perhaps empty, of sanitized segments.

    If `host` is true, the first path segment is the host of the URL. `cut` is the number of leading
    directories of the URL to omit; None omits all.
    """
    if not host and cut is None:
        return ""
    inside = b"/".join(_split_path(url)).replace(b"\\", b"/").split(b"/")[:-1]
    above = [url.host.encode()] if host and isinstance(url, HostUrl) else []
    return local_path([*above, *[part for part in inside if part not in (b"", b".")][cut or 0 :]])


def make_sibling_url(url: Url, *names: bytes) -> Url | None:
    """Return the URL of another file in the same directory, or in a subdirectory of this directory.

    The last of `names` is the file name; the other names are subdirectories. Returns None if the scheme has
    no directories, or if the URL cannot have siblings.
    """
    row = registry.find(url.scheme)
    sibling = None if row is None or row.beside is None else row.beside(url, *names)
    return None if sibling is None else parse(build(sibling), origin="user")


# A map for all URLs of a run. The memory use of the map is bounded.
#
# The first 10,000 keys are stored in memory. All further keys are stored as 64-bit hashes in a temporary
# SQLite database, which is deleted when the process ends. Hash collisions are possible: two keys may then
# have the same entry, and callers must tolerate this.

#: The maximum number of keys in memory.
MAX_IN_MEMORY = 10_000


class SpillMap:
    """A map from strings to integers, with bounded memory use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._database: Connection | None = None

    def get(self, text: str) -> int:
        """Return the value of a key, or 0 if the map does not contain the key."""
        number = self._numbers.get(text)
        if number is not None or self._database is None:
            return number or 0
        row = self._database.execute("SELECT number FROM aside WHERE text=?", (_digest(text),)).fetchone()
        return 0 if row is None else int(row[0])

    def store(self, text: str, number: int) -> None:
        if len(self._numbers) < MAX_IN_MEMORY or text in self._numbers:
            self._numbers[text] = number
            return
        if self._database is None:
            self._database = _open_database()
        self._database.execute("REPLACE INTO aside VALUES (?, ?)", (_digest(text), number))

    def add(self, text: str, number: int) -> bool:
        """Add a new key, or return False if the map contains the key."""
        if text in self._numbers:
            return False
        if len(self._numbers) < MAX_IN_MEMORY:
            self._numbers[text] = number
            return True
        if self._database is None:
            self._database = _open_database()
        insert = "INSERT OR IGNORE INTO aside VALUES (?, ?)"
        return self._database.execute(insert, (_digest(text), number)).rowcount == 1

    def __del__(self) -> None:
        """Close the database, even if several threads used the map."""
        if self._database is not None:
            self._database.close()


def _open_database() -> Connection:
    import sqlite3  # imported lazily: few runs have more than 10,000 URLs

    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=OFF")
    database.execute("CREATE TABLE aside (text INTEGER PRIMARY KEY, number INTEGER NOT NULL)")
    database.execute("BEGIN")  # never committed, because the data is not needed after the run
    return database


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


# Reservations of file names. Two URLs of a run never write to the same file, on any file system (S14). Some
# file systems are case-insensitive. Therefore names that differ only in case count as equal.
#
# If several URLs would get the same file name, the first URL gets the name, even if its retrieval fails. The
# later URLs get numbered names such as `name.2`. So another run of the same list chooses the same names. With
# `rename`, the names of existing files are not used either, so each run chooses new names.
#
# Names are stored in a `SpillMap`. With more than 10,000 names, a hash collision is possible. A collision
# only adds an unnecessary number to a name. Each run adds the same number.

#: The kind of a reservation: a name that was created from a URL, or a path that the caller specified.
_NAMED, _EXACT = 1, 2


class NameReservations:
    """The reserved file paths of a run below one directory.

    `is_free` is called with a path and a URL. `is_free` returns whether the URL may use the path, for example
    because the file does not exist yet. Without `is_free`, a URL may use each path that is not reserved.
    """

    def __init__(self, is_free: Callable[[str, str], bool] | None = None) -> None:
        self._is_free = is_free
        self._files = SpillMap()
        self._directories = SpillMap()
        self._last = SpillMap()
        self._exact = SpillMap()  # exact paths; the keys of the other maps are case-folded paths

    def reserve(self, path: str, url: str) -> str:
        """Reserve and return the path, or the first free numbered path."""
        directory, _, name = path.rpartition("/")
        place = self._reserve_directory(directory) if directory else ""
        numbered = join(place, name) if place else name
        key = first = name_key(numbered)
        for number in itertools.count(self._last.get(key) + 1):
            if number > 1:
                numbered = join(place, number_name(name, number))
                key = name_key(numbered)
            if self._directories.get(key) or not (self._is_free is None or self._is_free(numbered, url)):
                continue
            if self._files.add(key, _NAMED):
                if number > 1:
                    self._last.store(first, number)
                return numbered
        raise AssertionError("unreachable: the numbers do not end")

    def reserve_again(self, paths: Sequence[str]) -> list[bool]:
        """Reserve the paths of an earlier run again, and return for each whether it was free."""
        place, is_free = "", list[bool]()
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory != place:
                place = self._reserve_directory(directory)
            key = name_key(path)
            is_taken = directory != place or self._directories.get(key)
            is_free.append(not is_taken and self._files.add(key, _NAMED))
        return is_free

    def reserve_exact(self, path: str) -> bool:
        """Reserve exactly this path.

        Returns False if the path is already reserved, or if a file of the run has the path of one of its
        directories.
        """
        exact = normpath(path)
        key = name_key(exact)
        if self._exact.get(exact) or self._files.get(key) == _NAMED or self._directories.get(key):
            return False
        above, directory = [], key.rpartition("/")[0]
        while directory and not self._directories.get(directory):  # the parents of a reserved one are, too
            above.append(directory)
            directory = directory.rpartition("/")[0]
        if any(self._files.get(directory) for directory in above):
            return False
        for directory in above:
            self._directories.store(directory, 1)
        self._files.store(key, _EXACT)
        self._exact.store(exact, 1)
        return True

    def _reserve_directory(self, directory: str) -> str:
        """Return the path of a directory, with a number if a file of the run has the same name."""
        place = ""
        for part in directory.split("/"):
            names = (join(place, number_name(part, number)) for number in itertools.count(1))
            place = next(name for name in names if not self._files.get(name_key(name)))
            if not self._directories.get(key := name_key(place)):
                self._directories.store(key, 1)
        return place


class NameReservation:
    """The reserved file names of one URL; `number` is the position of the URL in the list.

    `names` has the reservations of all URLs.
    """

    def __init__(self, names: NameReservations, number: int) -> None:
        self.names = names
        self._path_by_name: dict[str, str] = {}
        self.number = number

    @property
    def first(self) -> str | None:
        """Return the path that was reserved first, or None if no path is reserved."""
        return next(iter(self._path_by_name.values()), None)

    def take(self, path: str, url: str) -> str:
        """Reserve and return a path for this URL.

        Repeated calls with the same `path` return the same path. `url` is the redacted URL.
        """
        if path not in self._path_by_name:
            self._path_by_name[path] = self.names.reserve(path, url)
        return self._path_by_name[path]
