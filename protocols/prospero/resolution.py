"""The resolution of a prospero URL (protocol page 9): access methods, contents, directory, union links.

The object's access methods are tried first; an object without any is listed as a directory. FORWARDED is
followed wherever it appears.
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

# The object itself as the values of an attribute, CONTENTS (protocol page 8.4): any bytes. The protocol does
# not give their media type, so the object's access methods and name decide.

NAME = b"CONTENTS"


def join_contents(attributes: Iterable[Attribute]) -> bytes | None:
    """The values put together in their order; None where there is none.

    DATA is octets as they are. TAGGED octets are shown as `tag: octets`, each on a line of its own.
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
    """Raises `Truncated` for fewer octets than the object's own SIZE says."""
    if size is not None and len(octets) < size:
        raise Truncated(
            f"the contents are {len(octets)} of {size} octets", received=len(octets), expected=size
        )


def guess_media_type(methods: Iterable[AccessMethod], hsoname: bytes) -> str | None:
    """text/plain where an access method says text, else what the end of the name says; None where
    neither says anything."""
    if any(method.lead is not None and method.lead.is_text for method in methods):
        return "text/plain"
    name = hsoname.rpartition(b"/")[2]
    if b"." not in name:
        return None
    import mimetypes  # with its table 30 ms, and only a document needs it

    # Behind "./" nothing in a name can look like a URL, which the function would take apart.
    media_type, compression = mimetypes.guess_type("./" + name.decode("latin-1"))
    return media_type if compression is None else "application/octet-stream"


#: FORWARDED lines in a row that are followed (protocol page 7.5).
MOST_MOVES = 20


class ResolvedFacts(NamedTuple):
    """What is known of the object before it is read. `place` is where it is in the end."""

    place: RequestObject
    answer: ProsperoReply
    methods: tuple[AccessMethod, ...] = ()

    @property
    def attributes(self) -> list[Attribute]:
        return self.answer.attributes

    @property
    def can_be_had(self) -> bool:
        """Is there a way to go?"""
        return any(method.lead or method.target for method in self.methods)

    @property
    def seems_directory(self) -> bool:
        """Do its modes say so, and does no other protocol have it? Of a directory in its file system a server
        may tell what it tells of files, that it gives the contents too."""
        return is_of_directory(self.attributes) and not any(method.lead for method in self.methods)

    def reply(
        self, kind: Kind, target: str | None = None, extra: dict[str, JsonValue] | None = None
    ) -> Reply:
        """A reply that says what the object's attributes say."""
        methods: dict[str, JsonValue] = (
            {"access_methods": [method.as_json() for method in self.methods]} if self.methods else {}
        )
        place: dict[str, JsonValue] = {"moved_to": self.place.url} if self.place.via is not None else {}
        return Reply(
            kind=kind,
            size=None if kind is Kind.DIRECTORY else read_size(self.attributes),  # not that of our lines
            modified=read_modified(self.attributes),
            meta=tuple(describe(self.attributes)),
            target=target,
            extra=place | methods | (extra or {}),
            findings=list(findings_of(self.answer)),
        )


class ResolvedDocument(NamedTuple):
    """The object's octets, which the server at `place` gave."""

    facts: ResolvedFacts
    method: AccessMethod
    place: RequestObject
    octets: bytes


class ResolvedAlternatives(NamedTuple):
    """The ways to go, best first; the first leads to another URL. `failed` is what the contents before it
    could not be had for."""

    facts: ResolvedFacts
    methods: tuple[AccessMethod, ...]
    failed: ResolveError | None = None


class ResolvedService(NamedTuple):
    """The object is a service for a person."""

    facts: ResolvedFacts
    method: AccessMethod


class ResolvedDirectory(NamedTuple):
    """The object is a directory; `listing` is None where only that was asked."""

    facts: ResolvedFacts
    place: RequestObject
    listing: ProsperoReply | None


Found: TypeAlias = (
    "ResolvedFacts | ResolvedDocument | ResolvedAlternatives | ResolvedService | ResolvedDirectory"
)


