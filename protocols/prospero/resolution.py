"""What a prospero URL comes to, question by question (protocol page 9).

First the object's access methods; what has none is listed as a directory. FORWARDED is followed wherever it
appears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from protocols.errors import (
    Declined,
    InvalidUrl,
    LimitExceeded,
    ProtocolError,
    Refused,
    ResolveError,
)
from protocols.location import Finding, JsonValue, Kind
from protocols.options import Wanted
from protocols.prospero.access_method import AccessMethod, access_methods_of
from protocols.prospero.attribute import Attribute, describe, is_of_directory, read_modified, read_size
from protocols.prospero.contents import check_length, join_contents
from protocols.prospero.link import pointer_to
from protocols.prospero.question import (
    Inquirer,
    ProsperoRequest,
    request_contents,
    request_facts,
    request_links,
)
from protocols.prospero.reply import ProsperoReply
from protocols.prospero.target import RequestObject
from protocols.reply import Reply
from protocols.step import Dialogue
from protocols.values import NamedTuple

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
    raise _without_method(facts)


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


def _without_method(facts: ResolvedFacts) -> Declined | Refused:
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
