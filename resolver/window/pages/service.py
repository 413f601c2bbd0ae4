"""A session that a person may sit at: where, as whom, and the command that opens it. It is never opened from
a page (S18)."""

from __future__ import annotations

from resolver.retrieval.response import Response
from resolver.window.pages.menu import command_of
from resolver.window.pages.page import PageAddressBar, WebPage
from resolver.window.pages.words import text_of


def service_page(response: Response, place: PageAddressBar) -> WebPage:
    """What the reply of the URL says of it."""
    extra = response.extra or {}
    port = extra.get("port")
    values = {
        "target": response.target or place.url,
        "command": command_of(response.target or place.url),
        "service": text_of(extra, "service"),
        "host": text_of(extra, "host"),
        "port": port if isinstance(port, int) else None,
        "login": text_of(extra, "login"),
        "found": response.findings,
    }
    return WebPage("service.html", place.url, 200, values)
