"""The resolution of a prospero URL (protocol page 9): access methods, contents, directory, union links.

The object's access methods are tried first; an object without access methods is listed as a directory. A
FORWARDED line in any reply is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from protocols.contract import Reply
from protocols.errors import (
    Declined,
    InvalidUrl,
    LimitExceeded,
    ProtocolError,
    Refused,
    ResolveError,
    Truncated,
)
from protocols.location import Finding, JsonValue, Kind
from protocols.options import Wanted
from protocols.prospero.access_method import AccessMethod, access_methods_of
from protocols.prospero.message import (
    Inquirer,
    ProsperoReply,
    ProsperoRequest,
    request_contents,
    request_facts,
    request_links,
)
from protocols.prospero.objects import (
    Attribute,
    ProsperoLink,
    RequestObject,
    describe,
    is_of_directory,
    pointer_to,
    read_modified,
    read_size,
    read_text,
)
from protocols.step import Dialogue
from protocols.wire import REST, Rest

# The contents of an object as the values of its CONTENTS attribute (protocol page 8.4). The values may hold
# any bytes. The protocol has no media type, so it is guessed from the object's access methods and name.

NAME = b"CONTENTS"


def join_contents(attributes: Iterable[Attribute]) -> bytes | None:
    """Return the joined values of CONTENTS in order; None if there are no values.

    The bytes of a DATA value are not changed. A TAGGED value becomes a line `tag: octets`.
    """
    values = [each.values for each in attributes if each.name == NAME and len(each.values) > 1]
    pieces: list[bytes] = []
    was_tagged = False
    for kind, *words in values:
        is_tagged = kind == b"TAGGED" and len(words) > 1
        if kind != b"DATA" and not is_tagged:
            continue
        if (is_tagged or was_tagged) and pieces and not pieces[-1].endswith(b"\n"):
            pieces.append(b"\n")
        pieces.append(b": ".join(words[:2]) if is_tagged else words[0])
        was_tagged = is_tagged
    return b"".join(pieces) if pieces else None


def check_length(octets: bytes, size: int | None) -> None:
    """Check the length of the contents.

    Raises:
        Truncated: the contents are shorter than the object's SIZE.
    """
    if size is not None and len(octets) < size:
        raise Truncated(
            f"the contents are {len(octets)} of {size} bytes", received=len(octets), expected=size
        )


def guess_media_type(methods: Iterable[AccessMethod], hsoname: bytes) -> str | None:
    """Guess the media type: text/plain if an access method is text, otherwise by file extension.

    None if there is neither a text access method nor a known extension.
    """
    if any(method.lead is not None and method.lead.is_text for method in methods):
        return "text/plain"
    name = hsoname.rpartition(b"/")[2]
    if b"." not in name:
        return None
    import mimetypes  # imported lazily: it takes 30 ms with its table, and only documents need it

    # `guess_type` splits a URL. A name after "./" cannot look like a URL.
    media_type, compression = mimetypes.guess_type("./" + name.decode("latin-1"))
    return media_type if compression is None else "application/octet-stream"


#: The maximum number of FORWARDED lines in a row (protocol page 7.5).
MOST_MOVES = 20


class ResolvedFacts(NamedTuple):
    """The metadata of an object before its contents are read; `place` is its final location."""

    place: RequestObject
    answer: ProsperoReply
    methods: tuple[AccessMethod, ...] = ()

    @property
    def attributes(self) -> list[Attribute]:
        return self.answer.attributes

    @property
    def can_be_had(self) -> bool:
        """Return whether an access method can be followed."""
        return any(method.lead or method.target for method in self.methods)

    @property
    def seems_directory(self) -> bool:
        """Return whether the modes describe a directory, and no other protocol can retrieve the object.

        For a directory in its file system, a server may report that it returns the contents, as it does for
        files. So the access methods do not show whether the object is a directory.
        """
        return is_of_directory(self.attributes) and not any(method.lead for method in self.methods)

    def reply(
        self, kind: Kind, target: str | None = None, extra: dict[str, JsonValue] | None = None
    ) -> Reply:
        """Return a reply with the metadata in the object's attributes."""
        methods: dict[str, JsonValue] = (
            {"access_methods": [method.as_json() for method in self.methods]} if self.methods else {}
        )
        place: dict[str, JsonValue] = {"moved_to": self.place.url} if self.place.via is not None else {}
        return Reply(
            kind=kind,
            # the SIZE of a directory is not the size of the listing's text
            size=None if kind is Kind.DIRECTORY else read_size(self.attributes),
            modified=read_modified(self.attributes),
            meta=tuple(describe(self.attributes)),
            target=target,
            extra=place | methods | (extra or {}),
            findings=list(findings_of(self.answer)),
        )


