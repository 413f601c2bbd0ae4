"""A filter for the escape sequences that a telnet session sends to the user's terminal (S15).

A session may move the cursor, set colors and clear the screen. All other escape sequences are dropped. For
example, some sequences set the title of the terminal, and others make the terminal send a response.

The filter is an allowlist: a complete sequence passes only if it is permitted, and an interrupted sequence is
dropped. The classes do no I/O. The output does not depend on the sizes of the input chunks. The memory is
bounded, and no input raises an error.
"""

from __future__ import annotations

import codecs
import enum
import re

from protocols.telnet.octets import NvtText, decode_for_terminal
from resolver.terminal.text import BIDI, INVISIBLE, format_escape

#: Maximum number of characters of a permitted escape sequence. In practice, the longest sequences set about
#: 20 colors.
MAX_SEQUENCE = 64

#: Maximum number of characters of a control string, such as OSC. After these characters, the filter no longer
#: waits for the terminator.
MAX_STRING = 65_536

_ESC, _BEL, _CAN, _SUB, _ST = "\x1b", "\x07", "\x18", "\x1a", "\x9c"
_REPLACEMENT = "\ufffd"

#: Text and permitted control characters: BEL BS TAB LF VT FF CR, SO and SI (Shift Out, Shift In). These
#: control characters only move the cursor, ring the bell or select another character set.
_PERMITTED_TEXT = re.compile(f"[^\x00-\x06\x10-\x1f\x7f-\x9f{BIDI}{INVISIBLE}]+")
#: Text and the control characters BS TAB LF CR.
_PLAIN_TEXT = re.compile(f"[^\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f{BIDI}{INVISIBLE}]+")
_END_OF_STRING = re.compile(f"[{_BEL}{_ESC}{_CAN}{_SUB}{_ST}]")

#: Permitted characters after ESC: sequences that save or restore the cursor, set the keypad mode, move by
#: lines, or set tab stops.
_ESCAPES = frozenset("78=>DEHM")
#: Permitted selections of a character set (United States, United Kingdom, line drawing), after ESC.
_CHARSETS = frozenset(f"{slot}{charset}" for slot in "()" for charset in "0AB")
#: Permitted final characters of a CSI sequence without a private marker.
_FINALS = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefgmrsu")
_MODES = frozenset({"4", "20"})
_PRIVATE_MODES = frozenset(
    {"1", "3", "5", "6", "7", "12", "25", "47"}
    | {"1000", "1002", "1003", "1006", "1047", "1048", "1049", "2004"}
)
#: Parameters of a CSI sequence, each with at most 5 digits, because a parameter of 999999999 would block a
#: terminal.
_PARAMETERS = re.compile("(?:[0-9]{0,5}[;:])*[0-9]{0,5}")
#: The characters after ESC that start a control string: DCS, SOS, OSC, PM, APC. The code of the equivalent C1
#: control is 0x40 higher.
_STRINGS = frozenset("PX]^_")
_C1_CSI = "\x9b"


class _EscapeState(enum.Enum):
    TEXT = enum.auto()
    ESCAPE = enum.auto()
    CHARSET = enum.auto()
    CSI = enum.auto()
    STRING = enum.auto()


