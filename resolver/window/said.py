"""The dialogues of the last pages, to be taken away: the diagram, and the data that it is made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route

from resolver.window import headers
from resolver.window.dialogue.exchange import RecordedExchange
from resolver.window.dialogue.panel import as_text, panel, svg
from resolver.window.session import new_id

_MOST = 64

#: A dialogue as a file, by how its name ends.
_KINDS: dict[str, tuple[str, Callable[[RecordedExchange], str]]] = {
    "svg": (headers.SVG, svg),
    "json": (headers.JSON, as_text),
}


class TraceHistory:
    """Of one run. The oldest ones are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, RecordedExchange] = OrderedDict()
        self.routes = [Route("/dialogue/{name}", self._answer)]

    def panel(self, said: RecordedExchange, plan: RecordedExchange) -> str:
        """What stands below a page."""
        while len(self._kept) >= _MOST:
            self._kept.popitem(last=False)
        self._kept[found := new_id()] = said
        return panel(said, plan, away=f"/dialogue/{found}")

    async def _answer(self, request: Request) -> Answer:
        found, _, kind = request.path_params["name"].partition(".")
        said = self._kept.get(found)
        if said is None or kind not in _KINDS:
            return Answer(status_code=404)
        media_type, made = _KINDS[kind]
        saved = headers.said("content-disposition", headers.disposition(f"dialogue.{kind}", inline=False))
        return Answer(made(said), media_type=media_type, headers=saved)
