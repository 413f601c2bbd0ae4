"""Every kind of page: its URL, its expected text, and the controls that lead to it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.resolver.cli.places import Places
from tests.window.served import Opened, Sent
from tests.window.steps import open_typed


class Kind(NamedTuple):
    """A page of the web UI.

    - `at`: a URL, or a path of the web UI
    - `presses`: the names of links and buttons to click in turn
    - `words`: text expected on the page after the last click
    - `typed`: whether the URL is entered in the address bar
    """

    at: str
    words: str
    presses: tuple[str, ...] = ()
    typed: bool = False


GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90400000000002c00000000010001000002024401003b")
#: Documents of media types that no mock server has.
SHELF: Mapping[str, tuple[str, str] | Sent] = {
    "/picture": Sent("image/gif", GIF),
    "/paper": Sent("application/pdf", b"%PDF-1.4\n"),
    "/sound": Sent("audio/ogg", b"OggS\x00"),
    "/film": Sent("video/webm", b"\x1a\x45\xdf\xa3"),
    "/octets.exe": Sent("application/octet-stream", bytes(range(256))),
    "/page": Sent("text/html", '<h1>A page</h1><p>of words, and <a href="x">a link</a></p>'),
    "/drawing": Sent("image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg"><text>drawn</text></svg>'),
    "/parts": Sent(
        "multipart/mixed; boundary=B",
        b"--B\r\nContent-Type: text/plain\r\n\r\nfirst text\r\n> quoted\r\n"
        b"--B\r\nContent-Type: text/plain\r\n\r\nsecond text\r\n"
        b'--B\r\nContent-Type: text/html; name="../../page.html"\r\n\r\n<b>page</b>\r\n'
        b"--B\r\nContent-Type: image/gif\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        + b64encode(GIF)
        + b"\r\n--B--\r\n",
    ),
    "/wide": Sent("text/plain", "W" * 2_000),
    "/long": Sent("text/plain", "words of many lines\n" * 52_500),
}

KINDS: Mapping[str, Kind] = {
    "directory of ftp": Kind("{ftp}/pub/", "a.txt"),
    "directory of ftp, filtered to nothing": Kind("{ftp}/pub/", "show all", ("Apply",)),
    "directory of this machine": Kind("{local}/", "a.txt", typed=True),
    "directory of http": Kind("{http}/pub/", "big.iso"),
    "prospero": Kind("{prospero}//example", "hello.txt"),
    "menu": Kind("{gopher}/", "About"),
    "menu of Gopher+": Kind("{gopher}/1%09%09$", "attributes"),
    "attributes": Kind("{gopher}/00/poll%09%09?", "Fill in the form"),
    "attributes of a thing": Kind("{gopher}/00/story%09%09!", "Views"),
    "form": Kind("{gopher}/00/poll%09%09?", "What is your name?", ("Fill in the form",)),
    "form, looked at": Kind(
        "{gopher}/00/poll%09%09?", "Send this form?", ("Fill in the form", "Preview the data")
    ),
    "search of gopher": Kind("{gopher}/77/find", "Search for"),
    "group": Kind("{nntp}/comp.misc", "Grüße"),
    "article": Kind("{nntp}/comp.misc/1235", "A Poster"),
    "article, source": Kind("{nntp}/comp.misc/1235", "Message-ID", ("source",)),
    "results": Kind("{wais}/demo?ferry", "Quay notes"),
    "database": Kind("{wais}/demo", "Search"),
    "text": Kind("{gopher}/00/about", "A text of two lines."),
    "text, wide": Kind("{shelf}/wide", "WWW"),
    "text, in parts": Kind("{shelf}/long", "part 2 of 2", ("next part",)),
    "picture": Kind("{shelf}/picture", "image/gif"),
    "PDF": Kind("{shelf}/paper", "Shown by the browser"),
    "sound": Kind("{shelf}/sound", "audio/ogg"),
    "film": Kind("{shelf}/film", "video/webm"),
    "octets": Kind("{shelf}/octets.exe", "A program that opens a file with this name may run it"),
    "HTML": Kind("{shelf}/page", "of words, and"),
    "HTML as page": Kind("{shelf}/page", "This frame runs no code", ("as page",)),
    "HTML, source": Kind("{shelf}/page", "<h1>A page</h1>", ("source",)),
    "parts": Kind("{shelf}/parts", "page.html"),
    "drawing as page": Kind("{shelf}/drawing", "This frame runs no code", ("as page",)),
    "service": Kind("telnet://guest@bbs.example/", "resolve open", typed=True),
    "mail": Kind("mailto:joe@h.example?subject=hi", "joe@h.example"),
    "not found": Kind("{ftp}/nothing", "550"),
    "login": Kind("{login}/", "401"),
    "refused": Kind("{to_file}/", "S10"),
    "nobody there": Kind("{closed}/", "Try again"),
    "no URL": Kind("/u/gopher%3A%2F%2F", "Preview"),
    "what is known": Kind("/look?url=gopher://h.example/1x", "Planned steps"),
    "what is refused": Kind("/look?url=gopher://h.example:25/1x%250D%250A", "S04"),
    "start": Kind("/", "Address"),
    "help": Kind("/help", "Rules"),
    "history": Kind("/history", "Clear the history"),
    "bookmarks": Kind("/bookmarks", "Add"),
    "transfers": Kind("/transfers", "There are no transfers yet"),
    "settings": Kind("/settings", "The settings of this run"),
}


#: Kinds of pages by their server. Directories are one family, on all servers.
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("{ftp}", "{http}", "{local}", "{prospero}"), "directories"),
    **{"{gopher}": "menus", "{nntp}": "news", "{shelf}": "documents", "{wais}": "results", "": "ours"},
}


def family(name: str) -> str:
    """Return the family of similar pages; kinds outside the table only show a reason."""
    return FAMILIES.get(KINDS[name].at.partition("/")[0], "nothing to show")


def visit(page: Page, window: Opened, places: Places, name: str) -> None:
    """Open a page and wait for its expected text."""
    kind = KINDS[name]
    at = kind.at.format_map(places)
    if at.startswith("/"):
        page.goto(f"{window.origin}{at}")
    elif kind.typed:
        open_typed(page, window, at)
    else:
        page.goto(f"{window.origin}/u/{quote(at, safe='')}")
    for press in kind.presses:
        if press == "Apply":
            page.get_by_role("searchbox", name="Name contains").fill("no such name")
        named = page.get_by_role("main").get_by_role("link", name=press, exact=True)
        named.or_(page.get_by_role("main").get_by_role("button", name=press, exact=True)).first.click()
    expect(page.locator("body")).to_contain_text(kind.words)
    page.wait_for_load_state()
