"""Union links: the links of their targets belong to the directory too (protocol page 9, 5).

The directory's own links come first, then those of each target in the order given, nested ones right
behind what named them; a name that came before hides later ones. What cannot be read leaves a gap that is
told, and the listing stands. Who wrote a link goes with it, for it is judged by that later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.errors import LimitExceeded, ResolveError
from protocols.prospero.link import Link
from protocols.prospero.reply import Answer
from protocols.prospero.resolution import Directory, Resolution, ask_following, ask_for_links
from protocols.prospero.target import Target

#: How deep unions nest, and how many of them one listing asks for: each is a request to any server.
MOST_LEVELS = 8
MOST_UNIONS = 32


@dataclass(frozen=True, slots=True)
class Member:
    """A link of the directory, and the target whose answer had it."""

    link: Link
    found_at: Target


@dataclass(slots=True)
class Members:
    """The links together, in their order. `gaps` says what is missing and why; `answers` are those that had
    the links, `filtered` whether a link, a union's too, has a filter that a client would have to run."""

    members: list[Member] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    filtered: bool = False
    gaps: list[str] = field(default_factory=list)
    _names: set[bytes] = field(default_factory=set)
    _expanded: set[tuple[str, int, bytes]] = field(default_factory=set)

    def add(self, answer: Answer, found_at: Target) -> None:
        """The links of one directory, union links left out. Its own names do not hide each other."""
        own = [link for link in answer.links if not link.is_union]
        self.answers.append(answer)
        self.filtered |= any(link.has_filter for link in answer.links)
        self.members += [Member(link, found_at) for link in own if link.name not in self._names]
        self._names.update(link.name for link in own if link.name)

    def begin(self, target: Target, level: int) -> bool:
        """Is the target to be listed? Each is once."""
        if target.identity in self._expanded:
            return False
        if level > MOST_LEVELS or len(self._expanded) > MOST_UNIONS:
            self.gaps.append(f"{target.url}: more unions than are followed")
            return False
        self._expanded.add(target.identity)
        return True


def splice(directory: Directory) -> Resolution[Members]:
    """All links of the directory. Raises `LimitExceeded`; any other error leaves a gap."""
    assert directory.listing is not None
    members = Members()
    members.begin(directory.place, 0)
    yield from _expand(members, directory.listing, directory.place, 1)
    return members


def _expand(members: Members, answer: Answer, found_at: Target, level: int) -> Resolution[None]:
    members.add(answer, found_at)
    for link in answer.links:
        if link.is_union:
            yield from _expand_union(members, link, found_at, level)


def _expand_union(members: Members, link: Link, found_at: Target, level: int) -> Resolution[None]:
    try:
        target = link.pointer.target(via=found_at)
        if not members.begin(target, level):
            return
        answer, place = yield from ask_following(target, ask_for_links)
        answer.check()
    except LimitExceeded:
        raise
    except ResolveError as error:
        members.gaps.append(f"{link.pointer.hsoname!r} on {link.pointer.host!r}: {error.message}")
        return
    yield from _expand(members, answer, place, level + 1)
