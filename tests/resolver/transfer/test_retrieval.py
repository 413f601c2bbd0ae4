"""Alternative locations of an object: their order, the policy check of each, and backtracking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from protocols.contract import Gate, Moved, Reply
from protocols.conversation.driver import hold
from protocols.gopher import GOPHER
from protocols.step import Dialogue, EmitBody, PlanNote, StartBody
from protocols.text import Masked
from resolver import (
    Event,
    Finished,
    GopherUrl,
    Kind,
    LimitExceeded,
    Limits,
    NotFound,
    Options,
    Policy,
    ProtocolError,
    Referrer,
    Refused,
    ResolveError,
    Resolver,
    TryLater,
    Unreachable,
    Warned,
)
from resolver.network.url_gate import UrlGate
from resolver.policy.subject import Decision, combine_decisions
from resolver.transfer import retrieval
from resolver.url import registry
from resolver.url.registry import SCHEMES

H = "gopher://h.example/0"


@dataclass(frozen=True)
class Here:
    """An alternative that yields content from the current location, or fails."""

    content: bytes | ResolveError

    def __call__(self) -> Dialogue[None]:
        if isinstance(self.content, ResolveError):
            raise self.content
        yield StartBody(Reply(kind=Kind.DOCUMENT))
        yield EmitBody(self.content)


Answer: TypeAlias = "bytes | ResolveError | Moved"


class World:
    """Responses by gopher selector; `opened` lists the requests, `open` counts open dialogues."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.opened: list[str] = []
        self.open = 0

    def __call__(self, url: GopherUrl, options: Options, limits: Limits) -> Dialogue[None]:
        name = url.selector.decode()
        self.opened.append(name)
        answer = self.answers[name]
        if isinstance(answer, ResolveError):
            raise answer
        self.open += 1
        try:
            if isinstance(answer, Moved):
                yield StartBody(Reply(kind=Kind.LINK, moved=answer))
            else:
                yield StartBody(Reply(kind=Kind.DOCUMENT))
                yield EmitBody(answer)
                yield PlanNote("and that is all")
        finally:
            self.open -= 1


def answer_with(
    converse: Callable[[GopherUrl, Options, Limits], Dialogue[None]], patch: pytest.MonkeyPatch
) -> None:
    """Replace the dialogue of gopher URLs without changing the cache of the registry."""
    real, here = registry.load, "nowhere:converse"
    known = {SCHEMES["gopher"]: GOPHER._replace(converse=here), here: converse}
    patch.setattr(registry, "load", lambda place: known[place] if place in known else real(place))


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> type[World]:
    """Return a class of `World` that answers gopher URLs."""

    class Opened(World):
        def __init__(self, answers: Mapping[str, Answer]) -> None:
            super().__init__(answers)
            answer_with(self, monkeypatch)

    return Opened


def to(*ways: str | Here) -> Moved:
    first, *others = (f"{H}{way}" if isinstance(way, str) and len(way) == 1 else way for way in ways)
    assert isinstance(first, str)
    return Moved(first, "code", tuple(others))


NO, LATER = NotFound("no"), TryLater("later")

#: The responses, the requests in order, and the resulting content or error.
ROUTES: list[tuple[dict[str, Answer], str, bytes | type[ResolveError]]] = [
    ({"a": to("b", "c"), "b": b"B"}, "ab", b"B"),
    ({"a": to("b", "c"), "b": NO, "c": b"C"}, "abc", b"C"),
    ({"a": to("b", "c"), "b": LATER, "c": NO}, "abc", TryLater),
    ({"a": to("b", "c", "d"), "b": Unreachable("x"), "c": ProtocolError("x"), "d": b"D"}, "abcd", b"D"),
    # back to the object that named the alternatives, not to an alternative that failed
    ({"a": to("b", "e"), "b": to("c", "d"), "c": NO, "d": LATER, "e": b"E"}, "abcde", b"E"),
    ({"a": to("b", "e"), "b": to("c", "d"), "c": NO, "d": LATER, "e": LATER}, "abcde", NotFound),
    ({"a": to("b"), "b": to("c", "d"), "c": to("e"), "e": NO, "d": b"D"}, "abced", b"D"),
    # an alternative that leads to an earlier location (a loop) fails
    ({"a": to("b", "c"), "b": to("a"), "c": b"C"}, "abc", b"C"),
    ({"a": to("b"), "b": to("a")}, "ab", Refused),
    # a URL refused by the policy and an invalid URL are failed alternatives too
    ({"a": to("file:///x", "c"), "c": b"C"}, "ac", b"C"),
    ({"a": to("gopher://h.example:25/0x", "c"), "c": b"C"}, "ac", b"C"),
    ({"a": to("gopher://a b/", "c"), "c": b"C"}, "ac", b"C"),
    ({"a": to("x-none:y", "c"), "c": b"C"}, "ac", b"C"),
    ({"a": to("file:///x", "gopher://h.example:25/0x")}, "a", Refused),
    # an error for which no other alternative is tried
    ({"a": to("b", "c"), "b": LimitExceeded("body", "x"), "c": b"C"}, "ab", LimitExceeded),
    # an alternative whose content comes from the current location
    ({"a": to("b", Here(b"here")), "b": NO}, "ab", b"here"),
    ({"a": to("b", Here(LATER), "c"), "b": NO, "c": b"C"}, "abc", b"C"),
    ({"a": to("b", Here(LATER)), "b": NO}, "ab", NotFound),
    ({"a": NO}, "a", NotFound),
]


