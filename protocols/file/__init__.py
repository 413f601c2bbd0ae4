"""file: RFC 1738 3.10, RFC 8089. Only what this machine has itself."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.file.url import FileUrl, build, parse
from protocols.scheme import Dialogue, Scheme

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["FILE", "FileUrl"]


def _open(url: FileUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.file.handler import open_file  # parsing a URL should not pay for resolving it

    return open_file(url, gate)


def _dialogue(url: FileUrl, options: Options) -> Dialogue:
    from protocols.file.dialogue import read_file

    return read_file(url)


FILE = Scheme(
    name="file",
    names="data object or directory",
    default_port=None,
    parse=parse,
    build=build,
    transport=None,
    resumes=True,
    open=_open,
    dialogue=_dialogue,
)
