"""The name of a saved file, made from the URL that was asked for (rule S14).

Never from a redirect target, a header or a listing: those are somebody else's words.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from protocols.location import Url
from resolver.policy import local_name

#: Which component ends in the name of the thing, per scheme; it may be absent.
_NAMED_BY: dict[str, str] = {
    "file": "segments",
    "ftp": "name",
    "ftps": "name",
    "gopher": "selector",
    "gophers": "selector",
    "http": "path",
    "https": "path",
    "news": "message_id",
    "nntp": "article",
    "nntps": "article",
    "prospero": "hsoname",
    "snews": "message_id",
    "wais": "wpath",
}
_STILL_ENCODED = frozenset({"path", "wpath"})


def local_file_name(url: Url) -> str:
    """A safe local name for what the URL names. Raises `Refused` (S14) when nothing is left of it:
    then `-O FILE` gives one."""
    component = _NAMED_BY.get(url.scheme)
    value = None if component is None else url.components().get(component)
    if isinstance(value, list):
        value = value[-1] if value else None
    text = "" if value is None else str(value)
    if component in _STILL_ENCODED:
        return local_name(unquote_to_bytes(text.rpartition("/")[2]))
    return local_name(text.encode("latin-1"))
