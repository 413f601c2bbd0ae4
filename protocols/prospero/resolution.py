"""The resolution of a prospero URL (protocol page 9): access methods, contents, directory, union links.

The client tries the access methods of the object first. An object without access methods is listed as a
directory. The client follows a FORWARDED line (a redirect) in any reply.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
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
from protocols.prospero.access_method import AccessMethod, list_access_methods
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
    describes_directory,
    pointer_to,
    read_modified,
    read_size,
)
from protocols.step import Dialogue
from protocols.text import decode_text
from protocols.wire import REST, Rest

# The contents of an object are the values of its CONTENTS attribute. The values may contain any bytes
# (protocol page 8.4). The protocol lacks media types. The client guesses the media type from the access
# methods and the name of the object.

CONTENTS = b"CONTENTS"


def join_contents(attributes: Iterable[Attribute]) -> bytes | None:
    """Join the values of CONTENTS, or return None.

    A DATA value is copied unchanged. A TAGGED value becomes a line `tag: octets`.
    """
    values = [item.values for item in attributes if item.name == CONTENTS and len(item.values) > 1]
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
    """Check that the contents are not shorter than the announced size.

    Raises:
        Truncated: the contents are shorter than the object's SIZE.
    """
    if size is not None and len(octets) < size:
        raise Truncated(
            f"the contents are {len(octets)} of {size} bytes", received=len(octets), expected=size
        )


def guess_media_type(methods: Iterable[AccessMethod], hsoname: bytes) -> str | None:
    """Return text/plain if an access method declares text, else the type of the extension, or None."""
    if any(method.mapped_url is not None and method.mapped_url.is_text for method in methods):
        return "text/plain"
    name = hsoname.rpartition(b"/")[2]
    if b"." not in name:
        return None
    import mimetypes  # lazy import: loading the table of media types takes 30 ms

    # `guess_type` would parse a name such as `a:b` as a URL. With the prefix `./`, a name is not parsed as a
    # URL.
    media_type, compression = mimetypes.guess_type("./" + name.decode("latin-1"))
    return media_type if compression is None else "application/octet-stream"


#: The maximum number of consecutive redirects by FORWARDED lines (protocol page 7.5).
MAX_MOVES = 20
#: The maximum number of access methods that are tried. Each access method causes requests to a server that
#: the untrusted object chooses (request amplification). A reply of 64 KiB may have 900 access methods.
MAX_METHODS = 10


class ResolvedFacts(NamedTuple):
    """The metadata of an object. `place` is the object after all redirects."""

    place: RequestObject
    answer: ProsperoReply
    methods: tuple[AccessMethod, ...] = ()

    @property
    def attributes(self) -> list[Attribute]:
        return self.answer.attributes

    @property
    def has_usable_method(self) -> bool:
        """Return whether the client supports one of the object's access methods."""
        return any(method.mapped_url or method.target for method in self.methods)

    @property
    def seems_directory(self) -> bool:
        """Return whether the file modes describe a directory, and no access method has a URL.

        A server may announce the access method PROSPERO-CONTENTS even for a directory of its file system.
        Therefore the access methods alone do not show whether the object is a directory.
        """
        return describes_directory(self.attributes) and not any(method.mapped_url for method in self.methods)

    def reply(
        self, kind: Kind, target: str | None = None, extra: dict[str, JsonValue] | None = None
    ) -> Reply:
        """Return a reply with the metadata of the object."""
        methods: dict[str, JsonValue] = (
            {"access_methods": [method.as_json() for method in self.methods]} if self.methods else {}
        )
        place: dict[str, JsonValue] = {"moved_to": self.place.url} if self.place.via is not None else {}
        return Reply(
            kind=kind,
            # The SIZE of a directory is not the size of its listing, so the size is unknown.
            size=None if kind is Kind.DIRECTORY else read_size(self.attributes),
            modified=read_modified(self.attributes),
            meta=tuple(describe(self.attributes)),
            target=target,
            extra=place | methods | (extra or {}),
            findings=list(list_findings(self.answer)),
        )


class ResolvedDocument(NamedTuple):
    """The contents of an object. `place` is the object whose server returned the contents."""

    facts: ResolvedFacts
    method: AccessMethod
    place: RequestObject
    octets: bytes


class ResolvedAlternatives(NamedTuple):
    """The usable access methods of an object, best first. The first method has a URL.

    `error` is the error of an earlier attempt to read the contents, or None without an attempt.
    """

    facts: ResolvedFacts
    methods: tuple[AccessMethod, ...]
    error: ResolveError | None = None


