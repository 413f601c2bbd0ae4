"""Requests of any kind, as they are planned and sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from protocols.errors import ResolveError
from protocols.location import JsonValue, Url
from protocols.values import NamedTuple
from resolver.bulk.item import BulkRequest
from resolver.policy import host_key
from resolver.retrieval.checksum import Checksum
from resolver.retrieval.many import SaveRequest
from resolver.retrieval.naming import local_file_name
from resolver.url import UrlLike, redact, url_of

if TYPE_CHECKING:
    from distributed import Client

#: Octets of a name that stand behind its digest: with all that stands beside it while it is written, it is
#: one that every file system takes.
_LONGEST = 120

#: The directory for bodies of this machine's own files.
_HERE = "local"

#: What a run may be given: URLs and `SaveRequest`s, or a collection of Dask that has them: a bag, or a column
#: of a dataframe.
Given: TypeAlias = "Iterable[UrlLike | SaveRequest] | Any"


class PlannedRequest(NamedTuple):
    """A request, and whom it will ask: a name without a host is of this machine, or of nobody."""

    item: BulkRequest
    host: str
    scheme: str


def placed(request: UrlLike | SaveRequest) -> PlannedRequest:
    """What is no URL has a place, too: it fails where all others do, and is told of with them."""
    wanted = request if isinstance(request, SaveRequest) else SaveRequest(request)
    text = _text(wanted.url)
    try:
        url = url_of(wanted.url, origin=wanted.origin)
    except ResolveError:
        return PlannedRequest(BulkRequest(text, wanted.path or _below(_HERE, text), _more(wanted)), "", "")
    host = host_key(url)
    return PlannedRequest(
        BulkRequest(text, wanted.path or _place(url, host, text), _more(wanted)), host, url.scheme
    )


def request_of(item: BulkRequest) -> SaveRequest:
    """What was asked for, as the worker hears of it."""
    more: dict[str, Any] = dict(item.more or {})
    for name in ("mirrors", "referrer"):
        if name in more:
            more[name] = tuple(more[name])
    return SaveRequest(item.url, item.path, **more)


def _more(request: SaveRequest) -> dict[str, JsonValue] | None:
    more: dict[str, JsonValue] = {}
    if request.mirrors:
        more["mirrors"] = [_text(each) for each in request.mirrors]
    if request.checksum is not None:
        told = request.checksum
        more["checksum"] = _words(told) if isinstance(told, Checksum) else told
    if request.size is not None:
        more["size"] = request.size
    if request.origin != "user":
        more["origin"] = request.origin
    if request.referrer is not None:
        more["referrer"] = list(request.referrer)
    return more or None


def _words(checksum: Checksum) -> str:
    return f"{checksum.algorithm}:{checksum.digest}" if checksum.digest else checksum.algorithm


def _text(url: UrlLike) -> str:
    return url.text if isinstance(url, Url) else str(url)


def _place(url: Url, host: str, text: str) -> str:
    """One name for one URL, whatever else there is and however often it is asked for: a digest, and behind it
    what people know it by."""
    place = _below(host.removesuffix(":") or _HERE, text)
    try:
        name = local_file_name(url)
        return f"{place}-{name}" if len(name.encode()) <= _LONGEST else place
    except (ResolveError, UnicodeEncodeError):
        return place


def _below(directory: str, text: str) -> str:
    """By a digest of the URL as it is shown: no password is guessed by it."""
    digest = hashlib.blake2b(redact(text).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{directory}/{digest[:2]}/{digest}"


def each(given: Given, client: Client | None) -> Iterator[UrlLike | SaveRequest]:
    """One by one. Of a collection of Dask a partition is brought here at a time."""
    if not hasattr(given, "__dask_graph__"):
        yield from given
        return
    collection: Any = given
    for part in collection.to_delayed():
        yield from part.compute() if client is None else client.compute(part).result()
