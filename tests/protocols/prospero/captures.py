"""Recorded exchanges of the 1994 reference server, and replays of them against the ARDP machine.

Packets are in order of arrival; packets that were sent but not delivered are marked. The replay wakes the
machine when the recorded client sent a packet, and the machine must send the same packet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from fixtures import recordings
from protocols.contract import DatagramAction, Line, RedirectAddress, SwitchAddress
from protocols.prospero.ardp import ArdpExchange
from protocols.prospero.dialogue import LinkReader
from protocols.prospero.message import ProsperoReply, join_packets, read_reply
from protocols.prospero.objects import RequestObject
from protocols.prospero.resolution import UnionMember
from protocols.wire import run_reader
from resolver import Limits, ResolveError

FOLDER = recordings.FOLDER / "prospero"
#: The server of the recordings; the address is invented.
ADDRESS = "192.0.2.1"
SERVER = RequestObject("localhost", 15251, b"/asked")


@dataclass(frozen=True)
class Recorded:
    """A recorded datagram. `header` has the length given in its own first byte."""

    client: bool
    octets: bytes
    time: float
    dropped: bool
    via: int

    @property
    def header(self) -> bytes:
        return self.octets[: self.octets[0]]

    @property
    def text(self) -> bytes:
        return self.octets[self.octets[0] :]

    @property
    def connection(self) -> int:
        return int.from_bytes(self.octets[1:3])

    @property
    def number(self) -> int:
        return int.from_bytes(self.header[3:5]) if len(self.header) > 4 else 1


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> list[Recorded]:
    recorded = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    time = 0.0
    packets = []
    for packet in recorded["packets"]:
        time = packet.get("t", time)
        packets.append(
            Recorded(
                packet["dir"] == "client",
                bytes.fromhex(packet["hex"]),
                time,
                packet.get("dropped", False),
                packet.get("via", 1),
            )
        )
    return packets


def exchanges(name: str) -> list[list[Recorded]]:
    """Return the packets of each request and its reply.

    An exchange begins with a client's packet 1 that has a new connection id.
    """
    found: list[list[Recorded]] = []
    for packet in load(name):
        new = (
            packet.client
            and packet.number == 1
            and (not found or found[-1][0].connection != packet.connection)
        )
        if new:
            found.append([])
        found[-1].append(packet)
    return found


def request_of(packets: list[Recorded]) -> bytes:
    """Return the text of the request, without repeated packets."""
    pieces = {packet.number: packet.text for packet in packets if packet.client and packet.number}
    return b"".join(pieces[number] for number in sorted(pieces))


def reply_of(packets: list[Recorded]) -> bytes:
    """Return the text of the reply, without repeated packets."""
    pieces = {packet.number: packet.text for packet in packets if not packet.client and packet.number}
    return b"".join(pieces[number] for number in sorted(pieces))


@dataclass
class ReplayOutcome:
    """The outcome of an exchange: a text or an error. `redirects` are the redirects of the machine."""

    text: bytes | None = None
    error: ResolveError | None = None
    redirects: list[RedirectAddress] = field(default_factory=list)
    answer: ProsperoReply | None = None


class Replay:
    """A replay of one exchange of datagrams: the machine alone, without a dialogue.

    `free`: the recorded client split its request differently, so the sent packets are not compared.
    """

    def __init__(self, packets: list[Recorded], *, free: bool) -> None:
        self._packets = packets
        self._free = free
        request = request_of(packets)
        self._exchange = ArdpExchange(
            Line(request, request), packets[0].connection, (ADDRESS,), patience=100.0, max_size=1_000_000
        )
        self._unsent: list[bytes] = []
        self._peer = ADDRESS
        self.outcome = ReplayOutcome()

    def play(self) -> ReplayOutcome:
        try:
            self._perform(self._exchange.begin(0.0))
            for packet in self._packets:
                self._replay_packet(packet)
            self._wait_for_timeout()
        except ResolveError as error:
            self.outcome.error = error
        if not self._free:
            assert self._unsent == [], "sent packets that the recorded client did not send"
        if self._exchange.complete:
            self.outcome.text = join_packets(self._exchange.pieces)
            self.outcome.answer = parse_reply(self.outcome.text, Limits())
        return self.outcome

    def _replay_packet(self, packet: Recorded) -> None:
        if not packet.client:
            if not packet.dropped:
                self._perform(self._exchange.take(packet.octets, self._peer, packet.time))
        elif packet.header[-1:] == b"\x01" and len(packet.header) == 13:
            assert self._exchange.cancel().octets == packet.octets
        elif not self._free:
            if not self._unsent:
                self._perform(self._exchange.wake(packet.time))
            sent = self._unsent.pop(0)
            # the machine may acknowledge the reply's packets earlier than the recorded client did (4.3)
            if packet.number and packet.time:
                sent = sent[:7] + packet.octets[7:9] + sent[9:]
            assert sent == packet.octets

    def _perform(self, actions: list[DatagramAction]) -> None:
        for action in actions:
            if isinstance(action, RedirectAddress):
                self.outcome.redirects.append(action)
                self._peer = action.address
            elif isinstance(action, SwitchAddress):
                self._peer = action.address
            else:
                self._unsent.append(action.octets)

    def _wait_for_timeout(self) -> None:
        """If the server never answered, advance the time until the machine gives up."""
        if all(packet.client for packet in self._packets) and self._packets[-1].number:
            while True:
                self._perform(self._exchange.wake(self._exchange.deadline))


def parse_reply(text: bytes, limits: Limits) -> ProsperoReply:
    return run_reader(lambda buffer: read_reply(text, limits))


def describe_reply(answer: ProsperoReply) -> Iterator[str]:
    """Yield a line for each item of a reply; a link includes its URL."""
    if answer.software is not None:
        yield f"VERSION {answer.software.decode()}"
    members = [UnionMember(link, SERVER) for link in answer.links]
    for link, entry in zip(answer.links, LinkReader(members, {}).feed(b"\n" * len(members)), strict=True):
        yield f"{link.ltype.decode()} {link.target.decode()} {entry.name!r} {entry.url}"
    for attribute in answer.attributes:
        values = b" ".join(value or b"''" for value in attribute.values)
        yield f"{attribute.applies.decode()} {attribute.name.decode()} {values.decode('latin-1')}"
    if answer.forwarded is not None:
        yield f"FORWARDED {answer.forwarded.target(SERVER).url}"
    if answer.none_found:
        yield "NONE-FOUND"
    if answer.unresolved:
        yield f"UNRESOLVED {b' '.join(answer.unresolved).decode()}"
    if answer.refusal is not None:
        error = answer.refusal.error()
        yield f"{type(error).__name__} {error.code} {error.text}".rstrip()
    yield from answer.oddities
