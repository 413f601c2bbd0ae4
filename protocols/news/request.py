"""The requests of a news URL: commands for an article, for the articles of a group, or for a list of groups.

To get an article by number, the client sends `GROUP` and the command for the article in one write
(pipelining). Therefore the response to the next command is used only if `GROUP` succeeded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from protocols.contract import Reply
from protocols.errors import Disconnected, LimitExceeded, ProtocolError, Truncated, TryLater
from protocols.news.article import HEAD_LIMIT, ArticleHead, read_head
from protocols.news.listing import (
    GroupRange,
    count_groups,
    encode_overview,
    make_article_reply,
    make_group_reply,
    make_groups_reply,
    select_newest,
)
from protocols.news.negotiation import MIN_TO_COMPRESS, check_precondition, compress
from protocols.news.response import (
    BlockLines,
    DataBlock,
    GroupSelection,
    NntpCommand,
    NntpResponse,
    NntpVerb,
    RawBlock,
    emit_block,
    find_message_id,
    is_number,
    parse_selected,
    refusal,
    skip_block,
)
from protocols.news.session import SKIP_LIMIT, WINDOW, NntpSession
from protocols.news.url import NewsUrl, NntpUrl
from protocols.options import Limits, Options
from protocols.step import Dialogue, EmitBody, PlanNote, Receive, receive
from protocols.wire import Buffer, Reader

#: The default number of articles in the listing of a group; the newest articles are listed.
ENTRIES = 10_000

_IDEAL_HEAD = ArticleHead()
_UNSUPPORTED_CODES = frozenset({500, 503})
_MISSING_CODES = frozenset({420, 423, 430})


class RequestTarget(NamedTuple):
    """The reply to a request, and the dialogue that emits the body (None without a body)."""

    reply: Reply
    body: Dialogue[None] | None = None


Request: TypeAlias = "Callable[[NntpSession], Dialogue[RequestTarget]]"


def choose_request(url: NewsUrl | NntpUrl, options: Options, limits: Limits) -> Request:
    """Return the request for a URL.

    If `options.want` is "facts", only metadata is requested.

    Raises:
        Refused: a name in the URL cannot be sent in a command (S02, command injection).
    """
    facts, block = options.want == "facts", RawBlock if options.raw else DataBlock
    if isinstance(url, NntpUrl) and url.article is not None:
        return partial(_get_numbered, url, url.article, facts, block)
    if isinstance(url, NewsUrl) and url.message_id is not None:
        return partial(_get_identified, url, url.message_id, facts, block)
    if b"*" in (url.group or b""):
        return partial(_count_groups, url, limits) if facts else partial(_list_groups, url, limits, block)
    max_entries = ENTRIES if options.entries is None else options.entries
    if facts:
        return partial(_select, url, max_entries, options.before, limits)
    return partial(_list_articles, url, max_entries, options.before, limits, block)


def _require_success(session: NntpSession, ideal: NntpResponse) -> Dialogue[NntpResponse]:
    """Read the next response. Raises `Declined` for a refusal or a precondition."""
    # wait, because the oldest outstanding command may belong to another dialogue
    yield from session.start_response()
    command = session.state.outstanding[0]
    response = yield from session.read_response(ideal)
    check_precondition(session, command, response)
    if response.is_refusal:
        raise refusal(command, response)
    return response


# -- an article


def _get_numbered(
    url: NntpUrl, number: int, facts: bool, block: type[DataBlock], session: NntpSession
) -> Dialogue[RequestTarget]:
    command = NntpCommand(NntpVerb.HEAD if facts else NntpVerb.ARTICLE, b"%d" % number)
    # wait, because an earlier dialogue may still select another group
    yield from session.start_request()
    if session.state.selects(url.group):
        yield from session.send_last(command)
    else:
        yield from session.send_last(NntpCommand(NntpVerb.GROUP, url.group), command)
        yield from _select_group(session, url.group)
    ideal = NntpResponse(221 if facts else 220, b"%d <>" % number, block=True)
    response = yield from _require_success(session, ideal)
    reported = response.text.split(maxsplit=1)[:1]
    if reported and is_number(reported[0]) and int(reported[0]) not in (0, number):
        raise _make_mismatch_error(command, response)
    return (yield from _read_article(session, url, find_message_id(response), facts, block))


def _get_identified(
    url: NewsUrl, message_id: bytes, facts: bool, block: type[DataBlock], session: NntpSession
) -> Dialogue[RequestTarget]:
    command = NntpCommand(NntpVerb.HEAD if facts else NntpVerb.ARTICLE, b"<%s>" % message_id)
    yield from session.send_last(command)
    response = yield from _require_success(
        session, NntpResponse(221 if facts else 220, b"0 <%s>" % message_id, block=True)
    )
    reported = find_message_id(response)
    if reported not in (None, message_id):
        raise _make_mismatch_error(command, response)
    return (yield from _read_article(session, url, reported, facts, block))


def _make_mismatch_error(command: NntpCommand, response: NntpResponse) -> ProtocolError:
    return ProtocolError(f"{command} was answered with another article: {response.shown}")


def _read_article(
    session: NntpSession,
    url: NewsUrl | NntpUrl,
    message_id: bytes | None,
    facts: bool,
    block: type[DataBlock],
) -> Dialogue[RequestTarget]:
    limits = session.state.limits
    head: ArticleHead = yield Receive(read_head(limits), "the head of the article", _IDEAL_HEAD)
    reply = make_article_reply(url, head, message_id)
    if not facts:
        return RequestTarget(reply, emit_block(block(), "the article"))
    yield from receive(skip_block(HEAD_LIMIT), "the end of the head", None)
    return RequestTarget(reply)


def _select_group(session: NntpSession, group: bytes) -> Dialogue[GroupSelection]:
    # In a plan (the preview without a connection), the expected response shows a group with 1 article.
    response = yield from _require_success(session, NntpResponse(211, b"1 0 0 " + group))
    selection = parse_selected(response)
    session.state.group = group
    return selection


# -- the articles of a group


def _select(
    url: NewsUrl | NntpUrl, max_entries: int, before: int | None, limits: Limits, session: NntpSession
) -> Dialogue[RequestTarget]:
    group = url.group or b""
    yield from session.send_last(NntpCommand(NntpVerb.GROUP, group))
    span = select_newest((yield from _select_group(session, group)), max_entries, before)
    return RequestTarget(make_group_reply(url, span, limits))


def _list_articles(
    url: NewsUrl | NntpUrl,
    max_entries: int,
    before: int | None,
    limits: Limits,
    block: type[DataBlock],
    session: NntpSession,
) -> Dialogue[RequestTarget]:
    group = url.group or b""
    yield from session.send(NntpCommand(NntpVerb.GROUP, group))
    span = select_newest((yield from _select_group(session, group)), max_entries, before)
    reply = make_group_reply(url, span, limits)
    if span.is_empty:
        return RequestTarget(reply)
    yield PlanNote(
        "the response has the numbers, of which the newest are requested; if there are none, no more is sent;"
        f" if {MIN_TO_COMPRESS} or more: CAPABILITIES, and COMPRESS DEFLATE if it is offered;"
        " if OVER is unknown: XOVER; if XOVER is unknown: LISTGROUP, and HEAD for each"
    )
    if min(span.selection.count, span.last - span.first + 1) >= MIN_TO_COMPRESS:
        yield from compress(session, url.user)
    while (verb := session.state.overview) is not None:
        command = NntpCommand(verb, b"%d-%d" % (span.first, span.last))
        response = yield from session.request(command, NntpResponse(224, block=True))
        if response.code in _UNSUPPORTED_CODES:
            session.state.overview = NntpVerb.XOVER if verb is NntpVerb.OVER else None
            continue
        check_precondition(session, command, response)
        if response.block:
            return RequestTarget(reply, emit_block(block(), "the overview"))
        if response.code not in _MISSING_CODES:
            raise refusal(command, response)
        return RequestTarget(reply)
    if block is RawBlock:
        return RequestTarget(reply, (yield from _request_numbers(session, group)))
    numbers = yield from _read_numbers(session, group, span)
    octets = yield from _read_heads(session, numbers)
    return RequestTarget(reply, _emit_heads(session, numbers, octets) if octets else None)


def _request_numbers(session: NntpSession, group: bytes) -> Dialogue[Dialogue[None]]:
    """Request the raw listing from a server without overviews: the article numbers."""
    command = NntpCommand(NntpVerb.LISTGROUP, group)
    response = yield from session.request(command, NntpResponse(211, block=True))
    check_precondition(session, command, response)
    if not response.block:
        raise refusal(command, response)
    return emit_block(RawBlock(), "the numbers of the articles")


# -- the overview for a server without OVER and XOVER: the client reads the head of each article


def _read_numbers(session: NntpSession, group: bytes, span: GroupRange) -> Dialogue[Iterator[int]]:
    """Return the numbers of the articles to list, or the whole range without LISTGROUP."""
    command = NntpCommand(NntpVerb.LISTGROUP, group)
    response = yield from session.request(command, NntpResponse(211, block=True))
    if response.block:
        reader = read_numbers(span.first, span.last, session.state.limits.line)
        no_numbers: Iterable[int] = ()
        return iter((yield from receive(reader, "the numbers of the articles", no_numbers)))
    check_precondition(session, command, response)
    if response.code not in _UNSUPPORTED_CODES:
        raise refusal(command, response)
    return iter(range(span.first, span.last + 1))


def _emit_heads(session: NntpSession, numbers: Iterator[int], octets: bytes) -> Dialogue[None]:
    """Emit the overview lines of the group: `octets`, then the lines of the remaining articles."""
    emitted = 0
    while octets:
        yield EmitBody(octets, "an overview composed of heads")
        emitted += len(octets)
        try:
            octets = yield from _read_heads(session, numbers)
        except Disconnected as error:
            raise _make_truncated_listing(emitted) from error


def _read_heads(session: NntpSession, numbers: Iterator[int]) -> Dialogue[bytes]:
    """Return the overview lines of the next articles that exist, or nothing after the last one."""
    octets = b""
    while not octets and (window := list(islice(numbers, WINDOW))):
        yield from session.send(*(NntpCommand(NntpVerb.HEAD, b"%d" % number) for number in window))
        lines = []
        for number in window:
            lines.append((yield from _read_head(session, number)))
        octets = b"".join(lines)
    return octets


def _read_head(session: NntpSession, number: int) -> Dialogue[bytes]:
    command = session.state.outstanding[0]
    response = yield from session.read_response(NntpResponse(221, block=True))
    if response.block:
        head = yield from receive(read_head(session.state.limits), "the head of an article", _IDEAL_HEAD)
        yield from receive(skip_block(HEAD_LIMIT), "the end of the head", None)
        return encode_overview(number, head)
    if response.code not in _MISSING_CODES:
        raise refusal(command, response)
    return b""


def read_numbers(first: int, last: int, line_limit: int) -> Reader[Iterable[int]]:
    """Return a reader for the article numbers from `first` to `last` in a block of LISTGROUP.

    The numbers are returned in ascending order. The client filters the numbers, because old servers ignore
    the range argument of LISTGROUP.

    Raises:
        LimitExceeded: the block is longer than 64 MiB (lines).
    """

    def reader(buffer: Buffer) -> Generator[None, None, Iterable[int]]:
        block, lines = DataBlock(), BlockLines(line_limit)
        numbers: deque[int] = deque(maxlen=last - first + 1)
        while not block.ended:
            content = yield from block.read(buffer)
            integers = (int(line) for line in map(bytes.strip, lines.feed(content)) if is_number(line))
            numbers.extend(number for number in integers if first <= number <= last)
            if block.received > SKIP_LIMIT:
                raise LimitExceeded("lines", f"a list of numbers is longer than {SKIP_LIMIT} bytes")
        return sorted(set(numbers))

    return reader


# -- groups


def _list_groups(
    url: NewsUrl | NntpUrl, limits: Limits, block: type[DataBlock], session: NntpSession
) -> Dialogue[RequestTarget]:
    yield from _request_groups(url, session, NntpVerb.LIST_ACTIVE, NntpVerb.LIST_NEWSGROUPS)
    return RequestTarget(make_groups_reply(url, None, limits), _emit_groups(session, block))


def _emit_groups(session: NntpSession, block: type[DataBlock]) -> Dialogue[None]:
    """Emit the list of groups, and then their descriptions if the server sends descriptions.

    The terminator of the first list separates the two lists.
    """
    groups = block()
    yield from emit_block(groups, "the groups")
    try:
        response = yield from session.read_response(NntpResponse(215, block=True))
    except TryLater:  # response 400: the server closes the connection
        return
    except Disconnected as error:
        raise _make_truncated_listing(groups.received) from error
    if response.block:
        yield EmitBody(groups.terminator)
        yield from emit_block(block(), "their descriptions", groups.received + len(groups.terminator))


def _count_groups(url: NewsUrl | NntpUrl, limits: Limits, session: NntpSession) -> Dialogue[RequestTarget]:
    yield from _request_groups(url, session, NntpVerb.LIST_ACTIVE)
    reader = count_groups(url.group or b"", session.state.limits.line)
    count = yield from receive(reader, "the groups to count", 0)
    return RequestTarget(make_groups_reply(url, count, limits))


def _request_groups(url: NewsUrl | NntpUrl, session: NntpSession, *verbs: NntpVerb) -> Dialogue[None]:
    """Request lists of groups, all groups without an argument, up to the status of the first list."""
    argument = None if url.group == b"*" else url.group
    if argument is None:
        yield from compress(session, url.user)
    yield from session.send_last(*(NntpCommand(verb, argument) for verb in verbs))
    yield from _require_success(session, NntpResponse(215, block=True))


def _make_truncated_listing(received: int) -> Truncated:
    return Truncated(f"the connection ended after {received} bytes of the listing", received=received)
