"""Union links: the links of their targets belong to the directory too (protocol page 9, 5).

The directory's own links come first, then those of each target in the order given, nested ones right
behind what named them; a name that came before hides later ones. What cannot be read leaves a gap that is
told, and the listing stands. Who wrote a link goes with it, for it is judged by that later.
"""

from __future__ import annotations

from collections.abc import Generator

from protocols.errors import Declined, LimitExceeded, ResolveError
from protocols.prospero.link import ProsperoLink
from protocols.prospero.question import Inquirer, request_links
from protocols.prospero.reply import ProsperoReply
from protocols.prospero.resolution import ResolvedDirectory, request_following
from protocols.prospero.target import RequestObject
from protocols.prospero.token import read_text
from protocols.step import Dialogue
from protocols.values import dataclass, field
from protocols.wire import REST, Rest

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
