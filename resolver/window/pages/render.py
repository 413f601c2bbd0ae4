"""Pages as markup. Whatever a template shows goes through `_shown`, then through Jinja's escaping: no
template and no page function can forget either.

The one thing that is markup already is the dialogue's panel, which is made of escaped text by
`resolver.window.dialogue`; nothing else becomes `Markup`, and only here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from resolver.terminal import escape_controls
from resolver.window.pages.page import PageFrame, WebPage, shortened

#: Octets of a piece of a page that is sent as it is made.
_PIECE = 16_384


def render(page: WebPage, frame: PageFrame) -> str:
    """The whole page."""
    return "".join(_parts(page, frame))


def pieces(page: WebPage, frame: PageFrame) -> Iterator[str]:
    """The page from its head on, as it is made."""
    held: list[str] = []
    size = 0
    for part in _parts(page, frame):
        held.append(part)
        size += len(part)
        if size >= _PIECE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _parts(page: WebPage, frame: PageFrame) -> Iterator[str]:
    told = {
        **page.values,
        "title": shortened(page.title),
        "frame": frame,
        "panel": Markup(frame.panel),
    }
    return environment().get_template(page.template).generate(told)


@cache
def environment() -> Environment:
    """The templates, which are read once."""
    return Environment(
        loader=PackageLoader("resolver.window"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


@cache
def static_file(name: str) -> str:
    """A file of ours that pages name: `window.css`, which has the sheet of the dialogue's panel too, or
    `window.js`. Read once; raises `TemplateNotFound` for any other."""
    text = PackageLoader("resolver.window", "static").get_source(environment(), name)[0]
    if name != "window.css":
        return text
    return f"{text}\n{environment().get_template('exchange.css').render()}"


def _shown(value: object) -> object:
    """A value as a page has it: what is not text is a number, or markup of ours."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_controls(value)
    return "" if value is None else value
