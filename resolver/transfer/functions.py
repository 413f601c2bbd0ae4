"""The functions of the package: a `Resolver` for one call. See `Resolver` for what each gives.

All take its settings, by the same names (`Settings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike
from typing import Unpack

from protocols.contract import Entry, Options, Origin, Validators
from resolver.transfer.response import Response, Saved
from resolver.transfer.saving import Exists
from resolver.transfer.session import Resolver
from resolver.transfer.settings import Settings
from resolver.transfer.streaming import EntryStream, StreamingResponse
from resolver.transfer.verification import Checksum
from resolver.url.parsing import UrlLike


def resolver_of(settings: Settings) -> Resolver:
    """One for a single URL: nothing follows for which a connection could be kept."""
    settings["options"] = settings.get("options") or Options()
    return Resolver(**settings)


async def fetch(
    url: UrlLike,
    *,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    **settings: Unpack[Settings],
) -> Response:
    """The complete object in memory, at most `limits.body` octets (64 MiB) of it.

    Args:
        url: a `str`, a `resolver.Url`, an `httpx.URL`, or for a local file a path.
        origin: who chose it: `user`, `chosen` (by a program), `derived` (found in what was fetched).
        referrer: the URL that led to it, and the address that one was fetched from.

    Raises:
        ResolveError: whatever kept it from being had. What is not whole is an error, never a shorter body.

    Examples:
        >>> response = await resolver.fetch("http://127.0.0.1:8920/about.txt", timeout=60)
        >>> response.status, response.media_type, response.text
        (200, 'text/plain', 'A text of two lines.\\nThe second one.\\n')
        >>> await resolver.fetch("http://127.0.0.1:8920/nothing/here")
        Traceback (most recent call last):
        protocols.errors.NotFound: http://127.0.0.1:8920/nothing/here: ...
    """
    async with resolver_of(settings) as resolver:
        return await resolver.fetch(url, origin=origin, referrer=referrer)


async def info(
    url: UrlLike,
    *,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    **settings: Unpack[Settings],
) -> Entry:
    """What the URL names: kind, size, date, media type. The body is not read (of http: HEAD, RFC 9110 9.3.2).

    Args:
        url: a `str`, a `resolver.Url`, an `httpx.URL`, or for a local file a path.
        origin: who chose it: `user`, `chosen` (by a program), `derived` (found in what was fetched).
        referrer: the URL that led to it, and the address that one was fetched from.

    Raises:
        ResolveError: whatever kept it from being known.

    Examples:
        >>> entry = await resolver.info("http://127.0.0.1:8920/about.txt")
        >>> entry.kind, entry.size
        (<Kind.DOCUMENT: 'document'>, 37)
    """
    async with resolver_of(settings) as resolver:
        return await resolver.info(url, origin=origin, referrer=referrer)


async def save(
    url: UrlLike,
    path: str | PathLike[str],
    *,
    exists: Exists = "fail",
    make_directory: bool = False,
    digest: bool = False,
    checksum: str | Checksum | None = None,
    size: int | None = None,
    mirrors: Sequence[UrlLike] = (),
    listings: bool = True,
    listed: Validators | None = None,
    meta: bool = False,
    dry_run: bool = False,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    **settings: Unpack[Settings],
) -> Saved:
    """The object in the file `path`: complete, or not there at all. Five tries, unless `patience` differs.

    Args:
        url: a `str`, a `resolver.Url`, an `httpx.URL`, or for a local file a path.
        origin: who chose it: `user`, `chosen` (by a program), `derived` (found in what was fetched).
        referrer: the URL that led to it, and the address that one was fetched from.
        path: where to. Until it is whole it grows in `path` + `.part`, and a later call goes on with that.
        exists: what to do about a file that is there: `fail`, `resume`, `skip`, `newer`, `replace`, `rename`.
        make_directory: make the directory it goes to.
        digest: take the SHA-256 of it.
        checksum: `ALG:HEX`, or `auto` for what the server says of it.
        size: how many octets it has, where that is known: with another number it is another object.
        mirrors: other places of the same object, asked where this one fails.
        listings: whether a directory may become a file of its lines.
        listed: the size and time of it that a listing had: `newer` then need not ask.
        meta: write how it came beside it, into `path` + `.meta.json`: URLs, time, digests, headers.
        dry_run: say what would be done (`skipped`, or no octets), and do nothing of it.

    Raises:
        ResolveError: what kept it from being whole; `LocalError` what kept it from being written.

    Examples:
        >>> (await resolver.save("ftp://127.0.0.1:8900/pub/a.txt", "a.txt", digest=True)).digest
        'sha256:...'
    """
    async with resolver_of(settings) as resolver:
        return await resolver.save(
            url,
            path,
            exists=exists,
            make_directory=make_directory,
            digest=digest,
            checksum=checksum,
            size=size,
            mirrors=mirrors,
            listings=listings,
            listed=listed,
            meta=meta,
            dry_run=dry_run,
            origin=origin,
            referrer=referrer,
        )


def stream(
    url: UrlLike,
    *,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    **settings: Unpack[Settings],
) -> AbstractAsyncContextManager[StreamingResponse]:
    """A reply while its connection lives: `async for octets in reply.body`.

    Args:
        url: a `str`, a `resolver.Url`, an `httpx.URL`, or for a local file a path.
        origin: who chose it: `user`, `chosen` (by a program), `derived` (found in what was fetched).
        referrer: the URL that led to it, and the address that one was fetched from.

    Raises:
        ResolveError: on entering, while the body is read, and on leaving.

    Examples:
        >>> async with resolver.stream("http://127.0.0.1:8920/about.txt") as reply:
        ...     print(reply.size, sum([len(octets) async for octets in reply.body]))
        37 37
    """
    return resolver_of(settings).stream(url, origin=origin, referrer=referrer)


def entries(
    url: UrlLike,
    *,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    **settings: Unpack[Settings],
) -> AbstractAsyncContextManager[EntryStream]:
    """The records of a listing, whatever the scheme: `async for entry in entries`.

    Args:
        url: a `str`, a `resolver.Url`, an `httpx.URL`, or for a local file a path.
        origin: who chose it: `user`, `chosen` (by a program), `derived` (found in what was fetched).
        referrer: the URL that led to it, and the address that one was fetched from.

    Raises:
        ResolveError: as `stream`; `Declined` where the URL names no listing.

    Examples:
        >>> async with resolver.entries("ftp://127.0.0.1:8900/pub/") as found:
        ...     print(sorted([entry.name async for entry in found])[:2])
        ['a.bin', 'a.txt']
    """
    return resolver_of(settings).entries(url, origin=origin, referrer=referrer)
