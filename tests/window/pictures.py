"""Screenshots for the README: `python -m tests.window.pictures`.

Chromium shows a Gopher menu with its protocol exchange, and a newsgroup. Their contents are invented. The
project's mock servers serve them at the default ports of the schemes, which requires root.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import trio
from playwright.sync_api import FloatRect

import fixtures.gopher.server
import fixtures.nntp.server
from fixtures.gopher.tree import Item
from fixtures.nntp.spool import Article, Group, Spool
from tests.window.browser import Look, Viewer, program, running
from tests.window.served import served
from tests.window.steps import open_typed

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH = 960

MENU: Mapping[bytes, Item] = MappingProxyType(
    {
        b"": Item(
            "1",
            b"The harbour office",
            members=(
                b"iTides, timetables and notices. Ask at the desk if in doubt.\t\terror.host\t1",
                b"0/tides",
                b"1/notices",
                b"I/chart",
                b"7/find",
                b"0/berth",
                b"8The night desk\tguest\t{host}\t23",
                b"hThe ferry company\tURL:http://www.example.org/\t{host}\t{port}",
                b"0The old mail list\tlist\tmail.example.org\t25",
            ),
        ),
        b"0/tides": Item(
            "0",
            b"Tide table for November",
            b"06:12  3.4 m\n12:30  0.9 m\n",
            views={
                b"Text/plain En_US": b"06:12  3.4 m\n12:30  0.9 m\n",
                b"Text/plain De_DE": b"06:12  3,4 m\n12:30  0,9 m\n",
                b"application/postscript En_US": b"%!PS-Adobe-1.0\nshowpage\n",
            },
            abstract=(b"High and low water at the old pier.",),
        ),
        b"1/notices": Item("1", b"Notices to skippers", members=(b"0/tides",)),
        b"I/chart": Item("I", b"Chart of the entrance", b"GIF89a"),
        b"7/find": Item("7", b"Find a boat"),
        b"0/berth": Item("0", b"Ask for a berth", b"Thank you.\n", form=(b"Ask: Name of the boat",)),
    }
)

#: Article number, number of the parent article, author and subject.
POSTS = (
    (4011, 0, "Ada Quist", "Which tide table do you trust?"),
    (4012, 4011, "Bo Lind", "Re: Which tide table do you trust?"),
    (4013, 4012, "Ada Quist", "Re: Which tide table do you trust?"),
    (4014, 4011, "Jürgen Östberg", "Re: Which tide table do you trust?"),
    (4017, 0, "Cleo Marsh", "Lost: one blue oar, north quay"),
    (4018, 4017, "Bo Lind", "Re: Lost: one blue oar, north quay"),
    (4019, 0, "Dora Finch", "Winter timetable of the ferry"),
    (4020, 4014, "Ada Quist", "Thank you, all (was: Which tide table do you trust?)"),
    (4021, 3990, "Emil Rasch", "Re: Mooring rings"),
)


def spool() -> Spool:
    articles = {post[0]: _post(*post) for post in POSTS}
    return Spool({b"local.harbour": Group(articles, low=3980)})


def _post(number: int, answers: int, author: str, subject: str) -> Article:
    name = f"{number}@harbour.example"
    references = f"References: <{answers}@harbour.example>\r\n" if answers else ""
    day = number - 4008
    text = (
        f"From: {author} <{author.split()[0].lower()}@harbour.example>\r\nNewsgroups: local.harbour\r\n"
        f"Subject: {subject}\r\nDate: {day:02} Nov 2026 {day + 5:02}:{day * 3:02}:00 +0000\r\n"
        f"Message-ID: <{name}>\r\n{references}\r\nSee you at the pier.\r\n"
    )
    return Article(name.encode(), text.encode())


@contextmanager
def serving() -> Iterator[tuple[str, str]]:
    """Serve the menu and the group; yield their URLs."""
    begun: queue.Queue[tuple[str, str]] = queue.Queue()
    stop = trio.Event()
    token: list[trio.lowlevel.TrioToken] = []

    async def main() -> None:
        token.append(trio.lowlevel.current_trio_token())
        async with trio.open_nursery() as nursery:
            gopher = await fixtures.gopher.server.serve(nursery, MENU, port=70)
            news = await fixtures.nntp.server.serve(nursery, spool(), port=119)
            begun.put((f"{gopher.url('1%09%09$')}", news.url("local.harbour")))
            await stop.wait()
            nursery.cancel_scope.cancel()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        yield begun.get()
    finally:
        trio.from_thread.run_sync(stop.set, trio_token=token[0])
        thread.join()


def main() -> None:
    path = program()
    if path is None:
        print("chromium is not there; `apt-get install chromium` installs Debian's")
        return
    FOLDER.mkdir(exist_ok=True)
    with running(path) as browser, served() as window, serving() as (menu, group):
        viewer = Viewer(browser)
        page = viewer.page(Look(WIDTH))
        open_typed(page, window, menu)
        page.locator("aside summary").first.click()
        figure = page.locator("aside figure").first.locator(".exchange-wide").bounding_box()
        assert figure is not None
        height = figure["y"] + figure["height"] + 12
        shown: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": height}
        page.screenshot(path=FOLDER / "menu.png", full_page=True, clip=shown)
        dark = viewer.page(Look(WIDTH, "dark"))
        dark.set_viewport_size({"width": WIDTH, "height": 600})
        open_typed(dark, window, group)
        dark.screenshot(path=FOLDER / "group.png")
        viewer.close()


if __name__ == "__main__":
    main()
