"""A filter for the output of a telnet session to the user's terminal (S15).

A session may move the cursor, set colors and clear the screen. All other sequences are dropped: for example,
those that carry a string to the terminal or make the terminal answer.

The classes do no I/O. Their output does not depend on how the bytes are split; their memory is bounded; no
input raises an error. A complete sequence passes if it is on the list of permitted sequences. An interrupted
sequence is dropped.
"""

from __future__ import annotations

import codecs
import enum
import re

from protocols.telnet.octets import NvtText, decode_for_terminal
from resolver.terminal.text import BIDI, UNSEEN, escape_of

#: Maximum characters of a permitted sequence. The longest sequences in practice set about 20 colors.
LONGEST_SEQUENCE = 64

#: Maximum characters of a string; after these, the filter no longer waits for its end.
LONGEST_STRING = 65_536

_ESC, _BEL, _CAN, _SUB, _ST = "\x1b", "\x07", "\x18", "\x1a", "\x9c"
_REPLACEMENT = "\ufffd"

#: Text, and the controls that only move the cursor, ring the bell or shift to another character set: BEL BS
#: TAB LF VT FF CR, SO and SI (Shift Out, Shift In).
_SHOWN = re.compile(f"[^\x00-\x06\x10-\x1f\x7f-\x9f{BIDI}{UNSEEN}]+")
#: Text and BS TAB LF CR.
_PLAIN = re.compile(f"[^\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f{BIDI}{UNSEEN}]+")
_END_OF_STRING = re.compile(f"[{_BEL}{_ESC}{_CAN}{_SUB}{_ST}]")

#: Permitted characters after ESC: save and restore the cursor, set the keypad, lines and tab stops.
_LONE = frozenset("78=>DEHM")
#: Permitted character sets: United States, United Kingdom and line drawing.
_CHARSETS = frozenset(f"{which}{charset}" for which in "()" for charset in "0AB")
#: Permitted final characters of a CSI without a private marker.
_FINALS = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefgmrsu")
_MODES = frozenset({"4", "20"})
_PRIVATE_MODES = frozenset(
    {"1", "3", "5", "6", "7", "12", "25", "47"}
    | {"1000", "1002", "1003", "1006", "1047", "1048", "1049", "2004"}
)
_PARAMETERS = re.compile("(?:[0-9]{0,5}[;:])*[0-9]{0,5}")  # a parameter of 999999999 would block a terminal
_STRINGS = frozenset("PX]^_")  # DCS, SOS, OSC, PM, APC; their C1 forms are 0x40 higher
_C1_CSI = "\x9b"


class _EscapeState(enum.Enum):
    TEXT = enum.auto()
    ESCAPE = enum.auto()
    CHARSET = enum.auto()
    CSI = enum.auto()
    STRING = enum.auto()


class Screen:
    """A filter that passes permitted output of a session; `left` resets the modes that are still on.

    On a UTF-8 terminal, invalid UTF-8 becomes U+FFFD. On other terminals each byte is a character.
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
        """Return the sequences that reset all permitted modes that are still on, or empty bytes."""
        return self._left.make_reset().encode("ascii")

    _run = _SHOWN

    def _show_lone(self, character: str) -> str:
        """Return the visible form of a control character outside a sequence."""
        return "" if character < "\xa0" else _REPLACEMENT

    def _filter_sequence(self, sequence: str) -> str:
        """Return the permitted part of a complete sequence."""
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
        """Skip characters inside a string and return the next position."""
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
            # no sequence has such a character; other controls take effect before the sequence around them
            if character > "~":
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
        """Process CAN, SUB or a C1 control: end any sequence.

        A sequence or string that the control starts is dropped.
        """
        self._begin(_EscapeState.TEXT)
        if character == _C1_CSI:
            self._begin(_EscapeState.CSI, character)
        elif chr(ord(character) - 0x40 & 0x7F) in _STRINGS and character > "\x7f":
            self._begin(_EscapeState.STRING)
        return self._show_lone(character)

    def _take_second(self, character: str) -> str:
        """Process the character after an ESC."""
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
    """A filter that passes text only: drops sequences and escapes control characters."""

    _run = _PLAIN

    def _show_lone(self, character: str) -> str:
        return escape_of(ord(character))

    def _filter_sequence(self, sequence: str) -> str:
        return ""


class RawScreen(Screen):
    """A filter that passes all bytes unchanged but still records the modes that are on."""

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


#: Reset sequences by mode, in the order of the reset. Margins are reset before the screen that has them, at
#: an unchanged cursor position.
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
    "colors": f"{_ESC}[m",
}
#: Modes that are on by default in a terminal.
_USUALLY_ON = frozenset({"?25", "?7"})


class ScreenModes:
    """The modes that the session set and did not reset."""

    def __init__(self) -> None:
        self._on: set[str] = set()

    def make_reset(self) -> str:
        return "".join(undo for name, undo in _UNDO.items() if name in self._on)

    def see(self, text: str) -> None:
        """Record SO and SI (Shift Out, Shift In: to another character set and back)."""
        if "\x0e" in text or "\x0f" in text:
            self._note("shift", text.rfind("\x0e") > text.rfind("\x0f"))

    def pass_(self, sequence: str) -> None:
        """Record the effect of a permitted sequence."""
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
            self._note("colors", parameters.strip("0;") != "")
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


# The output side of a telnet session on the user's terminal: line ends and the filter (S15).


class TerminalOutput:
    """A converter from session data to terminal bytes.

    Args:
        plain: pass text only, with LF line ends.
        raw: pass all bytes.
        utf8: the terminal's charset is UTF-8.
    """

    def __init__(self, *, plain: bool = False, raw: bool = False, utf8: bool = True) -> None:
        kind = PlainScreen if plain else RawScreen if raw else Screen
        self._screen = kind(utf8=utf8)
        self._text = NvtText() if plain else None

    def show_data(self, data: bytes, *, binary: bool) -> bytes:
        """Convert data; `binary`: the session is in binary mode, without NVT line ends."""
        text = (
            decode_for_terminal(data, binary=binary)
            if self._text is None
            else self._text.feed(data, binary=binary)
        )
        return self._screen.feed(text)

    @property
    def left(self) -> bytes:
        """Return the sequences that reset the modes that are still on."""
        return self._screen.left
