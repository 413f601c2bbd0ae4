"""Listings, paths, storage options and errors of an fsspec file system, and recursive walks.

Metadata in a cached listing is used without a request. If a cached listing lacks a value, the value is
requested from the server.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime
from errno import ELOOP
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias, cast
from urllib.parse import quote, unquote

from fsspec.asyn import AsyncFileSystem, get_loop, reset_lock, sync_wrapper
from fsspec.utils import glob_translate, stringify_path

import resolver

# The options of a file system (`storage_options`), which configure a `Resolver`.
#
# fsspec caches file system instances by the `repr` of their options. Callers whose options have the same
# `repr` get the same instance. If a secret in an option were hidden in the `repr`, another caller could get
# an instance with this secret. So options with hidden secrets are refused.

#: The options of fsspec itself, which are valid for each file system.
_FSSPEC = frozenset(
    {"asynchronous", "loop", "listings_expiry_time", "max_paths", "use_listings_cache", "batch_size"}
)


def make_settings(options: Mapping[str, Any]) -> resolver.Settings:
    """Return the settings of a `Resolver` from storage options.

    The constructor of `Resolver` checks all other options, and raises the same errors.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option has an invalid value.
    """
    given = {name: _convert_value(name, value) for name, value in options.items() if name not in _FSSPEC}
    _check_written(given)
    settings = cast(resolver.Settings, given)  # the constructor of `Resolver` checks the option names
    settings["options"] = replace(settings.get("options") or resolver.Options(), keep=True, detailed=True)
    return settings


#: The classes of settings with several fields. In JSON and YAML, such a setting is a mapping of its fields.
_CLASSES: Mapping[str, type[Any]] = {
    "policy": resolver.Policy,
    "limits": resolver.Limits,
    "options": resolver.Options,
    "patience": resolver.RetryPolicy,
}


def _convert_value(name: str, value: object) -> object:
    return _CLASSES[name](**value) if name in _CLASSES and isinstance(value, Mapping) else value


def written(name: str, value: Any) -> Any:
    """Return a storage option as JSON; an object becomes a mapping of its fields that are not defaults."""
    if name not in _CLASSES or not isinstance(value, _CLASSES[name]):
        return value
    changed = {each.name: getattr(value, each.name) for each in fields(value)}
    return {
        field: sorted(found) if isinstance(found, frozenset) else found
        for field, found in changed.items()
        if found != getattr(_CLASSES[name](), field)
    }


def password_in(variable: str) -> str:
    """Return the password in an environment variable.

    Raises:
        ValueError: The variable is not set.
    """
    if (password := os.environ.get(variable)) is None:
        raise ValueError(f"password_env: the environment variable {variable} is not set")
    return password


def _check_written(settings: Mapping[str, Any]) -> None:
    if "on_event" in settings:
        raise TypeError("'on_event' is not supported by file systems (pass a callback of fsspec to get)")
    if "credentials" in settings:
        raise TypeError("'credentials' is not supported by file systems (pass host, username and password)")
    options = settings.get("options")
    if options is not None and (options.headers or options.login):
        raise TypeError("'options' must not contain headers or a login (pass headers)")


def make_login(
    scheme: str, host: str | None, port: int | None, username: str | None, password: str | None
) -> dict[tuple[str, str, int], resolver.Credentials] | None:
    """Return credentials that are valid only for this scheme, host and port (S11)."""
    if password is None:
        return None
    if host is None:
        raise TypeError("password without a host (pass host, or a URL with the login)")
    url = resolver.parse(place(scheme, host, port))
    assert isinstance(url, resolver.HostUrl)
    user = (username or "").encode()
    return {(url.scheme, url.host, url.effective_port): resolver.Credentials(user, password.encode())}


def place(scheme: str, host: str, port: int | None) -> str:
    authority = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{authority}{'' if port is None else f':{port}'}/"


def options_in(scheme: str, url: str) -> dict[str, str | int]:
    """Return the storage options in a URL.

    Only a URL with a password has storage options.

    The options are `username`, `password`, `host` and `port`.
    """
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


# Names (paths) in a file system, and their URLs.
#
# A name is a URL without its scheme. A password is removed from the name, because names are displayed and
# stored. Names stay percent-encoded, because a decoded byte could be confused with a delimiter. Invalid
# characters in a name from the caller are percent-encoded. `%3D` is decoded to `=` in the paths of ftp and
# http, because pyarrow and dask read hive partitions (`year=2026`) from the names. In these paths, `=` is not
# a delimiter (RFC 3986 3.3).

#: A pattern that matches characters that are not allowed in URLs (RFC 3986 2). Brackets do not match, because
#: brackets may be part of a glob pattern. `%` does not match, because `%` may begin a percent-encoded byte.
_FOREIGN = re.compile(r"[^!#-;=?-\[\]_a-z~]")


def plain(name: str) -> str:
    """Return a name without its password, and with all invalid characters percent-encoded (idempotent)."""
    if "@" not in name and _FOREIGN.search(name) is None:
        return name
    authority, slash, path = name.partition("/")
    if "@" in authority:
        login, _, host = authority.rpartition("@")
        authority = f"{_FOREIGN.sub(_encode_match, login.partition(':')[0])}@{host}"
    return f"{authority}{slash}{_FOREIGN.sub(_encode_match, path)}"


def _encode_match(found: re.Match[str]) -> str:
    return quote(found[0].encode("utf-8", "surrogateescape"), safe="")


def decode_equals(name: str) -> str:
    """Return a name with `=` instead of `%3D` in its path (idempotent)."""
    path, mark, query = name.partition("?")
    return f"{path.replace('%3D', '=').replace('%3d', '=')}{mark}{query}"


def strip_scheme(url: str) -> str:
    """Return the name (path) of a URL, without the scheme."""
    return plain(url.partition("://")[2])


def parent(name: str) -> str:
    """Return the name of the parent directory, or an empty text for the root directory of a server."""
    return name.rstrip("/").rpartition("/")[0]


def get_last_segment(name: str) -> str:
    """Return the last segment of a name."""
    return name.rstrip("/").rpartition("/")[2]


# The conversion of errors to `OSError`. Callers of fsspec expect `OSError`. The original error is the
# attribute `__cause__` of the `OSError`.

#: The conversion table of error classes; the first matching row is used. A row has the `OSError` class that
#: Python derives from the errno of this row. Otherwise, the error could not be pickled.
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
    """Convert errors of this library to `OSError`, with `name` as its file name."""
    try:
        yield
    except resolver.ResolveError as error:
        raise fault(error, name) from error


def fault(error: resolver.ResolveError, name: str) -> OSError:
    kind, number = next((kind, number) for ours, kind, number in _FAULTS if isinstance(error, ours))
    return kind(number, error.message, name)


def no_server(name: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, "name must begin with its host, as in host/directory/file", name)


def no_file(name: str) -> NoReturn:
    raise IsADirectoryError(errno.EISDIR, "is a listing (use ls)", name)


def read_only(name: str) -> NoReturn:
    raise OSError(errno.EROFS, "read-only file system: url-resolver does not write", name)


class NamedByUrls(AsyncFileSystem):
    """A file system with URLs as names. If `_host` is set, the host may be missing in a name: `/pub`."""

    cacheable = True
    root_marker = ""
    #: The protocol names in the registry of fsspec: `SCHEME`, `resolveSCHEME` and `resolve+SCHEME`.
    protocol: ClassVar[tuple[str, ...]]
    #: Whether the scheme supports random access (range requests).
    ranges: ClassVar[bool] = False
    #: Whether the URL of a directory ends in a slash.
    slashed: ClassVar[bool] = False
    #: The wildcard characters of glob patterns. `?` is not a wildcard in a scheme in which `?` begins a
    #: query.
    magic: ClassVar[str] = "*?["
    #: Whether a document may also be a listing, such as an index page of http.
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
        """Return the name for a path, or the names for a list of paths (idempotent)."""
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        name = stringify_path(path)
        if "://" in name or "::" in name:
            for protocol in cls.protocol:
                name = name.removeprefix(f"{protocol}://").removeprefix(f"{protocol}::")
        name = plain(name).rstrip("/")
        return decode_equals(name) if cls.slashed and "%3" in name else name

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
        """Return a key for the comparison of a name with other names."""
        return name

    @classmethod
    def menu(cls, name: str) -> str:
        """Return the name of a directory in its canonical form."""
        return name

    def _resolve_name(self, path: Any) -> str:
        """Return the complete name of a path, with the host."""
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


#: An fsspec record of a file: `name`, `size` (None if unknown), `type` (file, directory or other), and
#: further metadata.
Record: TypeAlias = dict[str, Any]

#: The fsspec type of all objects that can be opened.
FILE = "file"

DIRECTORIES = frozenset({resolver.Kind.DIRECTORY, resolver.Kind.GROUP})
#: Kinds of listing entries that have the fsspec type `other`. A request for such an entry has no content, or
#: content of an unknown kind.
_OTHERS = frozenset({resolver.Kind.SEARCH, resolver.Kind.SERVICE, resolver.Kind.ADDRESS, resolver.Kind.LINK})
#: Kinds of listing entries that are only text and do not name an object.
_WORDS = frozenset({resolver.Kind.INFO, resolver.Kind.ERROR})
#: Kinds for which a listing does not state whether the entry is a file or a directory.
OPEN = frozenset({resolver.Kind.UNKNOWN, resolver.Kind.LINK})


async def read_entries(url: str, session: resolver.Resolver) -> list[resolver.Entry]:
    """Return the entries of a listing that name an object.

    Raises:
        LimitExceeded: The listing has more entries than the limit.
    """
    found: list[resolver.Entry] = []
    async with session.entries(url) as entries:
        async for entry in entries:
            if entry.kind in _WORDS or entry.url is None:
                continue
            if len(found) == session.limits.entries:
                raise resolver.LimitExceeded(
                    "entries", f"more than {len(found)} entries", url=resolver.parse(url).shown
                )
            found.append(entry)
    return found


def make_record(
    name: str,
    kind: resolver.Kind,
    size: int | None,
    modified: datetime | None,
    more: Mapping[str, object] | None = None,
) -> Record:
    is_directory = kind in DIRECTORIES
    return {
        **{fact: value for fact, value in (more or {}).items() if value is not None},
        "name": name,
        "size": 0 if is_directory else size,
        "type": "directory" if is_directory else "other" if kind in _OTHERS else FILE,
        "modified": modified,
        "mtime": None if modified is None else modified.timestamp(),
    }


# fsspec 2025.3 keeps the event loop of the parent process after a fork. The child process does not have the
# thread of this event loop, so a blocking call would wait forever.
os.register_at_fork(after_in_child=reset_lock)


class FileSystemListings(NamedByUrls):
    """A file system with directory listings, and with one session per process."""

    _pid: int
    _settings: resolver.Settings
    _opened: dict[asyncio.AbstractEventLoop, resolver.Resolver]

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop of blocking calls. A forked process creates its own event loop."""
        if self._pid != os.getpid() and not self.asynchronous:
            self._pid, self._loop = os.getpid(), get_loop()
        loop: asyncio.AbstractEventLoop | None = self._loop
        return loop

    async def _session(self) -> resolver.Resolver:
        """Return the session of the running event loop, which has its own connection pool."""
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            if loop is self._loop:
                atexit.register(self._close_at_exit)
            self._opened = {each: old for each, old in self._opened.items() if not each.is_closed()}
            self._opened[loop] = await resolver.Resolver(**self._settings).__aenter__()
        return self._opened[loop]

    async def _close(self) -> None:
        """Close the connection pool of the running event loop; the next request opens another."""
        session = self._opened.pop(asyncio.get_running_loop(), None)
        if session is not None:
            atexit.unregister(self._close_at_exit)
            await session.__aexit__(None, None, None)

    close = sync_wrapper(_close)

    def _close_at_exit(self) -> None:
        if self._pid == os.getpid() and self._loop in self._opened and self._loop.is_running():
            self.close()

    async def _ls(self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any) -> list[Any]:
        name = self._resolve_name(path)
        records = None if refresh else self._find_cached(name)
        if records is None:
            with translate_errors(name):
                records = await self._list_records(name)
        return [dict(each) if detail else each["name"] for each in records]

    def _find_cached(self, name: str) -> list[Record] | None:
        records: dict[str, Record] | None = self.dircache.get(name)
        if records is not None:
            return list(records.values())
        record = self._find_known(name)
        return None if record is None or record["type"] == "directory" else [record]

    def _find_known(self, name: str) -> Record | None:
        """Return the record of a name from a cached listing, or None."""
        beside: dict[str, Record] = self.dircache.get(self._parent(name), {})
        if name in beside:
            return beside[name]
        return make_record(name, resolver.Kind.DIRECTORY, 0, None) if name in self.dircache else None

    async def _list_records(self, name: str) -> list[Record]:
        """Return the records of all entries in a directory, or the single record of a file."""
        try:
            return await self._directory(name)
        except resolver.Declined:
            record = self._record(name, await self._facts(name))
            if record["type"] == "directory":
                raise
            return [record]

    async def _directory(self, name: str) -> list[Record]:
        """Return the records of all entries in a directory.

        Raises:
            Declined: The name is not a directory.
        """
        entries = await read_entries(self._url(name, listing=True), await self._session())
        told = [await self._make_record(each) for each in entries]
        records = {record["name"]: record for record in told if record is not None and record["name"] != name}
        self.dircache[name] = records
        return list(records.values())

    async def _make_record(self, entry: resolver.Entry) -> Record | None:
        """Return the record of a listing entry, or None for an entry with another scheme.

        If the listing does not state the kind of the entry, a request is sent to the server.
        """
        url = entry.url or ""
        if not url.startswith(f"{self.scheme}://"):
            return None
        name, listed = self._strip_protocol(url), {**(entry.extra or {}), "title": entry.title}
        if entry.kind not in OPEN:
            return make_record(name, entry.kind, entry.size, entry.modified, listed)
        try:
            facts = await self._facts(name)
        except resolver.Declined:
            return make_record(name, resolver.Kind.LINK, None, entry.modified, listed)
        more = {**listed, "islink": entry.kind is resolver.Kind.LINK or None}
        return make_record(name, facts.kind, facts.size, facts.modified, more)

    async def _facts(self, name: str) -> resolver.StreamingResponse:
        """Return the current metadata of an object from the server, without the body."""
        async with (await self._session()).facts(self._url(name)) as reply:
            return reply

    def _record(self, name: str, facts: resolver.StreamingResponse) -> Record:
        more = {"media_type": facts.media_type, "ETag": facts.validators.etag}
        return make_record(name, facts.kind, facts.size, facts.modified, more)

    async def _info(self, path: str, **kwargs: Any) -> Record:
        name = self._resolve_name(path)
        known = self._find_known(name)
        # Index pages of http often lack sizes or have rounded sizes. dask cannot read a file of unknown size.
        if known is not None and not (self.ranges and known["type"] == FILE and known["size"] is None):
            return dict(known)
        with translate_errors(name):
            facts = await self._facts(name)
            if await self._is_index(name, facts):
                return make_record(name, resolver.Kind.DIRECTORY, 0, facts.modified)
            return self._record(name, facts)

    async def _is_index(self, name: str, facts: resolver.StreamingResponse) -> bool:
        """Return whether a document is an index page, with links to URLs below its own URL."""
        if not self.pages or not facts.url.endswith("/"):
            return False
        try:
            await self._directory(name)
        except resolver.Declined:
            return False
        return True

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        """Return whether the name exists.

        Raises:
            OSError: The request failed, so the client cannot know whether the name exists.
        """
        return await self._type(path) is not None

    async def _isdir(self, path: str) -> bool:
        return await self._type(path) == "directory"

    async def _isfile(self, path: str) -> bool:
        return await self._type(path) == FILE

    async def _type(self, path: str) -> object:
        try:
            return (self._find_known(self._resolve_name(path)) or await self._info(path))["type"]
        except FileNotFoundError:
            return None

    def invalidate_cache(self, path: str | None = None) -> None:
        super().invalidate_cache(path)
        if path is None:
            self.dircache.clear()
        else:
            for name in (self._resolve_name(path), self._parent(self._resolve_name(path))):
                self.dircache.pop(name, None)


