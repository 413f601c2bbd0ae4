"""What is known of an article, a group or a list of groups before its octets come."""

from __future__ import annotations

from protocols.location import Finding, JsonValue, Kind
from protocols.news.article import ArticleHead
from protocols.news.places import article_urls, group_urls
from protocols.news.response import GroupSelection, decode_text
from protocols.news.url import NewsUrl, NntpUrl
from protocols.options import Limits
from protocols.reply import Reply
from protocols.values import NamedTuple

_ARTICLE = "message/rfc822"
_LISTING = "text/plain"


class GroupRange(NamedTuple):
    """What of a group is listed: `first` is the lowest number, `last` the highest."""

    selected: GroupSelection
    first: int
    last: int

    @property
    def is_empty(self) -> bool:
        return self.selected.is_empty or self.last < self.first

    @property
    def is_cut(self) -> bool:
        """Are there older articles that are not listed?"""
        return not self.is_empty and self.first > self.selected.low


def newest(selected: GroupSelection, most: int, before: int | None = None) -> GroupRange:
    """The newest `most` numbers, or all for 0, of those lower than `before`."""
    last = selected.high if before is None else min(selected.high, before - 1)
    everything = not most or last - selected.low + 1 <= most
    return GroupRange(selected, selected.low if everything else last - most + 1, last)


def of_article(url: NewsUrl | NntpUrl, head: ArticleHead, message_id: bytes | None) -> Reply:
    """`message_id` is the one in the response, without brackets; None where that tells none."""
    message_id = message_id or head.message_id
    findings = []
    if head.strays:
        detail = f"{head.strays} lines of the head are no header fields"
        findings.append(Finding("nntp:header-line", "allow", detail))
    extra: dict[str, JsonValue] = {
        "message_id": None if message_id is None else decode_text(message_id),
        "group": url.group.decode("ascii") if isinstance(url, NntpUrl) else None,
        "number": url.article if isinstance(url, NntpUrl) else None,
        "fields": [[field.name, field.raw.decode("latin-1")] for field in head.fields],
    }
    return Reply(
        kind=Kind.ARTICLE,
        media_type=_ARTICLE,
        charset=head.charset,
        modified=head.date,
        title=head.decoded("subject"),
        meta=head.pairs,
        extra=extra,
        findings=findings,
    )


def of_group(url: NewsUrl | NntpUrl, listed: GroupRange, limits: Limits) -> Reply:
    from protocols.news.overview import OverviewReader  # with dates, which a plan has none of

    group, selected = url.group or b"", listed.selected
    findings: list[Finding] = []
    if listed.is_cut:
        detail = (
            f"only the newest: numbers {listed.first} to {listed.last}, and the group begins at"
            f" {selected.low} (--entries 0 lists all)"
        )
        findings.append(Finding("nntp:cut", "warn", detail))
    return Reply(
        kind=Kind.GROUP,
        media_type=_LISTING,
        extra={
            "name": decode_text(group),
            "count": selected.count,
            "low": selected.low,
            "high": selected.high,
            "first": None if listed.is_empty else listed.first,
            "cut": listed.is_cut,
        },
        listing=OverviewReader(group, article_urls(url), limits.line, findings),
        findings=findings,
    )


def of_groups(url: NewsUrl | NntpUrl, count: int | None, limits: Limits) -> Reply:
    """`count` is how many groups match, None where they are listed."""
    from protocols.news.groups import GroupReader  # most URLs name articles

    pattern = url.group or b"*"
    extra: dict[str, JsonValue] = {"pattern": decode_text(pattern), "count": count}
    findings: list[Finding] = []
    groups = GroupReader(pattern, group_urls(url), limits.line, findings)
    return Reply(kind=Kind.DIRECTORY, media_type=_LISTING, extra=extra, listing=groups, findings=findings)
