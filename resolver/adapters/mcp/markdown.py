"""HTML pages as Markdown, converted in a separate process with limits.

The parser (turbohtml) is written in C, and pages are untrusted. So each page is converted in a process of its
own, which has no secrets of the server. The process limits its memory, its processor time and the size of its
output (`markdown_worker`). If a limit is reached, or if the parser crashes, only this conversion fails.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import anyio

if find_spec("turbohtml") is None:  # only the worker imports it
    raise ModuleNotFoundError("Markdown needs turbohtml (the extra mcp)", name="turbohtml")

_WORKER = str(Path(__file__).with_name("markdown_worker.py"))
_HTML = ("text/html", "application/xhtml+xml")


class MarkdownPage(NamedTuple):
    """The Markdown of a page, and the text of its `title` element."""

    text: str
    title: str | None


def is_html(media_type: str | None) -> bool:
    """Return whether a media type, with or without parameters, is a type of HTML."""
    return (media_type or "").partition(";")[0].strip().lower() in _HTML


class ConversionLimit:
    """The limit of concurrent conversions of a server; further conversions wait."""

    def __init__(self) -> None:
        # Each conversion may need 768 MiB.
        self.turns = anyio.CapacityLimiter(2)


async def convert_html(source: str, url: str, limit: ConversionLimit) -> MarkdownPage | None:
    """Convert a page to Markdown with absolute links; the main text of the page comes first.

    Args:
        source: The HTML source.
        url: The URL of the page.
        limit: The limit of concurrent conversions.

    Returns:
        The page, or None if the page exceeds a limit or cannot be converted.
    """
    # `-P` keeps the modules next to the worker off the import path.
    command = [sys.executable, "-P", _WORKER]
    given = json.dumps({"url": url, "source": source}).encode()
    converted = None
    try:
        async with limit.turns:
            done = await anyio.run_process(command, input=given, check=False)
        if done.returncode == 0:
            converted = MarkdownPage(**json.loads(done.stdout))
    except* (OSError, anyio.BrokenResourceError):  # the process cannot start, or it ended before its input
        pass
    return converted
