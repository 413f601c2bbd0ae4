"""Options by the Q method of RFC 1143: what to answer, so that no two ends ever negotiate without end.

One `Side` for the options of each end. An answer goes out for a change of state and for the refusal of a
request, and for nothing else.
"""

from __future__ import annotations

import enum

from protocols.telnet.codes import option_name
from protocols.values import NamedTuple


class State(enum.Enum):
    """Where an option of one side stands. `_BUT` has the opposite queued: to be asked for when the answer to
    what was asked has come."""

    NO = enum.auto()
    YES = enum.auto()
    WANT_NO = enum.auto()
    WANT_NO_BUT = enum.auto()
    WANT_YES = enum.auto()
    WANT_YES_BUT = enum.auto()


class Turn(NamedTuple):
    """What comes of a word of the peer's: `answer` is what to say (on, off, nothing), `changed` whether the
    option is on now and was not, or was and is not. `contradicted`: he said yes to our no."""

    answer: bool | None = None
    changed: bool = False
    contradicted: bool = False


class Side:
    """The options of one end, 256 of them, all off at first."""

    def __init__(self) -> None:
        self._states: dict[int, State] = {}

    def state(self, option: int) -> State:
        return self._states.get(option, State.NO)

    def is_on(self, option: int) -> bool:
        """Is it agreed on? While the end of it was asked for and not granted it still is."""
        return self.state(option) in (State.YES, State.WANT_NO, State.WANT_NO_BUT)

    @property
    def on(self) -> list[int]:
        """All that are on, by number."""
        return sorted(option for option in self._states if self.is_on(option))

    @property
    def names(self) -> list[str]:
        """Of all that are on."""
        return [option_name(option) for option in self.on]

    def hear(self, option: int, positive: bool, *, agree: bool) -> Turn:
        """WILL or DO (`positive`), WONT or DONT has come; `agree` says whether it may be on."""
        before = self.state(option)
        now, answer = _POSITIVE[before] if positive else _NEGATIVE[before]
        if before is State.NO and positive and not agree:
            now, answer = State.NO, False
        return self._turn(option, now, answer, contradicted=positive and before in _REFUSED)

    def ask(self, option: int, positive: bool) -> Turn:
        """Would have it on, or off: `answer` is the request to make now, if any."""
        now, answer = (_ASK_ON if positive else _ASK_OFF)[self.state(option)]
        return self._turn(option, now, answer)

    def _turn(self, option: int, now: State, answer: bool | None, *, contradicted: bool = False) -> Turn:
        was_on = self.is_on(option)
        self._states[option] = now
        return Turn(answer, self.is_on(option) != was_on, contradicted)


_REFUSED = (State.WANT_NO, State.WANT_NO_BUT)

#: The states after a positive and a negative word, and the answer (RFC 1143 section 7).
_POSITIVE: dict[State, tuple[State, bool | None]] = {
    State.NO: (State.YES, True),
    State.YES: (State.YES, None),
    State.WANT_NO: (State.NO, None),
    State.WANT_NO_BUT: (State.YES, None),
    State.WANT_YES: (State.YES, None),
    State.WANT_YES_BUT: (State.WANT_NO, False),
}
_NEGATIVE: dict[State, tuple[State, bool | None]] = {
    State.NO: (State.NO, None),
    State.YES: (State.NO, False),
    State.WANT_NO: (State.NO, None),
    State.WANT_NO_BUT: (State.WANT_YES, True),
    State.WANT_YES: (State.NO, None),
    State.WANT_YES_BUT: (State.NO, None),
}

#: The states after a wish of our own.
_ASK_ON: dict[State, tuple[State, bool | None]] = {
    State.NO: (State.WANT_YES, True),
    State.YES: (State.YES, None),
    State.WANT_NO: (State.WANT_NO_BUT, None),
    State.WANT_NO_BUT: (State.WANT_NO_BUT, None),
    State.WANT_YES: (State.WANT_YES, None),
    State.WANT_YES_BUT: (State.WANT_YES, None),
}
_ASK_OFF: dict[State, tuple[State, bool | None]] = {
    State.NO: (State.NO, None),
    State.YES: (State.WANT_NO, False),
    State.WANT_NO: (State.WANT_NO, None),
    State.WANT_NO_BUT: (State.WANT_NO, None),
    State.WANT_YES: (State.WANT_YES_BUT, None),
    State.WANT_YES_BUT: (State.WANT_YES_BUT, None),
}
