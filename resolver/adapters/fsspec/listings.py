"""Listings, names, options and errors of an fsspec file system, and the walks over it.

A listing is trusted as long as it is cached. Facts of a name that it lacks, and names in no listing, are
requested from the server.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from errno import ELOOP
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, TypeAlias, cast
from urllib.parse import quote, unquote

from fsspec.spec import AbstractFileSystem
from fsspec.utils import glob_translate, stringify_path

import resolver

# The options of a file system (`storage_options`) and the `Resolver` that they configure.
#
# fsspec identifies file systems by the text of their options, and gives an existing one to a caller that
# writes the same. So no option may hold a secret that its text does not show.

#: Of fsspec's own, which every file system may be told.
_FSSPEC = frozenset(
    {"asynchronous", "loop", "listings_expiry_time", "max_paths", "use_listings_cache", "batch_size"}
)


def settings_of(options: Mapping[str, Any]) -> resolver.Settings:
    """The settings of a `Resolver` without those that fsspec knows.

    Raises `TypeError` and `ValueError`, here or when the `Resolver` is made.
    """
    given = {name: value for name, value in options.items() if name not in _FSSPEC}
    _check_written(given)
    settings = cast(resolver.Settings, given)  # whose names a `Resolver` checks
    settings["options"] = replace(settings.get("options") or resolver.Options(), keep=True, detailed=True)
    return settings


def _check_written(settings: Mapping[str, Any]) -> None:
    if "on_event" in settings:
        raise TypeError("a file system tells no events: give get and its like a callback of fsspec's")
    if "credentials" in settings:
        raise TypeError("give username and password, with their host, or write them into the URL")
    options = settings.get("options")
    if options is not None and (options.headers or options.login):
        raise TypeError("give headers by themselves: what is in options is not written")


def login_of(
    scheme: str, host: str | None, port: int | None, username: str | None, password: str | None
) -> dict[tuple[str, str, int], resolver.Credentials] | None:
    """The credentials, for their one place and for no other (S11)."""
    if password is None:
        return None
    if host is None:
        raise TypeError("a password is for one host: give host, too, or a URL with all of it")
    url = resolver.parse(place(scheme, host, port))
    assert isinstance(url, resolver.HostUrl)
    user = (username or "").encode()
    return {(url.scheme, url.host, url.effective_port): resolver.Credentials(user, password.encode())}


def place(scheme: str, host: str, port: int | None) -> str:
    authority = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{authority}{'' if port is None else f':{port}'}/"


def options_in(scheme: str, url: str) -> dict[str, str | int]:
    """What of the storage options stands in a URL: with a password, whose it is and where it counts."""
    login, _, place = url.partition("://")[2].partition("/")[0].rpartition("@")
    username, colon, password = login.partition(":")
    if not colon:
        return {}
    parsed = resolver.parse(f"{scheme}://{place}/")
    assert isinstance(parsed, resolver.HostUrl)
    found: dict[str, str | int] = {
        "host": parsed.host,
        "username": unquote(username),
        "password": unquote(password),
    }
    return found if parsed.port is None else {**found, "port": parsed.port}


# Names in a file system and their URLs.
#
# A name is a URL without its scheme, and without a password, for names are shown and stored. It stays
# encoded, so that no byte of it is taken for a delimiter; characters that a URL cannot hold are encoded where
# the name is given.

#: No URL has these (RFC 3986 2); a bracket may begin a pattern, and `%` an octet that is encoded already.
_FOREIGN = re.compile(r"[^!-~]+|[\"<>\\^`{|}]+")


def plain(name: str) -> str:
    """The name with neither a password nor what cannot stand in a URL. Of a plain name, the same."""
    authority, slash, path = name.partition("/")
    if "@" in authority:
        login, _, host = authority.rpartition("@")
        authority = f"{_FOREIGN.sub(_encode_match, login.partition(':')[0])}@{host}"
    return f"{authority}{slash}{_FOREIGN.sub(_encode_match, path)}"


def _encode_match(found: re.Match[str]) -> str:
    return quote(found[0].encode("utf-8", "surrogateescape"), safe="")


def strip_scheme(url: str) -> str:
    """The name that a URL is known by."""
    return plain(url.partition("://")[2])


def parent(name: str) -> str:
    """The directory that it is in, by its name; of a server's root none."""
    return name.rstrip("/").rpartition("/")[0]


def get_last_segment(name: str) -> str:
    """What it is called in its directory."""
    return name.rstrip("/").rpartition("/")[2]


