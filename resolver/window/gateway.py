"""For other clients, whom a person told our address with its secret: the body of what a URL names, and the
verdict as the status. No browser has business here, whatever page is in it."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response as Answer

from protocols.errors import ResolveError
from resolver.url import redact
from resolver.window import addresses, headers
from resolver.window.entrance import SiteSettings
from resolver.window.pages.errors import row_of
from resolver.window.reading import PageReader, while_wanted
from resolver.window.session import UrlOrigin

_PREFIX = b"/g/"


class GatewayAnswer(Answer):
    """An answer with the bytes of a stranger at the origin of our pages: a browser runs and shows nothing of
    it."""

    def __init__(self, content: bytes = b"", status: int = 200, media_type: str = headers.TEXT) -> None:
        super().__init__(content, status)
        self.headers.update(headers.of_gateway(media_type))


class Gateway:
    """`GET /g/SECRET/{url}`, the URL encoded whole."""

    def __init__(self, house: SiteSettings, reading: PageReader) -> None:
        self._house = house
        self._reading = reading

    async def answer(self, request: Request) -> GatewayAnswer:
        secret, _, rest = request.scope["raw_path"][len(_PREFIX) :].partition(b"/")
        strange = self._why_not(request, secret.decode("latin-1"))
        if strange is not None:
            self._house.tell(f"refused {request.method} /g/...: {strange}")
            refused = GatewayAnswer(status=403)
            refused.headers["connection"] = "close"
            return refused
        text = addresses.asked(addresses.PREFIX + rest).text
        found = await while_wanted(request.receive, partial(self._reading.fetch, text, UrlOrigin("derived")))
        if found is None:
            return GatewayAnswer(status=408)
        if isinstance(found.reply, ResolveError):
            words = f"{redact(text)}: {found.reply.message}\n".encode("utf-8", "replace")
            return GatewayAnswer(words, row_of(found.reply).status)
        return GatewayAnswer(found.reply.content, media_type=found.reply.media_type or headers.OCTETS)

    def _why_not(self, request: Request, secret: str) -> str | None:
        """Return why the request is refused, or None. Browsers send no `Sec-Fetch-*` over http to an address
        of the network; the cookie still tells the browser of the window."""
        keys = self._house.keys
        strange = [name for name in request.headers if name.startswith("sec-fetch-") or name == "origin"]
        if strange:
            return str(strange[0])
        if keys.is_ours(value.encode("latin-1") for value in request.headers.getlist("cookie")):
            return "the cookie of the window"
        return None if keys.is_gateway(secret) else "no secret"
