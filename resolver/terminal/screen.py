"""A filter for the output of a telnet session to the user's terminal (S15).

A session may move the cursor, set colors and clear, and nothing else. A sequence that carries a string to the
terminal, or makes it answer, is dropped whole.

Machines without I/O, the same for every cut of the octets; what they hold is bounded, and they fail for none.
A sequence is let through when it is complete, as one of a list; what ends it otherwise drops it.
"""

from __future__ import annotations

import codecs
import enum
import re

from protocols.telnet.octets import NvtText, decode_for_terminal
from resolver.terminal.text import BIDI, UNSEEN, escape_of

#: Characters of a sequence that is let through: the longest that programs send sets some twenty colours.
LONGEST_SEQUENCE = 64

#: Characters of a string behind which nobody waits for its end.
LONGEST_STRING = 65_536

_ESC, _BEL, _CAN, _SUB, _ST = "\x1b", "\x07", "\x18", "\x1a", "\x9c"
_REPLACEMENT = "\ufffd"

#: Text and what moves the cursor by itself: BEL BS TAB LF VT FF CR SO SI.
_SHOWN = re.compile(f"[^\x00-\x06\x10-\x1f\x7f-\x9f{BIDI}{UNSEEN}]+")
#: Text and BS TAB LF CR.
_PLAIN = re.compile(f"[^\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f{BIDI}{UNSEEN}]+")
_END_OF_STRING = re.compile(f"[{_BEL}{_ESC}{_CAN}{_SUB}{_ST}]")

#: What an ESC and one character may do: keep and put back the cursor, the keypad, lines and tab stops.
_LONE = frozenset("78=>DEHM")
#: Which character sets may be chosen: that of the United States, of the United Kingdom, and lines to draw.
_CHARSETS = frozenset(f"{which}{charset}" for which in "()" for charset in "0AB")
#: How a CSI may end that has no private sign.
_FINALS = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefgmrsu")
_MODES = frozenset({"4", "20"})
_PRIVATE_MODES = frozenset(
    {"1", "3", "5", "6", "7", "12", "25", "47"}
    | {"1000", "1002", "1003", "1006", "1047", "1048", "1049", "2004"}
)
_PARAMETERS = re.compile("(?:[0-9]{0,5}[;:])*[0-9]{0,5}")  # 999999999 of anything would keep a terminal busy
_STRINGS = frozenset("PX]^_")  # DCS, SOS, OSC, PM, APC; their C1 forms have 0x40 more
_C1_CSI = "\x9b"


class _EscapeState(enum.Enum):
    TEXT = enum.auto()
    ESCAPE = enum.auto()
    CHARSET = enum.auto()
    CSI = enum.auto()
    STRING = enum.auto()


