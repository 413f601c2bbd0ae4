"""A telnet session while its connection lives, for a thread that waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from protocols.contract import Finding
from resolver.blocking.likeness import like
from resolver.portal import OpenResource
from resolver.retrieval import terminal_session

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    method: Callable[Concatenate[terminal_session.TerminalSession, P], Awaitable[T]],
) -> Callable[Concatenate[TerminalSession, P], T]:
    """The method, for a thread that waits."""

    def call(self: TerminalSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(lambda session: method(session, *args, **kwargs))

    return like(call, method)


class TerminalSession:
    """What `open_terminal` gives, as long as its connection lives. One thread may wait for something while
    another one types."""

    def __init__(self, session: terminal_session.TerminalSession, held: OpenResource) -> None:
        self._session = session
        self._held = held
        self.peer = session.peer
        self.secured = session.secured

    expect = _method(terminal_session.TerminalSession.expect)
    read = _method(terminal_session.TerminalSession.read)
    send = _method(terminal_session.TerminalSession.send)
    send_line = _method(terminal_session.TerminalSession.send_line)
    send_command = _method(terminal_session.TerminalSession.send_command)
    resize = _method(terminal_session.TerminalSession.resize)

    @property
    def echoing(self) -> bool:
        """Does the service show what is typed, or hide it?"""
        return self._session.echoing

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was odd about the service, each oddity once."""
        return tuple(self._session.findings)

    def decoded(self, octets: bytes) -> str:
        """The text of octets, in the `charset` of the session, UTF-8 where it has none."""
        return self._session.decoded(octets)

    def run(self, operation: Callable[[terminal_session.TerminalSession], Awaitable[T]]) -> T:
        """What an operation of one's own gives. It is done under trio, with the session to await."""
        self._held.check_open()
        return self._held.portal.run(lambda: operation(self._session))
