"""The protocol exchange for a prospero URL: the requests that resolve the object, and the reply.

A plan shows the case in which the server returns the contents of an object. Notes in the plan describe the
other cases, such as a redirect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from protocols.contract import Moved, Reply
from protocols.errors import InvalidUrl
from protocols.listing import LineCountReader, join_lines, name_line
from protocols.location import Entry, Finding, JsonValue, Kind, Referrer
from protocols.options import Limits, Options
from protocols.prospero.access_method import AccessMethod, find_first_url, find_kind, list_access_methods
from protocols.prospero.ardp import PERSISTENT, RetransmitTiming
from protocols.prospero.message import Inquirer, request_links
from protocols.prospero.objects import (
    ProsperoLink,
    RequestObject,
    find_first_word,
    make_target,
    read_modified,
    read_size,
)
from protocols.prospero.resolution import (
    MAX_MOVES,
    Resolution,
    ResolvedAlternatives,
    ResolvedDirectory,
    ResolvedDocument,
    ResolvedFacts,
    ResolvedService,
    UnionMember,
    UnionMembers,
    expand_unions,
    guess_media_type,
    list_findings,
    read_contents,
    resolve,
)
from protocols.prospero.url import ProsperoUrl
from protocols.step import Dialogue, EmitBody, PlanNote, StartBody
from protocols.text import decode_text


def converse(
    url: ProsperoUrl,
    options: Options | None = None,
    limits: Limits | None = None,
    timing: RetransmitTiming = PERSISTENT,
) -> Dialogue[None]:
    """Return the dialogue that retrieves a prospero URL.

    The reply has the contents of an object, a directory listing, the description of a service, or a redirect
    (`moved`). A redirect has the URLs of the object's access methods.

    Raises:
        Declined: the server refused the request, or the client cannot request the object of the URL.
        TimedOut: the server did not respond.
        ProtocolError: a reply is invalid.
        LimitExceeded: a reply exceeds a limit.
        Refused: the URL contains a byte that cannot be sent (S02, command injection). A redirect loop of
            FORWARDED lines also raises `Refused` (S10, redirects). `Refused` is also raised if all access
            methods name local files of the client's machine (S10).
    """
    options, target = options or Options(), make_target(url)
    limits = limits or Limits()
    inquiry = Inquirer(limits, timing)
    resolution = yield from resolve(inquiry, target, options.want)
    yield from _note_branches(target, timing, limits.idle)
    yield from _emit(inquiry, resolution, options)


def _note_branches(target: RequestObject, timing: RetransmitTiming, patience: float) -> Dialogue[None]:
    pauses = [f"{pause:g}" for pause in islice(timing.pauses(patience), 4)]
    ending = "" if len(pauses) < 4 else f", and so on, {patience:g} in total"
    yield PlanNote(
        f"without a response a packet is sent again, with pauses of {', '.join(pauses)} seconds{ending}"
    )
    yield PlanNote(
        f"a moved object is requested at its new location, at most {MAX_MOVES} times; "
        "each location is first checked against the policy, as an untrusted URL"
    )
    yield PlanNote(
        "access methods are tried in the server's order: one of another scheme is a URL that is followed "
        "as far as S10 and S08 allow; if it fails, the next one is tried"
    )
    lines = request_links(target).message.shown.decode("latin-1").splitlines()[-2:]
    yield PlanNote(f"an object without access methods is listed: {' / '.join(lines)}")


def _emit(inquiry: Inquirer, resolution: Resolution, options: Options) -> Dialogue[None]:
    match resolution:
        case ResolvedDocument():
            yield from _emit_document(inquiry, resolution)
        case ResolvedDirectory(listing=None):
            yield StartBody(resolution.facts.reply(Kind.DIRECTORY))
        case ResolvedDirectory():
            yield from emit_directory(inquiry, resolution, raw=options.raw)
        case ResolvedAlternatives():
            yield StartBody(_make_redirect(inquiry, resolution))
        case ResolvedService():
            yield StartBody(_make_service_reply(resolution))
        case ResolvedFacts():
            yield StartBody(_make_facts_reply(inquiry, resolution))


def _emit_document(inquiry: Inquirer, document: ResolvedDocument) -> Dialogue[None]:
    facts, place = document.facts, document.place
    reply = replace(
        facts.reply(Kind.DOCUMENT),
        size=len(document.octets),
        peer=inquiry.address(place),
        media_type=_media_type(inquiry, facts, place),
    )
    reply.verified.add("length")  # all packets arrived, up to the announced number
    yield StartBody(reply)
    yield EmitBody(document.octets)


def _media_type(inquiry: Inquirer, facts: ResolvedFacts, place: RequestObject) -> str | None:
    """Return the guessed media type of the contents.

    In a plan, the result is `None`, because loading the table of media types takes 30 ms.
    """
    return guess_media_type(facts.methods, place.hsoname) if inquiry.address(place) else None


def _emit_contents(
    inquiry: Inquirer, facts: ResolvedFacts, method: AccessMethod, *, is_last: bool
) -> Dialogue[None]:
    yield from _emit_document(inquiry, (yield from read_contents(inquiry, facts, method, is_last=is_last)))


def _make_redirect(inquiry: Inquirer, alternatives: ResolvedAlternatives) -> Reply:
    """Return a redirect to the first URL, with the other access methods as alternatives."""
    facts, (first, *others) = alternatives.facts, alternatives.methods
    assert first.url is not None
    moved = Moved(
        location=first.url,
        code=decode_text(first.name),
        others=tuple(
            method.url or partial(_emit_contents, inquiry, facts, method, is_last=method is others[-1])
            for method in others
        ),
        found_in=None if facts.place.via is None else inquiry.referrer(facts.place),
        failed=alternatives.error,
    )
    return replace(facts.reply(Kind.LINK), moved=moved)


def _make_service_reply(session: ResolvedService) -> Reply:
    mapped = session.method.mapped_url
    assert mapped is not None
    return session.facts.reply(Kind.SERVICE, mapped.url, {"message": mapped.message})


def _make_facts_reply(inquiry: Inquirer, facts: ResolvedFacts) -> Reply:
    """Return a reply with only the metadata of the object.

    If a Prospero server returns the contents, the kind of the object is a document. Otherwise, the kind is a
    link.
    """
    method = next((method for method in facts.methods if method.target or method.mapped_url), None)
    if method is None:
        return facts.reply(Kind.UNKNOWN)
    if method.target is None:
        first = find_first_url(facts.methods)
        return facts.reply(Kind.LINK, None if first is None else first.url)
    return replace(facts.reply(Kind.DOCUMENT), media_type=_media_type(inquiry, facts, facts.place))


# A directory listing. The body has one line with the name of each link. Hidden links are omitted. The listing
# reader does not parse the lines: it creates the entry of the n-th line from the n-th link.

_KINDS = {
    b"FILE": Kind.DOCUMENT,
    b"DIRECTORY": Kind.DIRECTORY,
    b"SYMBOLIC": Kind.LINK,
}
#: The kinds of objects by the attribute OBJECT-INTERPRETATION. This attribute may be more specific than the
#: target type of a link.
_CLASSES = {
    b"DOCUMENT": Kind.DOCUMENT,
    b"DATA": Kind.DOCUMENT,
    b"IMAGE": Kind.DOCUMENT,
    b"DIRECTORY": Kind.DIRECTORY,
    b"SEARCH": Kind.SEARCH,
    b"PORTAL": Kind.SERVICE,
}
_TITLES = (b"MENU-ITEM-DESCRIPTION", b"TITLE")


def emit_directory(inquiry: Inquirer, directory: ResolvedDirectory, *, raw: bool = False) -> Dialogue[None]:
    """Emit the names of the links, with expanded union links. With `raw`, emit the received LINK lines."""
    members = yield from expand_unions(inquiry, directory)
    referrers = {place.identity: inquiry.referrer(place) for place in members.places if place.via is not None}
    links = LinkReader(members.members, referrers)
    reply = replace(directory.facts.reply(Kind.DIRECTORY), media_type="text/plain", listing=links)
    _report(members, reply)
    yield StartBody(reply)
    for lines in join_lines(list_lines(members.members, raw=raw)):
        yield EmitBody(lines)


def _report(members: UnionMembers, reply: Reply) -> None:
    """Record in `reply` whether the listing is complete, and add the findings."""
    if not members.gaps:
        reply.verified.add("length")
    reply.findings.extend(finding for answer in members.answers for finding in list_findings(answer))
    reply.findings.extend(Finding("prospero:incomplete", "warn", gap) for gap in members.gaps)
    if members.has_filter:
        reply.findings.append(Finding("prospero:filter", "warn", "links have filters, which are not applied"))


def list_lines(members: Sequence[UnionMember], *, raw: bool) -> Iterator[bytes]:
    """Yield the name of each link as a line, or with `raw` its LINK line as received."""
    for member in members:
        yield member.link.raw + b"\n" if raw else name_line(decode_text(member.link.name).encode("utf-8"))


class LinkReader(LineCountReader):
    """A listing reader that turns the lines of a body into entries, in the order of `members`.

    The links of a union link's target have a different referrer. `referrers` contains this referrer by the
    identity of the target.
    """

    def __init__(
        self, members: Sequence[UnionMember], referrers: dict[tuple[str, int, bytes], Referrer]
    ) -> None:
        super().__init__(map(self._entry, members))
        self._referrers = referrers

    def _entry(self, member: UnionMember) -> Entry:
        link = member.link
        methods = list_access_methods(link.attributes, link.pointer, member.source)
        url, unusable = _find_url(member, methods)
        return Entry(
            name=decode_text(link.name),
            url=url,
            kind=_find_kind(link, methods),
            size=read_size(link.attributes),
            modified=read_modified(link.attributes),
            title=_find_title(link),
            raw=link.raw,
            extra=_extra(link, methods, unusable),
            referrer=self._referrers.get(member.source.identity),
        )


def _find_url(member: UnionMember, methods: list[AccessMethod]) -> tuple[str | None, str | None]:
    """Return the URL of a link (protocol page 8.5), or the reason why it has none."""
    link = member.link
    if link.can_be_requested:
        try:
            return link.pointer.target(member.source).url, None
        except InvalidUrl as error:
            return None, error.message
    if link.targets == {b"EXTERNAL"}:
        method = find_first_url(methods)
        return (None, "no access method has a URL") if method is None else (method.url, None)
    return None, None


def _find_kind(link: ProsperoLink, methods: list[AccessMethod]) -> Kind:
    kind = _CLASSES.get(find_first_word(link.attributes, b"OBJECT-INTERPRETATION") or b"", Kind.UNKNOWN)
    if kind in (Kind.SEARCH, Kind.SERVICE):
        return kind
    if link.targets == {b"EXTERNAL"}:
        guess = find_kind(find_first_url(methods))
    else:
        guess = Kind.DIRECTORY if b"DIRECTORY" in link.targets else _KINDS.get(link.target, Kind.UNKNOWN)
    return kind if guess is Kind.UNKNOWN else guess


def _find_title(link: ProsperoLink) -> str | None:
    return next(
        (
            " ".join(map(decode_text, attribute.values))
            for name in _TITLES
            for attribute in link.attributes
            if attribute.name == name and attribute.values
        ),
        None,
    )


def _extra(link: ProsperoLink, methods: list[AccessMethod], unusable: str | None) -> dict[str, JsonValue]:
    extra: dict[str, JsonValue] = {
        "link": decode_text(link.ltype),
        "target": decode_text(link.target),
        "host": decode_text(link.pointer.host),
        "hsoname": link.pointer.hsoname.decode("latin-1"),
        "version": link.pointer.version,
    }
    modes = find_first_word(link.attributes, b"UNIX-MODES")
    optional: dict[str, JsonValue] = {
        "expires": None if link.expires is None else decode_text(link.expires),
        "id": [" ".join(map(decode_text, words)) for words in link.ids] or None,
        "modes": None if modes is None else decode_text(modes),
        "access_methods": [method.as_json() for method in methods] or None,
        "filters": [
            " ".join(map(decode_text, item.values)) for item in link.attributes if item.name == b"FILTER"
        ]
        or None,
        "unusable": unusable,
    }
    return extra | {name: value for name, value in optional.items() if value is not None}
