"""The other port, for what came from elsewhere: known documents, by IDs that nobody guesses, and nothing
else.

It reads no cookie, runs nothing, and its answers say of themselves that they are harmless.
"""

from __future__ import annotations

from resolver.window import headers
from resolver.window.entrance import Receive, Scope, Send, answer, live
from resolver.window.session import ContentDocument, WebSession

_PREFIX = "/d/"


class ContentApplication:
    """The documents of a session. `place` is what `Host` must be."""

    def __init__(self, session: WebSession, place: str) -> None:
        self._session = session
        self._place = place.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await live(receive, send)
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return None
        document = self._asked(scope)
        if document is None:
            return await answer(send, 404, b"", headers.TEXT, {"connection": "close", **headers.NO_REFERRER})
        disposition = headers.disposition(document.name, inline=document.inline)
        said = {"content-disposition": disposition, **headers.NO_REFERRER}
        return await answer(send, 200, document.content, document.media_type, said)

    def _asked(self, scope: Scope) -> ContentDocument | None:
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        path = scope["raw_path"].decode("latin-1")
        if scope["method"] not in ("GET", "HEAD") or scope["http_version"] not in ("1.0", "1.1"):
            return None
        if hosts != [self._place] or not path.startswith(_PREFIX):
            return None
        return self._session.document(path[len(_PREFIX) :].partition("/")[0])
