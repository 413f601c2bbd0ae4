"""Pages of real servers in Chromium: a listing and a linked page, by keyboard."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from playwright.sync_api import expect

from tests.sampled import sampled
from tests.servers.conftest import (  # noqa: F401
    _gophernicus,
    _inn,
    _nginx,
    _pygopherd,
    _vsftpd,
    certificates,
    ftp_site,
    ftp_tree,
    gopher_tree,
    http_tree,
)
from tests.window.browser import Look, Viewer, overflow, violations
from tests.window.keys import press, tab_faults
from tests.window.served import Opened
from tests.window.steps import open_typed


class Visit(NamedTuple):
    """A page of a real server.

    `service` names a port of the server, `path` the URL's path. `words` are text of the page. `link` is a
    link on it, and `behind` is text of the linked page.
    """

    server: str
    service: str
    path: str
    words: str
    link: str = ""
    behind: str = ""


VISITS = (
    Visit("vsftpd", "plain", "/pub/", "a.txt", "a.txt", "last line"),
    Visit("vsftpd", "plain", "/nothing", "550"),
    Visit("gophernicus", "", "/1/", "about.txt", "about.txt", "A text of two lines."),
    Visit("gophernicus", "", "/1/odd", "Prose at the top", "A text", "found"),
    Visit("gophernicus", "", "/g/pixel.gif", "image/gif"),
    Visit("pygopherd", "", "/1/", "about.txt", "about.txt", "A text of two lines."),
    Visit("pygopherd", "", "/0/about.txt%09%09!", "What the text is about."),
    Visit("pygopherd", "", "/0/page.html", "a page"),
    Visit("inn", "plain", "/test.prose", "Grüße café", "Grüße café", "words@example.test"),
    Visit("inn", "plain", "/test.prose/9", "application/octet-stream"),
    Visit("nginx", "", "/about.txt", "A text of two lines."),
    Visit("nginx", "", "/data.bin", "This type of document cannot be shown here"),
    Visit("nginx", "", "/gone", "404"),
)
SCHEMES = {"vsftpd": "ftp", "inn": "nntp", "nginx": "http"}


#: A page of Gopher, from which most pages come, and a page of another server.
TRIED = sampled(VISITS, lambda visit: visit.server in SCHEMES)


@pytest.mark.parametrize("visit", TRIED, ids=lambda visit: f"{visit.server}{visit.path}")
def test_page_of_real_server_is_accessible(
    visit: Visit, request: pytest.FixtureRequest, viewer: Viewer, window: Opened
) -> None:
    server = request.getfixturevalue(visit.server)
    port = server.ports[visit.service] if visit.service else server.port
    page = viewer.page(Look(320, "dark"))
    open_typed(page, window, f"{SCHEMES.get(visit.server, 'gopher')}://127.0.0.1:{port}{visit.path}")
    expect(page.get_by_role("main")).to_contain_text(visit.words)
    page.wait_for_load_state()
    assert tab_faults(page) == []
    assert violations(page) == []
    assert overflow(page) <= 0
    page.set_viewport_size({"width": 1600, "height": 900})
    assert overflow(page) <= 0
    if visit.link:
        page.evaluate("document.activeElement.blur()")
        press(page, visit.link)
        # The port is not the scheme's default port.
        expect(page.get_by_role("button", name="Open", exact=True)).to_be_visible()
        press(page, "Open")
        expect(page.get_by_role("main")).to_contain_text(visit.behind)