# Our errors as errors of the standard library, which callers of fsspec catch: an `OSError`, with ours as its
# cause.

#: The first that fits; each has to be what Python makes of its number itself, so that it can be pickled.
_FAULTS: tuple[tuple[type[resolver.ResolveError], type[OSError], int], ...] = (
    (resolver.NotFound, FileNotFoundError, errno.ENOENT),
    (resolver.AccessDenied, PermissionError, errno.EACCES),
    (resolver.LoginRequired, PermissionError, errno.EACCES),
    (resolver.Refused, PermissionError, errno.EPERM),
    (resolver.TimedOut, TimeoutError, errno.ETIMEDOUT),
    (resolver.Unreachable, OSError, errno.EHOSTUNREACH),
    (resolver.Disconnected, ConnectionResetError, errno.ECONNRESET),
    (resolver.InvalidUrl, OSError, errno.EINVAL),
    (resolver.UnsupportedScheme, OSError, errno.EPROTONOSUPPORT),
    (resolver.ResolveError, OSError, errno.EIO),
)


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """What fails inside is about this name."""
    try:
        yield
    except resolver.ResolveError as error:
        raise fault(error, name) from error


def fault(error: resolver.ResolveError, name: str) -> OSError:
    kind, number = next((kind, number) for ours, kind, number in _FAULTS if isinstance(error, ours))
    return kind(number, error.message, name)


def no_server(name: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, "a name begins with its server, as in host/directory/file", name)


def no_file(name: str) -> NoReturn:
    raise IsADirectoryError(errno.EISDIR, "this is a listing: ls gives what is in it", name)


def read_only(name: str) -> NoReturn:
    raise OSError(errno.EROFS, "what URLs name is read, and never written, by url-resolver", name)