class ResolvedService(NamedTuple):
    """An object that is a service for the user, such as a telnet session."""

    facts: ResolvedFacts
    method: AccessMethod


class ResolvedDirectory(NamedTuple):
    """A directory. Its listing is absent if only metadata was requested."""

    facts: ResolvedFacts
    place: RequestObject
    listing: ProsperoReply | None


Resolution: TypeAlias = (
    "ResolvedFacts | ResolvedDocument | ResolvedAlternatives | ResolvedService | ResolvedDirectory"
)


def resolve(inquiry: Inquirer, target: RequestObject, want: Wanted) -> Dialogue[Resolution]:
    """Find the contents, the access methods or the directory listing of an object.

    If the caller requests only metadata, the contents are not read. The result may then be `ResolvedFacts`.

    Raises:
        Declined: the server refused the request, or the client cannot use any access method.
        ProtocolError: a reply is invalid.
        Refused: the FORWARDED lines form a redirect loop, or the access method names a local file of the
            client's machine (S10, redirects).
    """
    answer, place = yield from request_following(inquiry, target, request_facts)
    if not answer.is_not_found:
        answer.check()
    facts = ResolvedFacts(
        place, answer, tuple(list_access_methods(answer.attributes, pointer_to(place), place))
    )
    if not facts.seems_directory and facts.has_usable_method:
        return (yield from _choose(inquiry, facts, want))
    # Some servers report NOT-FOUND for a query or a gateway, although the object can be listed (LIST).
    listing, place = yield from request_following(inquiry, place, request_links)
    if listing.is_listing:
        return ResolvedDirectory(facts, place, None if want == "facts" else listing)
    if not listing.is_not_directory:
        listing.check()
    if facts.has_usable_method:
        return (yield from _choose(inquiry, facts, want))
    if answer.is_not_found:
        answer.check()
    if want == "facts":
        return facts
    raise _explain_missing_method(facts)