class Screen:
    """Fed what a session has to show, it gives what may be shown. `left` undoes what is still on of it.

    On a terminal of UTF-8 octets that are none come out as U+FFFD; on another each octet is a character.
    """

    def __init__(self, *, utf8: bool = True) -> None:
        self._charset = "utf-8" if utf8 else "latin-1"
        self._decoder = codecs.getincrementaldecoder(self._charset)("replace")
        self._state = _EscapeState.TEXT
        self._held = ""
        self._swallowed = 0
        self._left = ScreenModes()

    def feed(self, octets: bytes) -> bytes:
        text = self._decoder.decode(octets)
        shown = []
        at = 0
        while at < len(text):
            if self._state is _EscapeState.TEXT and (run := self._run.match(text, at)):
                shown.append(self._show(run[0]))
                at = run.end()
            elif self._state is _EscapeState.STRING:
                at = self._swallow(text, at)
            else:
                shown.append(self._take(text[at]))
                at += 1
        return "".join(shown).encode(self._charset)

    @property
    def left(self) -> bytes:
        """What takes back all modes that were let through and are still on; nothing where none is."""
        return self._left.make_reset().encode("ascii")

    _run = _SHOWN

    def _show_lone(self, character: str) -> str:
        """What is shown of a character that drives a terminal, where it stands for itself."""
        return "" if character < "\xa0" else _REPLACEMENT

    def _filter_sequence(self, sequence: str) -> str:
        """As much as is let through of a sequence, which is complete."""
        return _filter_sequence(sequence)

    def _show(self, text: str) -> str:
        self._left.see(text)
        return text

    def _pass(self, sequence: str) -> str:
        self._state = _EscapeState.TEXT
        permitted = self._filter_sequence(sequence)
        if permitted:
            self._left.pass_(permitted)
        return permitted

    def _swallow(self, text: str, at: int) -> int:
        """Inside a string: where to go on."""
        end = min(len(text), at + LONGEST_STRING - self._swallowed)
        found = _END_OF_STRING.search(text, at, end)
        if found is None:
            self._swallowed += end - at
            if self._swallowed >= LONGEST_STRING:
                self._state = _EscapeState.TEXT
            return end
        self._begin(_EscapeState.ESCAPE if found[0] == _ESC else _EscapeState.TEXT)
        return found.end()

    def _begin(self, state: _EscapeState, held: str = "") -> None:
        self._state, self._held, self._swallowed = state, held, 0

    def _take(self, character: str) -> str:
        if character == _ESC:
            self._begin(_EscapeState.ESCAPE)
        elif character in (_CAN, _SUB) or "\x80" <= character < "\xa0":
            return self._take_c1(character)
        elif self._state is _EscapeState.TEXT:
            return self._show_lone(character)
        elif not " " <= character <= "~":
            if character > "~":  # no sequence goes on so; other controls are heeded before what they stand in
                self._begin(_EscapeState.TEXT)
            return self._show(character) if self._run.match(character) else self._show_lone(character)
        elif self._state is _EscapeState.ESCAPE:
            return self._take_second(character)
        elif character < ("0" if self._state is _EscapeState.CHARSET else "@"):
            self._held += character if len(self._held) < LONGEST_SEQUENCE else ""
        else:
            return self._pass(self._held + character)
        return ""

    def _take_c1(self, character: str) -> str:
        """What ends whatever stands before it: it may begin something, of which nothing is let through."""
        self._begin(_EscapeState.TEXT)
        if character == _C1_CSI:
            self._begin(_EscapeState.CSI, character)
        elif chr(ord(character) - 0x40 & 0x7F) in _STRINGS and character > "\x7f":
            self._begin(_EscapeState.STRING)
        return self._show_lone(character)

    def _take_second(self, character: str) -> str:
        """What stands behind an ESC."""
        if character == "[":
            self._begin(_EscapeState.CSI, f"{_ESC}[")
        elif character in _STRINGS:
            self._begin(_EscapeState.STRING)
        elif character < "0":
            self._begin(_EscapeState.CHARSET, f"{_ESC}{character}")
        else:
            return self._pass(f"{_ESC}{character}")
        return ""


class PlainScreen(Screen):
    """Text alone: sequences are dropped, and characters that would drive a terminal are shown."""

    _run = _PLAIN

    def _show_lone(self, character: str) -> str:
        return escape_of(ord(character))

    def _filter_sequence(self, sequence: str) -> str:
        return ""


class RawScreen(Screen):
    """All that comes, as it is; what is on of it is known all the same."""

    def feed(self, octets: bytes) -> bytes:
        super().feed(octets)
        return octets


def _filter_sequence(sequence: str) -> str:
    start, rest = sequence[:2], sequence[2:]
    if start != f"{_ESC}[":
        lone = sequence[1:]
        return sequence if sequence.startswith(_ESC) and (lone in _LONE or lone in _CHARSETS) else ""
    if len(sequence) > LONGEST_SEQUENCE:
        return ""
    parameters, final = rest[:-1], rest[-1]
    if final in "hl":
        return _permitted_modes(parameters, final)
    if final == "q":
        return sequence if re.fullmatch("[0-9]{0,2} ", parameters) else ""
    return sequence if final in _FINALS and _PARAMETERS.fullmatch(parameters) else ""


