"""What a URL asks of a news server: the commands for an article, a group's articles, a list of groups.

`GROUP` and what follows it leave in one write. What was asked of a group counts only if the group was
there: a failed `GROUP` leaves the one before it selected, and the articles of that one are others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from protocols.errors import LimitExceeded, ProtocolError, TryLater
from protocols.news.article import HEAD_LIMIT, Head, read_head
from protocols.news.block import Block, skip_block
from protocols.news.commands import Command, Verb, encode_message_id, encode_number, encode_range
from protocols.news.lines import Lines
from protocols.news.link import SKIP_LIMIT, WINDOW, Talk
from protocols.news.login import check_way
from protocols.news.refusals import refusal
from protocols.news.reply import Answer, Selected, is_number, message_id_of, parse_selected
from protocols.news.url import NewsUrl, NntpUrl
from protocols.options import Options
from protocols.step import Dialogue, HandOver, Note, hear
from protocols.wire import Buffer, Reader

#: Newest articles of a group that are listed unless the caller wants another number.
ENTRIES = 10_000

_UNKNOWN = frozenset({500, 503})
_GONE = frozenset({420, 423, 430})


class Article(NamedTuple):
    """`message_id` is the one in the answer, without brackets; None where that tells none."""

    head: Head
    message_id: bytes | None


class Group(NamedTuple):
    """`first` is the lowest number that is listed."""

    selected: Selected
    first: int

    @property
    def is_cut(self) -> bool:
        """Are there articles that are not listed?"""
        return not self.selected.is_empty and self.first > self.selected.low


@dataclass(frozen=True, slots=True)
class Groups:
    """`count` is how many groups match, None where they are listed."""

    count: int | None = None


Found: TypeAlias = Article | Group | Groups
Wish: TypeAlias = "Callable[[Talk], Dialogue[Found]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(HandOver):
    """A part of the body: a block that follows, or `octets` that were put together here."""

    found: Found
    octets: bytes | None = None


def wish_of(url: NewsUrl | NntpUrl, options: Options) -> Wish:
    """The commands that get what the URL names; with `options.want` facts, only what is known of it.

    Raises `Refused` for what would be no command.
    """
    facts = options.want == "facts"
    if isinstance(url, NntpUrl) and url.article is not None:
        return partial(_get_numbered, url.group, url.article, facts)
    if isinstance(url, NewsUrl) and url.message_id is not None:
        return partial(_get_identified, url.message_id, facts)
    group = url.group or b""
    if b"*" in group:
        return partial(_count_groups if facts else _list_groups, group)
    most = ENTRIES if options.entries is None else options.entries
    return partial(_select if facts else _list_articles, group, most)


def _need(talk: Talk, ideal: Answer) -> Dialogue[Answer]:
    """The next answer, which has to be a good one."""
    command = talk.link.owed[0]
    answer = yield from talk.hear(ideal)
    check_way(talk, command, answer)
    if answer.refused:
        raise refusal(command, answer)
    return answer


def _hand_over(talk: Talk, what: str, found: Found) -> Dialogue[None]:
    """The block that follows is a part of the body."""
    talk.handed = True
    yield Part(what=f"{what}, up to a line with a lone period", found=found)


# -- an article


def _get_numbered(group: bytes, number: int, facts: bool, talk: Talk) -> Dialogue[Found]:
    command = Command(Verb.HEAD if facts else Verb.ARTICLE, encode_number(number))
    yield from talk.take_floor()  # others who speak before may select another group
    if talk.link.selects(group):
        yield from talk.say_last(command)
    else:
        yield from talk.say_last(Command(Verb.GROUP, group), command)
        yield from _hear_selected(talk, group)
    ideal = Answer(221 if facts else 220, b"%d <>" % number, block=True)
    answer = yield from _need(talk, ideal)
    return (yield from _hear_article(talk, message_id_of(answer), facts))


def _get_identified(message_id: bytes, facts: bool, talk: Talk) -> Dialogue[Found]:
    command = Command(Verb.HEAD if facts else Verb.ARTICLE, encode_message_id(message_id))
    yield from talk.say_last(command)
    answer = yield from _need(talk, Answer(221 if facts else 220, b"0 <%s>" % message_id, block=True))
    told = message_id_of(answer)
    if told not in (None, message_id):
        raise ProtocolError(f"{command} was answered with another article: {answer.shown}")
    return (yield from _hear_article(talk, told, facts))


def _hear_article(talk: Talk, message_id: bytes | None, facts: bool) -> Dialogue[Found]:
    limits = talk.link.limits
    head = yield from hear(read_head(limits), "the head of the article, which is looked at", Head())
    found = Article(head, message_id)
    if facts:
        yield from hear(skip_block(HEAD_LIMIT), "the end of the head", None)
    else:
        yield from _hand_over(talk, "the article", found)
    return found


def _hear_selected(talk: Talk, group: bytes) -> Dialogue[Selected]:
    # Count 1 keeps the rehearsed group from being empty; its numbers are not known before the run.
    answer = yield from _need(talk, Answer(211, b"1 0 0 " + group))
    selected = parse_selected(answer)
    talk.link.group = group
    return selected


# -- the articles of a group


def _select(group: bytes, most: int, talk: Talk) -> Dialogue[Found]:
    yield from talk.say_last(Command(Verb.GROUP, group))
    return _measure((yield from _hear_selected(talk, group)), most)


def _list_articles(group: bytes, most: int, talk: Talk) -> Dialogue[Found]:
    yield from talk.say(Command(Verb.GROUP, group))
    found = _measure((yield from _hear_selected(talk, group)), most)
    if found.selected.is_empty:
        return found
    yield Note(
        "the answer tells the numbers, of which the newest are asked for; none: no more is sent;"
        " OVER unknown: XOVER; that too: LISTGROUP, and HEAD for each"
    )
    while (verb := talk.link.overview) is not None:
        command = Command(verb, encode_range(found.first, found.selected.high))
        answer = yield from talk.ask(command, Answer(224, block=True))
        if answer.code in _UNKNOWN:
            talk.link.overview = Verb.XOVER if verb is Verb.OVER else None
            continue
        check_way(talk, command, answer)
        if answer.block:
            yield from _hand_over(talk, "the overview", found)
        elif answer.code not in _GONE:
            raise refusal(command, answer)
        return found
    yield from _list_heads(talk, group, found)
    return found


def _measure(selected: Selected, most: int) -> Group:
    """The newest `most` numbers, or all for 0."""
    everything = not most or selected.high - selected.low + 1 <= most
    return Group(selected, selected.low if everything else selected.high - most + 1)


def _list_heads(talk: Talk, group: bytes, found: Group) -> Dialogue[None]:
    """The overview of a server that has none, put together from heads."""
    command = Command(Verb.LISTGROUP, group)
    answer = yield from talk.ask(command, Answer(211, block=True))
    numbers: Iterable[int] = range(found.first, found.selected.high + 1)
    if answer.block:
        most = found.selected.high - found.first + 1
        reader = read_numbers(found.first, most, talk.link.limits.line)
        nothing: Iterable[int] = ()
        numbers = yield from hear(reader, "the numbers of the articles", nothing)
    else:
        check_way(talk, command, answer)
        if answer.code not in _UNKNOWN:
            raise refusal(command, answer)
    rest = iter(numbers)
    while batch := list(islice(rest, WINDOW)):
        yield from talk.say(*(Command(Verb.HEAD, encode_number(number)) for number in batch))
        octets = yield from _hear_heads(talk, batch)
        if octets:
            talk.handed = True
            yield Part(what="an overview made of heads", found=found, octets=octets)


def _hear_heads(talk: Talk, numbers: Iterable[int]) -> Dialogue[bytes]:
    """The overview lines of the articles that are still there."""
    from protocols.news.overview import encode_overview  # brings entries, which a plan has none of

    lines = []
    for number in numbers:
        command = talk.link.owed[0]
        answer = yield from talk.hear(Answer(221, block=True))
        if answer.block:
            head = yield from hear(read_head(talk.link.limits), "the head of an article", Head())
            yield from hear(skip_block(HEAD_LIMIT), "its end", None)
            lines.append(encode_overview(number, head))
        elif answer.code not in _GONE:
            raise refusal(command, answer)
    return b"".join(lines)


def read_numbers(first: int, most: int, line_limit: int) -> Reader[Iterable[int]]:
    """A reader for the block of LISTGROUP: the last `most` of the numbers from `first` on, ascending. Old
    servers ignore a range, so none is asked for. Raises `LimitExceeded` (lines) above 64 MiB."""

    def reader(buffer: Buffer) -> Generator[None, None, Iterable[int]]:
        block, lines = Block(), Lines(line_limit)
        newest: deque[int] = deque(maxlen=most)
        while not block.ended:
            content = block.take(buffer)
            newest.extend(number for number in _numbers(lines.feed(content)) if number >= first)
            if block.received > SKIP_LIMIT:
                raise LimitExceeded("lines", f"a list of numbers is longer than {SKIP_LIMIT} octets")
            if not content and not block.ended:
                yield
        return sorted(set(newest))

    return reader


def _numbers(lines: Iterable[bytes]) -> Iterator[int]:
    return (int(line) for line in map(bytes.strip, lines) if is_number(line))


# -- groups


def _list_groups(pattern: bytes, talk: Talk) -> Dialogue[Found]:
    """The groups, and then their descriptions: a list stands without them."""
    argument = None if pattern == b"*" else pattern
    found = Groups()
    yield from talk.say_last(Command(Verb.LIST_ACTIVE, argument), Command(Verb.LIST_NEWSGROUPS, argument))
    yield from _need(talk, Answer(215, block=True))
    yield from _hand_over(talk, "the groups", found)
    try:
        answer = yield from talk.hear(Answer(215, block=True))
    except TryLater:  # 400, the server goes
        return found
    if answer.block:
        yield from _hand_over(talk, "their descriptions", found)
    return found


def _count_groups(pattern: bytes, talk: Talk) -> Dialogue[Found]:
    from protocols.news.groups import count_groups  # as above

    argument = None if pattern == b"*" else pattern
    yield from talk.say_last(Command(Verb.LIST_ACTIVE, argument))
    yield from _need(talk, Answer(215, block=True))
    reader = count_groups(pattern, talk.link.limits.line)
    return Groups((yield from hear(reader, "the groups, which are counted", 0)))
