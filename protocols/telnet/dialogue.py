"""The plan of a telnet URL: there is nothing to do."""

from __future__ import annotations

from protocols.step import Dialogue, Note


def announce() -> Dialogue[None]:
    yield Note("nothing is sent: this is a service for a person, and a session is never opened by itself")
