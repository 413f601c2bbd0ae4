"""For other clients, whom a person told our address with its secret: the body of what a URL names, and the
verdict as the status. No browser has business here, whatever page is in it."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response as Answer

from protocols.errors import ResolveError
from resolver.url import redact
from resolver.window import addresses, headers
from resolver.window.entrance import House
from resolver.window.pages.errors import row_of
from resolver.window.reading import Reading, while_wanted
from resolver.window.session import Way

_PREFIX = b"/g/"


class Gateway:
    """`GET /g/SECRET/{url}`, the URL encoded whole."""

    def __init__(self, house: House, reading: Reading) -> None:
        self._house = house
        self._reading = reading

    async def answer(self, request: Request) -> Answer:
        secret, _, rest = request.scope["raw_path"][len(_PREFIX) :].partition(b"/")
        strange = [name for name in request.headers if name.startswith("sec-fetch-") or name == "origin"]
        if strange or not self._house.keys.is_gateway(secret.decode("latin-1")):
            self._house.tell(f"refused {request.method} /g/...: {strange[0] if strange else 'no secret'}")
            return Answer(status_code=403, headers={"connection": "close"})
        text = addresses.asked(addresses.PREFIX + rest).text
        found = await while_wanted(request.receive, partial(self._reading.fetch, text, Way("derived")))
        if found is None:
            return Answer(status_code=408)
        if isinstance(found.reply, ResolveError):
            words = f"{redact(text)}: {found.reply.message}\n".encode("utf-8", "replace")
            return Answer(words, row_of(found.reply).status, media_type=headers.TEXT)
        answer = Answer(found.reply.content)
        answer.headers.update(headers.said("content-type", found.reply.media_type or headers.OCTETS))
        return answer
