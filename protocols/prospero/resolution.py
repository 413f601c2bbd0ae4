"""What a prospero URL comes to, question by question: a machine that only asks servers.

It yields an `Ask` and is sent the `Answer`, or has the error thrown in that kept it from coming. First
the object's access methods; what has none is listed as a directory. FORWARDED is followed wherever it
appears. Section 9 of the protocol page; each question is one command, so no answer can belong to two.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from protocols.connection import Line
from protocols.errors import (
    Declined,
    InvalidUrl,
    LimitExceeded,
    ProtocolError,
    Refused,
    ResolveError,
)
from protocols.options import Wanted
from protocols.prospero.access_method import Way, ways_of
from protocols.prospero.attribute import Attribute, read_size
from protocols.prospero.contents import NAME as CONTENTS
from protocols.prospero.contents import check_length, join_contents
from protocols.prospero.link import pointer_to
from protocols.prospero.reply import Answer
from protocols.prospero.request import ask_attributes, ask_listing, verify_directory
from protocols.prospero.target import Target

T = TypeVar("T")

#: FORWARDED lines in a row that are followed (protocol page 7.5).
MOST_MOVES = 20


@dataclass(frozen=True, slots=True)
class Ask:
    """Send `message` to the server of `target`. `what` describes the answer for a person, `ideal` is what
    a willing server gives."""

    target: Target
    message: Line
    what: str
    ideal: Answer = field(compare=False)


Resolution: TypeAlias = Generator[Ask, Answer, T]


class Facts(NamedTuple):
    """What is known of the object before it is read. `place` is where it is in the end."""

    place: Target
    answer: Answer
    ways: tuple[Way, ...] = ()

    @property
    def attributes(self) -> list[Attribute]:
        return self.answer.attributes


class Document(NamedTuple):
    """The object's octets, which the server at `place` gave."""

    facts: Facts
    way: Way
    place: Target
    octets: bytes


class Leads(NamedTuple):
    """The ways to go, best first; the first leads to another URL."""

    facts: Facts
    ways: tuple[Way, ...]


class Session(NamedTuple):
    """The object is a service for a person."""

    facts: Facts
    way: Way


class Directory(NamedTuple):
    """The object is a directory; `listing` is None where only that was asked."""

    facts: Facts
    place: Target
    listing: Answer | None


Found: TypeAlias = "Facts | Document | Leads | Session | Directory"


def resolve(target: Target, want: Wanted) -> Resolution[Found]:
    """What the target comes to. Where only facts are wanted nothing is read, and `Facts` may be all.

    Raises `Declined`, `ProtocolError`, `Refused` (S10) for what moves in circles and for what is a file of
    this machine, and whatever is thrown in.
    """
    answer, place = yield from ask_following(target, _ask_access_methods)
    if not answer.is_not_found:
        answer.check()
    facts = Facts(place, answer, tuple(ways_of(answer.attributes, pointer_to(place), place)))
    if any(way.lead or way.target for way in facts.ways):
        return (yield from _choose(facts, want))
    # Queries and gateways may exist as directories only, so what was not found is tried too.
    listing, place = yield from ask_following(place, _verify if want == "facts" else ask_for_links)
    if not listing.is_no_directory:
        listing.check()
        return Directory(facts, place, None if want == "facts" else listing)
    if answer.is_not_found:
        answer.check()
    if want == "facts":
        return facts
    raise _without_way(facts)


def ask_following(target: Target, ask: Callable[[Target], Ask]) -> Resolution[tuple[Answer, Target]]:
    """The answer, and the target that gave it, once FORWARDED has been followed to its end.

    Raises `Refused` (S10) for a circle and for more than `MOST_MOVES`.
    """
    visited = {target.identity}
    while True:
        answer = yield ask(target)
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


def _choose(facts: Facts, want: Wanted) -> Resolution[Found]:
    """The first way that can be gone (8.3); where contents cannot be had, the next one."""
    ways = tuple(way for way in facts.ways if way.target or (way.lead and not way.is_session))
    session = next((way for way in facts.ways if way.is_session), None)
    failed: ResolveError | None = None
    for index, way in enumerate(ways):
        if want == "facts":
            return facts
        if way.lead is not None:
            return Leads(facts, ways[index:])
        try:
            return (yield from read_contents(facts, way))
        except LimitExceeded:
            raise
        except ResolveError as error:
            failed = failed or error
    if session is not None:
        return Session(facts, session)
    assert failed is not None, "nothing was tried"
    raise failed


def read_contents(facts: Facts, way: Way) -> Resolution[Document]:
    """The contents by PROSPERO-CONTENTS. Raises `Declined` where the server has none after all, and
    `Truncated` where they are fewer octets than it said."""
    assert way.target is not None
    answer, place = yield from ask_following(way.target, _ask_contents)
    answer.check()
    octets = join_contents(answer.attributes)
    if octets is None:
        raise Declined("the server gives no contents, although it said it would")
    check_length(octets, read_size(facts.attributes) if way.target == facts.place else None)
    return Document(facts, way, place, octets)


def _without_way(facts: Facts) -> Declined | Refused:
    told = "; ".join(way.told for way in facts.ways)
    if any(way.is_local for way in facts.ways):
        return Refused("S10", f"no access method leads anywhere that may be followed: {told}")
    if facts.ways:
        return Declined(f"no access method can be used: {told}", text=told)
    return Declined("the object has attributes only, and no access method")


def _ask_access_methods(target: Target) -> Ask:
    contents = Attribute(b"OBJECT", b"ACCESS-METHOD", b"SEQUENCE", (b"PROSPERO-CONTENTS", *(b"",) * 4))
    return Ask(
        target,
        ask_attributes(target, b"ACCESS-METHOD"),
        "the access methods of the object",
        Answer(attributes=[contents]),
    )


def _ask_contents(target: Target) -> Ask:
    contents = Attribute(b"OBJECT", CONTENTS, b"SEQUENCE", (b"DATA", b""))
    return Ask(
        target, ask_attributes(target, CONTENTS), "the contents of the object", Answer(attributes=[contents])
    )


def ask_for_links(target: Target) -> Ask:
    return Ask(target, ask_listing(target), "the links of the directory", Answer(none_found=True))


def _verify(target: Target) -> Ask:
    return Ask(target, verify_directory(target), "whether the object is a directory", Answer(none_found=True))
