"""A cell of the matrix: a server that fails, a file to save from it, and the result.

If the save fails, a second run requests the file from the same server without the fault. The data kept from
the
first run must then lead to the correct file, and no other file may be left.
"""

from __future__ import annotations

import os
import random
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from fixtures.faulty import Profile, serve
from resolver import Event, Limits, Policy, ResolveError, Resolver, RetryPolicy, Saved, Started
from tests.hang import NEVER

#: The idle and connect limits in seconds, for cells whose fault is silence. All other cells use NEVER.
SILENCE = 0.15
PATIENCE = RetryPolicy(tries=2, delay=0.01)
NAME = "object.bin"


def lines_of(size: int) -> bytes:
    """Return about `size` bytes for any scheme: a header, then lines, some with leading periods."""
    source = random.Random(size)
    made = bytearray(b"Subject: a test\r\n\r\n")
    while len(made) < size:
        made += source.choice((b"", b".", b"..")) + source.randbytes(30).hex().encode() + b"\r\n"
    return bytes(made)


CONTENT = lines_of(60_000)
SIZE = len(CONTENT)


@dataclass
class Came:
    """The result of one attempt to save, retries included.

    `files` are the files in the directory afterwards, `sent` is the number of the object's bytes that the
    server sent.
    """

    saved: Saved | None
    error: ResolveError | None
    files: dict[str, bytes]
    attempts: int
    sent: int
    rules: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        return f"{NAME}.part" in self.files


@dataclass
class Result:
    """The result of a cell, and of the second run if the first one failed."""

    first: Came
    after: Came | None


async def run(
    scheme: str,
    manner: Profile,
    folder: Path,
    tls: ssl.SSLContext | None,
    *,
    login: str = "",
    limits: Limits | None = None,
    patience: RetryPolicy = PATIENCE,
) -> Result:
    limits = limits or limits_of(manner)
    patience = patience_for(manner, patience)
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, scheme, CONTENT, manner, tls)
        url = server.url(login)

        async def once() -> Came:
            before = server.sent
            came = await save(url, folder, limits, patience, server.port)
            came.sent = server.sent - before
            return came

        first = await once()
        after = None
        if first.error is not None:
            server.remove_faults()
            after = await once()
        nursery.cancel_scope.cancel()
    return Result(first, after)


def patience_for(manner: Profile, patience: RetryPolicy = PATIENCE) -> RetryPolicy:
    """Return the retry policy. Faults after the connect phase are always retried.

    The connect limit is short. If many cells start concurrently, a greeting may arrive after the limit.
    """
    late = manner.fault is not None and manner.fault.at != "connect"
    return replace(patience, retry_all=True) if late else patience


def limits_of(manner: Profile) -> Limits:
    """Return short limits if a limit must end the cell, otherwise NEVER."""
    fault = manner.fault
    silent = fault is not None and fault.kind == "silence"
    never = fault is not None and fault.kind == "never"
    unmet = fault is not None and (never or (silent and fault.at == "connect"))
    return Limits(connect=SILENCE if unmet else NEVER, idle=SILENCE if silent else NEVER)


async def save(url: str, folder: Path, limits: Limits | None, patience: RetryPolicy, *ports: int) -> Came:
    events: list[Event] = []
    policy = Policy(allow_port=frozenset(ports), allow_password=True)
    saved, error = None, None
    async with Resolver(policy=policy, limits=limits, patience=patience, on_event=events.append) as session:
        try:
            saved = await session.save(url, str(folder / NAME))
        except ResolveError as raised:
            error = raised
    return came_of(saved, error, events, folder)


def came_of(saved: Saved | None, error: ResolveError | None, events: Sequence[Event], folder: Path) -> Came:
    return Came(
        saved,
        error,
        {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))},
        sum(isinstance(event, Started) for event in events),
        0,
        [] if saved is None else [finding.rule for finding in saved.findings],
    )
