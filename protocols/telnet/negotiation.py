"""Options by the Q method of RFC 1143: what to answer, so that no two ends ever negotiate without end.

One `OptionSide` for the options of each end. An answer goes out for a change of state and for the refusal of
a request, and for nothing else.
"""

from __future__ import annotations

import enum

from protocols.telnet.codes import option_name
from protocols.values import NamedTuple


class OptionState(enum.Enum):
    """Where an option of one side stands. `_BUT` has the opposite queued: to be asked for when the answer to
    what was asked has come."""

    NO = enum.auto()
    YES = enum.auto()
    WANT_NO = enum.auto()
    WANT_NO_BUT = enum.auto()
    WANT_YES = enum.auto()
    WANT_YES_BUT = enum.auto()


class NegotiationAnswer(NamedTuple):
    """What comes of a word of the peer's: `answer` is what to say (on, off, nothing), `changed` whether the
    option is on now and was not, or was and is not. `contradicted`: he said yes to our no."""

    answer: bool | None = None
    changed: bool = False
    contradicted: bool = False


class OptionSide:
    """The options of one end, 256 of them, all off at first."""

    def __init__(self) -> None:
        self._states: dict[int, OptionState] = {}

    def state(self, option: int) -> OptionState:
        return self._states.get(option, OptionState.NO)

    def is_on(self, option: int) -> bool:
        """Is it agreed on? While the end of it was asked for and not granted it still is."""
        return self.state(option) in (OptionState.YES, OptionState.WANT_NO, OptionState.WANT_NO_BUT)

    @property
    def on(self) -> list[int]:
        """All that are on, by number."""
        return sorted(option for option in self._states if self.is_on(option))

    @property
    def names(self) -> list[str]:
        """Of all that are on."""
        return [option_name(option) for option in self.on]

    def hear(self, option: int, positive: bool, *, agree: bool) -> NegotiationAnswer:
        """WILL or DO (`positive`), WONT or DONT has come; `agree` says whether it may be on."""
        before = self.state(option)
        now, answer = _POSITIVE[before] if positive else _NEGATIVE[before]
        if before is OptionState.NO and positive and not agree:
            now, answer = OptionState.NO, False
        return self._turn(option, now, answer, contradicted=positive and before in _REFUSED)

    def ask(self, option: int, positive: bool) -> NegotiationAnswer:
        """Would have it on, or off: `answer` is the request to make now, if any."""
        now, answer = (_ASK_ON if positive else _ASK_OFF)[self.state(option)]
        return self._turn(option, now, answer)

    def _turn(
        self, option: int, now: OptionState, answer: bool | None, *, contradicted: bool = False
    ) -> NegotiationAnswer:
        was_on = self.is_on(option)
        self._states[option] = now
        return NegotiationAnswer(answer, self.is_on(option) != was_on, contradicted)


_REFUSED = (OptionState.WANT_NO, OptionState.WANT_NO_BUT)

#: The states after a positive and a negative word, and the answer (RFC 1143 section 7).
_POSITIVE: dict[OptionState, tuple[OptionState, bool | None]] = {
    OptionState.NO: (OptionState.YES, True),
    OptionState.YES: (OptionState.YES, None),
    OptionState.WANT_NO: (OptionState.NO, None),
    OptionState.WANT_NO_BUT: (OptionState.YES, None),
    OptionState.WANT_YES: (OptionState.YES, None),
    OptionState.WANT_YES_BUT: (OptionState.WANT_NO, False),
}
_NEGATIVE: dict[OptionState, tuple[OptionState, bool | None]] = {
    OptionState.NO: (OptionState.NO, None),
    OptionState.YES: (OptionState.NO, False),
    OptionState.WANT_NO: (OptionState.NO, None),
    OptionState.WANT_NO_BUT: (OptionState.WANT_YES, True),
    OptionState.WANT_YES: (OptionState.NO, None),
    OptionState.WANT_YES_BUT: (OptionState.NO, None),
}

#: The states after a wish of our own.
_ASK_ON: dict[OptionState, tuple[OptionState, bool | None]] = {
    OptionState.NO: (OptionState.WANT_YES, True),
    OptionState.YES: (OptionState.YES, None),
    OptionState.WANT_NO: (OptionState.WANT_NO_BUT, None),
    OptionState.WANT_NO_BUT: (OptionState.WANT_NO_BUT, None),
    OptionState.WANT_YES: (OptionState.WANT_YES, None),
    OptionState.WANT_YES_BUT: (OptionState.WANT_YES, None),
}
_ASK_OFF: dict[OptionState, tuple[OptionState, bool | None]] = {
    OptionState.NO: (OptionState.NO, None),
    OptionState.YES: (OptionState.WANT_NO, False),
    OptionState.WANT_NO: (OptionState.WANT_NO, None),
    OptionState.WANT_NO_BUT: (OptionState.WANT_NO, None),
    OptionState.WANT_YES: (OptionState.WANT_YES_BUT, None),
    OptionState.WANT_YES_BUT: (OptionState.WANT_YES_BUT, None),
}
