"""Lone periods: taking off what RFC 1436 does to the lines of a text, as servers really do it.

The standard ends a text with a line of one period and doubles a period at the start of a line. Servers
leave out the end, or double only lone periods, or nothing. The rules, on the whole reply:

1. If its last line is a lone period, that is the terminator and goes; if not, no octet changes.
2. If a lone period stands on a line further up, this server doubles nothing: nothing else changes.
3. A line of exactly two periods becomes one of one.
4. A longer line that begins with two periods loses one, unless some line begins with a single period
   and something else: such a line shows that at most lone periods are doubled.

`PeriodUnstuffer` applies them to a reply as it comes. Octets leave as soon as their fate is certain: a text
without lines of two periods passes straight through. From the first such line on, the octets wait for
the end; beyond a bound the machine stops waiting and changes nothing more but the terminator.
"""

from __future__ import annotations

import re

#: As many octets as may wait for the end of a reply; a text this large is taken as it is.
HOLD_LIMIT = 8 * 1024 * 1024

_TERMINATOR = re.compile(rb"\n(\.(?:\r?\n)?)\Z")
_ENDED_TERMINATOR = re.compile(rb"\n(\.\r?\n)\Z")
_PERHAPS_TERMINATOR = re.compile(rb"\n\.\r?\n?\Z")
#: As many last octets of a reply as tell whether it ends with a lone period: LF, period, CR, LF.
TAIL_LENGTH = 4

_DOUBLED = re.compile(rb"^\.\.", re.MULTILINE)
_DOUBLED_ALONE = re.compile(rb"^\.\.(?=\r?\n)", re.MULTILINE)
_SINGLE = re.compile(rb"^\.", re.MULTILINE)
_SINGLE_ALONE = re.compile(rb"^\.(?=\r?\n)", re.MULTILINE)


def closing_period(octets: bytes) -> bytes:
    """The lone period, line end included, that a reply consisting of `octets` ends with so far; empty if
    it does not. If nothing more comes, it is the terminator."""
    tail = octets[-TAIL_LENGTH:] if len(octets) >= TAIL_LENGTH else b"\n" + octets
    found = _ENDED_TERMINATOR.search(tail)
    return b"" if found is None else found[1]


class PeriodUnstuffer:
    """Fed a whole textual reply as it comes, gives what it stands for. After `finish`, `terminator` holds the
    octets of the terminator (empty if there was none) and `restore` gives the untouched octets back.

    `gave_up` is True when more than `hold` octets would have had to wait.
    """

    def __init__(self, hold: int = HOLD_LIMIT) -> None:
        self._hold = hold
        # The first octet here has been given out already (at the start: a line end that never was);
        # it tells whether the next one begins a line.
        self._held = bytearray(b"\n")
        self._searched = 0
        self._doubled: int | None = None  # index of the first line of exactly two periods
        self._longer: int | None = None  # index of the first longer line with two periods
        self._single_seen = False
        self._literal = False
        self._undoubled: re.Pattern[bytes] | None = None  # what now begins the lines that lost a period
        self.gave_up = False
        self.terminator = b""

    @property
    def last_line(self) -> bytes:
        """The lone period, line end included, that the octets so far end with (see `closing_period`)."""
        return closing_period(bytes(self._held[-TAIL_LENGTH:]))

    def feed(self, octets: bytes) -> bytes:
        self._held += octets
        certain = 0 if self._literal else self._certain_until()
        if not self._literal and len(self._held) - certain > self._hold:
            self._literal = self.gave_up = True
        return self._give(self._literal_until() if self._literal else certain)

    def finish(self) -> bytes:
        """The reply is complete."""
        found = _TERMINATOR.search(self._held[-TAIL_LENGTH:])
        if found is not None:
            self.terminator = bytes(found[1])
        rest = self._give(len(self._held))
        if found is None:
            return rest
        rest = rest[: -len(self.terminator)]
        return rest if self._literal else self._undouble(rest)

    def abandon(self) -> bytes:
        """The reply is cut short: what was waiting, as it came."""
        self._literal = True
        return self._give(len(self._held))

    def restore(self, cleaned: bytes) -> bytes:
        """The octets as they were received, from the whole of what was given out."""
        if self._undoubled is not None:
            cleaned = self._undoubled.sub(b"..", cleaned)
        return cleaned + self.terminator

    def _undouble(self, rest: bytes) -> bytes:
        doubled, self._undoubled = (
            (_DOUBLED_ALONE, _SINGLE_ALONE) if self._single_seen else (_DOUBLED, _SINGLE)
        )
        return doubled.sub(b".", rest)

    def _give(self, until: int) -> bytes:
        given = bytes(self._held[1:until])
        moved = len(given)
        del self._held[:moved]
        self._searched = 0 if moved > self._searched else self._searched - moved
        self._doubled = None if self._doubled is None else self._doubled - moved
        self._longer = None if self._longer is None else self._longer - moved
        return given

    def _literal_until(self) -> int:
        """Only a lone period at the very end can still change."""
        found = _PERHAPS_TERMINATOR.search(self._held[-TAIL_LENGTH:])
        if found is None:
            return len(self._held)
        return len(self._held) - len(found[0]) + 1

    def _certain_until(self) -> int:
        """Judge every line with a period in front; index of the first octet whose fate is open."""
        waiting = len(self._held)
        while (found := self._held.find(b"\n.", self._searched)) >= 0:
            if not self._judge(found + 1):
                self._searched, waiting = found, found + 1
                break
            if self._literal:
                return waiting
            self._searched = found + 2
        else:
            self._searched = max(0, waiting - 1)
        if self._doubled is not None:
            waiting = min(waiting, self._doubled)
        if self._longer is not None and not self._single_seen:
            waiting = min(waiting, self._longer)
        return waiting

    def _judge(self, start: int) -> bool:
        """Learn what the line at `start` says about the server; False if more octets are needed."""
        after = bytes(self._held[start + 1 : start + TAIL_LENGTH])
        if after in (b"", b"\r", b".", b".\r"):
            return False
        if after.startswith((b"\n", b"\r\n")):
            self._literal = start + 1 + after.index(b"\n") + 1 < len(self._held)
            return self._literal
        if after.startswith((b".\n", b".\r\n")):
            self._doubled = start if self._doubled is None else self._doubled
        elif after.startswith(b"."):
            self._longer = start if self._longer is None else self._longer
        else:
            self._single_seen = True
        return True