class NamedByUrls(AbstractFileSystem):
    """Names and URLs; with a `_host` names may begin with a slash."""

    cachable = True
    root_marker = ""
    #: By these it is found; the last one is `resolve+` and its scheme.
    protocol: ClassVar[tuple[str, ...]]
    #: May be read from the middle on.
    ranges: ClassVar[bool] = False
    #: Is a name of a directory written with a slash at its end?
    slashed: ClassVar[bool] = False
    #: Characters that make a pattern of a name: where a question mark begins a query, it makes none.
    magic: ClassVar[str] = "*?["
    #: May a document be a listing, too?
    pages: ClassVar[bool] = False

    _host: str | None = None

    @property
    def scheme(self) -> str:
        return self.protocol[0]

    @property
    def fsid(self) -> str:
        return f"{self.protocol[-1]}_{self._host or ''}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """The name, or the names of a list. Of a name, the same."""
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        name = stringify_path(path)
        for protocol in cls.protocol:
            name = name.removeprefix(f"{protocol}://").removeprefix(f"{protocol}::")
        return plain(name).rstrip("/")

    @classmethod
    def _parent(cls, path: str) -> str:
        return parent(cls._strip_protocol(path))

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, str | int]:
        return options_in(cls.protocol[0], path)

    def unstrip_protocol(self, name: str) -> str:
        return f"{self.protocol[-1]}://{self._resolve_name(name)}"

    @classmethod
    def key(cls, name: str) -> str:
        """By this names are compared where it matters what is below what."""
        return name

    @classmethod
    def menu(cls, name: str) -> str:
        """The name as that of a directory."""
        return name

    def _resolve_name(self, path: Any) -> str:
        """The whole name of what a caller names."""
        name: str = self._strip_protocol(path)
        if self._host is not None and (not name or name.startswith("/")):
            return f"{self._host}{name}"
        if not name.partition("/")[0]:
            no_server(name)
        return name

    def _url(self, name: str, *, listing: bool = False) -> str:
        bare = "/" not in name
        slash = "/" if bare or (listing and self.slashed and "?" not in name) else ""
        return f"{self.scheme}://{name}{slash}"


#: `name`, `size` (None where nobody tells), `type` (file, directory or other), and what else is known.
Record: TypeAlias = dict[str, Any]

_NOTHING: Mapping[str, object] = MappingProxyType({})

#: What fsspec calls what can be opened.
FILE = "file"

DIRECTORIES = frozenset({resolver.Kind.DIRECTORY, resolver.Kind.GROUP})
#: What has no octets of its own, or none before something is asked of it.
_OTHERS = frozenset({resolver.Kind.SEARCH, resolver.Kind.SERVICE, resolver.Kind.ADDRESS, resolver.Kind.LINK})
#: What stands in a listing and is no name in it.
_WORDS = frozenset({resolver.Kind.INFO, resolver.Kind.ERROR})
#: What a listing leaves open.
OPEN = frozenset({resolver.Kind.UNKNOWN, resolver.Kind.LINK})


class UrlFacts(NamedTuple):
    """What the server says of one URL at this moment; `url` is where it was found."""

    url: str
    kind: resolver.Kind
    media_type: str | None
    validators: resolver.Validators
    size: int | None
    modified: datetime | None


async def facts_of(url: str, session: resolver.Resolver) -> UrlFacts:
    async with session.facts(url) as reply:
        return UrlFacts(reply.url, reply.kind, reply.media_type, reply.validators, reply.size, reply.modified)


async def entries_of(url: str, session: resolver.Resolver) -> list[resolver.Entry]:
    """The names in a listing, as many as the limits let into memory."""
    found: list[resolver.Entry] = []
    async with session.entries(url) as entries:
        async for entry in entries:
            if entry.kind in _WORDS or entry.url is None:
                continue
            if len(found) == session.limits.entries:
                raise resolver.LimitExceeded("entries", f"more than {len(found)} entries", url=url)
            found.append(entry)
    return found


def record_of(
    name: str,
    kind: resolver.Kind,
    size: int | None,
    modified: datetime | None,
    more: Mapping[str, object] = _NOTHING,
) -> Record:
    is_directory = kind in DIRECTORIES
    known = {fact: value for fact, value in more.items() if value is not None}
    return {
        "name": name,
        "size": 0 if is_directory else size,
        "type": "directory" if is_directory else "other" if kind in _OTHERS else FILE,
        "modified": modified,
        **known,
    }


class FileSystemListings(NamedByUrls):
    """Directories and what is in them, by a session for each process."""

    _settings: resolver.Settings
    _opened: dict[int, resolver.blocking.Resolver]

    def _session(self) -> resolver.blocking.Resolver:
        """The one of this process, until it ends. What a fork inherits is its parent's, and left alone."""
        here = os.getpid()
        if here not in self._opened:
            session = resolver.blocking.Resolver(**self._settings)
            session.__enter__()  # starts what is ended behind this, at the end of the process
            atexit.register(session.close)
            self._opened[here] = session
        return self._opened[here]

    def close(self) -> None:
        """Close the connections that are kept. Another use opens new ones."""
        session = self._opened.pop(os.getpid(), None)
        if session is not None:
            atexit.unregister(session.close)
            session.close()

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any) -> list[Any]:
        name = self._resolve_name(path)
        records = None if refresh else self._find_cached(name)
        if records is None:
            with translate_errors(name):
                records = self._list_records(name)
        return [dict(each) if detail else each["name"] for each in records]

    def _find_cached(self, name: str) -> list[Record] | None:
        records: dict[str, Record] | None = self.dircache.get(name)
        if records is not None:
            return list(records.values())
        record = self._find_known(name)
        return None if record is None or record["type"] == "directory" else [record]

    def _find_known(self, name: str) -> Record | None:
        """What a listing that is kept tells of it."""
        beside: dict[str, Record] = self.dircache.get(self._parent(name), {})
        if name in beside:
            return beside[name]
        return record_of(name, resolver.Kind.DIRECTORY, 0, None) if name in self.dircache else None

    def _list_records(self, name: str) -> list[Record]:
        """What is in a directory; of a file, itself."""
        try:
            return self._directory(name)
        except resolver.Declined:
            record = self._record(name, self._facts(name))
            if record["type"] == "directory":
                raise
            return [record]

    def _directory(self, name: str) -> list[Record]:
        """What is in it. Raises `Declined` where it is none."""
        told = [record for each in self._entries(name) if (record := self._make_record(each)) is not None]
        records = {record["name"]: record for record in told if record["name"] != name}
        self.dircache[name] = records
        return list(records.values())

    def _entries(self, name: str) -> list[resolver.Entry]:
        return self._session().run(partial(entries_of, self._url(name, listing=True)))

    def _make_record(self, entry: resolver.Entry) -> Record | None:
        """What a listing tells of a name, and the server where that leaves it open. None for what leads out
        of this scheme."""
        url = entry.url or ""
        if not url.startswith(f"{self.scheme}://"):
            return None
        name, title = strip_scheme(url).rstrip("/"), {"title": entry.title}
        if entry.kind not in OPEN:
            return record_of(name, entry.kind, entry.size, entry.modified, title)
        try:
            facts = self._facts(name)
        except resolver.Declined:
            return record_of(name, resolver.Kind.LINK, None, entry.modified, title)
        more = {**title, "islink": entry.kind is resolver.Kind.LINK or None}
        return record_of(name, facts.kind, facts.size, facts.modified, more)

    def _facts(self, name: str) -> UrlFacts:
        return self._session().run(partial(facts_of, self._url(name)))

    def _record(self, name: str, facts: UrlFacts) -> Record:
        more = {"media_type": facts.media_type, "ETag": facts.validators.etag}
        return record_of(name, facts.kind, facts.size, facts.modified, more)

    def info(self, path: str, **kwargs: Any) -> Record:
        name = self._resolve_name(path)
        known = self._find_known(name)
        if known is not None:
            return dict(known)
        with translate_errors(name):
            facts = self._facts(name)
            if self._is_index(name, facts):
                return record_of(name, resolver.Kind.DIRECTORY, 0, facts.modified)
            return self._record(name, facts)

    def _is_index(self, name: str, facts: UrlFacts) -> bool:
        """Is it a page that lists what is below it?"""
        if not self.pages or not facts.url.endswith("/"):
            return False
        try:
            self._directory(name)
        except resolver.Declined:
            return False
        return True

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Raises `OSError` where nobody can tell."""
        return self._type(path) is not None

    def isdir(self, path: str) -> bool:
        return self._type(path) == "directory"

    def isfile(self, path: str) -> bool:
        return self._type(path) == FILE

    def _type(self, path: str) -> object:
        try:
            return self.info(path)["type"]
        except FileNotFoundError:
            return None

    def invalidate_cache(self, path: str | None = None) -> None:
        super().invalidate_cache(path)
        if path is None:
            self.dircache.clear()
        else:
            for name in (self._resolve_name(path), self._parent(self._resolve_name(path))):
                self.dircache.pop(name, None)


# Names below a directory, and the patterns that select them.
#
# A server decides about the children of a directory, and may never end. So no directory is entered twice, no
# link and no name outside the directory of its listing is entered, and none deeper than `DEEPEST`.

DEEPEST = 100


class WalkLevel(NamedTuple):
    """What is in a directory, each by what it is called there."""

    directories: dict[str, Record]
    files: dict[str, Record]


def level_of(name: str, records: Iterable[Record]) -> WalkLevel:
    """Two that are called the same in it are called by their whole names from the second on."""
    level = WalkLevel({}, {})
    for record in records:
        called = "" if record["name"] == name else get_last_segment(record["name"])
        if called in level.directories or called in level.files:
            called = record["name"]
        is_directory = record["type"] == "directory" and record["name"] != name
        (level.directories if is_directory else level.files)[called] = record
    return level


def check_depth(name: str, depth: int) -> None:
    if depth > DEEPEST:
        raise OSError(ELOOP, f"more than {DEEPEST} directories in one another", name)


def is_excused(error: OSError) -> bool:
    """What nobody finds or may read is left out of a walk, as `find` does; no other directory is, for what is
    not whole is an error."""
    return isinstance(error, FileNotFoundError) or isinstance(error.__cause__, resolver.AccessDenied)


class GlobPattern:
    """A name with wildcards; those that are none in this file system are `magic` no more."""

    def __init__(self, name: str, magic: str) -> None:
        authority, slash, path = name.partition("/")
        self.name = name
        self._magic = re.compile(f"[{re.escape(magic)}]")
        found = self._magic.search(path)
        self.is_one = found is not None
        self.root = name if found is None else f"{authority}{slash}{path[: found.start()]}".rpartition("/")[0]

    def depth(self, most: int | None) -> int | None:
        """Levels below the root that can match; None for all. `most` bounds those of the first `**`."""
        if "**" not in self.name:
            return self._levels
        if most is None:
            return None
        return self._levels - self.name[self.name.find("**") :].count("/") - 1 + most

    @property
    def _levels(self) -> int:
        return self.name[len(self.root) + 1 :].count("/") + 1

    def select_matching(
        self, key: str, records: Mapping[str, Record], keys: Mapping[str, str], *, directories: bool
    ) -> dict[str, Record]:
        """Those whose key matches the pattern `key`; with `directories` those alone."""
        slash = "/" if directories else ""
        pattern = re.compile(glob_translate(self._escape_host(key) + slash))
        append = directories or key.endswith("/**")
        return {
            name: record
            for name, record in sorted(records.items())
            if pattern.match(f"{keys[name]}/" if append and record["type"] == "directory" else keys[name])
        }

    def _escape_host(self, key: str) -> str:
        authority, slash, path = key.partition("/")
        host = re.sub(r"[*?[]", r"[\g<0>]", authority)
        return f"{host}{slash}{path if self._magic.match('?') else path.replace('?', '[?]')}"


class WalkableTree(Protocol):
    """What can be walked."""

    def ls(self, path: str, detail: bool = True, refresh: bool = False) -> list[Record]: ...

    def key(self, name: str) -> str: ...


class FileSystemWalk:
    """One walk, with what was entered on it: `depth` levels of it, `topdown` or from below, and what is to be
    done `on_error`, as fsspec has it. With `detail` it gives records, else names."""

    def __init__(
        self, tree: WalkableTree, depth: int | None, topdown: bool, on_error: object, detail: bool
    ) -> None:
        self._tree = tree
        self._depth = depth
        self._topdown = topdown
        self._on_error = on_error
        self._detail = detail
        self._entered: set[str] = set()

    def walk_below(self, name: str, depth: int = 1) -> Iterator[tuple[str, Any, Any]]:
        """What is in it, and in all below; it is `depth` levels down itself."""
        records = self._records(name, depth)
        if records is None:
            return
        directories, files = level_of(name, records)
        shown = dict(directories) if self._detail else list(directories)
        level = (name, shown, files if self._detail else list(files))
        if self._topdown:
            yield level
        if self._depth is None or depth < self._depth:
            for called in list(shown if self._topdown else directories):
                if self._can_enter(name, directories[called]):
                    yield from self.walk_below(directories[called]["name"], depth + 1)
        if not self._topdown:
            yield level

    def _records(self, name: str, depth: int) -> list[Record] | None:
        self._entered.add(self._tree.key(name))
        try:
            check_depth(name, depth)
            return self._tree.ls(name, detail=True)
        except OSError as error:
            if callable(self._on_error):
                self._on_error(error)
            elif self._on_error == "raise" or not is_excused(error):
                raise
            return None

    def _can_enter(self, name: str, record: Record) -> bool:
        key, above = self._tree.key(record["name"]), self._tree.key(name).rstrip("/")
        return not record.get("islink") and key.startswith(f"{above}/") and key not in self._entered


class Walks(FileSystemListings):
    """Whole trees of listings."""

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        detail: bool = False,
        **kwargs: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """As fsspec's. What cannot be read is left out if the server says so; any other failure is raised."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        walk = FileSystemWalk(self, maxdepth, topdown, on_error, detail)
        return walk.walk_below(self._resolve_name(path))

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        return super().find(self._resolve_name(path), maxdepth, withdirs, detail, **kwargs)

    def expand_path(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> Any:
        return super().expand_path(self._resolve_names(path), recursive, maxdepth, **kwargs)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        return super().cat(self._resolve_names(path), recursive, on_error, **kwargs)

    def _resolve_names(self, path: Any) -> Any:
        """The whole name, or those of several."""
        return (
            self._resolve_name(path)
            if isinstance(path, str | PathLike)
            else [self._resolve_name(each) for each in path]
        )

    def glob(
        self,
        path: str,
        maxdepth: int | None = None,
        detail: bool = False,
        withdirs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """As fsspec's, but a host has no wildcards, and where a question mark begins a query, it is none."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        pattern = GlobPattern(self._resolve_name(path), self.magic)
        found = self._select_matching(pattern, maxdepth, withdirs, str(path).endswith("/"), kwargs)
        return found if detail else list(found)

    def _select_matching(
        self,
        pattern: GlobPattern,
        maxdepth: int | None,
        withdirs: bool,
        directories: bool,
        more: dict[str, Any],
    ) -> dict[str, Record]:
        if not pattern.is_one:
            return {pattern.name: self.info(pattern.name)} if self.exists(pattern.name) else {}
        root, depth = self.menu(pattern.root), pattern.depth(maxdepth)
        records = self.find(root, depth, withdirs, detail=True, **more)
        keys = {name: self.key(name) for name in records}
        return pattern.select_matching(self.key(pattern.name), records, keys, directories=directories)

    def du(self, path: str, total: bool = True, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """Raises `OSError` for a total of sizes that the server does not tell."""
        sizes: dict[str, int | None] = super().du(path, False, maxdepth, **kwargs)
        if not total:
            return sizes
        known = [size for size in sizes.values() if size is not None]
        if len(known) < len(sizes):
            raise OSError(f"{path}: of {len(sizes) - len(known)} of {len(sizes)} files no size is told")
        return sum(known)
