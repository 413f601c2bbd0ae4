"""The dialogue of a telnet URL. It describes the service, or records a transcript if requested.

A description does not open a connection. A transcript ends at a time limit, at a prompt, or after the last
text.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from protocols.contract import Reply
from protocols.errors import Disconnected, LimitExceeded, TimedOut, Truncated
from protocols.location import Finding, Kind
from protocols.options import Limits, Options
from protocols.script import Transcript
from protocols.step import (
    Connect,
    Dialogue,
    EmitBody,
    PlanNote,
    RequestEnd,
    Send,
    StartBody,
    StartTimer,
    StartTls,
    TimerElapsed,
    receive,
)
from protocols.telnet.url import TelnetUrl, build

if TYPE_CHECKING:
    from protocols.contract import Line
    from protocols.location import JsonValue
    from protocols.wire import Buffer

#: The maximum number of bytes in which the next prompt is searched, counted from the last prompt.
_WINDOW = 65_536


def converse(url: TelnetUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """Return the steps that describe a service, or that record a transcript if it is requested."""
    transcript = None if options is None else options.transcript
    if transcript is None:
        yield from _describe_service(url)
    else:
        yield from _TranscriptSession(url, transcript, options or Options(), limits or Limits()).steps()


def _describe_service(url: TelnetUrl) -> Dialogue[None]:
    """Return a reply of the kind service: the target is the URL without a password.

    `extra` contains host, port and login. The login is only displayed to the user and is not sent (RFC 1738
    3.8).
    """
    yield PlanNote("nothing is sent: this is an interactive service, and a session is opened only on request")
    login = None if url.user is None else url.user.decode("latin-1")
    reply = Reply(
        kind=Kind.SERVICE,
        target=build(replace(url, password=None, fragment=None)),
        extra={"service": url.scheme, "host": url.host, "port": url.effective_port, "login": login},
    )
    yield StartBody(reply)


class _SessionOutput(NamedTuple):
    """Received bytes, or the end of the session.

    `prompts` is set for the expected reply in a plan. Such a reply counts as a match of every prompt in the
    script.
    """

    octets: bytes = b""
    ended: bool = False
    prompts: bool = False


_EXPECTED_OUTPUT = _SessionOutput(prompts=True)


def _read_piece(buffer: Buffer) -> Generator[None, None, _SessionOutput]:
    while not buffer:
        if buffer.at_end:
            return _SessionOutput(ended=True)
        yield
    return _SessionOutput(buffer.take())


class _PromptScript:
    """The script of a session: it waits for the prompt, sends a text, waits for the prompt again, and so on.

    The last step waits for the prompt. Without a prompt, all texts are sent after the first text of the
    server.
    """

    def __init__(self, script: Transcript) -> None:
        self._script = script
        self._texts = list(script.send)
        self._window = b""
        self.is_over = False

    @property
    def description(self) -> str:
        return "options and text" if self._script.prompt is None else f"options and text until {self.prompt}"

    @property
    def prompt(self) -> str:
        return str(self._script.prompt)

    @property
    def has_more(self) -> bool:
        """Return whether the script still has a text to send or a prompt to wait for."""
        return bool(self._texts) or (self._script.prompt is not None and not self.is_over)

    def answer(self, text: bytes, *, prompts: bool) -> Iterator[bytes]:
        """Yield the texts that are sent in response to a received text."""
        if self._script.prompt is None:
            if text or prompts:
                yield from self._texts
                self._texts.clear()
            return
        self._window = (self._window + text)[-_WINDOW:]
        while not self.is_over and (prompts or self._match_prompt()):
            self.is_over = not self._texts
            if self._texts:
                yield self._texts.pop(0)
            if prompts:
                return

    def _match_prompt(self) -> bool:
        assert self._script.prompt is not None
        end = self._script.prompt.end_in(self._window)
        if end is not None:
            self._window = self._window[end:]
        return end is not None


class _TranscriptSession:
    def __init__(self, url: TelnetUrl, transcript: Transcript, options: Options, limits: Limits) -> None:
        from protocols.telnet.octets import NvtText  # lazy import: most telnet URLs are never opened
        from protocols.telnet.terminal import NvtTerminal

        self._url = url
        self._transcript = transcript
        self._limits = limits
        self._tls = "never" if url.scheme == "telnets" else options.tls
        self._script = _PromptScript(transcript)
        self._terminal = NvtTerminal()
        self._text = NvtText()
        self._reply = Reply(kind=Kind.DOCUMENT, media_type="text/plain")
        self._received = self._typed = 0
        self._reason = ""

    def steps(self) -> Dialogue[None]:
        """Record the transcript.

        Raises:
            TimedOut: The time elapsed before the prompt arrived.
            Truncated: The server closed the connection before the prompt arrived.
            LimitExceeded: The server does not stop negotiating or sending text.
        """
        yield Connect(tls=self._url.scheme == "telnets")
        if self._transcript.seconds is not None:
            yield StartTimer(self._transcript.seconds)
        yield PlanNote("options are answered as the server requests them; the client requests none")
        octets = b"" if self._tls == "never" else (yield from self._secure(self._tls))
        yield StartBody(self._reply)
        try:
            yield from self._listen(octets)
        except TimerElapsed as error:
            self._reason = "for"
            if self._transcript.prompt is not None:
                raise TimedOut(f"timed out waiting for {self._script.prompt}: {error.message}") from error
        except Disconnected as error:
            self._reason = "reset"
            if not self._received:
                raise
            raise self._make_truncated(error.message) from error
        except (LimitExceeded, TimedOut):
            self._reason = "limit"
            raise
        finally:
            if self._reason:  # the caller that stopped reading the transcript needs no event
                self._emit_event({"event": "end", "reason": self._reason})

    def _secure(self, requirement: Literal["try", "require"]) -> Dialogue[bytes]:
        """Offer TLS at the start of the session (STARTTLS), before the client sends other bytes.

        Returns:
            The received bytes, if the session continues unencrypted.
        """
        from protocols.telnet.terminal import (
            EXPECTED,
            IN_CLEAR,
            StartTlsOffer,
            StartTlsOutcome,  # Lazy import: few sessions use START_TLS.
        )

        offer, rest = StartTlsOffer(self._terminal, requirement), b""
        while offer.outcome is StartTlsOutcome.OPEN:
            if lines := offer.lines():
                yield Send(lines)
            piece = yield from receive(
                _read_piece, "IAC DO START-TLS, and that TLS follows", _SessionOutput(EXPECTED)
            )
            if piece.ended:
                raise Disconnected("the service closed the connection after the offer of TLS")
            rest = offer.feed(piece.octets)
        if lines := offer.lines():
            yield Send(lines)
        if offer.outcome is StartTlsOutcome.AGREED:
            yield StartTls()
            self._terminal = self._terminal.make_initial()
        else:
            self._report(*IN_CLEAR)
        return rest

    def _listen(self, octets: bytes) -> Dialogue[None]:
        """Receive until the script has ended. `octets` are the bytes that were received earlier."""
        while not self._script.is_over:
            if octets:
                piece, octets = _SessionOutput(octets), b""
            else:
                piece = yield from receive(_read_piece, self._script.description, _EXPECTED_OUTPUT)
            text = self._text.finish() if piece.ended else self._read_text(piece.octets)
            lines = (*self._terminal.answers(), *self._send_text(text, prompts=piece.prompts))
            if lines:
                yield Send(lines)
            if text:
                self._received += len(text)
                yield EmitBody(text, "text of the service")
            if self._received > self._limits.body:
                raise LimitExceeded("body", f"text exceeds {self._limits.body} bytes")
            if piece.ended:
                self._end((yield RequestEnd()))
                return
            if piece.prompts and not self._script.has_more:
                return
        self._reply.verified.add("terminator")
        self._reason = "until"

    def _read_text(self, octets: bytes) -> bytes:
        from protocols.telnet.octets import TelnetData, TelnetEvent, UnknownCommand

        text = []
        for event in self._terminal.feed(octets):
            match event:
                case TelnetData(octets=data):
                    text.append(self._text.feed(data, binary=self._terminal.receives_binary))
                    self._emit_event({"event": "data", "octets": data.decode("latin-1")})
                case UnknownCommand(rule=rule, detail=detail):
                    self._report(rule, detail)
                case TelnetEvent(command=command):
                    self._emit_event({"event": "command", "name": command.name})
                case _:
                    self._emit_event({"event": "option", **event.as_json()})
        return b"".join(text)

    def _emit_event(self, event: dict[str, JsonValue]) -> None:
        if self._transcript.tell is not None:
            self._transcript.tell(event)

    def _send_text(self, text: bytes, *, prompts: bool) -> Iterator[Line]:
        for answer in self._script.answer(text, prompts=prompts):
            line = self._terminal.encode_line(answer)
            self._typed += 1
            self._emit_event({"event": "sent", "count": self._typed})
            yield line

    def _end(self, has_proof: object) -> None:
        """Process the end of the connection.

        If the script is complete, the end of the connection is the regular end of the session. If TLS ends
        without close_notify, the transcript may be truncated.
        """
        self._reason = "closed"
        if self._script.has_more:
            raise self._make_truncated("the server closed the connection before the transcript was complete")
        if self._terminal.inside or has_proof is False:
            self._reason = "cut"
        if self._terminal.inside:
            raise self._make_truncated("the server closed the connection inside a command")
        if has_proof is False:
            raise self._make_truncated("the connection ended without TLS's close_notify")
        if has_proof:
            self._reply.verified.add("close-notify")

    def _make_truncated(self, why: str) -> Truncated:
        return Truncated(why, received=self._received)

    def _report(self, rule: str, detail: str) -> None:
        """Add a finding for a rule, at most once per session. A server may violate the rule in every line."""
        if all(finding.rule != rule for finding in self._reply.findings):
            finding = Finding(rule, "warn", detail)
            self._reply.findings.append(finding)
            self._emit_event({"event": "finding", **finding.as_json()})
