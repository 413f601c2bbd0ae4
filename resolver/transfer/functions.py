"""The module-level functions of the package: `fetch`, `info`, `save`, `stream` and `entries`.

Each function creates a `Resolver` for one call. It returns the result of the `Resolver` method with the same
name. The keywords of each function are the settings of the `Resolver` (`Settings`) and the keywords of the
method (`Provenance`, `SaveSettings`).
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from os import PathLike
from typing import Any, Unpack, cast

from protocols.contract import Entry, Options
from resolver.transfer.response import Response, Saved
from resolver.transfer.saving import SaveSettings
from resolver.transfer.session import Resolver
from resolver.transfer.settings import FetchSettings, Settings
from resolver.transfer.streaming import EntryStream, StreamingResponse
from resolver.url.parsing import UrlLike


class FileSettings(SaveSettings, Settings, total=False):
    """The keywords of the function `save`: the settings of the file and of the `Resolver`."""


def split_settings(settings: FetchSettings | FileSettings) -> tuple[Resolver, dict[str, Any]]:
    """Create a `Resolver` from the settings, and return it and the keywords for its methods."""
    remaining = cast("dict[str, Any]", settings)
    arguments = {name: remaining.pop(name) for name in SaveSettings.__optional_keys__.intersection(remaining)}
    # keep-alive is off by default, because a `Resolver` for one call sends no second request
    remaining["options"] = remaining.get("options") or Options()
    return Resolver(**remaining), arguments


async def fetch(url: UrlLike, **settings: Unpack[FetchSettings]) -> Response:
    r"""Fetch the complete object into memory; an object larger than `limits.body` (64 MiB) is an error.

    Args:
        url: a `str`, a `resolver.Url`, an `httpx.URL`, an `httpx2.URL`, or the path of a local file.

    Raises:
        ResolveError: if the object cannot be retrieved or is incomplete.

    Examples:
        >>> response = await resolver.fetch("http://127.0.0.1:8920/about.txt", timeout=60)
        >>> response.status, response.media_type, response.text
        (200, 'text/plain', 'A text of two lines.\nThe second one.\n')
        >>> await resolver.fetch("http://127.0.0.1:8920/nothing/here")
        Traceback (most recent call last):
        protocols.errors.NotFound: http://127.0.0.1:8920/nothing/here: ...
    """
    session, arguments = split_settings(settings)
    async with session:
        return await session.fetch(url, **arguments)


async def info(url: UrlLike, **settings: Unpack[FetchSettings]) -> Entry:
    """Retrieve the metadata of an object without its body: kind, size, date, media type.

    For http, the request uses HEAD (RFC 9110 9.3.2).

    Args:
        url: as for `fetch`.

    Raises:
        ResolveError: if the metadata cannot be retrieved.

    Examples:
        >>> entry = await resolver.info("http://127.0.0.1:8920/about.txt")
        >>> entry.kind, entry.size
        (<Kind.DOCUMENT: 'document'>, 37)
    """
    session, arguments = split_settings(settings)
    async with session:
        return await session.info(url, **arguments)


async def save(url: UrlLike, path: str | PathLike[str], **settings: Unpack[FileSettings]) -> Saved:
    """Save the complete object in the file `path`, with at most five attempts by default (`patience`).

    Args:
        url: as for `fetch`.
        path: the file name. An incomplete file is named `path` + `.part`, and a later call resumes it.

    Raises:
        ResolveError: if the object cannot be retrieved completely.
        LocalError: if the file cannot be written.

    Examples:
        >>> (await resolver.save("ftp://127.0.0.1:8900/pub/a.txt", "a.txt", digest=True)).digest
        'sha256:...'
    """
    session, arguments = split_settings(settings)
    async with session:
        return await session.save(url, path, **arguments)


def stream(url: UrlLike, **settings: Unpack[FetchSettings]) -> AbstractAsyncContextManager[StreamingResponse]:
    """Open a streaming response. Read its body inside the context: `async for octets in reply.body`.

    Args:
        url: as for `fetch`.

    Raises:
        ResolveError: when the context is entered, while the body is read, or when the context is exited.

    Examples:
        >>> async with resolver.stream("http://127.0.0.1:8920/about.txt") as reply:
        ...     print(reply.size, sum([len(octets) async for octets in reply.body]))
        37 37
    """
    session, arguments = split_settings(settings)
    return session.stream(url, **arguments)


def entries(url: UrlLike, **settings: Unpack[FetchSettings]) -> AbstractAsyncContextManager[EntryStream]:
    """Open a listing of any scheme, and iterate over its entries: `async for entry in entries`.

    Args:
        url: as for `fetch`.

    Raises:
        ResolveError: as for `stream`.
        Declined: if the URL does not name a listing.

    Examples:
        >>> async with resolver.entries("ftp://127.0.0.1:8900/pub/") as found:
        ...     print(sorted([entry.name async for entry in found])[:2])
        ['a.bin', 'a.txt']
    """
    session, arguments = split_settings(settings)
    return session.entries(url, **arguments)
