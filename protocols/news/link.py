"""One connection to a news server as both sides know it, and how a dialogue talks on it.

A `Link` is state without I/O: which commands have no answer yet, whether the server is in reader mode,
which group is selected, whether TLS and a login stand. It outlives a dialogue where the connection is
kept. A `Talk` is one dialogue's share of it: what it said and has not heard of. Answers come in the
order of the commands (RFC 3977 3.5), so several dialogues may have spoken before the first is answered.
When one of them meets a hurdle, all that was said is drained and everybody starts anew: `Anew`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from protocols.connection import Line
from protocols.errors import Disconnected, Truncated
from protocols.location import Finding
from protocols.news.block import read_block, skip_block
from protocols.news.commands import ALONE, SELECTING, Command, Verb
from protocols.news.refusals import refusal
from protocols.news.reply import Answer, read_answer
from protocols.options import Limits
from protocols.step import AwaitTurn, Dialogue, Say, TakeFloor, hear
from protocols.wire import Buffer, Reader

T = TypeVar("T")

#: Commands without an answer that a connection has at most. INN gives 14,700 articles/s at 128 and
#: 1,600/s at 32 (measured); 128 of the longest numbers are 3 KiB, which no server's buffer is short of.
WINDOW = 128
#: Octets of an answer that nobody wants; above it closing is cheaper than reading.
SKIP_LIMIT = 67_108_864
#: Octets of an answer to CAPABILITIES; real ones have some hundred.
CAPABILITIES_LIMIT = 65_536


class Capabilities(NamedTuple):
    """What the server says it can do (RFC 3977 5.2): labels with their arguments, in capitals."""

    labels: dict[bytes, frozenset[bytes]]

    def has(self, label: bytes, argument: bytes | None = None) -> bool:
        return label in self.labels and (argument is None or argument in self.labels[label])

    @property
    def in_transit(self) -> bool:
        """Reading is there only after MODE READER (RFC 3977 5.3)."""
        return self.has(b"MODE-READER") and not self.has(b"READER")


def parse_capabilities(octets: bytes) -> Capabilities:
    labels: dict[bytes, frozenset[bytes]] = {}
    for line in octets.split(b"\r\n"):
        label, *arguments = line.upper().split() or [b""]
        labels[label] = labels.get(label, frozenset()) | frozenset(arguments)
    return Capabilities(labels)


def undivided(answer: Dialogue[T]) -> Dialogue[T]:
    """An answer that comes before there is anything to be had: where it ends inside, the peer has left."""
    try:
        return (yield from answer)
    except Truncated as error:
        raise Disconnected(error.message) from error


class Anew(Exception):
    """What this dialogue said is void and has to be said again. Never leaves a dialogue."""


class NotOurs(Exception):
    """This connection speaks with what was held for another scheme (S11). Never leaves a dialogue."""


@dataclass(slots=True)
class Link:
    """A `Memory`. `owed` are the commands sent and not answered, oldest first; `groups_owed` counts those
    that select a group.

    `reader`: something has told that the server is in reader mode. `reader_asked`: MODE READER was sent,
    which is done once. `tls`: inside TLS, `secured`: by way of STARTTLS. `private`: nobody between can
    read along, for it is TLS or this machine. `login_refused`: a login is not tried again here. `held_for`
    is the scheme that a login here was held for, None where only URLs gave one. `group` is what was
    selected last with 211. `capabilities` are None until asked for; `old` says that the server does not
    know the question. `overview` is the verb to try, None if there is none. `open`: who spoke
    last has no more to say, so another dialogue may speak behind it. `closing`: the server has said that
    it will close. `epoch` counts how often what had been said was drained: a dialogue that spoke in an
    earlier one has to start anew.
    """

    limits: Limits
    buffer: Buffer = field(default_factory=Buffer)
    owed: deque[Command] = field(default_factory=deque)
    groups_owed: int = 0
    greeted: bool = False
    reader: bool = False
    reader_asked: bool = False
    private: bool = False
    tls: bool = False
    secured: bool = False
    logged_in: bool = False
    login_refused: bool = False
    held_for: str | None = None
    group: bytes | None = None
    capabilities: Capabilities | None = None
    old: bool = False
    overview: Verb | None = Verb.OVER
    open: bool = True
    closing: bool = False
    epoch: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def may_ask_reader(self) -> bool:
        """MODE READER must not be sent twice, nor inside TLS, nor after a login (RFC 3977 5.3.2)."""
        return not (self.reader_asked or self.secured or self.logged_in)

    @property
    def has_room(self) -> bool:
        """May another dialogue send behind what is on its way?"""
        return self.greeted and self.open and not self.closing and len(self.owed) < WINDOW

    @property
    def at_rest(self) -> bool:
        """Nothing unanswered, nothing unread."""
        return self.greeted and not (self.owed or self.buffer or self.buffer.at_end or self.closing)

    @property
    def farewell(self) -> tuple[Line, ...]:
        """QUIT; its answer is not waited for."""
        return (Command(Verb.QUIT).line,)

    def owe(self, commands: tuple[Command, ...]) -> None:
        """These are being sent."""
        self.owed.extend(commands)
        self.groups_owed += sum(command.verb in SELECTING for command in commands)

    def settle(self) -> Command:
        """The oldest one is answered."""
        command = self.owed.popleft()
        self.groups_owed -= command.verb in SELECTING
        return command

    def selects(self, group: bytes) -> bool:
        """Is the group certain to be the selected one once everything sent so far is answered?"""
        return self.group == group and not (
            self.groups_owed
            and any(command.verb in SELECTING and command.argument != group for command in self.owed)
        )

    def forget(self) -> None:
        """After TLS or a login nothing counts that was heard before (RFC 4642 2.2.2, RFC 4643 2.2)."""
        self.capabilities = None
        self.old = False
        self.group = None
        self.overview = Verb.OVER


class Talk:
    """What one dialogue says and hears. `scheme` is that of its URL. `pending` are its own commands without
    an answer, `heard` counts answers, `handed`: a part of the body has been handed over."""

    def __init__(self, link: Link, scheme: str) -> None:
        self.link = link
        self.scheme = scheme
        self.pending = 0
        self.heard = 0
        self.handed = False
        self._epoch: int | None = None
        self._has_floor = False
        self._in_turn = False

    def say(self, *commands: Command) -> Dialogue[None]:
        """Send commands in one write. More may be said once these are answered, so nobody else may speak
        in between."""
        yield from self.take_floor()
        self.link.open = False
        yield self._say(commands)

    def say_last(self, *commands: Command) -> Dialogue[None]:
        """Send the last commands of this dialogue in one write: others may speak behind it."""
        yield from self.take_floor()
        self.link.open = True
        yield self._say(commands)

    def take_floor(self) -> Dialogue[None]:
        """Wait until nobody will speak any more before this dialogue does: what the link says by then of
        the commands sent is still so when the next ones are. Raises `NotOurs`."""
        if self._epoch is None and not (self._in_turn or self._has_floor):
            yield TakeFloor()
            self._has_floor = True
            self._check_owner()

    def _check_owner(self) -> None:
        if self.link.held_for not in (None, self.scheme):
            raise NotOurs

    def _say(self, commands: tuple[Command, ...]) -> Say:
        link = self.link
        assert self._epoch is None or len(link.owed) == self.pending, "others have spoken in between"
        if any(command.verb in ALONE for command in commands):
            assert (len(commands), len(link.owed), link.open) == (1, 0, False), "this command goes alone"
        self._epoch, self._has_floor = link.epoch, False
        link.owe(commands)
        self.pending += len(commands)
        return Say(tuple(command.line for command in commands))

    def await_turn(self) -> Dialogue[None]:
        """Wait until the next answer is one to this dialogue. Raises `Anew`, `NotOurs`."""
        if not self._in_turn:
            yield AwaitTurn()
            if self._epoch not in (None, self.link.epoch):
                self.pending, self._epoch = 0, None
                self._check_owner()
                raise Anew
            self._in_turn = True

    def hear(self, ideal: Answer) -> Dialogue[Answer]:
        """The status line of the next answer. Raises `TryLater` for 400, which may come at any time."""
        yield from self.await_turn()
        link = self.link
        command = link.owed[0]
        answer = yield from hear(
            read_answer(command, link.limits.line), f"the answer to {command.verb}", ideal
        )
        link.settle()
        self.pending -= 1
        if answer.code == 400:
            link.closing = True
            raise refusal(command, answer)
        self.heard += 1
        return answer

    def ask(self, command: Command, ideal: Answer) -> Dialogue[Answer]:
        """Send one command, hear its answer."""
        yield from self.say(command)
        return (yield from self.hear(ideal))

    def hear_capabilities(self) -> Dialogue[Answer]:
        """Ask what the server can do; the answer is kept on the link."""
        answer = yield from self.ask(Command(Verb.CAPABILITIES), Answer(101, block=True))
        if answer.block:
            willing = b"" if self.link.tls else b"STARTTLS"
            octets = yield from hear(read_block(CAPABILITIES_LIMIT), "the capabilities", willing)
            self.link.capabilities = parse_capabilities(octets)
            self.link.reader |= self.link.capabilities.has(b"READER")
        else:
            self.link.old |= answer.code in (500, 501)
        return answer

    def drop_own(self) -> Dialogue[None]:
        """Take off the answers to what this dialogue still waits for; nobody wants them."""
        if self.pending:
            yield from hear(self._skip(self.pending), "answers that are not needed any more", None)
            self.pending = 0

    def drop_all(self) -> Dialogue[None]:
        """The same for everybody on this connection: all that was said has to be said anew."""
        self.link.open = False
        if self.link.owed:
            yield from hear(self._skip(len(self.link.owed)), "answers that have to be asked for again", None)
        self.link.epoch += 1
        self.pending, self._epoch = 0, self.link.epoch

    def _skip(self, count: int) -> Reader[None]:
        link = self.link

        def reader(buffer: Buffer) -> Generator[None, None, None]:
            for _ in range(count):
                answer = yield from read_answer(link.owed[0], link.limits.line)(buffer)
                if answer.block:
                    yield from skip_block(SKIP_LIMIT)(buffer)
                if link.settle().verb in SELECTING:
                    link.group = None  # nobody has looked whether it was there

        return reader


def is_loopback(peer: object) -> bool:
    """Is the numeric address one of this machine's own?"""
    return isinstance(peer, str) and (peer == "::1" or peer.removeprefix("::ffff:").startswith("127."))