def request_following(
    inquiry: Inquirer, target: RequestObject, question: Callable[[RequestObject], ProsperoRequest]
) -> Dialogue[tuple[ProsperoReply, RequestObject]]:
    """Send a request and follow FORWARDED lines. Return the last reply, and the object of this reply.

    Raises:
        Refused: the FORWARDED lines form a redirect loop, or exceed `MAX_MOVES` (S10, redirects).
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
        if len(visited) > MAX_MOVES:
            raise Refused("S10", f"the object has moved more than {MAX_MOVES} times")
        visited.add(moved.identity)
        target = moved._replace(selections=target.selections)


def _choose(inquiry: Inquirer, facts: ResolvedFacts, want: Wanted) -> Dialogue[Resolution]:
    """Try the access methods of an object in order (protocol page 8.3).

    If an attempt to read the contents fails, the next access method is tried.
    """
    methods = tuple(
        method for method in facts.methods if method.target or (method.mapped_url and not method.is_session)
    )[:MAX_METHODS]
    session = next((method for method in facts.methods if method.is_session), None)
    failure: ResolveError | None = None
    for index, method in enumerate(methods):
        is_last = session is None and method is methods[-1]
        if want == "facts":
            return facts
        if method.mapped_url is not None:
            return ResolvedAlternatives(facts, methods[index:], failure)
        try:
            return (yield from read_contents(inquiry, facts, method, is_last=is_last))
        except LimitExceeded:
            raise
        except ResolveError as error:
            failure = failure or error
    if session is not None:
        return ResolvedService(facts, session)
    assert failure is not None, "no access method was tried"
    raise failure


def read_contents(
    inquiry: Inquirer, facts: ResolvedFacts, method: AccessMethod, *, is_last: bool
) -> Dialogue[ResolvedDocument]:
    """Read the contents of an object from a Prospero server (access method PROSPERO-CONTENTS).

    Raises:
        Declined: the server does not return the announced contents.
        Truncated: the contents are shorter than the announced SIZE.
    """
    assert method.target is not None
    answer, place = yield from request_following(
        inquiry, method.target, partial(request_contents, is_last=is_last)
    )
    answer.check()
    octets = join_contents(answer.attributes)
    if octets is None:
        raise Declined("the server did not return the announced contents")
    check_length(octets, read_size(facts.attributes) if method.target == facts.place else None)
    return ResolvedDocument(facts, method, place, octets)


def _explain_missing_method(facts: ResolvedFacts) -> Declined | Refused:
    description = "; ".join(method.description for method in facts.methods)
    if any(method.is_local for method in facts.methods):
        return Refused("S10", f"no access method may be followed: {description}")
    if facts.methods:
        return Declined(f"no access method can be used: {description}", text=description)
    return Declined("the object has attributes only, and no access method")


def list_findings(answer: ProsperoReply) -> Iterator[Finding]:
    """Yield a finding for each warning of the server and for each skipped line."""
    for warning in answer.warnings:
        yield Finding("prospero:warning", "warn", warning)
    for oddity in answer.oddities:
        yield Finding("prospero:odd-line", "warn", oddity)


# Union links: a union link merges the links of its target into the directory (protocol page 9, 5).
#
# The directory's own links come first. The links of each union link's target follow, in the order of the
# union links. A nested union link is expanded directly after its parent. A link hides later links with the
# same name. If a target cannot be read, the listing is incomplete and has a warning. The source of a link is
# the object whose reply contained the link. When a link is followed, the network policy uses the source of
# the link as the referrer.

#: The maximum nesting depth of union links, and the maximum number of union links in one listing. Each union
#: link causes a request to a server that the untrusted directory chooses (request amplification).
MAX_LEVELS = 8
MAX_UNIONS = 32
#: The number of links that are processed before the client yields to other tasks.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class UnionMember:
    """A link of the directory, and its source: the object whose reply contained the link."""

    link: ProsperoLink
    source: RequestObject


@dataclass(slots=True)
class UnionMembers:
    """The merged links of a directory in order, without hidden links.

    Attributes:
        members: The merged links.
        places: The objects whose replies contained the links.
        answers: The replies with the links.
        has_filter: Whether a link or a union link has a filter, which the client does not apply.
        gaps: A description of each union link that could not be listed, with the reason.
    """

    members: list[UnionMember] = field(default_factory=list)
    places: list[RequestObject] = field(default_factory=list)
    answers: list[ProsperoReply] = field(default_factory=list)
    has_filter: bool = False
    gaps: list[str] = field(default_factory=list)
    _names: set[bytes] = field(default_factory=set)
    _expanded: set[tuple[str, int, bytes]] = field(default_factory=set)

    def add(self, answer: ProsperoReply, source: RequestObject) -> Generator[Rest, None, list[ProsperoLink]]:
        """Add the normal links of a directory, and return its union links.

        Links with the same name in one directory do not hide each other.
        """
        self.answers.append(answer)
        self.places.append(source)
        names: set[bytes] = set()
        unions: list[ProsperoLink] = []
        for number, link in enumerate(answer.links, 1):
            self.has_filter |= link.has_filter
            if link.is_union:
                unions.append(link)
            else:
                names.add(link.name)
                if link.name not in self._names and not link.is_hidden:
                    self.members.append(UnionMember(link, source))
            if number % _BATCH == 0:
                yield REST
        self._names |= names - {b""}
        return unions

    def enter(self, target: RequestObject, level: int) -> bool:
        """Return whether to list the object. Each object is listed at most once."""
        if target.identity in self._expanded:
            return False
        if level > MAX_LEVELS or len(self._expanded) > MAX_UNIONS:
            self.gaps.append(f"{target.url}: not listed: too many unions")
            return False
        self._expanded.add(target.identity)
        return True


def expand_unions(inquiry: Inquirer, directory: ResolvedDirectory) -> Dialogue[UnionMembers]:
    """Return all links of the directory, with expanded union links.

    An error of a union link is recorded in `gaps`, except `LimitExceeded`.

    Raises:
        LimitExceeded: a reply exceeds a limit.
    """
    assert directory.listing is not None
    members = UnionMembers()
    members.enter(directory.place, 0)
    yield from _expand(inquiry, members, directory.listing, directory.place, 1)
    return members


def _expand(
    inquiry: Inquirer, members: UnionMembers, answer: ProsperoReply, source: RequestObject, level: int
) -> Dialogue[None]:
    unions = yield from members.add(answer, source)
    for link in unions:
        yield from _expand_union(inquiry, members, link, source, level)


def _expand_union(
    inquiry: Inquirer, members: UnionMembers, link: ProsperoLink, source: RequestObject, level: int
) -> Dialogue[None]:
    try:
        target = link.pointer.target(via=source)
        if not members.enter(target, level):
            return
        answer, place = yield from request_following(inquiry, target, partial(request_links, is_last=False))
        answer.check()
        if not answer.is_listing:
            raise Declined("the reply is not a directory listing")
    except LimitExceeded:
        raise
    except ResolveError as error:
        name, host = decode_text(link.pointer.hsoname), decode_text(link.pointer.host)
        members.gaps.append(f"{name!r} on {host!r}: {error.message}")
        return
    yield from _expand(inquiry, members, answer, place, level + 1)
