"""The WARC archives of a run.

With `--warc`, the run writes an archive. With `--from-warc`, the run reads from archives, not from the
network. Archives are opened before the first request, and closed at the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from protocols.text import Masked, own_text
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.url.parsing import redact

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from resolver.warc.archive import Archive
    from resolver.warc.recorder import Recorder


def open_archive(command: Command) -> AbstractContextManager[Archive | None]:
    """Return the archives of `--from-warc`, or None. Raises `LocalError` if a file is not an archive."""
    if not command.from_warc:
        return nullcontext()
    from resolver.warc.archive import Archive  # lazy import: few runs read from an archive

    return Archive(command.from_warc, at=command.at)


@contextmanager
def open_recorder(command: Command) -> Iterator[Recorder | None]:
    """Yield the recorder of the archive, or None without `--warc` or for a dry run. Raises `LocalError`."""
    path = command.warc
    if path is None or command.dry_run:
        yield None
        return
    from resolver.warc.recorder import SIZE, Recorder  # lazy import: few runs record

    size = SIZE if command.warc_size is None else command.warc_size
    words = _format_command(command, path)
    with Recorder(
        path,
        size=size,
        sync=command.sync == "always",
        policy=command.policy,
        command=words,
        dedup=command.warc_dedup,
        cookies=command.warc_cookies,
        once=command.ledger is not None,
    ) as recorder:
        if recorder.unread and not command.is_quiet:
            lines = Masked("1 line" if recorder.unread == 1 else f"{recorder.unread} lines")
            streams.complain(Masked(f"--warc-dedup: cannot parse {lines}"))
        if recorder.cut and not command.is_quiet:
            streams.complain(Masked(f"{own_text(path)}: removed {recorder.cut} bytes of an interrupted run"))
        yield recorder


def _format_command(command: Command, path: str) -> str:
    """Return the command line that is recorded in the archive: command, archive, lists and URLs.

    Passwords are redacted, and options that may contain secrets are omitted.
    """
    urls = [redact(url) for url in command.urls]
    lists = [f"-i {redact(name)}" for name in command.lists]
    recursive = ["--glob" if command.glob else "-r"] if command.has_trees else []
    words = ["resolve", command.verb, *recursive, "--warc", path, *lists, *urls]
    return " ".join(word.replace("\r", " ").replace("\n", " ") for word in words)