class ResolvedDocument(NamedTuple):
    """The contents of the object, which the server at `place` returned."""

    facts: ResolvedFacts
    method: AccessMethod
    place: RequestObject
    octets: bytes


class ResolvedAlternatives(NamedTuple):
    """The usable access methods, best first; the first one leads to another URL.

    If the object's contents were tried first, `failed` is their error.
    """

    facts: ResolvedFacts
    methods: tuple[AccessMethod, ...]
    failed: ResolveError | None = None


class ResolvedService(NamedTuple):
    """The object is a service for the user."""

    facts: ResolvedFacts
    method: AccessMethod


class ResolvedDirectory(NamedTuple):
    """The object is a directory; without `listing`, only metadata was requested."""

    facts: ResolvedFacts
    place: RequestObject
    listing: ProsperoReply | None


Found: TypeAlias = (
    "ResolvedFacts | ResolvedDocument | ResolvedAlternatives | ResolvedService | ResolvedDirectory"
)


def resolve(inquiry: Inquirer, target: RequestObject, want: Wanted) -> Dialogue[Found]:
    """Resolve an object.

    If only metadata is wanted, no contents are read and the result may be `ResolvedFacts`.

    Raises:
        Declined: the server refused, or there is no usable access method.
        ProtocolError: a reply is invalid.
        Refused: the object's FORWARDED lines form a circle, or the object is a file of this machine (S10,
            redirects).
    """
    answer, place = yield from request_following(inquiry, target, request_facts)
    if not answer.is_not_found:
        answer.check()
    facts = ResolvedFacts(
        place, answer, tuple(access_methods_of(answer.attributes, pointer_to(place), place))
    )
    if not facts.seems_directory and facts.can_be_had:
        return (yield from _choose(inquiry, facts, want))
    # A server may have queries and gateways only as directories, so an object that was not found is listed
    # too.
    listing, place = yield from request_following(inquiry, place, request_links)
    if listing.lists:
        return ResolvedDirectory(facts, place, None if want == "facts" else listing)
    if not listing.is_no_directory:
        listing.check()
    if facts.can_be_had:
        return (yield from _choose(inquiry, facts, want))
    if answer.is_not_found:
        answer.check()
    if want == "facts":
        return facts
    raise _explain_missing_method(facts)


def request_following(
    inquiry: Inquirer, target: RequestObject, question: Callable[[RequestObject], ProsperoRequest]
) -> Dialogue[tuple[ProsperoReply, RequestObject]]:
    """Send a request and follow FORWARDED; return the final reply and the object that it describes.

    Raises:
        Refused: the FORWARDED lines form a circle or are more than `MOST_MOVES` (S10, redirects).
    """
    visited = {target.identity}
    while True:
        answer = yield from inquiry.request(question(target))
        if answer.forwarded is None:
            return answer, target
        try:
            moved = answer.forwarded.target(via=target)
        except InvalidUrl as error:
            raise ProtocolError(f"the object has moved to an invalid location: {error.message}") from error
        if moved.identity in visited:
            raise Refused("S10", "the object has moved in a circle")
        if len(visited) > MOST_MOVES:
            raise Refused("S10", f"the object has moved more than {MOST_MOVES} times")
        visited.add(moved.identity)
        target = moved._replace(selections=target.selections)


def _choose(inquiry: Inquirer, facts: ResolvedFacts, want: Wanted) -> Dialogue[Found]:
    """Try the access methods in order (8.3); if the contents cannot be read, try the next method."""
    methods = tuple(
        method for method in facts.methods if method.target or (method.lead and not method.is_session)
    )
    session = next((method for method in facts.methods if method.is_session), None)
    failed: ResolveError | None = None
    for index, method in enumerate(methods):
        if want == "facts":
            return facts
        if method.lead is not None:
            return ResolvedAlternatives(facts, methods[index:], failed)
        try:
            return (yield from read_contents(inquiry, facts, method))
        except LimitExceeded:
            raise
        except ResolveError as error:
            failed = failed or error
    if session is not None:
        return ResolvedService(facts, session)
    assert failed is not None, "no access method was tried"
    raise failed


def read_contents(
    inquiry: Inquirer, facts: ResolvedFacts, method: AccessMethod
) -> Dialogue[ResolvedDocument]:
    """Read the contents by PROSPERO-CONTENTS.

    Raises:
        Declined: the server does not return the announced contents.
        Truncated: the contents are shorter than announced.
    """
    assert method.target is not None
    answer, place = yield from request_following(inquiry, method.target, request_contents)
    answer.check()
    octets = join_contents(answer.attributes)
    if octets is None:
        raise Declined("the server did not return the announced contents")
    check_length(octets, read_size(facts.attributes) if method.target == facts.place else None)
    return ResolvedDocument(facts, method, place, octets)


