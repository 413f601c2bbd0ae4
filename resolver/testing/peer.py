"""The other side of a dialogue that is played: what it takes, and what it says."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from protocols.contract import Credentials
from protocols.errors import NetworkError
from protocols.step import Acquire, Connect, JoinPipeline, OpenData, Step

Opening: TypeAlias = "Connect | Acquire | JoinPipeline"


class PeerOutput(NamedTuple):
    """What a peer says next, and on which connection. No octets are the end: by what `broken` says, or
    orderly, with TLS's close_notify or not."""

    octets: bytes = b""
    on: Literal["connection", "data"] = "connection"
    broken: NetworkError | None = None
    close_notify: bool = False


class UnscriptedStep:
    """What a peer answers to a step that it leaves to the player."""


UNSCRIPTED = UnscriptedStep()


class ScriptedPeer:
    """One that nobody has to do with: whatever is asked of it fails. A script says what is different."""

    address = "127.0.0.1"

    def answer(self, step: Step) -> object:
        """The value that a step is answered with, where no octets are to be read for it; or raises."""
        return UNSCRIPTED

    def connect(self, step: Opening) -> object:
        """What the dialogue knows of the connection: None for a new one."""
        raise AssertionError(f"nobody expects {step}")

    def hear(self, octets: bytes) -> None:
        raise AssertionError(f"nobody waits for {octets!r}")

    def speak(self) -> PeerOutput:
        raise AssertionError("it waits for words that never come")

    def credentials(self, user: bytes | None) -> Credentials | None:
        raise AssertionError(f"nobody expects a login as {user!r}")

    def open_data(self, step: OpenData) -> None:
        raise AssertionError(f"nobody expects a data connection to port {step.port}")

    @property
    def unmet(self) -> int:
        """How many connections it still waits for."""
        return 0

    @property
    def unsaid(self) -> bytes:
        """What it still waits for on this one."""
        return b""

    @property
    def unread(self) -> bytes:
        """What it still has to say on this one."""
        return b""
