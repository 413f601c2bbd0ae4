"""fsspec file systems with URLs as paths, one for each scheme, based on `resolver.blocking`.

`open`, `get` and `ukey` send a request even if a listing is cached. Connections are pooled, and a forked
process has its own connection pool. The file systems are read-only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from datetime import datetime
from errno import ENODATA
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any, Literal, NoReturn, TypeAlias, cast
from urllib.parse import quote

from fsspec import register_implementation
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import isfilelike

import resolver
from resolver.adapters.fsspec.file import NEAR, ObjectBytes, RemoteObject, UrlFile, WholeObject
from resolver.adapters.fsspec.listings import (
    DIRECTORIES,
    Walks,
    login_of,
    no_file,
    parent,
    place,
    read_only,
    settings_of,
    strip_scheme,
    translate_errors,
)

#: Ranges of one object, as slices of its bytes.
Ranges: TypeAlias = "tuple[slice[int | None, int | None, None], ...]"

_COMPLETE: Ranges = (slice(0, None),)
#: The number of objects that are read concurrently. A default batch has as many connections to an FTP server.
_CONCURRENT = 4


class UrlFileSystem(Walks):
    """A read-only file system with the files of all servers of one scheme.

    The storage options are the settings of a `Resolver` (`policy`, `limits`, `timeout`, `headers`, `proxy`,
    …), the options of fsspec, and `host`, `port`, `username` and `password`. `policy` may be the name of a
    policy. The password is sent only to `host`. With `host`, paths may begin with a slash. Credentials in the
    URL that opens the file system have the same effect as these options.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        username: str | None = None,
        password: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._settings = settings_of(options)
        self._settings["on_event"] = self._heard
        login = login_of(self.scheme, host, port, username, password)
        if login is not None:
            self._settings["credentials"] = login
        self._host = None if host is None else strip_scheme(place(self.scheme, host, port)).rstrip("/")
        if self._host is not None and username is not None:
            self._host = f"{quote(username, safe='')}@{self._host}"
        self._waiting = threading.local()
        self._opened = {}
        resolver.blocking.Resolver(**self._settings)  # raise errors of invalid settings early

    # Bytes

    def _octets(self, name: str) -> ObjectBytes:
        """Return an object for random access.

        If the scheme and the server support range requests, ranges of the object are requested. Otherwise the
        complete object is fetched into memory, up to the memory limit.
        """
        with translate_errors(name):
            if self.ranges:
                facts = self._facts(name)
                if facts.kind in DIRECTORIES:
                    no_file(name)
                if facts.size is not None:
                    return RemoteObject(self._session(), self._url(name), facts.size, facts.validators)
            response = self._session().fetch(self._url(name))
        if response.kind in DIRECTORIES:
            no_file(name)
        return WholeObject(response.content)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, object] | None = None,
        cache_type: str = "readahead",
        **kwargs: Any,
    ) -> UrlFile:
        name = self._resolve_name(path)
        if mode != "rb":
            read_only(name)
        octets = self._octets(name)
        held = isinstance(octets, WholeObject)
        return UrlFile(self, name, octets, block_size, "none" if held else cache_type, cache_options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        name = self._resolve_name(path)
        with closing(self._octets(name)) as octets, translate_errors(name):
            return octets.read(*slice(start, end).indices(octets.size)[:2])

    def cat(
        self,
        path: str | list[str],
        recursive: bool = False,
        on_error: str = "raise",
        **kwargs: Any,
    ) -> bytes | dict[str, Any]:
        """Return the content of a path, or the contents of several paths as a dictionary.

        Several objects are fetched concurrently, with as many connections to a host as a batch has.
        """
        path = self._resolve_names(path)
        paths = self.expand_path(path, recursive=recursive, **kwargs)
        if kwargs or paths == [path]:
            return cast("bytes | dict[str, Any]", super().cat(path, recursive, on_error, **kwargs))
        found: dict[str, Any] = dict.fromkeys(paths)
        for name, parts in zip(paths, self._fetch_each(paths, [_COMPLETE] * len(paths)), strict=True):
            try:
                found[name] = self.cat_file(name) if parts is None else parts[0]
            except OSError as error:
                if on_error == "raise":
                    raise
                found[name] = error
        return {name: each for name, each in found.items() if on_error != "omit" or isinstance(each, bytes)}

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: Literal["return", "raise"] = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Read ranges of several objects; objects are read concurrently, and the ranges of each in order."""
        if not isinstance(paths, list):
            raise TypeError("'paths' must be a list")
        begins, stops = _expand_per_path(starts, len(paths)), _expand_per_path(ends, len(paths))
        found: list[Any] = [None] * len(paths)
        order = sorted(range(len(paths)), key=lambda at: (paths[at], begins[at] or 0))
        wanted = {
            path: {at: slice(begins[at], stops[at]) for at in places}
            for path, places in groupby(order, paths.__getitem__)
        }
        contents = self._fetch_each(list(wanted), [tuple(each.values()) for each in wanted.values()])
        for (path, ranges), parts in zip(wanted.items(), contents, strict=True):
            pairs = self._parts(path, ranges) if parts is None else zip(ranges, parts, strict=True)
            for at, part in pairs:
                if isinstance(part, OSError) and on_error != "return":
                    raise part
                found[at] = part
        return found

    def _fetch_each(self, paths: Sequence[str], ranges: Sequence[Ranges]) -> Sequence[Sequence[bytes] | None]:
        """Return the ranges of each path, or None for a path that must be requested alone."""
        urls = [self._url(self._resolve_name(path)) for path in paths]
        session = self._session()
        with ThreadPoolExecutor(_CONCURRENT) as threads:
            return list(threads.map(partial(_fetch_ranges, session), urls, ranges))

    def _parts(self, path: str, wanted: dict[int, slice]) -> Iterator[tuple[int, bytes | OSError]]:
        """Yield the bytes or the error of each range of one object."""
        with ExitStack() as stack:
            octets: ObjectBytes | None = None
            for at, part in wanted.items():
                try:
                    octets = octets or stack.enter_context(closing(self._octets(self._resolve_name(path))))
                    with translate_errors(path):
                        yield at, octets.read(*part.indices(octets.size)[:2])
                except OSError as error:
                    yield at, error

    def get_file(
        self,
        rpath: str,
        lpath: Any,
        callback: Callback = DEFAULT_CALLBACK,
        outfile: Any = None,
        **kwargs: Any,
    ) -> None:
        """Download a file atomically: the local file is created when the transfer is complete.

        After an interrupted transfer, the partial file stays on the disk for the next attempt. If the target
        is a file object, bytes are written to it during the transfer.
        """
        target = lpath if outfile is None and isfilelike(lpath) else outfile
        if target is not None:
            self._pour(rpath, target, callback)
            return
        name, local = self._resolve_name(rpath), LocalFileSystem()
        if self.isdir(name):
            local.makedirs(lpath, exist_ok=True)
            return
        local.makedirs(local._parent(lpath), exist_ok=True)
        with translate_errors(name), self._report_to(callback):
            saved = self._session().save(self._url(name), lpath, exists="replace", listings=self.pages)
        callback.set_size(saved.bytes)
        callback.absolute_update(saved.bytes)

    def _pour(self, path: str, target: Any, callback: Callback) -> None:
        with self.open(path, "rb") as file:
            callback.set_size(file.size)
            while octets := file.read(self.blocksize):
                target.write(octets)
                callback.relative_update(len(octets))

    @contextmanager
    def _report_to(self, callback: Callback) -> Iterator[None]:
        """Report the progress of transfers in this thread to the callback."""
        self._waiting.callback = callback
        try:
            yield
        finally:
            self._waiting.callback = None

    def _heard(self, event: resolver.Event) -> None:
        callback = getattr(self._waiting, "callback", None)
        if callback is not None and isinstance(event, resolver.Progress):
            if event.expected is not None:
                callback.set_size(event.expected)
            callback.absolute_update(event.received)

    # The version of an object

    def ukey(self, path: str) -> str:
        """Return a key that changes if the object changes, from its current size, date and entity tag.

        If the server does not report size, date or entity tag, the key is a digest of the content.
        """
        name = self._resolve_name(path)
        with translate_errors(name):
            validators = self._facts(name).validators
            if any(validators):
                facts = [name, *map(str, validators)]
                return sha256("\n".join(facts).encode()).hexdigest()
            return sha256(self._session().fetch(self._url(name)).content).hexdigest()

    def checksum(self, path: str) -> int:
        return int(self.ukey(path), 16)

    def modified(self, path: str) -> datetime:
        """Return the modification time of an object.

        Raises:
            OSError: The server does not report the modification time.
        """
        name = self._resolve_name(path)
        with translate_errors(name):
            found = self._facts(name).modified
        if found is None:
            raise OSError(ENODATA, "modification time unknown: the server does not report it", name)
        return found

    # Write operations, which are not supported

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> NoReturn:
        read_only(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> NoReturn:
        read_only(path)

    def rmdir(self, path: str) -> NoReturn:
        read_only(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> NoReturn:
        read_only(str(path))

    def rm_file(self, path: str) -> NoReturn:
        read_only(path)

    def mv(self, path1: Any, path2: Any, **kwargs: Any) -> NoReturn:
        read_only(str(path1))

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> NoReturn:
        read_only(path2)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> NoReturn:
        read_only(path)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> NoReturn:
        read_only(path)

    def put_file(self, lpath: Any, rpath: str, *args: Any, **kwargs: Any) -> NoReturn:
        read_only(rpath)


def _fetch_ranges(session: resolver.blocking.Resolver, url: str, ranges: Ranges) -> list[bytes] | None:
    """Return the bytes of the ranges of an object, as the server stores it.

    None stands for an object that cannot be read in this way, and for ranges that depend on its size.
    """
    if any((each.start or 0) < 0 or (each.stop or 0) < 0 for each in ranges):
        return None
    try:
        return session.run(partial(_read_ranges, url, ranges))
    except resolver.ResolveError:
        return None


async def _read_ranges(url: str, ranges: Ranges, session: resolver.Resolver) -> list[bytes] | None:
    """Read the ranges of one object, sorted by their starts, over as few connections as possible.

    A short rest of the object is read too, so that the connection returns to the pool.
    """
    parts: list[bytes] = []
    known = resolver.Validators()
    async with AsyncExitStack() as stack:
        body, position, held = None, 0, b""
        for each in ranges:
            start, stop = each.start or 0, each.stop
            if body is None or not 0 <= start - position <= NEAR:
                await stack.aclose()
                reply = await stack.enter_async_context(session.resume(url, start, known))
                if reply.kind in DIRECTORIES or not known.agree(reply.validators):
                    return None
                known = known.completed_by(reply.validators)
                body, position, held = aiter(reply.body), reply.start, b""
            part = bytearray()
            while stop is None or position < stop:
                if not held and not (held := await anext(body, b"")):
                    break
                skipped = min(max(start - position, 0), len(held))
                taken = held[skipped:] if stop is None else held[skipped : max(stop - position, skipped)]
                part += taken
                held = held[skipped + len(taken) :]
                position += skipped + len(taken)
            parts.append(bytes(part))
        if body is not None and reply.size is not None and reply.size - position <= NEAR:
            position += len(held) + sum([len(octets) async for octets in body])
            if position != reply.size:  # the server started at another byte, or the object changed
                return None
    return parts


def _expand_per_path(given: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    """Return a list with one value for each path.

    Raises:
        ValueError: The number of values differs from the number of paths.
    """
    each = given if isinstance(given, Sequence) else [given] * count
    if len(each) != count:
        raise ValueError(f"got {len(each)} starts or ends for {count} paths")
    return each


def _found_by(protocol: str) -> tuple[str, str]:
    return protocol.partition("+")[2], protocol


class FtpFileSystem(UrlFileSystem):
    """Files of FTP servers. If a listing does not state the target type of a symlink, it is requested."""

    protocol = _found_by("resolve+ftp")
    ranges = True
    slashed = True


class FtpsFileSystem(FtpFileSystem):
    """Files of FTP servers with implicit TLS."""

    protocol = _found_by("resolve+ftps")


class HttpFileSystem(UrlFileSystem):
    """Documents of web servers; an index page is a directory that contains the linked URLs below it."""

    protocol = _found_by("resolve+http")
    ranges = True
    slashed = True
    magic = "*["
    pages = True


class HttpsFileSystem(HttpFileSystem):
    """Documents of web servers over TLS."""

    protocol = _found_by("resolve+https")


class GopherFileSystem(UrlFileSystem):
    """Gopher menus as directories, with the menu items as files and directories.

    A path begins with the item type, as in `host/0/pub/*.txt`. Comparisons and glob patterns ignore the item
    type, so this pattern matches items of all types in the menu `/pub`. An item type that is repeated in the
    selector and Gopher+ text after the selector are also ignored.
    """

    protocol = _found_by("resolve+gopher")

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
    """Return the selector of a path, without the item type and without a repeated item type."""
    selector = path[1:]
    return selector[1:] if selector[:1] == path[:1] and selector[1:2] == "/" else selector


class GophersFileSystem(GopherFileSystem):
    """Gopher menus over TLS."""

    protocol = _found_by("resolve+gophers")


class NntpFileSystem(UrlFileSystem):
    """Newsgroups as directories, and articles as files."""

    protocol = _found_by("resolve+nntp")


class WaisFileSystem(UrlFileSystem):
    """Search results (`server/database?words`) as directories, and the found documents as files."""

    protocol = _found_by("resolve+wais")
    magic = "*["


class ProsperoFileSystem(UrlFileSystem):
    """Directories and files of Prospero servers."""

    protocol = _found_by("resolve+prospero")


def clobber() -> None:
    """Replace fsspec's own file systems for `ftp`, `http` and `https` in this process."""
    for each in (FtpFileSystem, HttpFileSystem, HttpsFileSystem):
        register_implementation(each.protocol[0], each, clobber=True)
