"""The rehearsal: a dialogue runs with the expected replies, and its steps are the plan for `explain`."""

from __future__ import annotations

from typing import NamedTuple

from protocols.errors import ResolveError
from protocols.step import (
    AwaitData,
    BodyStarted,
    CopiedBody,
    CopyBody,
    Dialogue,
    ExchangeDatagrams,
    OpenDatagrams,
    OpenedConnection,
    OpenFile,
    Peek,
    PlanNote,
    RandomBytes,
    ReadNames,
    Receive,
    RequestCredentials,
    Step,
)


class PlanRehearsal(NamedTuple):
    """The steps of a dialogue that receives the expected replies.

    If the dialogue refuses the URL, `error` is the raised error, and the last step is a note with this error.
    """

    steps: list[Step]
    error: ResolveError | None = None


def rehearse(dialogue: Dialogue[object]) -> list[Step]:
    """Return all steps of a dialogue without performing them."""
    return rehearse_steps(dialogue).steps


def rehearse_steps(dialogue: Dialogue[object]) -> PlanRehearsal:
    """Return the steps of a dialogue, without performing them, and its error or None."""
    steps: list[Step] = []
    answer: object = None
    while True:
        try:
            step = dialogue.send(answer)
        except StopIteration:
            return PlanRehearsal(steps)
        except ResolveError as error:
            return PlanRehearsal([*steps, PlanNote(error.message)], error)
        steps.append(step)
        answer = _expected_answer(step)


def _expected_answer(step: Step) -> object:
    match step:
        case Receive(ideal=ideal) | Peek(ideal=ideal) | RequestCredentials(ideal=ideal):
            return ideal
        case OpenFile(ideal=ideal) | ExchangeDatagrams(ideal=ideal):
            return ideal
        case OpenDatagrams():
            return OpenedConnection(("",), 0)
        case AwaitData(ideal=ideal):
            return BodyStarted((ideal,), octets=1)
        case RandomBytes(octets=count):
            return bytes(count)
        case ReadNames():
            return []
        case CopyBody():
            if step.filter is not None and step.ideal:
                tuple(step.filter.feed(step.ideal))
                tuple(step.filter.finish())
            return CopiedBody(step.count or step.expected or len(step.ideal) or 1, close_notify=True)
        case _:
            return None
