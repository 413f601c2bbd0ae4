"""Names of saved files (rule S14), made from the requested URL and unique within a run.

A name is never made from a redirect target, a header or a listing: these are words of other parties. The one
exception is a header, for a user who lets the server choose.
"""

from __future__ import annotations

import hashlib
import itertools
import re
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


#: The name of what the URL names by its directory alone, and how it goes on for a server's media type.
_INDEX = b"index"
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
    """The last part of the name of the thing, decoded; empty where the URL names none, and where its scheme
    does not say which component is the name."""
    return _path_of(url)[-1]


def _path_of(url: Url) -> list[bytes]:
    """The name of the thing behind the directories that it is in, all decoded; the last is empty where
    `last_part` is."""
    row = registry.find(url.scheme)
    for component in () if row is None else row.named_by:
        value: object = getattr(url, component)
        if value is None or value == ():
            continue
        above = () if row is None or row.within is None else getattr(url, row.within)
        if isinstance(value, tuple):
            return [*above, *value]
        if isinstance(value, bytes):
            return [*above, value]
        return [*above, *map(unquote_to_bytes, str(value).split("/"))]  # text is still encoded
    return [b""]


def _make_distinction(url: Url) -> bytes:
    """What things of this name differ by, to stand behind it: `_id=1` of `x?id=1`."""
    row = registry.find(url.scheme)
    values = () if row is None else (getattr(url, component) for component in row.told_apart_by)
    return b"".join(b"_" + re.sub(rb"[/\\]", b"_", unquote_to_bytes(str(each))) for each in values if each)


def listed_name(url: Url) -> str:
    """What a listing with the URL's object in it shows of it, as far as the URL tells: the name of a file,
    the number of an article, a group. Where it tells nothing of the kind, the URL."""
    row = registry.find(url.scheme)
    if row is None or not row.listed:
        return url.shown
    return last_part(url).decode("utf-8", "surrogateescape") or url.shown


def local_file_name(url: Url) -> str:
    """A safe local name for what the URL names, `index` where it ends with a directory. Raises `Refused`
    (S14) when nothing is left of it: then `-O FILE` gives one."""
    name = _INDEX if is_index(url) else last_part(url)
    return local_name(name + _make_distinction(url) if name else name)


def is_index(url: Url) -> bool:
    """Does the URL name something by its directory alone, as `http://host/` does?"""
    row = registry.find(url.scheme)
    if row is None or not row.named_by:
        return False
    last = last_part(url)
    values = (getattr(url, component) for component in row.named_by)
    is_path = row.within is None and any(isinstance(value, bytes) for value in values)
    return not last or (is_path and last.endswith(b"/"))


def index_suffix(media_type: str | None) -> str:
    """How the name of such a thing goes on; empty for a type that is not usual there."""
    return _SUFFIXES.get((media_type or "").lower(), "")


def local_directory(url: Url, *, host: bool, cut: int | None) -> str:
    """Where below the directory for files it goes, safe in each part: the `host` that it is from and the
    directories of its path but for the first `cut`; no such directory with None. Empty for none."""
    inside = re.split(rb"[/\\]", b"/".join(_path_of(url)))[:-1] if host or cut is not None else []
    above = [url.host.encode()] if host and isinstance(url, HostUrl) else []
    return local_path([*above, *[part for part in inside if part not in (b"", b".")][cut or 0 :]])


def server_file_name(suggested: bytes | None) -> str | None:
    """The name that a server suggests, cleaned like any other; None where it suggests none. Only for those
    who let it (`Policy.allow_server_name`). Raises `Refused` (S14) as above."""
    return None if suggested is None else local_name(suggested)


def make_sibling_url(url: Url, *names: bytes) -> Url | None:
    """The URL of what has the last name, in the directories of the others, which are in the same one: built,
    and parsed from scratch. None for a scheme without directories, and where there is nothing beside it."""
    row = registry.find(url.scheme)
    found = None if row is None or row.beside is None else row.beside(url, *names)
    return None if found is None else parse(build(found), origin="user")


# The memory of a run for all its URLs, in bounded space.
#
# The first are held as they are. All others are in a private temporary database that ends with the process: a
# digest of 64 bits for each text, so that two may be mistaken for one another. A caller must tolerate that.

#: Texts that are held in memory.
MOST_HELD = 10_000


