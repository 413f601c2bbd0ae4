"""The functions of the package: a `Resolver` for one call. See `Resolver` for what each gives.

`policy`, `limits` and the rest go to a `Resolver` of one's own; here they are the defaults but for
the policy, which nobody should have to forget.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from os import PathLike

from protocols.contract import Entry, Limits, Options, Origin
from resolver.live import EntryStream, LiveReply
from resolver.policy import Policy
from resolver.response import Response, Saved
from resolver.saving import Exists
from resolver.session import Resolver


async def fetch(
    url: str,
    *,
    policy: Policy | None = None,
    limits: Limits | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
) -> Response:
    """The complete object in memory, at most `limits.body` octets (64 MiB) of it."""
    async with Resolver(policy=policy, limits=limits, options=Options()) as resolver:
        return await resolver.fetch(url, origin=origin, referrer=referrer)


async def info(
    url: str,
    *,
    policy: Policy | None = None,
    limits: Limits | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
) -> Entry:
    """What the URL names: kind, size, date, media type. The body is not read."""
    async with Resolver(policy=policy, limits=limits, options=Options()) as resolver:
        return await resolver.info(url, origin=origin, referrer=referrer)


async def save(
    url: str,
    path: str | PathLike[str],
    *,
    exists: Exists = "fail",
    digest: bool = False,
    checksum: str | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
) -> Saved:
    """The object in the file `path`: complete, or not there at all."""
    async with Resolver(policy=policy, limits=limits, options=Options()) as resolver:
        return await resolver.save(
            url,
            path,
            exists=exists,
            digest=digest,
            checksum=checksum,
            origin=origin,
            referrer=referrer,
        )


def stream(
    url: str,
    *,
    policy: Policy | None = None,
    limits: Limits | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
) -> AbstractAsyncContextManager[LiveReply]:
    """A reply while its connection lives: `async for octets in reply.body`."""
    return Resolver(policy=policy, limits=limits, options=Options()).stream(
        url, origin=origin, referrer=referrer
    )


def entries(
    url: str,
    *,
    policy: Policy | None = None,
    limits: Limits | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
) -> AbstractAsyncContextManager[EntryStream]:
    """The records of a listing: `async for entry in entries`."""
    return Resolver(policy=policy, limits=limits, options=Options()).entries(
        url, origin=origin, referrer=referrer
    )
