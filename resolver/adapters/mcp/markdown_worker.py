"""A worker program that converts one HTML page to Markdown.

The program reads JSON from standard input, and writes JSON to standard output. The module `markdown` runs
this file as a script. The script does not import `resolver`, so it starts in only 70 ms. A nonzero exit
status means that the page was not converted.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from contextlib import suppress

import turbohtml

#: Maximum memory in bytes, and maximum processor time in seconds. Measurements with pages of 5 MB: a page of
#: `<` characters needs the most memory (590 MB), and a page of relative links needs the most time (2 s on a
#: busy machine).
_MEMORY, _SECONDS = 805_306_368, 5
#: Maximum number of characters of the Markdown text. The Markdown may be much longer than the HTML source: a
#: paragraph in 400 nested quotes begins with 800 characters.
_MAX_TEXT = 8_388_608
#: Maximum length of the base URL of relative links. Each relative link repeats a part of the base URL, so a
#: long base URL would multiply the size of the page.
_MAX_BASE = 4_096

#: HTML elements that are removed, because users do not see their text. Hidden text may contain instructions
#: for an agent (prompt injection).
_UNSEEN = "script, style, template, svg, iframe, object, canvas, [hidden], [aria-hidden=true]"
_HIDING = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
#: Links that are removed, because a tool cannot fetch their URLs. The `data` URL of an embedded image may be
#: as long as the page.
_NO_LINK = re.compile(r"[\s\x00-\x20]*(?:javascript|data|vbscript|blob)\s*:", re.IGNORECASE)
_MAIN = "main, [role=main]"


def convert(source: str, url: str) -> dict[str, str | None]:
    """Return the Markdown (`text`) and the `title` of an HTML page."""
    page = turbohtml.parse(source)
    title = page.select_one("title")
    base = page.base_url(url)
    if len(base) <= _MAX_BASE:
        with suppress(ValueError):  # the base URL is not absolute
            page.resolve_links(base)
    for element in page.select(_UNSEEN):
        element.decompose()
    for element in page.select("[style]"):
        if _HIDING.search(str(element.attrs.get("style"))):
            element.decompose()
    for name in ("href", "src"):
        for element in page.select(f"[{name}]"):
            if _NO_LINK.match(str(element.attrs.get(name))):
                del element.attrs[name]
    _unwrap_layout_tables(page)
    parts = []
    main = page.select_one(_MAIN) or page.main_content()
    if main is not None:
        parts.append(main.to_markdown())
        main.decompose()
    parts.append(page.to_markdown())  # navigation, sidebars and footers
    text = "\n\n---\n\n".join(filter(None, parts))
    return {"text": text, "title": None if title is None else " ".join(title.text.split())[:1_000] or None}


def _unwrap_layout_tables(page: turbohtml.Document) -> None:
    """Replace each layout table (a table with tables in its cells) by the content of its cells.

    Markdown does not support nested tables, so a nested table would stay HTML.
    """
    layout = {
        outer
        for table in page.select("table")
        if table.parent is not None and (outer := table.parent.closest("table")) is not None
    }
    if not layout:
        return
    for part in page.select("td, th, tr, tbody, thead, tfoot, caption"):
        if part.closest("table") in layout:
            part.wrap_children(turbohtml.Element("div"))
            part.unwrap()
    for table in layout:
        table.unwrap()


def main() -> int:
    """Convert the page on standard input, and return the exit status."""
    with suppress(ValueError, OSError):  # macOS does not support this memory limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        request = json.load(sys.stdin.buffer)
        page = convert(request["source"].encode("utf-8", "replace").decode(), request["url"])
        if len(page["text"] or "") > _MAX_TEXT:
            return 1
        sys.stdout.buffer.write(json.dumps(page).encode())
        sys.stdout.buffer.flush()
    except (MemoryError, RecursionError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