class SpillMap:
    """Numbers by texts."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._database: Connection | None = None

    def get(self, text: str) -> int:
        """That of the text; 0 where it has none."""
        number = self._held.get(text)
        if number is not None or self._database is None:
            return number or 0
        found = self._database.execute("SELECT number FROM aside WHERE text=?", (_digest(text),)).fetchone()
        return 0 if found is None else int(found[0])

    def put(self, text: str, number: int) -> None:
        if len(self._held) < MOST_HELD or text in self._held:
            self._held[text] = number
            return
        if self._database is None:
            self._database = _temporary()
        self._database.execute("REPLACE INTO aside VALUES (?, ?)", (_digest(text), number))

    def put_new(self, texts: Sequence[str]) -> list[bool]:
        """Each of them gets 1, unless it has a number: which did. It costs much less than one by one."""
        new = [self._put_in_memory(text) for text in texts]
        if None in new:
            if self._database is None:
                self._database = _temporary()
            left = {text: _digest(text) for text, done in zip(texts, new, strict=True) if done is None}
            marks = ",".join("?" * len(left))
            query = f"SELECT text FROM aside WHERE text IN ({marks})"
            there = {digest for (digest,) in self._database.execute(query, list(left.values()))}
            rows = sorted(set(left.values()) - there)
            self._database.executemany("INSERT INTO aside VALUES (?, 1)", ((row,) for row in rows))
            for place, text in enumerate(texts):
                if new[place] is None:
                    new[place] = left[text] not in there
                    there.add(left[text])
        return [done is True for done in new]

    def _put_in_memory(self, text: str) -> bool | None:
        """None where it is not held here."""
        if text in self._held:
            return False
        if len(self._held) >= MOST_HELD:
            return None
        self._held[text] = 1
        return True

    def __del__(self) -> None:
        """Nobody asks any more, who may have been a task or a thread."""
        if self._database is not None:
            self._database.close()


def _temporary() -> Connection:
    import sqlite3  # few runs have so many

    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=OFF")
    database.execute("CREATE TABLE aside (text INTEGER PRIMARY KEY, number INTEGER NOT NULL)")
    database.execute("BEGIN")  # and never an end: nobody needs what is written
    return database


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


# Reservations of names: two URLs of a run never write one file, on any file system (S14). Names that differ
# only in case are one, as in a tree.
#
# A name belongs to the first URL of the list that asks for it, whatever its outcome; the next ones get it
# numbered, `name.2`. So the list alone tells which file belongs to which URL, and another run of the same
# list finds the same names. Only a caller that wants a new name for each run (`--exists rename`) has the disk
# asked, too.
#
# Names are in the memory above: with very many of them one may be mistaken for another, and is numbered
# without need, in each run.

#: Whose a key is: that of a URL whose name was made, or of those that wanted theirs as they are.
_NAMED, _HELD = 1, 2


class NameReservations:
    """Paths below one directory that the URLs of a run have. `is_free` says more of a path than that none has
    it yet: may this URL have it?"""

    def __init__(self, is_free: Callable[[str, str], bool]) -> None:
        self._is_free = is_free
        self._files = SpillMap()
        self._directories = SpillMap()
        self._last = SpillMap()
        self._held = SpillMap()  # as they are; all others by their keys

    def reserve(self, wanted: str, url: str) -> str:
        """The path itself, or the first numbered one that is free."""
        directory, _, name = wanted.rpartition("/")
        place = self._directory(directory)
        path = join(place, name)
        key = name_key(path)
        for number in itertools.count(self._last.get(key) + 1):
            found = join(place, number_name(name, number))
            if self._is_new(found) and self._is_free(found, url):
                if number > 1:
                    self._last.put(key, number)
                self._files.put(name_key(found), _NAMED)
                return found
        raise AssertionError("numbers end")

    def reserve_again(self, paths: Sequence[str]) -> list[bool]:
        """Paths that were given by an earlier run, for who then had them: which of them nobody else has."""
        place, fits = "", list[bool]()
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory != place:
                place = self._directory(directory)
            fits.append(directory == place and not self._directories.get(name_key(path)))
        taken = iter(
            self._files.put_new([name_key(path) for path, fit in zip(paths, fits, strict=True) if fit])
        )
        return [fit and next(taken) for fit in fits]

    def hold(self, path: str) -> bool:
        """Let nobody have this path any more, which is wanted as it is and no other one. False where somebody
        has it, or a file is in its way."""
        found = normpath(path)
        key = name_key(found)
        above = [key[:at] for at, octet in enumerate(key) if octet == "/" and at]
        if self._held.get(found) or self._files.get(key) == _NAMED or self._directories.get(key):
            return False
        if any(self._files.get(each) for each in above):
            return False
        for each in above:
            self._directories.put(each, 1)
        self._files.put(key, _HELD)
        self._held.put(found, 1)
        return True

    def _is_new(self, path: str) -> bool:
        key = name_key(path)
        return not self._files.get(key) and not self._directories.get(key)

    def _directory(self, wanted: str) -> str:
        """A directory of that path; numbered where a file of the run has the name of one."""
        place = ""
        for part in wanted.split("/") if wanted else ():
            names = (join(place, number_name(part, number)) for number in itertools.count(1))
            place = next(name for name in names if not self._files.get(name_key(name)))
            if not self._directories.get(key := name_key(place)):
                self._directories.put(key, 1)
        return place


class NameReservation:
    """What one URL of a run has to say to the names of its files; `number` is its place in the list."""

    def __init__(self, names: NameReservations, number: int) -> None:
        self._names = names
        self._had: dict[str, str] = {}
        self.number = number

    @property
    def first(self) -> str | None:
        """The path that it has, as far as that is known."""
        return next(iter(self._had.values()), None)

    def hold(self, path: str) -> bool:
        """See `NameReservations`."""
        return self._names.hold(path)

    def take(self, wanted: str, url: str) -> str:
        """The path that this URL has instead of the one it wants, or that one; always the same. `url` is the
        URL, redacted."""
        if wanted not in self._had:
            self._had[wanted] = self._names.reserve(wanted, url)
        return self._had[wanted]
