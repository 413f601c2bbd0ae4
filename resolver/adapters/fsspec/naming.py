"""A file system whose names are URLs of one scheme: which name stands for which URL."""

from __future__ import annotations

from typing import Any, ClassVar

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from resolver.adapters.fsspec.faults import no_server
from resolver.adapters.fsspec.names import parent, plain
from resolver.adapters.fsspec.options import options_in


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
        return f"{self.protocol[-1]}://{self._at(name)}"

    @classmethod
    def key(cls, name: str) -> str:
        """By this names are compared where it matters what is below what."""
        return name

    @classmethod
    def menu(cls, name: str) -> str:
        """The name as that of a directory."""
        return name

    def _at(self, path: Any) -> str:
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
