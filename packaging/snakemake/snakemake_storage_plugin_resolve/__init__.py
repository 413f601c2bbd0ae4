"""A storage plug-in of Snakemake that reads the URLs of url-resolver.

    storage.resolve("ftp://ftp.example/pub/table.csv")

Snakemake finds the plug-in by the name of this package. Snakemake uses the classes `StorageProviderSettings`,
`StorageProvider` and `StorageObject`.
"""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Optional, cast
from urllib.parse import quote

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.io import (
    WILDCARD_REGEX,
    IOCacheStorageInterface,
    Mtime,
    get_constant_prefix,
)
from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase
from snakemake_interface_storage_plugins.storage_object import StorageObjectGlob, StorageObjectRead
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

import resolver

#: Settings that Snakemake itself uses, and that must not be passed to a `Resolver`.
_OF_SNAKEMAKE = frozenset({"max_requests_per_second", "keep_local", "retrieve"})
#: File names for the URL segments that are not valid as file names. No URL contains such a file name, because
#: a URL cannot contain a percent sign without two hex digits.
_FILE_NAMES = {"": "%", ".": "%.", "..": "%.."}


# The types of the fields are `Optional[str]`, because Snakemake reads the types and does not support `str |
# None`.
@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):
    """The options of the command `snakemake`. A Snakefile may pass every setting of a `Resolver`."""

    policy: Optional[str] = field(  # noqa: UP045
        default=None, metadata={"help": "policy for all requests (default or untrusted)", "required": False}
    )
    proxy: Optional[str] = field(  # noqa: UP045
        default=None, metadata={"help": "URL of the proxy, or none", "required": False}
    )
    cafile: Optional[str] = field(  # noqa: UP045
        default=None, metadata={"help": "PEM file of additional certificate authorities", "required": False}
    )


class StorageProvider(StorageProviderBase):
    """A Snakemake storage provider whose queries are URLs. All its objects share one connection pool."""

    def __post_init__(self) -> None:
        options = vars(self.settings) if self.settings else {}
        settings: Any = {name: options[name] for name in options.keys() - _OF_SNAKEMAKE}
        try:
            self.session = resolver.blocking.Resolver(**settings)
        except (TypeError, ValueError) as error:
            raise WorkflowError(f"storage provider resolve: {error}") from None
        self.session.__enter__()
        atexit.register(self.session.close)

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        query, description = "ftp://ftp.example/pub/table.csv", "A file of an FTP server"
        return [ExampleQuery(query=query, description=description, type=QueryType.INPUT)]

    def rate_limiter_key(self, query: str, operation: Operation) -> str:
        return query.split("/")[2].rpartition("@")[2]

    def default_max_requests_per_second(self) -> float:
        return 10.0

    def use_rate_limiter(self) -> bool:
        return bool(self.settings and self.settings.max_requests_per_second)

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        try:
            url = _parse(query)
        except resolver.InvalidUrl as error:
            return StorageQueryValidationResult("URL", False, error.message)
        is_valid = url.scheme in resolver.schemes() and isinstance(url, resolver.HostUrl)
        reason = None if is_valid else f"scheme {url.scheme} is not supported (use ftp, http or gopher)"
        return StorageQueryValidationResult(url.shown, is_valid, reason)

    def safe_print(self, query: str) -> str:
        return _parse(query).shown


class StorageObject(StorageObjectRead, StorageObjectGlob):
    """A remote file. A file without a date from the server counts as older than all local files."""

    def local_suffix(self) -> str:
        """Return the URL as a relative file path, without the password and without shell metacharacters."""
        segments = _parse(self.query).shown.replace("://", "/", 1).split("/")
        return "/".join(_FILE_NAMES.get(segment) or quote(segment, safe="%{}") for segment in segments)

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        key = self.cache_key()
        if key in cache.exists_in_storage:
            return
        entry = self._find()
        cache.exists_in_storage[key] = entry is not None
        if entry is not None:
            cache.mtime[key] = Mtime(storage=_time_of(entry))
            cache.size[key] = entry.size or 0

    def get_inventory_parent(self) -> str | None:
        return None

    def cleanup(self) -> None:
        """Keep a partial file on the disk, because the next run resumes its download."""

    def exists(self) -> bool:
        return self._find() is not None

    def mtime(self) -> float:
        return _time_of(self._info())

    def size(self) -> int:
        return self._info().size or 0

    def retrieve_object(self) -> None:
        self.provider.session.save(self.query, self.local_path(), exists="replace")

    def list_candidate_matches(self) -> Iterator[str]:
        """Return the URLs of the files in the directory listings that may match the wildcards.

        A wildcard matches text within one segment of the path. If the server does not list a subdirectory,
        the subdirectory is skipped with a warning.
        """
        start: str = get_constant_prefix(self.query, strip_incomplete_parts=True)
        with _errors_of_workflow():
            entries = self._list(start)
            for _ in range(WILDCARD_REGEX.sub("", self.query).count("/") - start.count("/")):
                folders = [f"{url.rstrip('/')}/" for url, kind in entries if kind is resolver.Kind.DIRECTORY]
                entries = list(chain.from_iterable(map(self._list_subfolder, folders)))
        return (url for url, kind in entries if kind is resolver.Kind.DOCUMENT)

    def _list_subfolder(self, folder: str) -> list[tuple[str, resolver.Kind]]:
        try:
            return self._list(folder)
        except (resolver.AccessDenied, resolver.NotFound) as error:
            self.provider.logger.warning("skipped folder: %s", error)
            return []

    def _list(self, folder: str) -> list[tuple[str, resolver.Kind]]:
        with self.provider.session.entries(folder) as entries:
            return [(entry.url, entry.kind) for entry in entries if (entry.url or "").startswith(folder)]

    def _info(self) -> resolver.Entry:
        entry = self._find()
        if entry is None:
            raise WorkflowError(f"{self.print_query}: not found")
        return entry

    def _find(self) -> resolver.Entry | None:
        """Return the metadata of the object, or None if the object does not exist."""
        with _errors_of_workflow():
            try:
                return cast(resolver.Entry, self.provider.session.info(self.query))
            except resolver.NotFound:
                return None


@contextmanager
def _errors_of_workflow() -> Iterator[None]:
    """Convert errors of `resolver` to errors that Snakemake shows without a traceback."""
    try:
        yield
    except resolver.ResolveError as error:
        raise WorkflowError(str(error)) from error


def _parse(query: str) -> resolver.Url:
    """Parse the query as a URL, without the constraints of its wildcards (`{name,REGEX}`)."""
    return resolver.parse(WILDCARD_REGEX.sub(r"{\g<name>}", query))


def _time_of(entry: resolver.Entry) -> float:
    return 0.0 if entry.modified is None else entry.modified.timestamp()
