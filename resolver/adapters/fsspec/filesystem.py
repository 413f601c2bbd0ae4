"""fsspec file systems with URLs as paths, one for each scheme, for asyncio and for blocking calls.

Each operation is a coroutine such as `_cat_file`. fsspec derives a blocking method such as `cat_file`, which
runs the coroutine in fsspec's thread. `open`, `get` and `ukey` send a request even if a listing is cached.
Each event loop has a separate connection pool. A forked process has its own connection pool. The file systems
are read-only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from errno import ENODATA
from hashlib import sha256
from itertools import groupby
from os import PathLike
from typing import Any, Literal
from urllib.parse import quote

from fsspec import register_implementation
from fsspec.asyn import _run_coros_in_chunks, sync, sync_wrapper
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import isfilelike

import resolver
from resolver.adapters.fsspec.file import ObjectBytes, RemoteObject, UrlFile, WholeObject, read_complete
from resolver.adapters.fsspec.listings import (
    DIRECTORIES,
    Walks,
    fault,
    make_login,
    make_settings,
    no_file,
    parent,
    password_in,
    place,
    read_only,
    strip_scheme,
    translate_errors,
    written,
)
from resolver.network.events import Listener

#: The fsspec callback that receives the progress of the current task.
_CALLBACK: ContextVar[Callback | None] = ContextVar("resolver.adapters.fsspec.callback", default=None)


class CallbackListener(Listener):
    """A listener to the transfers of tasks with an fsspec callback; other transfers create no events."""

    def hears(self, kinds: frozenset[type[resolver.Event]]) -> bool:
        return _CALLBACK.get() is not None and super().hears(kinds)


def _report_progress(event: resolver.Event) -> None:
    callback = _CALLBACK.get()
    if callback is not None and isinstance(event, resolver.Progress):
        if event.expected is not None:
            callback.set_size(event.expected)
        callback.absolute_update(event.received)


class UrlFileSystem(Walks):
    """A read-only file system with the files of all servers of one scheme.

    At most `batch_size` objects are read concurrently; the default is the class attribute `connections`.

    The storage options are the settings of a `Resolver` (`policy`, `limits`, `timeout`, `headers`, `proxy`,
    …), the options of fsspec, and the following options:
    - `host`, `port`, `username` and `password`: the password is sent only to `host`. With `host`, paths may
      begin with a slash. Credentials in the URL that opens the file system have the same effect.
    - `password_env`: the name of the environment variable with the password.
    - `block_size` (`default_block_size`), `cache_type` and `cache_options`: the defaults of `open`.

    `policy` may be the name of a policy. `policy`, `limits`, `options` and `patience` may also be mappings
    from field names to values.
    """

    #: The default number of objects that are read concurrently. `save_all` also opens at most 4 ftp
    #: connections to one host.
    connections = 4

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        username: str | None = None,
        password: str | None = None,
        *,
        password_env: str | None = None,
        block_size: int | None = None,
        cache_type: str = "readahead",
        cache_options: dict[str, object] | None = None,
        default_block_size: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**{**options, "batch_size": options.get("batch_size") or self.connections})
        self._settings = make_settings(options)
        if password is None and password_env is not None:
            password = password_in(password_env)
        self._settings["on_event"] = CallbackListener(_report_progress, {resolver.Progress})
        login = make_login(self.scheme, host, port, username, password)
        if login is not None:
            self._settings["credentials"] = login
        self._host = None if host is None else strip_scheme(place(self.scheme, host, port)).rstrip("/")
        if self._host is not None and username is not None:
            self._host = f"{quote(username, safe='')}@{self._host}"
        self._block_size = default_block_size if block_size is None else block_size
        self._cache_type, self._cache_options = cache_type, cache_options
        self._opened = {}
        resolver.Resolver(**self._settings)  # raises an error for invalid settings

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """Return the storage options as JSON values; an object, such as the policy, becomes a mapping."""
        secrets = () if include_password else ("password", "certfile_password")
        given = self.storage_options.items()
        return {
            "cls": f"{type(self).__module__}:{type(self).__name__}",
            "protocol": self.protocol[0],
            "args": list(self.storage_args),
            **{name: written(name, value) for name, value in given if name not in secrets},
        }

    # Bytes

    async def _octets(self, name: str) -> ObjectBytes:
        """Return an object of known size for random access.

        If the scheme and the server support range requests, each read requests a range of the object.
        Otherwise, the complete object is fetched into memory, up to `limits.body`.
        """
        with translate_errors(name):
            if self.ranges:
                facts = await self._facts(name)
                if facts.kind in DIRECTORIES:
                    no_file(name)
                if facts.size is not None:
                    return RemoteObject(await self._session(), self._url(name), facts.size, facts.validators)
            return await self._fetch(name)

    async def _fetch(self, name: str) -> WholeObject:
        response = await (await self._session()).fetch(self._url(name))
        if response.kind in DIRECTORIES:
            no_file(name)
        return WholeObject(response.content)

    @asynccontextmanager
    async def _reading(self, name: str) -> AsyncIterator[ObjectBytes]:
        """Open an object without a separate request for its size.

        At the end of the `with` block, the connection returns to the connection pool.
        """
        with translate_errors(name):
            octets: ObjectBytes
            if self.ranges:
                octets = RemoteObject(await self._session(), self._url(name))
            else:
                octets = await self._fetch(name)
            try:
                yield octets
                await octets.finish()
            finally:
                await octets.aclose()

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, object] | None = None,
        cache_type: str | None = None,
        **kwargs: Any,
    ) -> UrlFile:
        name = self._resolve_name(path)
        if mode != "rb":
            read_only(name)
        octets: ObjectBytes = sync(self.loop, self._octets, name)
        if isinstance(octets, WholeObject):
            return UrlFile(self, name, octets, None, "all", None)
        return UrlFile(
            self,
            name,
            octets,
            self._block_size if block_size is None else block_size,
            cache_type or self._cache_type,
            cache_options or self._cache_options,
        )

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        return await self._read(self._resolve_name(path), start, end)

    async def _read(self, name: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Return the bytes of an object, or of a range of the object."""
        if self.ranges and start is None and end is None:
            try:
                return await read_complete(await self._session(), self._url(name))
            except resolver.ResolveError as error:
                raise fault(error, name) from error
        async with self._reading(name) as octets:
            return await octets.read(start, end)

    async def _expand_path(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> Any:
        """Return the names for a path, or for a list of paths, with glob patterns expanded.

        The method of fsspec also treats `?` as a wildcard, and sends a request for each URL with a query.
        """
        paths = [path] if isinstance(path, str | PathLike) else path
        names = [self._resolve_name(each) for each in paths]
        text = "\n".join(names)
        if text and not recursive and maxdepth is None and not any(each in text for each in self.magic):
            return sorted(set(names))
        return await super()._expand_path(names, recursive, maxdepth, **kwargs)

    async def _cat(
        self,
        path: str | list[str],
        recursive: bool = False,
        on_error: Literal["raise", "omit", "return"] = "raise",
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read several objects concurrently, in at most `batch_size` tasks.

        The method of fsspec starts a task for each object, which takes a tenth of the time of small objects.
        Here, a task starts after one turn of the loop. A near server answers earlier tasks during this turn,
        so 400 files of 1 kB on loopback need 18 connections and not 100.
        """
        names = await self._expand_path(path, recursive)
        found, left = dict[str, Any](), iter(names)

        async def read() -> None:
            for name in left:
                try:
                    found[name] = await self._read(name, **kwargs)
                except Exception as error:  # noqa: BLE001 - `on_error` decides what happens with the error
                    found[name] = error

        at_once = batch_size or self.batch_size
        async with asyncio.TaskGroup() as readers:
            for _ in names if at_once < 0 else names[:at_once]:
                reader = readers.create_task(read())
                await asyncio.sleep(0)
                if reader.done():
                    break
        failed = {name: found[name] for name in names if isinstance(found[name], Exception)}
        if failed and on_error == "raise":
            raise next(iter(failed.values()))
        if isinstance(path, str | PathLike) and names == [self._resolve_name(path)]:
            return found[names[0]]
        return {name: found[name] for name in names if on_error != "omit" or name not in failed}

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: Literal["return", "raise"] = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Read ranges of several objects.

        Different objects are read concurrently. The ranges of one object are read one after another.
        """
        if not isinstance(paths, list):
            raise TypeError("'paths' must be a list")
        begins, stops = _expand_per_path(starts, len(paths)), _expand_per_path(ends, len(paths))
        order = sorted(range(len(paths)), key=lambda at: (paths[at], begins[at] or 0))
        found: dict[int, bytes | OSError] = {}

        async def read(path: str, places: list[int]) -> None:
            try:
                async with self._reading(self._resolve_name(path)) as octets:
                    for at in places:
                        found[at] = await octets.read(begins[at], stops[at])
            except OSError as error:
                found.update(dict.fromkeys((at for at in places if at not in found), error))

        each = [read(path, list(places)) for path, places in groupby(order, paths.__getitem__)]
        await _run_coros_in_chunks(each, batch_size=batch_size or self.batch_size, nofiles=True)
        parts = [found[at] for at in range(len(paths))]
        if on_error != "return":
            for part in parts:
                if isinstance(part, OSError):
                    raise part
        return parts

    async def _get_file(
        self,
        rpath: str,
        lpath: Any,
        callback: Callback = DEFAULT_CALLBACK,
        outfile: Any = None,
        **kwargs: Any,
    ) -> None:
        """Download a file atomically: the local file is created when the transfer is complete.

        If the transfer is interrupted, the partial file stays on the disk, and the next attempt resumes the
        transfer. If the target is a file object, bytes are written to the file object during the transfer.
        """
        target = lpath if outfile is None and isfilelike(lpath) else outfile
        if target is not None:
            await self._pour(rpath, target, callback)
            return
        name, local = self._resolve_name(rpath), LocalFileSystem()
        local.makedirs(local._parent(lpath), exist_ok=True)
        # This check prevents that the index page of a directory is saved as a file. For all other
        # directories, the download itself fails.
        if (self.pages or self._find_known(name) is not None) and await self._isdir(name):
            local.makedirs(lpath, exist_ok=True)
            return
        try:
            with translate_errors(name), _report_to(callback):
                session = await self._session()
                saved = await session.save(self._url(name), lpath, exists="replace", listings=self.pages)
        except PermissionError:
            if not await self._isdir(name):
                raise
            local.makedirs(lpath, exist_ok=True)
            return
        callback.set_size(saved.bytes)
        callback.absolute_update(saved.bytes)

    async def _pour(self, path: str, target: Any, callback: Callback) -> None:
        name = self._resolve_name(path)
        octets = await self._octets(name)
        with translate_errors(name):
            try:
                callback.set_size(octets.size)
                position = 0
                while piece := await octets.read(position, position + self.blocksize):
                    target.write(piece)
                    position += len(piece)
                    callback.relative_update(len(piece))
            finally:
                await octets.aclose()

    # The version of an object

    async def _ukey(self, path: str) -> str:
        """Return a key that changes if the object changes.

        The key is derived from the current size, date and entity tag of the object. If the server does not
        report these values, the key is a digest of the content.
        """
        name = self._resolve_name(path)
        with translate_errors(name):
            validators = (await self._facts(name)).validators
            if any(validators):
                facts = [name, *map(str, validators)]
                return sha256("\n".join(facts).encode()).hexdigest()
            response = await (await self._session()).fetch(self._url(name))
            return sha256(response.content).hexdigest()

    ukey = sync_wrapper(_ukey)

    def checksum(self, path: str) -> int:
        return int(self.ukey(path), 16)

    async def _modified(self, path: str) -> datetime:
        """Return the modification time of an object.

        Raises:
            OSError: The server does not report the modification time.
        """
        name = self._resolve_name(path)
        with translate_errors(name):
            found = (await self._facts(name)).modified
        if found is None:
            raise OSError(ENODATA, "modification time unknown: the server does not report it", name)
        return found

    modified = sync_wrapper(_modified)

    # Write operations, which are not supported

    async def _refuse(self, path: Any, *args: Any, **kwargs: Any) -> None:
        read_only(str(path))

    async def _refuse_copy(self, source: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        read_only(str(path))

    _mkdir = _makedirs = _rm = _rm_file = _pipe_file = _refuse
    _cp_file = _put_file = _refuse_copy
    rmdir = touch = mv = sync_wrapper(_refuse)


@contextmanager
def _report_to(callback: Callback) -> Iterator[None]:
    """Report the progress of transfers in this task to the callback."""
    token = _CALLBACK.set(callback)
    try:
        yield
    finally:
        _CALLBACK.reset(token)


def _expand_per_path(given: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    """Return a list with one value for each path; a single value applies to all paths.

    Raises:
        ValueError: The number of values differs from the number of paths.
    """
    each = given if isinstance(given, Sequence) else [given] * count
    if len(each) != count:
        raise ValueError(f"got {len(each)} starts or ends for {count} paths")
    return each


def _list_protocols(protocol: str) -> tuple[str, str, str]:
    prefix, _, scheme = protocol.partition("+")
    return scheme, f"{prefix}{scheme}", protocol


class FtpFileSystem(UrlFileSystem):
    """Files of FTP servers. If a listing does not state the target type of a symlink, a request finds it."""

    protocol = _list_protocols("resolve+ftp")
    ranges = True
    slashed = True


class FtpsFileSystem(FtpFileSystem):
    """Files of FTP servers with implicit TLS."""

    protocol = _list_protocols("resolve+ftps")


class HttpFileSystem(UrlFileSystem):
    """Documents of web servers. An index page is a directory with the linked URLs below its own URL."""

    protocol = _list_protocols("resolve+http")
    #: 100 is the default connection limit of aiohttp, which fsspec's own http file system uses.
    connections = 100
    ranges = True
    slashed = True
    magic = "*["
    pages = True


class HttpsFileSystem(HttpFileSystem):
    """Documents of web servers over TLS."""

    protocol = _list_protocols("resolve+https")


class GopherFileSystem(UrlFileSystem):
    """Gopher menus as directories, with the menu items as files and directories.

    A path begins with the item type, as in `host/0/pub/*.txt`. Comparisons and glob patterns ignore the item
    type. So the pattern `host/0/pub/*.txt` matches items of all types in the menu `/pub`. An item type that
    is repeated in the selector is ignored too, and so is Gopher+ text after the selector.
    """

    protocol = _list_protocols("resolve+gopher")

    @classmethod
    def key(cls, name: str) -> str:
        authority, _, path = name.partition("/")
        return f"{authority}/{_selector(path).partition('%09')[0]}"

    @classmethod
    def menu(cls, name: str) -> str:
        authority, _, path = name.partition("/")
        selector = _selector(path)
        if not selector.strip("/"):
            return authority
        return f"{authority}/{'1' if selector == path[1:] else '11'}{selector}"

    @classmethod
    def _parent(cls, path: str) -> str:
        name = cls._strip_protocol(path)
        return cls.menu(parent(name)) if "/" in name else ""


def _selector(path: str) -> str:
    """Return the gopher selector of a path without its item type, which may be repeated in the selector."""
    selector = path[1:]
    return selector[1:] if selector[:1] == path[:1] and selector[1:2] == "/" else selector


class GophersFileSystem(GopherFileSystem):
    """Gopher menus over TLS."""

    protocol = _list_protocols("resolve+gophers")


class NntpFileSystem(UrlFileSystem):
    """Newsgroups as directories, and articles as files."""

    protocol = _list_protocols("resolve+nntp")


class WaisFileSystem(UrlFileSystem):
    """Search results (`server/database?words`) as directories, and the found documents as files."""

    protocol = _list_protocols("resolve+wais")
    magic = "*["


class ProsperoFileSystem(UrlFileSystem):
    """Directories and files of Prospero servers."""

    protocol = _list_protocols("resolve+prospero")


def clobber() -> None:
    """Replace fsspec's own file systems for `ftp`, `http` and `https` in this process."""
    for each in (FtpFileSystem, HttpFileSystem, HttpsFileSystem):
        register_implementation(each.protocol[0], each, clobber=True)
