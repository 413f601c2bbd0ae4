"""Runs of a terminal on bytes that arrive in chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocols.telnet.octets import NvtText, TelnetData
from protocols.telnet.terminal import NvtTerminal, TerminalEvent


class TerminalResult(NamedTuple):
    """Events, text and answers of a terminal. Consecutive data events are merged."""

    happenings: list[TerminalEvent]
    text: bytes
    answers: bytes


def run_terminal(pieces: Iterable[bytes], terminal: NvtTerminal | None = None) -> TerminalResult:
    """Feed the chunks to a terminal, collect its answers after each, and return the result."""
    terminal = terminal or NvtTerminal()
    text, read, happenings, answers = NvtText(), b"", list[TerminalEvent](), b""
    for piece in pieces:
        for happening in terminal.feed(piece):
            if isinstance(happening, TelnetData):
                read += text.feed(happening.octets, binary=terminal.receives_binary)
                if happenings and isinstance(before := happenings[-1], TelnetData):
                    happenings[-1] = TelnetData(before.octets + happening.octets)
                    continue
            happenings.append(happening)
        answers += b"".join(line.octets for line in terminal.answers())
    return TerminalResult(happenings, read + text.finish(), answers)


def octet_by_octet(octets: bytes) -> list[bytes]:
    return [octets[at : at + 1] for at in range(len(octets))]