def _permitted_modes(parameters: str, final: str) -> str:
    private = parameters.startswith("?")
    known = _PRIVATE_MODES if private else _MODES
    modes = [mode for mode in parameters.removeprefix("?").split(";") if mode in known]
    return f"{_ESC}[{'?' if private else ''}{';'.join(modes)}{final}" if modes else ""


#: How what is on is taken back, in the order in which that is done: margins before the screen that had
#: them, with the cursor where it was.
_UNDO = {
    "?6": f"{_ESC}[?6l",
    "margins": f"{_ESC}7{_ESC}[r{_ESC}8",
    "?1049": f"{_ESC}[?1049l",
    "?1047": f"{_ESC}[?1047l",
    "?47": f"{_ESC}[?47l",
    "?25": f"{_ESC}[?25h",
    "?1": f"{_ESC}[?1l",
    "?7": f"{_ESC}[?7h",
    "?5": f"{_ESC}[?5l",
    "?1000": f"{_ESC}[?1000l",
    "?1002": f"{_ESC}[?1002l",
    "?1003": f"{_ESC}[?1003l",
    "?1006": f"{_ESC}[?1006l",
    "?2004": f"{_ESC}[?2004l",
    "4": f"{_ESC}[4l",
    "20": f"{_ESC}[20l",
    "keypad": f"{_ESC}>",
    "cursor": f"{_ESC}[0 q",
    "charset": f"{_ESC}(B",
    "shift": "\x0f",
    "colours": f"{_ESC}[m",
}
#: Modes that a terminal has on by itself.
_USUALLY_ON = frozenset({"?25", "?7"})


class ScreenModes:
    """Which modes were let through and not taken back."""

    def __init__(self) -> None:
        self._on: set[str] = set()

    def make_reset(self) -> str:
        return "".join(undo for name, undo in _UNDO.items() if name in self._on)

    def see(self, text: str) -> None:
        """Text may shift to another character set, and back."""
        if "\x0e" in text or "\x0f" in text:
            self._note("shift", text.rfind("\x0e") > text.rfind("\x0f"))

    def pass_(self, sequence: str) -> None:
        """A sequence that is let through."""
        final = sequence[-1]
        if not sequence.startswith(f"{_ESC}["):
            self._see_lone(sequence[1:])
            return
        parameters = sequence[2:-1]
        if final in "hl":
            self._see_modes(parameters, final)
        elif final == "r":
            self._note("margins", parameters != "")
        elif final == "m":
            self._note("colours", parameters.strip("0;") != "")
        elif final == "q":
            self._note("cursor", parameters.strip("0 ") != "")

    def _see_modes(self, parameters: str, final: str) -> None:
        private = parameters.startswith("?")
        for mode in parameters.removeprefix("?").split(";"):
            name = f"?{mode}" if private else mode
            self._note(name, (final == "h") != (name in _USUALLY_ON))

    def _see_lone(self, lone: str) -> None:
        if lone in "=>":
            self._note("keypad", lone == "=")
        elif lone.startswith("("):
            self._note("charset", lone != "(B")

    def _note(self, name: str, on: bool) -> None:
        if on and name in _UNDO:
            self._on.add(name)
        else:
            self._on.discard(name)


# terminal shown: What a telnet session shows on the terminal of a person: line ends, and what may drive it
# (S15).


class TerminalOutput:
    """Data of the session in, octets for the terminal out. `plain` is text alone, whose lines end with LF;
    `raw` lets through all that comes."""

    def __init__(self, *, plain: bool = False, raw: bool = False, utf8: bool = True) -> None:
        kind = PlainScreen if plain else RawScreen if raw else Screen
        self._screen = kind(utf8=utf8)
        self._text = NvtText() if plain else None

    def show_data(self, data: bytes, *, binary: bool) -> bytes:
        """`binary`: the session has no line ends of its own just now."""
        text = (
            decode_for_terminal(data, binary=binary)
            if self._text is None
            else self._text.feed(data, binary=binary)
        )
        return self._screen.feed(text)

    @property
    def left(self) -> bytes:
        """What takes back what is still on of it."""
        return self._screen.left
