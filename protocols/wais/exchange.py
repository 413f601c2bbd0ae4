"""One request and its whole answer, the only way to talk to a WAIS server: it drops what comes before it
has answered, and hangs up (wais page, section 1). The first request agrees on the size of messages.
"""

from __future__ import annotations

from collections.abc import Generator

from protocols.errors import Declined
from protocols.step import Dialogue, Send, receive
from protocols.wais.apdu import (
    InitResponse,
    encode_init,
    parse_init_response,
    parse_search_response,
)
from protocols.wais.diagnostic import refusal
from protocols.wais.message import LARGEST, read_message
from protocols.wais.record import WaisRecords, sort_records
from protocols.wire import Buffer, Reader, Rest, encode_message


def read_init_response(buffer: Buffer) -> Generator[Rest | None, None, InitResponse | None]:
    """A reader; None for a message of length 0."""
    apdu = yield from read_message(LARGEST)(buffer)
    return parse_init_response(apdu) if apdu else None


def read_records(limit: int) -> Reader[WaisRecords | None]:
    """A reader for the answer to a search of either kind; None for a message of length 0."""

    def reader(buffer: Buffer) -> Generator[Rest | None, None, WaisRecords | None]:
        apdu = yield from read_message(limit)(buffer)
        return (yield from sort_records(parse_search_response(apdu).records)) if apdu else None

    return reader


def agree() -> Dialogue[int]:
    """The largest APDU that either side will send; never more than we said. A server that knows no Init
    answers with length 0: then its own limit holds, which is ours too."""
    yield Send((encode_message(encode_init(LARGEST)),))
    willing: InitResponse | None = InitResponse(accepted=True, size=LARGEST)
    answer = yield from receive(read_init_response, "Init-Response: the size that messages may have", willing)
    if answer is None:
        return LARGEST
    if not answer.accepted:
        raise Declined("the server refused to begin: the result of its Init-Response is 0", code="0")
    return LARGEST if answer.size is None else min(answer.size, LARGEST)


def search(request: bytes, agreed: int, ideal: WaisRecords) -> Dialogue[WaisRecords]:
    """What a word search finds. With any diagnostic it has failed, whatever else the answer holds."""
    yield Send((encode_message(request),))
    willing: WaisRecords | None = ideal
    records = yield from receive(read_records(agreed), "Search-Response: records of what was found", willing)
    if records is None:
        raise Declined("the server cannot answer this search and does not say why")
    if records.diagnostics:
        raise refusal(records.diagnostics, "the search")
    return records
