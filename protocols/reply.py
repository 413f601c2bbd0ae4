"""What a dialogue begins with: the facts of what its URL leads to, before the first octet of it.

A fact stands here once, in `Facts`. Each value on its way to the caller is facts, and is made of those of the
one before with `facts_of`; so no list of facts stands anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from protocols.location import Finding, JsonValue, Kind, Referrer
from protocols.values import NamedTuple, dataclass, field, fields, replace

if TYPE_CHECKING:  # a plan makes replies, and needs no more of the contract
    from datetime import datetime

    from protocols.contract import Body
    from protocols.entry import EntryReader
    from protocols.errors import ResolveError
    from protocols.headers import Headers
    from protocols.step import Dialogue

#: A way to an object: the text of a location, or a dialogue of the same URL.
Alternative: TypeAlias = "str | Callable[[], Dialogue[object]]"


class Moved(NamedTuple):
    """The peer says that the object is elsewhere: `location` is its text, complete or relative to the
    URL asked, neither parsed nor judged; `code` what it said with it.

    `others` are further ways to the object, in the peer's order, for the case that the one before fails:
    other such texts, or a dialogue that begins a reply of the same URL. `found_in` is what led to these,
    where it is not the URL asked at the address connected to. `failed` is what a way before all of these
    failed by, which was tried where they were found.
    """

    location: str
    code: str
    others: tuple[Alternative, ...] = ()
    found_in: Referrer | None = None
    failed: ResolveError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Facts:
    """What is known of an object: of a `Reply`, a `StreamingResponse`, a `Response`, a `Saved`.

    `size` is that of the whole object, as it was announced; `etag` is a strong one. `title` describes the
    object, where the peer does; `suggested` is the name that it suggests for a file, as it has it, separators
    and all. `meta` are the peer's own words about it, name and value. `target` is the URL that a link,
    service or address points to.
    """

    kind: Kind
    media_type: str | None = None
    charset: str | None = None
    size: int | None = None
    modified: datetime | None = None
    etag: str | None = None
    title: str | None = None
    suggested: bytes | None = None
    meta: tuple[tuple[str, str], ...] = ()
    target: str | None = None
    extra: Mapping[str, JsonValue] | None = None

    @property
    def headers(self) -> Headers:
        """`meta`, to be asked by name in any case."""
        from protocols.headers import Headers  # as above

        return Headers(self.meta)

    @property
    def status(self) -> int | None:
        """The status code of http (RFC 9110 15), None in every other scheme."""
        status = (self.extra or {}).get("status")
        return status if isinstance(status, int) else None


_FACTS = tuple(fact.name for fact in fields(Facts))
_values_of = attrgetter(*_FACTS)


def facts_of(value: Facts) -> dict[str, Any]:
    """The facts by their names, for the value that takes them on."""
    return dict(zip(_FACTS, _values_of(value), strict=True))


#: Until somebody performs the dialogue.
_UNREAD = cast("Body", None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reply(Facts):
    """What a dialogue begins with: facts first, then the body, while the connection lives. The body is the
    rest of the dialogue, and put there by who performs it.

    `findings` and `verified` may grow until the body has ended. `verified` takes words out of length, final-
    reply, close-notify, terminator. The body begins at the octet `start` of the object, which is 0 unless
    `Options.start` could be granted, and ends at `stop`, which is None unless `Options.stop` could. `listing`
    reads the body as entries, or is None where the URL names no listing; with `records` it reads those, and
    the body is a document that says what is listed (a wais database); where the body is `legible`, it is text
    to be read as it stands, besides (attributes of Gopher+). `raw` makes the octets that were sent out of the
    whole body again, where the protocol's quoting was undone in it; it may be called once the body has ended.
    With `moved` there is nothing here but the way to another URL, which a retrieval follows as far as S10 and
    S11 let it. With `failure` the body is what the peer had to say to a refusal, which is the error
    (`Options.refusals`).
    `peer` is the numeric address that the octets came from, where it is not the one connected to. Of what is
    `unchanged` there is no body, for the caller's copy is no older (`Options.held`).
    """

    body: Body = _UNREAD
    start: int = 0
    stop: int | None = None
    listing: EntryReader | None = None
    legible: bool = False
    records: bytes | None = None
    moved: Moved | None = None
    failure: ResolveError | None = None
    raw: Callable[[bytes], bytes] | None = None
    peer: str | None = None
    unchanged: bool = False
    findings: list[Finding] = field(default_factory=list)
    verified: set[str] = field(default_factory=set)

    def with_body(self, body: Body) -> Reply:
        """The same with its body: this one, where it has none yet, for a copy of all facts takes longer than
        many a dialogue."""
        if self.body is not _UNREAD:
            return replace(self, body=body)
        object.__setattr__(self, "body", body)
        return self
