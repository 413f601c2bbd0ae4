"""A class of values is what `dataclasses` and `typing` would have made of it, made later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

import protocols.step
from protocols import values
from resolver import HostUrl
from tests.fresh import environment

CLASSES = """
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y

@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Point):
    name: str
    y: int = 5
    tags: list = field(default_factory=list, repr=False)
    at: object = field(default=None, compare=False)

@dataclass(slots=True)
class Growing:
    size: int = 0
    twice: int = field(init=False)
    seen: set = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.size

@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Alone:
    a: int = 1
    def __repr__(self) -> str:
        return "alone"

@dataclass(frozen=True)
class Open:
    a: int
    def __hash__(self) -> int:
        return 7

@dataclass(frozen=True, slots=True)
class Empty:
    pass

class Further(Point):
    extra = 3

@dataclass(frozen=True, slots=True)
class Long:
    a: int
    b: int = 2
    c: int = 3
    d: int = 4
    sum: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'sum', self.a + self.b + self.c + self.d)
        if self.a < 0:
            self.a = 0

class LongPlaced(Long):
    __slots__ = ("extra",)

class LongOpen(Long):
    extra = 3

@dataclass(frozen=True)
class LongNoSlots:
    a: int
    b: int = 2
    c: int = 3
    d: int = 4

class Pair(NamedTuple):
    a: int
    b: str = "b"

    @property
    def both(self) -> str:
        return f"{self.a}{self.b}"

class One(NamedTuple):
    only: object

class None_(NamedTuple):
    pass

class Below(Pair):
    __slots__ = ()

def raised(asked) -> type:
    try:
        asked()
    except Exception as error:
        return type(error)

def matched(value) -> object:
    match value:
        case Point(x, y):
            return x, y
        case Pair(a, b):
            return a, b
"""

#: What is asked of both, each time of classes that nobody used so far.
QUESTIONS = """
Point(1), Point(x=1, y=3), repr(Named(1, name='n')), Point(1).sum
Point(1) == Point(1, 2), Point(1) == Point(2), Point(1) == 1, Point(1) != Point(1)
Point(1) == Further(1), Further(1).extra, repr(Further(1)), raised(lambda: setattr(Further(1), 'x', 2))
vars(Further(1))
Named(1, name='n') == Named(1, name='n', at=5), Named(1, name='n', tags=[1]) == Named(1, name='n')
{Point(1): 1}[Point(1)], len({Point(1), Point(1, 2), Point(3)}), raised(lambda: hash(Growing()))
Alone() == Alone(), repr(Alone()), len({Alone(), Alone()}), hash(Open(1)), Open(1), vars(Open(1))
Long(1), Long(1).sum, replace(Long(1), b=3).sum, raised(lambda: Long(-1)), raised(lambda: Long())
[raised(lambda: setattr(each(1), 'd', 2)) for each in (Long, LongPlaced, LongOpen, LongNoSlots)]
[raised(lambda: delattr(each(1), 'd')) for each in (Long, LongPlaced, LongOpen, LongNoSlots)]
[type(each(1)) for each in (Long, LongPlaced, LongOpen, LongNoSlots)], hash(Long(1)) == hash(Long(1))
LongPlaced(1), LongOpen(1).sum, LongOpen(1).extra, LongNoSlots(1), vars(LongNoSlots(1)), Long(1) == Long(1)
copy.copy(Long(1)), copy.deepcopy(LongNoSlots(1)), copy.copy(LongOpen(1)), dataclasses.asdict(Long(1))
Empty(), Empty() == Empty(), len({Empty(), Empty()}), raised(lambda: Empty(1))
Growing(3), Growing(3).twice, Growing() == Growing(), Growing().seen is Growing().seen
raised(lambda: Point()), raised(lambda: Point(1, 2, 3)), raised(lambda: Point(z=1))
raised(lambda: Named(1, 'n'))
raised(lambda: setattr(Point(1), 'x', 2)), raised(lambda: delattr(Point(1), 'x'))
raised(lambda: setattr(Growing(), 'other', 2)), [str(f.type) for f in dataclasses.fields(Named)]
Point.__slots__, Named.__slots__, Growing.__slots__, Point.__match_args__, Named.__match_args__
replace(Named(1, name='n', at=3), x=2), replace(Growing(2), size=4), raised(lambda: replace(Point(1), z=1))
[each.name for each in fields(Named)], [each.name for each in fields(Growing(1))], [*fields(Empty)]
matched(Point(4)), matched(Named(4, name='n')), matched(Pair(4)), Point.__qualname__, Point.__module__
copy.copy(Point(1)), copy.deepcopy(Named(1, name='n', tags=[[1]])).tags, copy.copy(Pair(1))
copy.copy(Growing(3))
str(inspect.signature(Named)), str(inspect.signature(Growing)), [*inspect.signature(Pair).parameters]
str(inspect.signature(Empty))
dataclasses.is_dataclass(Point), dataclasses.asdict(Named(1, name='n')), dataclasses.astuple(Point(1))
[(f.name, f.init, f.repr, f.compare, f.kw_only) for f in dataclasses.fields(Named) if f.name != 'tags']
dataclasses.replace(Named(1, name='n'), name='m'), dataclasses.fields(Named)[0].name
dataclasses.fields(Point)[1].default
Pair(1), Pair(b=1, a=2), Pair(1).both, repr(Below(1)), Below(1) == Pair(1), isinstance(Below(1), Pair)
Pair(1).b
raised(lambda: Pair()), raised(lambda: Pair(1, 2, 3)), raised(lambda: Pair(c=1))
raised(lambda: setattr(Pair(1), 'a', 2))
Pair._fields, Pair._field_defaults, Pair(1)._asdict(), Pair(1)._replace(b=4)
Pair._make([1, 2]), raised(lambda: Pair._make([1])), type(Below._make([1, 2])).__name__, Pair.__match_args__
One(1), One(only=2).only, None_(), None_() == (), [*Pair(1)], hash(Pair(1)) == hash((1, 'b'))
Pair.__bases__
raised(lambda: setattr(Pair(1), 'other', 2)), Pair.__slots__, Pair.__module__, Pair.__qualname__
Pair(1)[1:]
""".strip().splitlines()


def _answer(maker: dict[str, object], question: str) -> str:
    names = {"__name__": __name__, "copy": copy, "inspect": inspect, "dataclasses": dataclasses, **maker}
    exec(f"from __future__ import annotations\n{CLASSES}", names)  # noqa: S102  # the text above
    return repr(eval(question, names))  # noqa: S307  # the same


ORIGINAL: dict[str, object] = {
    **{name: getattr(dataclasses, name) for name in ("dataclass", "field", "fields", "replace")},
    "NamedTuple": typing.NamedTuple,
}
OURS: dict[str, object] = {name: getattr(values, name) for name in ORIGINAL}


@pytest.mark.parametrize("few", [0, values.FEW])
@pytest.mark.parametrize("question", QUESTIONS)
def test_it_answers_as_the_original_does(question: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of values that the constructor made, and of those that were made without it."""
    monkeypatch.setattr(values, "FEW", few)
    assert _answer(OURS, question) == _answer(ORIGINAL, question)


