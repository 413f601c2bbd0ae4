"""The page of a newsgroup as threads: newest thread first, and each reply below its parent article."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from protocols.contract import Entry
from protocols.location import JsonValue
from protocols.text import format_count
from resolver.transfer.response import Response
from resolver.web.pages.directory import ListingPage, arrange_entries, make_filter, make_paging
from resolver.web.pages.page import PageAddressBar, PageQuery, WebPage, format_date, get_text

# Each article is shown below its parent article. The References field lists earlier articles. The parent is
# the last article in the References field that is also in the listing (RFC 5322 section 3.6.4).
#
# Message-ID and References are untrusted. The References of articles may form a cycle or name a missing
# article. Two articles may also have the same Message-ID. An article in a cycle, or without a parent in the
# listing, starts a new thread. If a Message-ID is duplicated, replies are shown below its first article.
# Threading takes linear time in the number of articles and references, regardless of the depth of a thread.


class ThreadNode(NamedTuple):
    """An article in a thread.

    Attributes:
        entry: The listing entry of the article.
        depth: The depth in the thread; the first article has depth 0.
        replies: The number of all direct and indirect replies.
        orphan: Whether the article is a reply to an article that is not in the listing.
    """

    entry: Entry
    depth: int
    replies: int
    orphan: bool


def threads(entries: Sequence[Entry]) -> list[list[ThreadNode]]:
    """Return the threads, newest first. Replies follow their parent article in the listing's order."""
    replies, orphans = _find_replies(entries)
    orders: list[list[int]] = []
    depths = [-1] * len(entries)
    for root in replies.pop(-1, []):
        orders.append(_order_thread(root, replies, depths))
    for number in range(len(entries)):
        if depths[number] < 0:  # The article is in a cycle of references, so it starts a new thread.
            orders.append(_order_thread(number, replies, depths))
    orders.sort(key=max, reverse=True)
    return [list(_make_nodes(thread, entries, depths, orphans)) for thread in orders]


def _find_replies(entries: Sequence[Entry]) -> tuple[dict[int, list[int]], set[int]]:
    """Return the replies by parent article, and under -1 the articles whose parent is missing."""
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries):
        numbers.setdefault(get_text(entry.extra, "message_id"), number)
    numbers.pop("", None)
    replies: dict[int, list[int]] = {}
    orphans: set[int] = set()
    for number, entry in enumerate(entries):
        names = list(_references(entry))
        parents = (numbers[name] for name in reversed(names) if numbers.get(name, number) != number)
        parent = next(parents, -1)
        replies.setdefault(parent, []).append(number)
        if names and (parent < 0 or numbers.get(names[-1]) != parent):
            orphans.add(number)
    return replies, orphans


def _references(entry: Entry) -> Iterator[str]:
    references = (entry.extra or {}).get("references")
    for name in references if isinstance(references, list | tuple) else ():
        if isinstance(name, str):
            yield name.removeprefix("<").removesuffix(">")


def _order_thread(root: int, replies: dict[int, list[int]], depths: list[int]) -> list[int]:
    """Return the articles below an article, except those that are already in a thread."""
    depths[root] = 0
    order: list[int] = []
    waiting = [root]
    while waiting:
        number = waiting.pop()
        order.append(number)
        for child in reversed(replies.get(number, [])):
            if depths[child] < 0:
                depths[child] = depths[number] + 1
                waiting.append(child)
    return order


def _make_nodes(
    thread: list[int], entries: Sequence[Entry], depths: list[int], orphans: set[int]
) -> Iterator[ThreadNode]:
    replies = [0] * len(thread)
    for at in range(len(thread) - 1, -1, -1):
        end = at + 1
        while end < len(thread) and depths[thread[end]] > depths[thread[at]]:
            replies[at] += 1 + replies[end]
            end += 1 + replies[end]
    for at, number in enumerate(thread):
        yield ThreadNode(entries[number], depths[number], replies[at], number in orphans)


#: Maximum indentation level; deeper replies are not indented further.
_MAX_LEVEL = 6
#: Maximum number of gaps in the article numbers that the page lists.
_MAX_GAPS = 12


class GroupArticle(NamedTuple):
    """A row for an article. `level` is the indentation, and `depth` is the depth in the thread."""

    number: str
    href: str | None
    subject: str
    author: str
    date: str
    moment: str
    level: int
    depth: int
    replies: int
    orphan: bool


