"""The user's cookie file, which stores cookies between runs.

The file is read before the first request of a run. After the last request, the file is read again, and the
new cookies of the run are added to it. So the cookies of concurrent runs are not lost. If two runs received
the same cookie, the later value is stored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from protocols.errors import LocalError, NotConfigured
from protocols.http.auth import JAR
from protocols.http.cookies import (
    BadLine,
    Cookie,
    Jar,
    SuffixOf,
    merge_cookies,
    parse_line,
    read_lines,
)
from protocols.location import Finding
from protocols.text import own_text
from resolver.files.atomic import MISSING, open_own, update_own
from resolver.network.events import OnEvent, Warned

_DESCRIPTION = "cookie file"
_MAX_SIZE = 4_194_304  # maximum size of the cookie file in bytes


class CookieFile:
    """A cookie file during one run; invalid lines are reported to `on_event` and stay in the file."""

    def __init__(self, path: str, suffix_of: SuffixOf | None, on_event: OnEvent) -> None:
        self.path = path
        self._suffix_of = suffix_of
        self._on_event = on_event
        self._jar = Jar(clock=partial(datetime.now, UTC))
        self._loaded: Mapping[tuple[object, ...], Cookie] = {}

    def load(self, memory: dict[str, object]) -> None:
        """Load the cookies of the file into the cookie jar of the run.

        If the file does not exist, the jar is empty. Raises `NotConfigured` if the file cannot be read, or if
        its directory does not exist.
        """
        try:
            with open_own(self.path, _DESCRIPTION, _MAX_SIZE, secret=True) as file:
                self._parse(file.octets)
        except MISSING as error:
            directory = os.path.dirname(os.path.abspath(self.path))
            if not os.path.isdir(directory):
                raise NotConfigured(f"cannot keep cookies in {self.path}: no such directory") from error
        self._loaded = dict(self._jar.cookies)
        memory[JAR] = self._jar

    def _parse(self, octets: bytes) -> None:
        """Parse the lines into the cookie jar.

        The limits of the cookie jar apply to cookies from servers, but not to cookies in the user's file.
        """
        for number, line in read_lines(octets):
            try:
                cookie = parse_line(line, number, self._suffix_of)
            except BadLine as error:
                self._warn(f"line {number} is skipped: {error}")
            else:
                if cookie is not None and not cookie.is_expired(self._jar.now):
                    self._jar.cookies[cookie.key] = cookie
        self._jar.revision = len(self._jar.cookies)

    def _warn(self, words: str) -> None:
        self._on_event(Warned(own_text(self.path), Finding("cookies", "warn", words)))

    def save(self, *, failed: bool) -> None:
        """Write changed cookies to the file.

        Raises `LocalError` if the file cannot be written. If `failed` is true, a write error is only a
        warning, because the caller must receive the run's own error.
        """
        try:
            self._save()
        except LocalError as fault:
            if not failed:
                raise
            self._warn(fault.message)

    def _save(self) -> None:
        before, after = self._loaded, self._jar.cookies
        if before != after:
            update_own(
                self.path,
                _DESCRIPTION,
                _MAX_SIZE,
                lambda octets: merge_cookies(octets, before, after, self._jar.now, self._suffix_of),
            )
            self._loaded = dict(after)
