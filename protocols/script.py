"""The script of a telnet session without a user. Only few retrievals import this module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from protocols.location import JsonValue


class Prompt(Protocol):
    """A text pattern, such as a shell prompt, for which a telnet script waits; `str` returns the pattern."""

    def end_in(self, window: bytes) -> int | None:
        """Return the end index of the first match in `window`, or None without a match.

        Raises:
            LocalError: The search would take too long.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    r"""The script of a telnet session without a user.

    The session ends after `seconds` seconds. It ends earlier if the `prompt` arrives after the last text. The
    client sends the texts of `send` one by one, each with a line end. Before each text, the client waits for
    the prompt. If no prompt is configured, the client sends all texts after the first text of the service.

    The texts may be passwords and are never displayed. If the service echoes a text, the transcript contains
    the text. `tell` is called for each event. The argument `event` is option, data, sent, command, finding or
    end. All other arguments of `tell` describe the event.

    Examples:
        >>> wanted = resolver.Transcript(prompt=resolver.prompt(b"login: "), send=(b"guest",), seconds=20)
        >>> plan = resolver.explain("telnet://h.example/", options=resolver.Options(transcript=wanted))
        >>> [step["octets"] for step in plan.steps if step["action"] == "send"]
        ['****\r\n']
    """

    seconds: float | None = None
    prompt: Prompt | None = None
    send: tuple[bytes, ...] = field(default=(), repr=False)
    tell: Callable[[dict[str, JsonValue]], None] | None = field(default=None, repr=False, compare=False)
