"""File systems whose names are URLs, one for each scheme: fsspec's methods on `resolver.blocking`.

`open`, `get` and `ukey` ask the server, whatever a listing contained. Connections are pooled, and made again
in a process that was forked. The file systems are read-only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from errno import ENODATA
from hashlib import sha256
from itertools import groupby
from typing import Any, Literal, NoReturn
from urllib.parse import quote

from fsspec import register_implementation
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import isfilelike

import resolver
from resolver.adapters.fsspec.file import ObjectBytes, RemoteObject, UrlFile, WholeObject
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


class UrlFileSystem(Walks):
    """The files of all servers of one scheme, for reading.

    Storage options are the settings of a `Resolver` (`policy`, also by its name, `limits`, `timeout`,
    `headers`, `proxy`, …), those of fsspec, and `host`, `port`, `username` and `password`: a password goes to
    that host alone, and with a host names may begin with a slash. What stands in the URL by which the file
    system was asked for counts as if it stood there.
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
        resolver.blocking.Resolver(**self._settings)  # says at once what is wrong with them

    # Octets

    def _octets(self, name: str) -> ObjectBytes:
        """Those of an object: from anywhere in it, where its scheme and its server let one; else all of them,
        as many as the limits let into memory."""
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

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: Literal["return", "raise"] = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Each object is opened once, and read from its beginning on; short gaps are read over."""
        if not isinstance(paths, list):
            raise TypeError("paths is a list")
        begins, stops = _expand_per_path(starts, len(paths)), _expand_per_path(ends, len(paths))
        found: list[Any] = [None] * len(paths)
        order = sorted(range(len(paths)), key=lambda at: (paths[at], begins[at] or 0))
        for path, places in groupby(order, paths.__getitem__):
            wanted = {at: slice(begins[at], stops[at]) for at in places}
            for at, part in self._parts(path, wanted):
                if isinstance(part, OSError) and on_error != "return":
                    raise part
                found[at] = part
        return found

    def _parts(self, path: str, wanted: dict[int, slice]) -> Iterator[tuple[int, bytes | OSError]]:
        """Each part of one object, or why there is none."""
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
        """The file is whole or not there; what came of one that broke off is kept beside it, for the next
        time. What is a file object already is written to as octets come."""
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
        """What comes meanwhile, for this thread, is told to it."""
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

    # One state of an object

    def ukey(self, path: str) -> str:
        """Another one for another state, by what the server says now (size, date, entity tag); where it says
        nothing, by the octets themselves."""
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
        """When it was last modified. Raises `OSError` where the server does not tell."""
        name = self._resolve_name(path)
        with translate_errors(name):
            found = self._facts(name).modified
        if found is None:
            raise OSError(ENODATA, "the server does not tell when it was modified", name)
        return found

    # What is not done

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


def _expand_per_path(given: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    """One for each path. Raises `ValueError` where there are more or fewer."""
    each = given if isinstance(given, Sequence) else [given] * count
    if len(each) != count:
        raise ValueError(f"{len(each)} ends of ranges for {count} paths")
    return each


def _found_by(protocol: str) -> tuple[str, str]:
    return protocol.partition("+")[2], protocol


class FtpFileSystem(UrlFileSystem):
    """Files of FTP servers; what a listing does not tell of a link the server is asked for."""

    protocol = _found_by("resolve+ftp")
    ranges = True
    slashed = True


class FtpsFileSystem(FtpFileSystem):
    """The same in TLS from the first octet."""

    protocol = _found_by("resolve+ftps")


class HttpFileSystem(UrlFileSystem):
    """Documents of web servers, and index pages as directories: what such a page names below itself."""

    protocol = _found_by("resolve+http")
    ranges = True
    slashed = True
    magic = "*["
    pages = True


class HttpsFileSystem(HttpFileSystem):
    """The same in TLS."""

    protocol = _found_by("resolve+https")


class GopherFileSystem(UrlFileSystem):
    """Menus as directories, and what they lead to by gopher. The type of an item, which begins its path,
    makes no difference to what is below what, nor to a pattern: `host/0/pub/*.txt` finds all in the menu
    `/pub`. Nor does that of a selector which repeats it, or what Gopher+ appends."""

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
    """Without the type before it, and without one of its own that says the same."""
    selector = path[1:]
    return selector[1:] if selector[:1] == path[:1] and selector[1:2] == "/" else selector


class GophersFileSystem(GopherFileSystem):
    """The same in TLS."""

    protocol = _found_by("resolve+gophers")


class NntpFileSystem(UrlFileSystem):
    """Groups as directories, articles as files."""

    protocol = _found_by("resolve+nntp")


class WaisFileSystem(UrlFileSystem):
    """Results of a search (`server/database?words`), and the documents that it finds."""

    protocol = _found_by("resolve+wais")
    magic = "*["


class ProsperoFileSystem(UrlFileSystem):
    """Directories and files of Prospero servers."""

    protocol = _found_by("resolve+prospero")


def clobber() -> None:
    """Let these file systems serve where fsspec has others of its own: under `ftp`, `http` and `https`, in
    this process, from now on."""
    for each in (FtpFileSystem, HttpFileSystem, HttpsFileSystem):
        register_implementation(each.protocol[0], each, clobber=True)
