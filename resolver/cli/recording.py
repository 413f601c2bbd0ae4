"""The archives of a run: the one that is made, or gone on with (`--warc`), or those that all comes from
(`--from-warc`). They are opened before anything is fetched, and closed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from protocols.errors import NotConfigured
from protocols.extras import missing_libraries
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.url import redact

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from resolver.warc.archive import Archive
    from resolver.warc.recorder import Recorder


def archive_of(command: Command) -> AbstractContextManager[Archive | None]:
    """None where the network is asked. Raises `LocalError` for what is no archive."""
    found = command.found
    if not found.from_warc:
        return nullcontext()
    from resolver.warc.archive import Archive  # few fetch from one

    return Archive(found.from_warc, at=found.at)


@contextmanager
def recorder_of(command: Command) -> Iterator[Recorder | None]:
    """None where nothing is kept. Raises `LocalError`, and `NotConfigured` without the extra."""
    path = command.found.warc
    if path is None:
        yield None
        return
    try:
        from resolver.warc.recorder import SIZE, Recorder  # few keep what is said, and it is an extra
    except ImportError as error:
        raise NotConfigured(f"--warc needs {missing_libraries('warc')}") from error
    found = command.found
    size = SIZE if found.warc_size is None else found.warc_size
    words = _words(command)
    with Recorder(
        path,
        size=size,
        sync=found.sync == "always",
        policy=found.policy,
        command=words,
        dedup=found.warc_dedup,
        cookies=found.warc_cookies,
        once=found.ledger is not None,
    ) as recorder:
        if recorder.unread and not command.quiet:
            lines = "1 line" if recorder.unread == 1 else f"{recorder.unread} lines"
            streams.complain(f"--warc-dedup: of {lines} nothing could be told")
        if recorder.cut and not command.quiet:
            streams.complain(f"{path}: {recorder.cut} octets of a run that was cut off were taken away")
        yield recorder


def _words(command: Command) -> str:
    """What the run was told to do, without what may be secret: the verb and the URLs."""
    urls = [redact(url) for url in command.urls]
    lists = [f"-i {redact(each)}" for each in command.lists]
    recursive = ["-r"] if command.walks else []
    words = ["resolve", command.verb, *recursive, "--warc", command.found.warc, *lists, *urls]
    return " ".join(word.replace("\r", " ").replace("\n", " ") for word in words)
