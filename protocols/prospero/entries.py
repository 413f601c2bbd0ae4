"""A directory as a listing: the names in it, one a line, and what each link stands for.

The body is made of the names alone; the reader counts its lines and makes the entries from the links, so
that none is ever read out of a line. Hidden links are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from protocols.entry import Entry
from protocols.errors import InvalidUrl
from protocols.location import Finding, JsonValue, Kind, Referrer
from protocols.prospero.access_method import AccessMethod, access_methods_of, first_url, kind_of
from protocols.prospero.attribute import first_word, read_modified, read_size
from protocols.prospero.link import ProsperoLink
from protocols.prospero.question import Inquirer
from protocols.prospero.resolution import ResolvedDirectory, findings_of
from protocols.prospero.token import read_text
from protocols.prospero.union import UnionMember, UnionMembers, splice
from protocols.reply import Reply
from protocols.step import Dialogue, EmitBody, StartBody
from protocols.values import replace

#: Names in one piece of the body.
_AT_ONCE = 500
_LINE_END = re.compile(r"[\r\n]")
_KINDS = {
    b"FILE": Kind.DOCUMENT,
    b"DIRECTORY": Kind.DIRECTORY,
    b"SYMBOLIC": Kind.LINK,
}
#: OBJECT-INTERPRETATION, where it says more than the link does.
_CLASSES = {
    b"DOCUMENT": Kind.DOCUMENT,
    b"DATA": Kind.DOCUMENT,
    b"IMAGE": Kind.DOCUMENT,
    b"DIRECTORY": Kind.DIRECTORY,
    b"SEARCH": Kind.SEARCH,
    b"PORTAL": Kind.SERVICE,
}
_TITLES = (b"MENU-ITEM-DESCRIPTION", b"TITLE")


def give_directory(inquiry: Inquirer, directory: ResolvedDirectory, *, raw: bool = False) -> Dialogue[None]:
    """The names as a body, and as entries: the directory's own, and those of its union links. With `raw` the
    body is made of the lines of the links, as they came."""
    members = yield from splice(inquiry, directory)
    found_in = {place.identity: inquiry.referrer(place) for place in members.places if place.via is not None}
    links = LinkReader(members.members, found_in)
    reply = replace(directory.facts.reply(Kind.DIRECTORY), media_type="text/plain", listing=links)
    _report(members, reply)
    yield StartBody(reply)
    for lines in (link_lines if raw else name_lines)(members.members):
        yield EmitBody(lines)


def _report(members: UnionMembers, reply: Reply) -> None:
    """Whether all of them are there."""
    if not members.gaps:
        reply.verified.add("length")
    reply.findings.extend(finding for answer in members.answers for finding in findings_of(answer))
    reply.findings.extend(Finding("prospero:incomplete", "warn", gap) for gap in members.gaps)
    if members.filtered:
        reply.findings.append(Finding("prospero:filter", "warn", "links have filters, which are not run"))


def name_lines(members: Sequence[UnionMember]) -> Iterator[bytes]:
    """The body in pieces: what would end the line of a name is written as an escape."""
    for start in range(0, len(members), _AT_ONCE):
        names = [read_text(member.link.name) for member in members[start : start + _AT_ONCE]]
        yield "".join([f"{_LINE_END.sub(_escape, name)}\n" for name in names]).encode("utf-8")


def link_lines(members: Sequence[UnionMember]) -> Iterator[bytes]:
    """The same of the links as their servers sent them."""
    for start in range(0, len(members), _AT_ONCE):
        yield b"".join([member.link.raw + b"\n" for member in members[start : start + _AT_ONCE]])


def _escape(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


class LinkReader:
    """Turns the lines of a body of `name_lines` into entries, in the order of `members`.

    `addresses` has, for each target by its identity that is not the URL's own, its URL and the address
    that answered for it: that is where its links were found.
    """

    def __init__(
        self, members: Sequence[UnionMember], found_in: dict[tuple[str, int, bytes], Referrer]
    ) -> None:
        self._members = iter(members)
        self._found_in = found_in

    def feed(self, octets: bytes) -> Iterator[Entry]:
        for _ in range(octets.count(b"\n")):
            yield self._entry(next(self._members))

    def finish(self) -> Iterator[Entry]:
        return iter(())

    def _entry(self, member: UnionMember) -> Entry:
        link = member.link
        methods = access_methods_of(link.attributes, link.pointer, member.found_at)
        url, unusable = _url_of(member, methods)
        return Entry(
            name=read_text(link.name),
            url=url,
            kind=_kind_of(link, methods),
            size=read_size(link.attributes),
            modified=read_modified(link.attributes),
            title=_title_of(link),
            raw=link.raw,
            extra=_extra_of(link, methods, unusable),
            referrer=self._found_in.get(member.found_at.identity),
        )


def _url_of(member: UnionMember, methods: list[AccessMethod]) -> tuple[str | None, str | None]:
    """The URL of a link (protocol page 8.5), or why there is none."""
    link = member.link
    if link.can_be_requested:
        try:
            return link.pointer.target(member.found_at).url, None
        except InvalidUrl as error:
            return None, error.message
    if link.targets == {b"EXTERNAL"}:
        method = first_url(methods)
        return (None, "no access method has a URL") if method is None else (method.url, None)
    return None, None


def _kind_of(link: ProsperoLink, methods: list[AccessMethod]) -> Kind:
    said = _CLASSES.get(first_word(link.attributes, b"OBJECT-INTERPRETATION") or b"", Kind.UNKNOWN)
    if said in (Kind.SEARCH, Kind.SERVICE):
        return said
    if link.targets == {b"EXTERNAL"}:
        known = kind_of(first_url(methods))
    else:
        known = Kind.DIRECTORY if b"DIRECTORY" in link.targets else _KINDS.get(link.target, Kind.UNKNOWN)
    return said if known is Kind.UNKNOWN else known


def _title_of(link: ProsperoLink) -> str | None:
    return next(
        (
            " ".join(map(read_text, attribute.values))
            for name in _TITLES
            for attribute in link.attributes
            if attribute.name == name and attribute.values
        ),
        None,
    )


def _extra_of(link: ProsperoLink, methods: list[AccessMethod], unusable: str | None) -> dict[str, JsonValue]:
    extra: dict[str, JsonValue] = {
        "link": read_text(link.ltype),
        "target": read_text(link.target),
        "host": read_text(link.pointer.host),
        "hsoname": link.pointer.hsoname.decode("latin-1"),
        "version": link.pointer.version,
    }
    modes = first_word(link.attributes, b"UNIX-MODES")
    optional: dict[str, JsonValue] = {
        "expires": None if link.expires is None else read_text(link.expires),
        "id": [" ".join(map(read_text, words)) for words in link.ids] or None,
        "modes": None if modes is None else read_text(modes),
        "access_methods": [method.as_json() for method in methods] or None,
        "filters": [
            " ".join(map(read_text, each.values)) for each in link.attributes if each.name == b"FILTER"
        ]
        or None,
        "unusable": unusable,
    }
    return extra | {name: value for name, value in optional.items() if value is not None}
