"""Gopher+ forms: the form of an item (`+ASK`, Gopher+ memo 2.4), and the URL of its submission.

To get a form, the client requests only the attributes of the item. A request for the item itself could submit
the form with empty answers. Answers to hidden questions (passwords) are redacted when URLs and requests are
displayed.
"""

from __future__ import annotations

from dataclasses import replace

from protocols.contract import ComponentSpan, Finding, Origin, Url
from protocols.errors import NotFound, UnsupportedScheme
from protocols.gopher.attributes import Answer as Answer
from protocols.gopher.attributes import AskForm as AskForm
from protocols.gopher.attributes import AskLine as AskLine
from protocols.gopher.attributes import AskQuestion as AskQuestion
from protocols.gopher.attributes import fill, parse_records
from protocols.gopher.records import find_form
from protocols.gopher.request import parse_command
from protocols.gopher.url import ANSWERS, GopherUrl, build, with_gopherplus
from resolver.transfer.session import Resolver
from resolver.url import registry


class PutForm:
    """The form of a Gopher+ item, and the warnings that are shown before the user answers the form."""

    def __init__(self, url: GopherUrl, form: AskForm, findings: tuple[Finding, ...]) -> None:
        self._url = url
        self.form = form
        self.findings = findings

    def fill_in(self, answers: list[Answer]) -> Url:
        """Return the URL of the submission with these answers.

        Raises:
            Refused: if an answer contains characters that a form cannot represent (S03).
            ValueError: if an answer does not match the form.
        """
        url = fill(self._url, self.form, answers, parse_command(self._url.gopherplus).view)
        text = build(url)
        if not any(line.question is AskQuestion.ASK_HIDDEN for line in self.form.lines):
            return replace(url, text=text)
        start = len(build(replace(url, gopherplus=b"")))
        return replace(url, text=text, places=(ComponentSpan(ANSWERS, start, len(text)),))

    def specimen(self) -> Url:
        """Return the URL of an unanswered submission, for the policy's check before the answers."""
        url = fill(self._url, AskForm(()), [])
        return replace(url, text=build(url))


def may_have_form(url: Url) -> bool:
    """Return whether the URL may have a form, unlike a menu, a search and another Gopher+ request."""
    if not isinstance(url, GopherUrl):
        return False
    return asks_for_form(url) or (url.search is None is url.gopherplus and url.gophertype not in "17")


def asks_for_form(url: Url) -> bool:
    """Return whether the URL itself requests the form (RFC 1738 3.4.9)."""
    return isinstance(url, GopherUrl) and url.gopherplus == b"?"


async def form_at(
    session: Resolver, url: Url, *, origin: Origin = "user", referrer: tuple[str, str | None] | None = None
) -> PutForm:
    """Retrieve the form of an item.

    Raises:
        ResolveError: as for `Resolver.fetch`.
        NotFound: if the item does not have a form.
        UnsupportedScheme: if the URL already contains answers to the form.
    """
    assert isinstance(url, GopherUrl), "only gopher URLs have forms"
    if parse_command(url.gopherplus).answers is not None:
        words = "the URL already submits a form: resolve cat URL sends it"
        raise UnsupportedScheme(url.scheme, words, url=url.shown)
    asking = with_gopherplus(url, b"!")
    response = await session.fetch(replace(asking, text=build(asking)), origin=origin, referrer=referrer)
    records = parse_records(response.content, session.limits_of(url).line)
    form = find_form(records[0]) if records else None
    if form is None:
        raise NotFound("the item has no form (+ASK): resolve cat URL shows it", url=url.shown)
    row = registry.find(url.scheme)
    findings = (*response.findings, *form.findings(in_clear=row is None or row.tls != "always"))
    return PutForm(url, form, tuple(finding for finding in findings if ":" in finding.rule))
