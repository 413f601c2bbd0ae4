"""A page without its comments, and with no tag that is too long: what a parser would hold is bounded.

A comment that nothing ends is none: servers that escape nothing write `<!--` where a file is called so, and
all names behind it would be hidden. It is read up to its first `>` only, once the page is over.
"""

from __future__ import annotations

import re

from protocols.errors import LimitExceeded
from protocols.location import Finding

#: Octets of a comment that are held for the case that nothing ends it.
_HELD = 1_048_576
#: What ends text, a tag, a value in it, a script, and a comment.
_TEXT = re.compile(rb"<!--|<(?=[A-Za-z/?]|!(?=[^-]|-[^-]))")
_TAG = re.compile(rb">|=[ \t\r\n\f]*[\"']")
_VALUES = {b'"': re.compile(b'"'), b"'": re.compile(b"'")}
_SCRIPT = re.compile(rb"</(?:script|style)", re.IGNORECASE)
_COMMENT = re.compile(rb"-->")
#: The beginning of one of these, which has not come as a whole.
_HALF = re.compile(rb"(?:<(?:!-?)?|=[ \t\r\n\f]*|</[A-Za-z]{0,5}|--?)\Z")
_MOST_HALF = 16
_IS_SCRIPT = re.compile(rb"<(?:script|style)[\s/>]", re.IGNORECASE)
_LONGEST_SCRIPT = len(b"<script>")


class CommentStripper:
    """Octets in, octets out. Raises `LimitExceeded` for a tag beyond `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._until = _TEXT
        self._rest = b""
        self._tag = b""
        self._length = 0
        self._comment = bytearray()
        self._lost = False

    def feed(self, octets: bytes) -> bytes:
        octets, self._rest = self._rest + octets, b""
        given = bytearray()
        at = 0
        while (found := self._until.search(octets, at)) is not None:
            if found[0] == b"<!--" and self._until is _TEXT:
                given += octets[at : found.start()]
                at = found.end() - 2  # `<!-->` is whole
                self._until, self._lost = _COMMENT, False
                self._comment.clear()
            else:
                self._put(octets[at : found.end()], given)
                at = found.end()
                self._turn(found[0])
        half = _HALF.search(octets, max(at, len(octets) - _MOST_HALF))
        end = len(octets) if half is None else half.start()
        self._put(octets[at:end], given)
        self._rest = octets[end:]
        return bytes(given)

    def _turn(self, found: bytes) -> None:
        """What was looked for is there: what ends what begins now?"""
        if self._until is _TEXT:
            self._begin_tag(found)
        elif self._until is _SCRIPT:
            self._begin_tag(b"<")
        elif self._until is _COMMENT:
            self._until = _TEXT
        elif self._until is not _TAG:
            self._until = _TAG
        elif found == b">":
            self._until = _SCRIPT if _IS_SCRIPT.match(self._tag) else _TEXT
        else:
            self._until = _VALUES[found[-1:]]

    def _begin_tag(self, begin: bytes) -> None:
        self._until, self._tag, self._length = _TAG, begin, 0

    def _put(self, octets: bytes, given: bytearray) -> None:
        if self._until is _COMMENT:
            self._comment += octets
            if len(self._comment) > _HELD:
                self._comment.clear()
                self._lost = True
            return
        given += octets
        if self._until in (_TEXT, _SCRIPT):
            return
        self._length += len(octets)
        if len(self._tag) < _LONGEST_SCRIPT:
            self._tag += octets[:_LONGEST_SCRIPT]
        if self._length > self._most:
            raise LimitExceeded("line", f"a tag of the page is longer than {self._most} octets")

    def finish(self, findings: list[Finding]) -> bytes:
        """What nothing has ended."""
        rest, self._rest = self._rest, b""
        if self._until is not _COMMENT:
            return rest
        if self._lost:
            detail = f"a comment of more than {_HELD} octets has no end, and may hide names"
            findings.append(Finding("http:index-hidden", "warn", detail))
            return b""
        return b"<!" + bytes(self._comment[2:]) + rest
