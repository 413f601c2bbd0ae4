"""What is done for a file URL: one thing is opened. Only then is it known what it is."""

from __future__ import annotations

from protocols.file.url import FileUrl
from protocols.step import Dialogue, HandOver, Note, OpenFile


def read_file(url: FileUrl) -> Dialogue[None]:
    yield OpenFile(url.segments)
    yield Note("a directory gives the names in it, one a line; an empty last segment wants a directory")
    yield HandOver("the octets of the file")