class Screen:
    """A filter that passes text and permitted escape sequences.

    After the session, `reset_sequences` resets the modes that are still on. On a UTF-8 terminal, invalid
    UTF-8 is replaced by U+FFFD. On other terminals, each byte is a character.
    """

    def __init__(self, *, utf8: bool = True) -> None:
        self._charset = "utf-8" if utf8 else "latin-1"
        self._decoder = codecs.getincrementaldecoder(self._charset)("replace")
        self._state = _EscapeState.TEXT
        self._sequence = ""
        self._skipped = 0
        self._modes = ScreenModes()

    def feed(self, octets: bytes) -> bytes:
        text = self._decoder.decode(octets)
        shown = []
        at = 0
        while at < len(text):
            if self._state is _EscapeState.TEXT and (run := self._text.match(text, at)):
                shown.append(self._show(run[0]))
                at = run.end()
            elif self._state is _EscapeState.STRING:
                at = self._skip_string(text, at)
            else:
                shown.append(self._process(text[at]))
                at += 1
        return "".join(shown).encode(self._charset)

    @property
    def reset_sequences(self) -> bytes:
        """Return the escape sequences that reset all modes that are still on, or empty bytes."""
        return self._modes.make_reset().encode("ascii")

    _text = _PERMITTED_TEXT

    def _show_control(self, character: str) -> str:
        """Return the visible form of a control character outside a sequence."""
        return "" if character < "\xa0" else _REPLACEMENT

    def _filter_sequence(self, sequence: str) -> str:
        """Return a complete sequence with only its permitted modes, or an empty string."""
        return _filter_sequence(sequence)

    def _show(self, text: str) -> str:
        self._modes.record_text(text)
        return text

    def _end_sequence(self, sequence: str) -> str:
        self._state = _EscapeState.TEXT
        permitted = self._filter_sequence(sequence)
        if permitted:
            self._modes.record_sequence(permitted)
        return permitted

    def _skip_string(self, text: str, at: int) -> int:
        """Skip the characters inside a control string, and return the next position."""
        end = min(len(text), at + MAX_STRING - self._skipped)
        terminator = _END_OF_STRING.search(text, at, end)
        if terminator is None:
            self._skipped += end - at
            if self._skipped >= MAX_STRING:
                self._state = _EscapeState.TEXT
            return end
        self._enter(_EscapeState.ESCAPE if terminator[0] == _ESC else _EscapeState.TEXT)
        return terminator.end()

    def _enter(self, state: _EscapeState, sequence: str = "") -> None:
        self._state, self._sequence, self._skipped = state, sequence, 0

    def _process(self, character: str) -> str:
        if character == _ESC:
            self._enter(_EscapeState.ESCAPE)
        elif character in (_CAN, _SUB) or "\x80" <= character < "\xa0":
            return self._process_c1(character)
        elif self._state is _EscapeState.TEXT:
            return self._show_control(character)
        elif not " " <= character <= "~":
            # An escape sequence cannot contain this character. But a C0 control character does not end the
            # sequence: a terminal executes the control character immediately, and then continues the
            # sequence.
            if character > "~":
                self._enter(_EscapeState.TEXT)
            return self._show(character) if self._text.match(character) else self._show_control(character)
        elif self._state is _EscapeState.ESCAPE:
            return self._process_second(character)
        elif character < ("0" if self._state is _EscapeState.CHARSET else "@"):
            self._sequence += character if len(self._sequence) < MAX_SEQUENCE else ""
        else:
            return self._end_sequence(self._sequence + character)
        return ""

    def _process_c1(self, character: str) -> str:
        """Process CAN, SUB or a C1 control character, which end the current sequence.

        A sequence or control string that starts with a C1 control character is dropped.
        """
        self._enter(_EscapeState.TEXT)
        if character == _C1_CSI:
            self._enter(_EscapeState.CSI, character)
        elif chr(ord(character) - 0x40 & 0x7F) in _STRINGS and character > "\x7f":
            self._enter(_EscapeState.STRING)
        return self._show_control(character)

    def _process_second(self, character: str) -> str:
        """Process the character after an ESC."""
        if character == "[":
            self._enter(_EscapeState.CSI, f"{_ESC}[")
        elif character in _STRINGS:
            self._enter(_EscapeState.STRING)
        elif character < "0":
            self._enter(_EscapeState.CHARSET, f"{_ESC}{character}")
        else:
            return self._end_sequence(f"{_ESC}{character}")
        return ""


class PlainScreen(Screen):
    """A filter that passes only text: escape sequences are dropped, and control characters are escaped."""

    _text = _PLAIN_TEXT

    def _show_control(self, character: str) -> str:
        return format_escape(ord(character))

    def _filter_sequence(self, sequence: str) -> str:
        return ""


class RawScreen(Screen):
    """A filter that passes all bytes unchanged, but records the modes to reset."""

    def feed(self, octets: bytes) -> bytes:
        super().feed(octets)
        return octets


def _filter_sequence(sequence: str) -> str:
    start, rest = sequence[:2], sequence[2:]
    if start != f"{_ESC}[":
        escape = sequence[1:]
        return sequence if sequence.startswith(_ESC) and (escape in _ESCAPES or escape in _CHARSETS) else ""
    if len(sequence) > MAX_SEQUENCE:
        return ""
    parameters, final = rest[:-1], rest[-1]
    if final in "hl":
        return _filter_modes(parameters, final)
    if final == "q":
        return sequence if re.fullmatch("[0-9]{0,2} ", parameters) else ""
    return sequence if final in _FINALS and _PARAMETERS.fullmatch(parameters) else ""