# Recursive walks below a directory, and glob patterns.
#
# The directory tree of a server is untrusted and may be infinite. So a walk enters each directory only once.
# A walk does not enter links, names outside the listed directory, and directories deeper than `DEEPEST`.

DEEPEST = 100


class WalkLevel(NamedTuple):
    """The files and directories in a directory, by name."""

    directories: dict[str, Record]
    files: dict[str, Record]


def split_level(name: str, records: Iterable[Record]) -> WalkLevel:
    """Split the records of a directory into files and subdirectories, by name.

    If two entries have the same last segment, the second entry is listed by its complete name.
    """
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
        raise OSError(ELOOP, f"more than {DEEPEST} nested directories", name)


def is_excused(error: OSError) -> bool:
    """Return whether a walk may skip a directory after this error.

    A walk skips a directory that is missing or not readable, as the command `find` does. All other errors
    are raised, because the result would be incomplete.
    """
    return isinstance(error, FileNotFoundError) or isinstance(error.__cause__, resolver.AccessDenied)


class GlobPattern:
    """A glob pattern for names. Only the characters in `magic` are wildcards."""

    def __init__(self, name: str, magic: str) -> None:
        authority, slash, path = name.partition("/")
        self.name = name
        self._magic = re.compile(f"[{re.escape(magic)}]")
        found = self._magic.search(path)
        self.is_one = found is not None
        self.root = name if found is None else f"{authority}{slash}{path[: found.start()]}".rpartition("/")[0]

    def depth(self, most: int | None) -> int | None:
        """Return how many directory levels the glob pattern can match.

        The result is `None` for all levels.

        `most` is the maximum number of levels that the first `**` matches.
        """
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
        """Return the records whose key matches the glob pattern; with `directories`, only directories."""
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


