"""Line ends of the network virtual terminal (RFC 854, RFC 1123 3.3.1), coming in.

CR LF is the end of a line, CR NUL a carriage return, a carriage return before anything else and a line feed
alone are what they are, and a NUL is nothing. In BINARY (RFC 856) octets are what they are; in text CR LF is
the end of a line all the same.
"""

from __future__ import annotations


class NvtText:
    """Fed data, it gives text, whose lines end with LF. A carriage return at the end of a piece waits for
    what follows."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, octets: bytes, *, binary: bool) -> bytes:
        octets = self._held + octets
        self._held = octets[-1:] if octets.endswith(b"\r") else b""
        text = octets[: len(octets) - len(self._held)].replace(b"\r\n", b"\n")
        return text if binary else text.replace(b"\r\0", b"\r").replace(b"\0", b"")

    def finish(self) -> bytes:
        """Behind the end of all: a carriage return that was held back."""
        held, self._held = self._held, b""
        return held


def printed(octets: bytes, *, binary: bool) -> bytes:
    """What a terminal gets of data: it knows line ends itself."""
    return octets if binary else octets.replace(b"\0", b"")