def _filter_modes(parameters: str, final: str) -> str:
    private = parameters.startswith("?")
    permitted = _PRIVATE_MODES if private else _MODES
    modes = [mode for mode in parameters.removeprefix("?").split(";") if mode in permitted]
    return f"{_ESC}[{'?' if private else ''}{';'.join(modes)}{final}" if modes else ""


#: Modes that are on by default in a terminal.
_DEFAULT_MODES = frozenset({"?25", "?7"})


def _reset_modes(*modes: str) -> dict[str, str]:
    return {mode: f"{_ESC}[{mode}{'h' if mode in _DEFAULT_MODES else 'l'}" for mode in modes}


#: The reset sequence of each mode, in the order of the reset. The margins belong to the alternate screen, so
#: the margins are reset before the alternate screen is left. The reset sequence of the margins restores the
#: cursor position.
_RESET_BY_MODE = {
    **_reset_modes("?6"),
    "margins": f"{_ESC}7{_ESC}[r{_ESC}8",
    **_reset_modes("?1049", "?1047", "?47", "?25", "?1", "?7", "?5", "?1000", "?1002", "?1003", "?1006"),
    **_reset_modes("?2004", "4", "20"),
    "keypad": f"{_ESC}>",
    "cursor": f"{_ESC}[0 q",
    "charset": f"{_ESC}(B",
    "shift": "\x0f",
    "colors": f"{_ESC}[m",
}


class ScreenModes:
    """The terminal modes that the session changed and did not reset."""

    def __init__(self) -> None:
        self._on: set[str] = set()

    def make_reset(self) -> str:
        return "".join(undo for name, undo in _RESET_BY_MODE.items() if name in self._on)

    def record_text(self, text: str) -> None:
        """Record SO (Shift Out: another character set) and SI (Shift In: the normal one) in text."""
        if "\x0e" in text or "\x0f" in text:
            self._set_mode("shift", text.rfind("\x0e") > text.rfind("\x0f"))

    def record_sequence(self, sequence: str) -> None:
        """Record the effect of a permitted sequence on the modes."""
        final = sequence[-1]
        if not sequence.startswith(f"{_ESC}["):
            self._record_escape(sequence[1:])
            return
        parameters = sequence[2:-1]
        if final in "hl":
            self._record_modes(parameters, final)
        elif final == "r":
            self._set_mode("margins", parameters != "")
        elif final == "m":
            self._set_mode("colors", parameters.strip("0;") != "")
        elif final == "q":
            self._set_mode("cursor", parameters.strip("0 ") != "")

    def _record_modes(self, parameters: str, final: str) -> None:
        private = parameters.startswith("?")
        for mode in parameters.removeprefix("?").split(";"):
            name = f"?{mode}" if private else mode
            self._set_mode(name, (final == "h") != (name in _DEFAULT_MODES))

    def _record_escape(self, escape: str) -> None:
        if escape in "=>":
            self._set_mode("keypad", escape == "=")
        elif escape.startswith("("):
            self._set_mode("charset", escape != "(B")

    def _set_mode(self, name: str, is_on: bool) -> None:
        if is_on and name in _RESET_BY_MODE:
            self._on.add(name)
        else:
            self._on.discard(name)


# The output of a telnet session to the user's terminal: conversion of line ends, then the filter (S15).


class TerminalOutput:
    """A converter of the data of a telnet session to bytes for the terminal.

    Args:
        plain: whether to pass only text, with LF as line end.
        raw: whether to pass all bytes unchanged.
        utf8: whether the charset of the terminal is UTF-8.
    """

    def __init__(self, *, plain: bool = False, raw: bool = False, utf8: bool = True) -> None:
        kind = PlainScreen if plain else RawScreen if raw else Screen
        self._screen = kind(utf8=utf8)
        self._convert = NvtText().feed if plain else decode_for_terminal

    def show_data(self, data: bytes, *, binary: bool) -> bytes:
        """Convert data of the session.

        In binary mode (`binary`), the data does not use the line ends of the Network Virtual Terminal (NVT).
        """
        return self._screen.feed(self._convert(data, binary=binary))

    @property
    def reset_sequences(self) -> bytes:
        """Return the escape sequences that reset the modes that are still on."""
        return self._screen.reset_sequences