def _explain_missing_method(facts: ResolvedFacts) -> Declined | Refused:
    described = "; ".join(method.described for method in facts.methods)
    if any(method.is_local for method in facts.methods):
        return Refused("S10", f"no access method may be followed: {described}")
    if facts.methods:
        return Declined(f"no access method can be used: {described}", text=described)
    return Declined("the object has attributes only, and no access method")


def findings_of(answer: ProsperoReply) -> Iterator[Finding]:
    """Yield the server's warnings and the skipped lines as findings."""
    for warning in answer.warnings:
        yield Finding("prospero:warning", "warn", warning)
    for oddity in answer.oddities:
        yield Finding("prospero:odd-line", "warn", oddity)


# Union links: a directory also contains the links of its union links' targets (protocol page 9, 5).
#
# The directory's own links come first, then the links of each target in the order given. Nested links follow
# directly after the link that named them. A link hides later links with an equal name. If a target is
# unreadable, its links are missing, the gap is reported, and the listing is still returned. Each link stores
# the object whose reply had it, because the policy needs this source when the link is followed.

#: The maximum nesting depth of union links, and their maximum number in one listing. Each union link causes a
#: request, to a server that the directory chose.
MOST_LEVELS = 8
MOST_UNIONS = 32
#: The number of links processed before other tasks may run.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class UnionMember:
    """A link of the directory, and the object whose reply had it."""

    link: ProsperoLink
    found_at: RequestObject


@dataclass(slots=True)
class UnionMembers:
    """The merged links of a directory in order, without hidden links.

    `places` are the objects in whose replies the links were found. `gaps` describe missing parts with the
    reason; `answers` are the replies with the links. `filtered` is set if any link, union links included, has
    a filter that the client would have to apply.
    """

    members: list[UnionMember] = field(default_factory=list)
    places: list[RequestObject] = field(default_factory=list)
    answers: list[ProsperoReply] = field(default_factory=list)
    filtered: bool = False
    gaps: list[str] = field(default_factory=list)
    _names: set[bytes] = field(default_factory=set)
    _expanded: set[tuple[str, int, bytes]] = field(default_factory=set)

    def add(
        self, answer: ProsperoReply, found_at: RequestObject
    ) -> Generator[Rest, None, list[ProsperoLink]]:
        """Add the links of one directory; return its union links, which are not added themselves.

        Equal names within one directory do not hide each other.
        """
        self.answers.append(answer)
        self.places.append(found_at)
        names: set[bytes] = set()
        unions: list[ProsperoLink] = []
        for number, link in enumerate(answer.links, 1):
            self.filtered |= link.has_filter
            if link.is_union:
                unions.append(link)
            else:
                names.add(link.name)
                if link.name not in self._names and not link.is_hidden:
                    self.members.append(UnionMember(link, found_at))
            if number % _AT_ONCE == 0:
                yield REST
        self._names |= names - {b""}
        return unions

    def begin(self, target: RequestObject, level: int) -> bool:
        """Return whether to list the object; each object is listed once."""
        if target.identity in self._expanded:
            return False
        if level > MOST_LEVELS or len(self._expanded) > MOST_UNIONS:
            self.gaps.append(f"{target.url}: not listed: too many unions")
            return False
        self._expanded.add(target.identity)
        return True


def splice(inquiry: Inquirer, directory: ResolvedDirectory) -> Dialogue[UnionMembers]:
    """Return all links of the directory, with union links expanded.

    `LimitExceeded` is raised; any other error is reported as a gap.

    Raises:
        LimitExceeded: a reply exceeds a limit.
    """
    assert directory.listing is not None
    members = UnionMembers()
    members.begin(directory.place, 0)
    yield from _expand(inquiry, members, directory.listing, directory.place, 1)
    return members


def _expand(
    inquiry: Inquirer, members: UnionMembers, answer: ProsperoReply, found_at: RequestObject, level: int
) -> Dialogue[None]:
    unions = yield from members.add(answer, found_at)
    for link in unions:
        yield from _expand_union(inquiry, members, link, found_at, level)


def _expand_union(
    inquiry: Inquirer, members: UnionMembers, link: ProsperoLink, found_at: RequestObject, level: int
) -> Dialogue[None]:
    try:
        target = link.pointer.target(via=found_at)
        if not members.begin(target, level):
            return
        answer, place = yield from request_following(inquiry, target, request_links)
        answer.check()
        if not answer.lists:
            raise Declined("the reply is not a directory listing")
    except LimitExceeded:
        raise
    except ResolveError as error:
        name, host = read_text(link.pointer.hsoname), read_text(link.pointer.host)
        members.gaps.append(f"{name!r} on {host!r}: {error.message}")
        return
    yield from _expand(inquiry, members, answer, place, level + 1)
