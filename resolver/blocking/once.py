"""The functions of the package, for a thread that waits."""

from __future__ import annotations

import io
from functools import partial
from typing import Unpack

from protocols.contract import Entry, Origin
from resolver import once
from resolver.blocking.file import opened
from resolver.blocking.likeness import opening, waiting
from resolver.blocking.reply import BlockingIterator, LiveReply
from resolver.blocking.session import Resolver
from resolver.settings import Settings
from resolver.url import UrlLike

fetch = waiting(once.fetch)
info = waiting(once.info)
save = waiting(once.save)
stream = opening(once.stream, LiveReply.of)
entries = opening(once.entries, BlockingIterator[Entry])


def open(
    url: UrlLike,
    *,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    **settings: Unpack[Settings],
) -> io.BufferedReader:
    """What the URL names as a file to read, for all that take one: `pandas`, `tarfile`, `zipfile`.

    It can be sought in where the scheme can begin in the middle, and the size is known: over http, ftp, file.
    What is near is read past; farther away another retrieval begins.

    Args:
        url: a `str`, a `resolver.Url`, an `httpx.URL`, or for a local file a path.
        origin: who chose it: `user`, `chosen` (by a program), `derived` (found in what was fetched).
        referrer: the URL that led to it, and the address that one was fetched from.

    Raises:
        ResolveError: here, and where it is read: what is not whole, or has changed, is an error.

    Examples:
        >>> with resolver.blocking.open("http://127.0.0.1:8920/about.txt") as file:
        ...     print(file.readline())
        b'A text of two lines.\\n'
    """
    resolver = Resolver(**settings)
    return opened(partial(resolver.resume, url, origin=origin, referrer=referrer), resolver.close)
