"""The structure of a page without its values: its elements and the names of their attributes."""

from __future__ import annotations

from html.parser import HTMLParser

from protocols.text import Masked
from resolver.web.pages.page import Breadcrumb, PageAddressBar, PageFrame, WebPage, render

#: Untrusted texts that try to end a text, an attribute or a script.
HOSTILE = (
    "<script>window.pwned=1</script>",
    '"onx="1" x=\'y\' onload=z ',
    "{{7*7}}{% raw %}",
    "]]>--><!--",
    "</title></bdi></pre></main><h1>",
    "</textarea></option></select></button></form>",
    "&#60;b&#62;&lt;",
    "\u2028\u2029\u202egpj.exe\u200b\x1b[2J\x00\x9b",
    "\ud800\udcff",
)


class Skeleton(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.values: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attributes)))
        self.ids += [value or "" for name, value in attributes if name == "id"]
        self.values += [value or "" for _, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", ()))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def skeleton(markup: str) -> Skeleton:
    parsed = Skeleton()
    parsed.feed(markup)
    parsed.close()
    return parsed


def place(url: str = "ftp://h.example/pub/") -> PageAddressBar:
    return PageAddressBar(
        Masked(url), "/u/here", lambda text: f"/u/{len(text)}", lambda text: f"/look?{len(text)}", "FROM"
    )


def frame(text: str) -> PageFrame:
    return PageFrame(
        address=Masked(text),
        crumbs=(Breadcrumb(text, "/u/x"), Breadcrumb(text)),
        csrf=lambda _: "TOKEN",
        from_id="FROM",
    )


def rendered(page: WebPage, text: str = "x") -> str:
    return render(page, frame(text))
