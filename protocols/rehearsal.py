"""A dialogue driven with the answers of a willing server: its steps are the plan that `explain` shows."""

from __future__ import annotations

from protocols.errors import ResolveError
from protocols.step import (
    AwaitData,
    Begun,
    Carry,
    Dialogue,
    Hear,
    Note,
    OpenDatagrams,
    Opened,
    OpenFile,
    Pass,
    Passed,
    Peek,
    Random,
    ReadNames,
    RequestCredentials,
    Step,
)
from protocols.values import NamedTuple


class Rehearsal(NamedTuple):
    """A dialogue as it would go with a willing server. Where it would refuse by itself, `error` is what it
    raises, and the last step a note that says so."""

    steps: list[Step]
    error: ResolveError | None = None


def rehearse(dialogue: Dialogue[object]) -> list[Step]:
    """All its steps; nothing is done."""
    return rehearsal_of(dialogue).steps


def rehearsal_of(dialogue: Dialogue[object]) -> Rehearsal:
    """Its steps and how it ends; nothing is done."""
    steps: list[Step] = []
    answer: object = None
    while True:
        try:
            step = dialogue.send(answer)
        except StopIteration:
            return Rehearsal(steps)
        except ResolveError as error:
            return Rehearsal([*steps, Note(error.message)], error)
        steps.append(step)
        answer = _ideal_answer(step)


def _ideal_answer(step: Step) -> object:
    match step:
        case Hear(ideal=ideal) | Peek(ideal=ideal) | RequestCredentials(ideal=ideal):
            return ideal
        case OpenFile(ideal=ideal) | Carry(ideal=ideal):
            return ideal
        case OpenDatagrams():
            return Opened(("",), 0)
        case AwaitData(ideal=ideal):
            return Begun((ideal,), octets=1)
        case Random(octets=count):
            return bytes(count)
        case ReadNames():
            return []
        case Pass():
            return _ideal_passing(step)
        case _:
            return None


def _ideal_passing(step: Pass) -> Passed:
    if step.filter is not None and step.ideal:
        tuple(step.filter.feed(step.ideal))
        tuple(step.filter.finish())
    return Passed(step.count or step.expected or len(step.ideal) or 1, close_notify=True)
