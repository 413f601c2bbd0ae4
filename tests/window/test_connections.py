"""Documents shown as a page: the browser opens no connection and looks up no host name.

A request arrives late, or never. So each element that names a host has its own listening socket, and
Chromium's network log shows the names.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from resolver.web.pages import document
from tests.resolver.network.peers import seen
from tests.window.browser import Viewer, launched, program
from tests.window.served import Opened, Site, served
from tests.window.steps import open_typed

#: Elements of HTML; `URL` names a host.
ELEMENTS: Mapping[str, str] = {
    "img": '<img src="URL">',
    "img srcset": '<img srcset="URL 2x">',
    "picture": '<picture><source srcset="URL"><img></picture>',
    "link stylesheet": '<link rel="stylesheet" href="URL">',
    "link preload": '<link rel="preload" as="script" href="URL">',
    "link prefetch": '<link rel="prefetch" href="URL">',
    "link preconnect": '<link rel="preconnect" href="URL">',
    "link dns-prefetch": '<link rel="dns-prefetch" href="URL">',
    "link modulepreload": '<link rel="modulepreload" href="URL">',
    "link icon": '<link rel="icon" href="URL">',
    "link manifest": '<link rel="manifest" href="URL">',
    "link prerender": '<link rel="prerender" href="URL">',
    "script": '<script src="URL"></script>',
    "script rules": '<script type="speculationrules">{"prerender":[{"urls":["URL"]}]}</script>',
    "iframe": '<iframe src="URL"></iframe>',
    "iframe lazy": '<iframe loading="lazy" src="URL"></iframe>',
    "iframe sandbox": '<iframe sandbox src="URL"></iframe>',
    "iframe srcdoc": "<iframe srcdoc=\"&lt;iframe src='URL'>\"></iframe>",
    "iframe srcdoc link": "<iframe srcdoc=\"&lt;link rel=preconnect href='URL'>\"></iframe>",
    "iframe data": "<iframe src=\"data:text/html,<iframe src='URL'>\"></iframe>",
    "iframe in svg": '<svg><foreignObject><iframe src="URL"></iframe></foreignObject></svg>',
    "iframe in noscript": '<noscript><iframe src="URL"></iframe></noscript>',
    "iframe in a shadow": '<div><template shadowrootmode="open"><iframe src="URL"></iframe></template></div>',
    "object": '<object data="URL"></object>',
    "embed": '<embed src="URL">',
    "audio": '<audio src="URL" autoplay></audio>',
    "video": '<video src="URL" poster="URL" autoplay><track default src="URL"></video>',
    "style import": '<style>@import url("URL");</style>',
    "style font": '<style>@font-face{font-family:x;src:url("URL")}*{font-family:x}</style>',
    "style attribute": '<p style="background:image-set(url(URL) 1x);cursor:url(URL),auto">x</p>',
    "background": '<table background="URL"><tr><td>x</table>',
    "input": '<input type="image" src="URL">',
    "svg image": '<svg><image href="URL"/></svg>',
    "svg use": '<svg><use href="URL#x"/></svg>',
    "svg feImage": '<svg><filter id="f"><feImage href="URL"/></filter><rect filter="url(#f)"/></svg>',
    "svg paint": '<svg><rect width="9" height="9" fill="url(URL#g)" filter="url(URL#f)"/></svg>',
    "svg script": '<svg><script href="URL"></script></svg>',
    "a": '<a href="URL" ping="URL">x</a>',
    "form": '<form action="URL"><input></form>',
}
#: Complete documents.
DOCUMENTS: Mapping[str, tuple[str, str]] = {
    "frame": ("text/html", '<frameset><frame src="URL"></frameset>'),
    "meta refresh": ("text/html", '<meta http-equiv="refresh" content="0;url=URL"><p>x'),
    "base": ("text/html", '<base href="URL"><img src="x"><iframe src="y"></iframe>'),
    "iframe of XHTML": (
        "application/xhtml+xml",
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><iframe src="URL"/></body></html>',
    ),
    "iframe of SVG": (
        "image/svg+xml",
        '<svg xmlns="http://www.w3.org/2000/svg"><foreignObject>'
        '<iframe xmlns="http://www.w3.org/1999/xhtml" src="URL"/></foreignObject></svg>',
    ),
    "iframe of XML": ("text/xml", '<w xmlns:h="http://www.w3.org/1999/xhtml"><h:iframe src="URL"/></w>'),
    "sheet of XML": ("text/xml", '<?xml-stylesheet type="text/xsl" href="URL"?><w/>'),
}
#: Elements to which Chromium connects against the document's policy, when all documents are sent as HTML.
CONNECTED = frozenset(
    {
        *("iframe", "iframe lazy", "iframe sandbox", "iframe srcdoc", "iframe in svg", "iframe in noscript"),
        *("iframe in a shadow", "frame", "iframe of XHTML", "iframe of SVG"),
    }
)

NAME = "name.example"


class Listeners:
    """A listening socket for each name, which never answers."""

    def __init__(self, stack: ExitStack) -> None:
        names = (*ELEMENTS, *DOCUMENTS)
        self._by_name = {
            name: stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=9)) for name in names
        }
        for each in self._by_name.values():
            each.setblocking(False)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._by_name[name].getsockname()[1]}/"

    def connected(self) -> set[str]:
        """Return the names of the sockets with a waiting connection."""
        return {name for name, each in self._by_name.items() if seen(each)}


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    with ExitStack() as stack:
        yield Listeners(stack)


@contextmanager
def logged(chromium: Browser, log: Path) -> Iterator[Browser]:
    """Yield a Chromium that logs its network events, started by the Playwright of another browser.

    A thread has at most one Playwright: a second one fails inside the event loop of the first.
    """
    path = program()
    assert path is not None
    with launched(chromium.browser_type, path, f"--log-net-log={log}") as browser:
        yield browser


def show_all(browser: Browser, window: Opened, site: Site, listeners: Listeners) -> None:
    """Show each document as a page; show each element twice, the second time with the host `NAME`."""
    named = [text.replace("URL", f"http://{NAME}/") for text in ELEMENTS.values()]
    html = "".join([text.replace("URL", listeners.url(name)) for name, text in ELEMENTS.items()] + named)
    site.pages["/elements"] = ("text/html", f"<!doctype html><title>x</title><body>{html}")
    for number, (name, (media_type, text)) in enumerate(DOCUMENTS.items()):
        site.pages[f"/{number}"] = (media_type, text.replace("URL", listeners.url(name)))
    paths = [*site.pages]
    site.pages["/end"] = ("text/plain", "the end")
    viewer = Viewer(browser)
    for path in paths:
        page = viewer.page()
        open_typed(page, window, f"{site.origin}{path}")
        page.get_by_role("link", name="as page", exact=True).click()
        page.wait_for_load_state()
        page.mouse.move(300, 400)
        page.goto(f"{site.origin}/end")  # All earlier connections arrive before this one.
    viewer.close()


def test_document_as_page_opens_no_connection(
    chromium: Browser, listeners: Listeners, untrusted: Site, tmp_path: Path
) -> None:
    with logged(chromium, tmp_path / "log") as browser, served() as window:
        show_all(browser, window, untrusted, listeners)
    assert listeners.connected() == set()
    log = (tmp_path / "log").read_text()
    assert (untrusted.origin in log, NAME in log) == (True, False)


def test_document_without_sanitizer_opens_connections(
    chromium: Browser, listeners: Listeners, untrusted: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This shows that the test above can fail."""
    monkeypatch.setattr(document, "allowed_markup", lambda markup, is_xml: markup)
    with logged(chromium, tmp_path / "log") as browser, served() as window:
        show_all(browser, window, untrusted, listeners)
    assert listeners.connected() == CONNECTED
    assert NAME in (tmp_path / "log").read_text()
