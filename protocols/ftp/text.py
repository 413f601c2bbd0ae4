"""Type A: what travels is NVT text, lines ended by CR LF whatever the two systems use (RFC 959 3.1.1.1)."""

from __future__ import annotations


class NetworkText:
    """Turns the octets of a type A transfer into text with our own line end, LF.

    CR LF becomes LF and CR NUL a CR. A CR or LF alone stays, for vsftpd by default sends a file
    untouched in type A. A CR at the end of what came is carried over; at the end of all it is data.
    """

    def __init__(self) -> None:
        self._carried = b""

    def feed(self, octets: bytes) -> tuple[bytes]:
        octets = self._carried + octets
        self._carried = b"\r" if octets.endswith(b"\r") else b""
        octets = octets.removesuffix(b"\r")
        return (octets.replace(b"\r\n", b"\n").replace(b"\r\0", b"\r"),)

    def finish(self) -> tuple[bytes]:
        carried, self._carried = self._carried, b""
        return (carried,)
