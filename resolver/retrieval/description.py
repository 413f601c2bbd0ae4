"""What a URL names, as one entry of a listing would have it."""

from __future__ import annotations

from protocols.contract import Entry, Origin, Referrer, Url
from resolver.retrieval.naming import listed_name
from resolver.retrieval.streaming import StreamingResponse


def described(
    url: Url, reply: StreamingResponse, origin: Origin, referrer: tuple[str, str | None] | None
) -> Entry:
    """What `url` names, as one entry, by the facts that came of it."""
    return Entry(
        name=listed_name(url),
        url=reply.url,
        kind=reply.kind,
        size=reply.size,
        modified=reply.modified,
        title=reply.title,
        extra={**(reply.extra or {}), "media_type": reply.media_type, "target": reply.target},
        origin=origin,
        referrer=None if referrer is None else Referrer(*referrer),
    )
