"""file: RFC 1738 3.10, RFC 8089. Only what this machine has itself."""

from __future__ import annotations

from protocols.file.dialogue import read_file
from protocols.file.handler import open_file
from protocols.file.url import FileUrl, build, parse
from protocols.scheme import Scheme

__all__ = ["FILE", "FileUrl"]

FILE = Scheme(
    name="file",
    names="data object or directory",
    default_port=None,
    parse=parse,
    build=build,
    transport=None,
    open=open_file,
    dialogue=read_file,
)