def resolve(inquiry: Inquirer, target: RequestObject, want: Wanted) -> Dialogue[Found]:
    """What the target comes to. Where only facts are wanted nothing is read, and `ResolvedFacts` may be all.

    Raises `Declined`, `ProtocolError`, `Refused` (S10) for what moves in circles and for what is a file of
    this machine, and what a question raises.
    """
    answer, place = yield from request_following(inquiry, target, request_facts)
    if not answer.is_not_found:
        answer.check()
    facts = ResolvedFacts(
        place, answer, tuple(access_methods_of(answer.attributes, pointer_to(place), place))
    )
    if not facts.seems_directory and facts.can_be_had:
        return (yield from _choose(inquiry, facts, want))
    # Queries and gateways may exist as directories only, so what was not found is tried too.
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
    """The answer, and the target that gave it, once FORWARDED has been followed to its end.

    Raises `Refused` (S10) for a circle and for more than `MOST_MOVES`.
    """
    visited = {target.identity}
    while True:
        answer = yield from inquiry.request(question(target))
        if answer.forwarded is None:
            return answer, target
        try:
            moved = answer.forwarded.target(via=target)
        except InvalidUrl as error:
            raise ProtocolError(f"the object has moved to no place: {error.message}") from error
        if moved.identity in visited:
            raise Refused("S10", "the object has moved in a circle")
        if len(visited) > MOST_MOVES:
            raise Refused("S10", f"the object has moved more than {MOST_MOVES} times")
        visited.add(moved.identity)
        target = moved._replace(selections=target.selections)


def _choose(inquiry: Inquirer, facts: ResolvedFacts, want: Wanted) -> Dialogue[Found]:
    """The first way that can be gone (8.3); where contents cannot be had, the next one."""
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
    assert failed is not None, "nothing was tried"
    raise failed


def read_contents(
    inquiry: Inquirer, facts: ResolvedFacts, method: AccessMethod
) -> Dialogue[ResolvedDocument]:
    """The contents by PROSPERO-CONTENTS. Raises `Declined` where the server has none after all, and
    `Truncated` where they are fewer octets than it said."""
    assert method.target is not None
    answer, place = yield from request_following(inquiry, method.target, request_contents)
    answer.check()
    octets = join_contents(answer.attributes)
    if octets is None:
        raise Declined("the server gives no contents, although it said it would")
    check_length(octets, read_size(facts.attributes) if method.target == facts.place else None)
    return ResolvedDocument(facts, method, place, octets)


def _explain_missing_method(facts: ResolvedFacts) -> Declined | Refused:
    described = "; ".join(method.described for method in facts.methods)
    if any(method.is_local for method in facts.methods):
        return Refused("S10", f"no access method leads anywhere that may be followed: {described}")
    if facts.methods:
        return Declined(f"no access method can be used: {described}", text=described)
    return Declined("the object has attributes only, and no access method")


def findings_of(answer: ProsperoReply) -> Iterator[Finding]:
    """What the server warned of, and what made no sense."""
    for warning in answer.warnings:
        yield Finding("prospero:warning", "warn", warning)
    for oddity in answer.oddities:
        yield Finding("prospero:odd-line", "warn", oddity)


# Union links: the links of their targets belong to the directory too (protocol page 9, 5).
#
# The directory's own links come first, then those of each target in the order given, nested ones right behind
# the link that named them; a name hides later ones that are equal. An unreadable target leaves a gap that is
# reported, and the listing is still given. Each link keeps its author, because it is judged by that later.

#: How deep unions nest, and how many of them one listing asks for: each is a request to any server.
MOST_LEVELS = 8
MOST_UNIONS = 32
#: Links that are looked at without a rest.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class UnionMember:
    """A link of the directory, and the target whose answer had it."""

    link: ProsperoLink
    found_at: RequestObject


@dataclass(slots=True)
class UnionMembers:
    """The links together, in their order, hidden ones left out; `places` are where they were found. `gaps`
    says what is missing and why; `answers` are those that had the links, `filtered` whether a link, a union's
    too, has a filter that a client would have to run."""

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
        """Add the links of one directory, and return its union links, which are not added.

        Its own names do not hide each other."""
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
        """Is the target to be listed? Each is once."""
        if target.identity in self._expanded:
            return False
        if level > MOST_LEVELS or len(self._expanded) > MOST_UNIONS:
            self.gaps.append(f"{target.url}: more unions than are followed")
            return False
        self._expanded.add(target.identity)
        return True


def splice(inquiry: Inquirer, directory: ResolvedDirectory) -> Dialogue[UnionMembers]:
    """All links of the directory. Raises `LimitExceeded`; any other error leaves a gap."""
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
            raise Declined("the answer is none of a directory")
    except LimitExceeded:
        raise
    except ResolveError as error:
        name, host = read_text(link.pointer.hsoname), read_text(link.pointer.host)
        members.gaps.append(f"{name!r} on {host!r}: {error.message}")
        return
    yield from _expand(inquiry, members, answer, place, level + 1)
