"""A newsgroup as threads: the newest thread first, replies below the articles that they reply to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from protocols.contract import Entry, Finding
from protocols.location import JsonValue
from resolver.web.pages.directory import ListingPage, arrange_entries, fields_of, paging_of
from resolver.web.pages.page import PageAddressBar, PageQuery, WebPage, date_of, format_count, text_of

# Each article stands below its parent: the last article of its References that is in the listing (RFC 5322
# 3.6.4).
#
# The author of an article chooses its Message-ID and References. These fields may form a circle, name a
# missing article, or use an ID twice. An article with such fields starts a thread. The work is proportional
# to the number of articles and references, regardless of the depth of a thread.


class ThreadNode(NamedTuple):
    """An article in a thread.

    Attributes:
        entry: The article's entry.
        depth: 0 for the first article of the thread.
        replies: The number of all articles below it.
        orphan: Whether it replies to an article that is not in the listing.
    """

    entry: Entry
    depth: int
    replies: int
    orphan: bool


def threads(entries: Sequence[Entry]) -> list[list[ThreadNode]]:
    """Return the threads; the thread with the newest article comes first.

    In a thread, each reply stands below the article that it replies to, in the order of the listing.
    """
    below, orphans = _children(entries)
    found: list[list[int]] = []
    depths = [-1] * len(entries)
    for root in below.pop(-1, []):
        found.append(_walk(root, below, depths))
    for number in range(len(entries)):
        if depths[number] < 0:  # The article is in a circle of references, which is broken here.
            found.append(_walk(number, below, depths))
    found.sort(key=max, reverse=True)
    return [list(_nodes(thread, entries, depths, orphans)) for thread in found]


def _children(entries: Sequence[Entry]) -> tuple[dict[int, list[int]], set[int]]:
    """Return the direct replies by article, -1 for no parent; and the articles whose parent is missing."""
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries):
        numbers.setdefault(text_of(entry.extra, "message_id"), number)
    numbers.pop("", None)
    below: dict[int, list[int]] = {}
    orphans: set[int] = set()
    for number, entry in enumerate(entries):
        names = list(_references(entry))
        known = (numbers[name] for name in reversed(names) if numbers.get(name, number) != number)
        parent = next(known, -1)
        below.setdefault(parent, []).append(number)
        if names and (parent < 0 or numbers.get(names[-1]) != parent):
            orphans.add(number)
    return below, orphans


def _references(entry: Entry) -> Iterator[str]:
    said = (entry.extra or {}).get("references")
    for name in said if isinstance(said, list | tuple) else ():
        if isinstance(name, str):
            yield name.removeprefix("<").removesuffix(">")


def _walk(root: int, below: dict[int, list[int]], depths: list[int]) -> list[int]:
    """Return the thread below an article, without articles that are in a thread already."""
    depths[root] = 0
    order: list[int] = []
    waiting = [root]
    while waiting:
        number = waiting.pop()
        order.append(number)
        for child in reversed(below.get(number, [])):
            if depths[child] < 0:
                depths[child] = depths[number] + 1
                waiting.append(child)
    return order


def _nodes(
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


#: Maximum depth at which replies are indented further.
_DEEPEST = 6
#: Maximum number of gaps in the article numbers that are listed.
_MOST_MISSING = 12


class GroupArticle(NamedTuple):
    """A line of a thread; `level` is its indentation, `depth` its distance from the first article."""

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
    """An article with its replies in a thread.

    If `goes_on` is true, the thread starts on the previous page.
    """

    first: GroupArticle
    rest: tuple[GroupArticle, ...]
    goes_on: bool


def group_page(
    entries: Sequence[Entry],
    query: PageQuery,
    place: PageAddressBar,
    *,
    extra: Mapping[str, JsonValue] | None = None,
    findings: Iterable[Finding] = (),
) -> WebPage:
    """Return the page of a newsgroup.

    Args:
        entries: The articles.
        query: The query fields of the page.
        place: The page's address bar.
        extra: The response's facts about the group, among them whether there are earlier articles.
        findings: Findings of the policy to show.
    """
    shown = arrange_entries(entries, query._replace(sort="", page=1, size=max(1, len(entries))), place)
    found = threads([entry for _, entry in shown.entries])
    rows = [numbered for thread in found for numbered in enumerate(thread)]
    pages = max(1, -(-len(rows) // query.size))
    page = min(query.page, pages)
    start = (page - 1) * query.size
    values = {
        "heading": text_of(extra, "name") or place.url,
        "count": _count(extra, shown, query.before),
        "found": tuple(findings),
        "threads": list(_threads(rows[start : start + query.size], place)),
        "missing": _describe_missing(entries),
        "older": _link_older(extra, place),
        "newer": place.make_address(PageQuery(size=query.size)) if query.before else None,
        "filter": query.filter,
        "filter_fields": fields_of(place, query._replace(sort=""), but="q"),
        "unfiltered": place.make_address(query._replace(filter="", page=1)) if query.filter else None,
        "empty": _explain_empty(query),
        "paging": paging_of(place, query._replace(sort=""), page, pages),
    }
    return WebPage("group.html", place.url, 200, values)


def _threads(rows: Sequence[tuple[int, ThreadNode]], place: PageAddressBar) -> Iterator[GroupThread]:
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end][0] == 0:
            here = [_article(node, place) for _, node in rows[start:end]]
            yield GroupThread(here[0], tuple(here[1:]), rows[start][0] > 0)
            start = end


def _article(node: ThreadNode, place: PageAddressBar) -> GroupArticle:
    entry = node.entry
    return GroupArticle(
        entry.name,
        None if entry.url is None else place.href(entry.url),
        entry.title or "(no subject)",
        author_of(text_of(entry.extra, "from")),
        date_of(entry),
        "" if entry.modified is None else entry.modified.isoformat(),
        min(node.depth, _DEEPEST),
        node.depth,
        node.replies,
        node.orphan,
    )


def author_of(text: str) -> str:
    """Return the author's name, or else the address."""
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


def _link_older(extra: Mapping[str, JsonValue] | None, place: PageAddressBar) -> str | None:
    """Return the address of the articles before the first requested one."""
    said = extra or {}
    first = said.get("first")
    return (
        place.make_address(PageQuery(before=first))
        if isinstance(first, int) and said.get("cut") is True
        else None
    )


def _count(extra: Mapping[str, JsonValue] | None, shown: ListingPage, before: int) -> str:
    among = f", of which {shown.matched:,} match" if shown.matched != shown.total else ""
    articles = format_count(shown.total, "article", "articles")
    if before:
        return f"{articles} before number {before}{among}"
    count = (extra or {}).get("count")
    if isinstance(count, int) and count > shown.total:
        return f"The newest {articles} of about {count:,}{among}"
    return articles + among


def _describe_missing(entries: Sequence[Entry]) -> str:
    """Describe the numbers without an article in the listed range: cancelled or expired articles."""
    here = sorted(int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit())
    gaps = [(low + 1, high - 1) for low, high in pairwise(here) if high - low > 1]
    count = sum(high - low + 1 for low, high in gaps)
    if not count:
        return ""
    told = ", ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in gaps[:_MOST_MISSING])
    more = ", …" if len(gaps) > _MOST_MISSING else ""
    return f"{format_count(count, 'number has', 'numbers have')} no article: {told}{more}"
