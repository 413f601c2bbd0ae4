"""HTML pages as Markdown, converted in a separate process with limits.

The HTML parser (turbohtml) is written in C, and pages are untrusted. So each page is converted in a separate
process, which has no secrets of the server. The worker process limits its memory, its processor time and the
size of its output (`markdown_worker`). If the worker process reaches a limit or crashes, only this conversion
fails.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import anyio

if find_spec("turbohtml") is None:  # only the worker process imports turbohtml
    raise ModuleNotFoundError("Markdown needs turbohtml (the extra mcp)", name="turbohtml")

_WORKER = str(Path(__file__).with_name("markdown_worker.py"))
_HTML = ("text/html", "application/xhtml+xml")


class MarkdownPage(NamedTuple):
    """The Markdown of a page, and the text of its `title` element."""

    text: str
    title: str | None


def is_html(media_type: str | None) -> bool:
    """Return whether a media type is HTML; parameters such as a charset are ignored."""
    return (media_type or "").partition(";")[0].strip().lower() in _HTML


class ConversionLimit:
    """The limit of concurrent HTML conversions in a server; further conversions wait."""

    def __init__(self) -> None:
        # At most two conversions run concurrently, because each conversion may need 768 MiB of memory.
        self.turns = anyio.CapacityLimiter(2)


async def convert_html(source: str, url: str, limit: ConversionLimit) -> MarkdownPage | None:
    """Convert a page to Markdown with absolute links.

    The main text of the page comes first.

    Args:
        source: The HTML source.
        url: The URL of the page.
        limit: The limit of concurrent conversions.

    Returns:
        The Markdown page, or None if the page exceeds a limit or cannot be converted.
    """
    # `-P` keeps the worker's directory off the import path, so that `import` does not find modules there
    command = [sys.executable, "-P", _WORKER]
    page = json.dumps({"url": url, "source": source}).encode()
    converted = None
    try:
        async with limit.turns:
            process = await anyio.run_process(command, input=page, check=False)
        if process.returncode == 0:
            converted = MarkdownPage(**json.loads(process.stdout))
    except* (OSError, anyio.BrokenResourceError):  # the process did not start, or did not read its input
        pass
    return converted