class FileSystemWalk:
    """A recursive walk through a directory tree, with the set of visited directories.

    Args:
        tree: The file system.
        depth: The maximum number of levels; None for all levels.
        topdown: Whether a directory precedes its contents.
        on_error: The argument `on_error` of fsspec's `walk`.
        detail: Whether records are returned instead of names.
    """

    def __init__(
        self, tree: FileSystemListings, depth: int | None, topdown: bool, on_error: object, detail: bool
    ) -> None:
        self._tree = tree
        self._depth = depth
        self._topdown = topdown
        self._on_error = on_error
        self._detail = detail
        self._entered: set[str] = set()

    async def walk_below(self, name: str, depth: int = 1) -> AsyncIterator[tuple[str, Any, Any]]:
        """Yield the contents of a directory and of all its subdirectories; `depth` is the current level."""
        records = await self._records(name, depth)
        if records is None:
            return
        directories, files = split_level(name, records)
        shown = dict(directories) if self._detail else list(directories)
        level = (name, shown, files if self._detail else list(files))
        if self._topdown:
            yield level
        if self._depth is None or depth < self._depth:
            for called in list(shown if self._topdown else directories):
                if self._can_enter(name, directories[called]):
                    async for below in self.walk_below(directories[called]["name"], depth + 1):
                        yield below
        if not self._topdown:
            yield level

    async def _records(self, name: str, depth: int) -> list[Record] | None:
        self._entered.add(self._tree.key(name))
        try:
            check_depth(name, depth)
            return await self._tree._ls(name, detail=True)
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
    """A file system with recursive walks, glob patterns and total sizes."""

    async def _walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        detail: bool = False,
        **kwargs: Any,
    ) -> AsyncIterator[tuple[str, Any, Any]]:
        """Walk recursively through a directory as fsspec does.

        If the server reports that a directory is missing or not readable, the directory is skipped. Other
        errors are raised.
        """
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        walk = FileSystemWalk(self, maxdepth, topdown, on_error, detail)
        async for level in walk.walk_below(self._resolve_name(path)):
            yield level

    async def _find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        return await super()._find(self._resolve_name(path), maxdepth, withdirs, detail=detail, **kwargs)

    async def _glob(
        self,
        path: str,
        maxdepth: int | None = None,
        detail: bool = False,
        withdirs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Return the names that match a glob pattern.

        Wildcards in the host are not supported. In schemes with a query, `?` is not a wildcard.
        """
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        pattern = GlobPattern(self._resolve_name(path), self.magic)
        found = await self._select_matching(pattern, maxdepth, withdirs, str(path).endswith("/"), kwargs)
        return found if detail else list(found)

    async def _select_matching(
        self,
        pattern: GlobPattern,
        maxdepth: int | None,
        withdirs: bool,
        directories: bool,
        more: dict[str, Any],
    ) -> dict[str, Record]:
        if not pattern.is_one:
            return {pattern.name: await self._info(pattern.name)} if await self._exists(pattern.name) else {}
        root, depth = self.menu(pattern.root), pattern.depth(maxdepth)
        records = await self._find(root, depth, withdirs, detail=True, **more)
        keys = {name: self.key(name) for name in records}
        return pattern.select_matching(self.key(pattern.name), records, keys, directories=directories)

    async def _du(self, path: str, total: bool = True, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """Return the total size of all files in bytes, or the sizes by name.

        Raises:
            OSError: The total size is requested, but the server does not report the sizes of all files.
        """
        sizes: dict[str, int | None] = await super()._du(path, False, maxdepth, **kwargs)
        if not total:
            return sizes
        known = [size for size in sizes.values() if size is not None]
        if len(known) < len(sizes):
            raise OSError(f"{path}: size unknown for {len(sizes) - len(known)} of {len(sizes)} files")
        return sum(known)