def test_nothing_is_set_but_in_a_class_that_inherits_one() -> None:
    """Where Python 3.11 stumbles over its own slots."""
    for name in ("scheme", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            setattr(HostUrl(scheme="x", host="h.example"), name, "y")
    below = type("Below", (HostUrl,), {})(scheme="x", host="h.example")
    below.other = "y"
    with pytest.raises(dataclasses.FrozenInstanceError):
        below.scheme = "y"
    assert (below.scheme, below.other) == ("x", "y")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OfOthers(HostUrl):
    """What a plug-in makes of our class with Python's own means."""

    request: bytes = b""


def test_a_class_of_others_inherits_one_of_ours() -> None:
    url = OfOthers(scheme="x", host="h.example", request=b"r")
    assert url.components()["request"] == "r"
    changed = values.replace(url, host="other.example")
    assert (changed.host, changed.request, type(changed)) == ("other.example", b"r", OfOthers)
    assert changed == dataclasses.replace(url, host="other.example") != url
    assert [each.name for each in values.fields(url)] == [each.name for each in dataclasses.fields(url)]
    assert copy.copy(url) == url == pickle.loads(pickle.dumps(url))  # our own octets
    with pytest.raises(dataclasses.FrozenInstanceError):
        url.host = "other.example"  # type: ignore[misc]


def test_a_constructor_is_written_once_and_only_for_those_of_which_there_are_more_than_a_few() -> None:
    program = (
        "import protocols.step as step\n"
        "from protocols.values import FEW\n"
        "made = lambda: print(step.PlanNote.__new__.__name__, step.Send.__new__.__name__)\n"
        "step.Send(b'')\n"
        "for _ in range(FEW): step.PlanNote('a')\n"
        "made(); step.PlanNote('b'); made()"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(), capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines() == ["_first_new _first_new", "__new__ _first_new"]


@pytest.mark.parametrize("kind", ["D", "T"])
def test_who_comes_while_another_thread_writes_the_constructor_has_the_same(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "FEW", 0)
    names: dict[str, Any] = {"__name__": __name__, **OURS}
    text = (
        "@dataclass(frozen=True, slots=True)\nclass B:\n    a: int\n"
        "@dataclass(frozen=True, slots=True)\nclass D(B):\n    b: int\n"
        "class T(NamedTuple):\n    a: int\n    b: int\n"
    )
    exec(f"from __future__ import annotations\n{text}", names)  # noqa: S102  # the text above
    made = names[kind]
    attribute = "__init__" if kind == "D" else "__new__"
    late = getattr(made, attribute)  # looked up by the one who is late
    first = made(1, 2)
    assert getattr(made, attribute) is not late
    if kind == "D":
        second = object.__new__(made)
        late(second, 1, 2)
    else:
        second = late(made, 1, 2)
    assert second == first
    assert (second.a, second.b) == (1, 2)


def test_an_error_names_the_class_whose_constructor_it_is() -> None:
    made: list[tuple[Callable[..., Any], str]] = [
        (protocols.step.OpenData, "OpenData.__new__()"),
        (HostUrl, "HostUrl.__init__()"),
    ]
    for kind, named in made:
        with pytest.raises(TypeError) as caught:
            kind(nothing=1)
        assert named in str(caught.value)
