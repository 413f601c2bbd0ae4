"""A page that is sent while it is made.

Not by the framework's own class: that one waits for the browser to go away while it sends, and cancels itself
within its last message, so that the server closes no connection and forgets to time idle ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response as Answer
from starlette.types import Receive, Scope, Send

from resolver.window import headers


class StreamedPage(Answer):
    """Whatever length it has."""

    def __init__(self, chunks: Iterable[bytes], media_type: str = headers.HTML) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body"})