class GroupThread(NamedTuple):
    """A thread on a page. If `goes_on` is true, the thread starts on the previous page."""

    first: GroupArticle
    rest: tuple[GroupArticle, ...]
    goes_on: bool


def group_page(response: Response, query: PageQuery, bar: PageAddressBar) -> WebPage:
    """Return the page of a newsgroup; the metadata of the response has the range of its articles."""
    entries, extra, query = response.entries or (), response.extra, query._replace(sort="")
    shown = arrange_entries(entries, query._replace(page=1, size=max(1, len(entries))), bar)
    ordered = threads([entry for _, entry in shown.entries])
    rows = [numbered for thread in ordered for numbered in enumerate(thread)]
    pages = max(1, -(-len(rows) // query.size))
    page = min(query.page, pages)
    start = (page - 1) * query.size
    values = {
        **make_filter(response, query, bar),
        "heading": get_text(extra, "name") or bar.url,
        "count": _describe_count(extra, shown, query.before),
        "threads": list(_make_threads(rows[start : start + query.size], bar)),
        "missing": _describe_missing(entries),
        "older": _link_older(extra, bar),
        "newer": bar.make_address(PageQuery(size=query.size)) if query.before else None,
        "empty": _explain_empty(query),
        "paging": make_paging(bar, query, page, pages),
    }
    return WebPage("group.html", bar.url, 200, values)


def _make_threads(rows: Sequence[tuple[int, ThreadNode]], bar: PageAddressBar) -> Iterator[GroupThread]:
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end][0] == 0:
            articles = [_make_article(node, bar) for _, node in rows[start:end]]
            yield GroupThread(articles[0], tuple(articles[1:]), rows[start][0] > 0)
            start = end


def _make_article(node: ThreadNode, bar: PageAddressBar) -> GroupArticle:
    entry = node.entry
    return GroupArticle(
        entry.name,
        None if entry.url is None else bar.href(entry.url),
        entry.title or "(no subject)",
        parse_author(get_text(entry.extra, "from")),
        format_date(entry),
        "" if entry.modified is None else entry.modified.isoformat(),
        min(node.depth, _MAX_LEVEL),
        node.depth,
        node.replies,
        node.orphan,
    )


def parse_author(text: str) -> str:
    """Return the name of the author in a From field, or else the mail address."""
    name, angle, _ = text.partition("<")
    if angle and name.strip():
        return name.strip().strip('"')
    address, parenthesis, comment = text.partition("(")
    if parenthesis and comment.rstrip().endswith(")"):
        return comment.rstrip()[:-1].strip() or address.strip()
    return text.strip() or "(unknown)"


def _explain_empty(query: PageQuery) -> str:
    if query.filter:
        return "No article matches the filter."
    return "There are no articles before this number." if query.before else "The group has no articles."


def _link_older(extra: Mapping[str, JsonValue] | None, bar: PageAddressBar) -> str | None:
    """Return the URL of the page with the articles before the first article of this page, or None."""
    values = extra or {}
    first = values.get("first")
    return (
        bar.make_address(PageQuery(before=first))
        if isinstance(first, int) and values.get("cut") is True
        else None
    )


def _describe_count(extra: Mapping[str, JsonValue] | None, shown: ListingPage, before: int) -> str:
    among = f", of which {shown.matched:,} match" if shown.matched != shown.total else ""
    articles = format_count(shown.total, "article")
    if before:
        return f"{articles} before number {before}{among}"
    count = (extra or {}).get("count")
    if isinstance(count, int) and count > shown.total:
        return f"The newest {articles} of about {count:,}{among}"
    return articles + among


def _describe_missing(entries: Sequence[Entry]) -> str:
    """Describe the gaps in the article numbers: the numbers of cancelled or expired articles."""
    numbers = sorted(int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit())
    gaps = [(low + 1, high - 1) for low, high in pairwise(numbers) if high - low > 1]
    count = sum(high - low + 1 for low, high in gaps)
    if not count:
        return ""
    ranges = ", ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in gaps[:_MAX_GAPS])
    more = ", …" if len(gaps) > _MAX_GAPS else ""
    return f"{format_count(count, 'number has', 'numbers have')} no article: {ranges}{more}"