@pytest.mark.parametrize(("answers", "asked", "outcome"), ROUTES)
async def test_alternatives_are_tried_in_order(
    answers: dict[str, Answer], asked: str, outcome: bytes | type[ResolveError], build: type[World]
) -> None:
    world = build(answers)
    async with Resolver() as session:
        if isinstance(outcome, bytes):
            assert (await session.fetch(f"{H}a")).content == outcome
        else:
            with pytest.raises(outcome) as raised:
                await session.fetch(f"{H}a")
            assert type(raised.value) is outcome
    assert "".join(world.opened) == asked
    assert world.open == 0


async def test_response_reports_chain_and_failed_alternative(build: type[World]) -> None:
    build({"a": to("b", "d"), "b": to("c"), "c": NO, "d": b"D"})
    events: list[Event] = []
    async with Resolver(on_event=events.append) as session:
        response = await session.fetch(f"{H}a")
    assert (response.url, response.chain, response.requested_url) == (f"{H}d", (f"{H}a",), f"{H}a")
    assert [tuple(finding) for finding in response.findings] == [
        ("gopher:failed", "warn", f"{H}c: no"),
    ]
    assert [event.url for event in events if isinstance(event, Finished)] == [f"{H}a"]


async def test_content_at_location_keeps_requested_url(build: type[World]) -> None:
    build({"a": to("b", Here(b"here")), "b": NO})
    async with Resolver() as session:
        response = await session.fetch(f"{H}a")
    assert (response.url, response.chain) == (f"{H}a", ())


async def test_error_names_first_failed_url(build: type[World]) -> None:
    build({"a": to("b", "c"), "b": NotFound("no"), "c": NotFound("no")})
    async with Resolver() as session:
        with pytest.raises(NotFound) as raised:
            await session.fetch(f"{H}a")
    assert raised.value.url == f"{H}b"


async def test_alternatives_are_limited_by_hops(build: type[World]) -> None:
    tree: dict[str, Answer] = {
        letter: to(*(chr(ord(letter) + step) for step in (1, 2, 3))) for letter in "abcdefg"
    }
    world = build({**tree, **{letter: NotFound("no") for letter in "hijklmn"}})
    async with Resolver(limits=Limits(hops=8)) as session:
        with pytest.raises(ResolveError):
            await session.fetch(f"{H}a")
    assert len(world.opened) == 9


async def test_alternative_is_checked_against_its_referrer(build: type[World]) -> None:
    """The alternatives are checked against the referrer that the reply gives with them (S08)."""
    private = "gopher://10.0.0.1/0b"
    moved = Moved(private, "code", (), Referrer(f"{H}z", "10.0.0.9"))
    world = build({"a": moved, "b": b"B"})
    async with Resolver() as session:
        assert (await session.fetch(f"{H}a")).content == b"B"
    world = build({"a": Moved(private, "code"), "b": b"B"})
    async with Resolver() as session:
        with pytest.raises(Refused, match="S08") as raised:
            await session.fetch(f"{H}a")
    assert raised.value.exit_code == 15
    assert world.opened == ["a"]
    strict = Policy.cautious()
    async with Resolver(policy=strict) as session:
        with pytest.raises(Refused):
            await session.fetch(f"{H}a")


class Own(Exception):
    """An error raised by the caller's code."""


async def test_listener_error_after_reply_closes_dialogue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The listener gets the warning that arrived with the reply after the reply itself."""

    world, enter = World({"a": b"A"}), hold

    def warned(dialogue: Dialogue[object], gate: Gate) -> AbstractAsyncContextManager[Reply]:
        assert isinstance(gate, UrlGate)
        gate._admission._apply_verdict(combine_decisions([Decision("S08", "warn", "an address")]))
        return enter(dialogue, gate)

    answer_with(world, monkeypatch)
    monkeypatch.setattr(retrieval, "hold", warned)
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Warned):
            assert world.open == 1
            raise Own

    async with Resolver(on_event=listen) as session:
        with pytest.raises(Own) as caught:
            await session.fetch(f"{H}a")
    assert world.open == 0
    assert events[-1] == Finished(Masked(f"{H}a"), caught.value)
