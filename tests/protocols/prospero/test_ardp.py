"""The ARDP machine and its packets, driven with a simulated clock (protocol page, sections 2 to 4)."""

from __future__ import annotations

import pytest

from fixtures.prospero import Channel
from fixtures.prospero.transport import (
    ReplyOptions,
    Transport,
    redirect_packet,
    refusal_packet,
    version_packet,
    wait_packet,
)
from protocols.contract import DatagramAction, Line, RedirectAddress, SwitchAddress
from protocols.prospero.ardp import (
    MAX_REDIRECTS,
    PERSISTENT,
    ArdpExchange,
    ArdpOption,
    ArdpPacket,
    RetransmitTiming,
    SupportedVersions,
    decode_packet,
    decode_queue,
    decode_redirect,
    encode_acknowledgment,
    encode_cancel,
    encode_piece,
)
from protocols.wire import encode_commands, encode_datagram, split_message
from resolver import Declined, LimitExceeded, Refused, TimedOut

PEER = "192.0.2.1"
ID = 0x1234


def exchange(
    request: bytes = b"x",
    *,
    patience: float = 100.0,
    max_size: int = 1_000_000,
    connection: int = ID,
    timing: RetransmitTiming | None = None,
) -> ArdpExchange:
    message = Line(request, request)
    return ArdpExchange(
        message,
        connection,
        (PEER,),
        patience=patience,
        max_size=max_size,
        timing=timing or RetransmitTiming(),
    )


def begun(request: bytes = b"x", *, patience: float = 100.0, max_size: int = 1_000_000) -> ArdpExchange:
    machine = exchange(request, patience=patience, max_size=max_size)
    machine.begin(0.0)
    return machine


def octets(actions: list[DatagramAction]) -> list[bytes]:
    return [action.octets for action in actions if isinstance(action, Line)]


def numbered(number: int, total: int = 0, text: bytes = b"", connection: int = ID, flags: int = 0) -> bytes:
    header = b"".join(each.to_bytes(2) for each in (connection, number, total))
    if flags:
        return b"\x0c" + header + b"\0\1\0\0" + bytes((flags,)) + text
    return b"\x07" + header + text


def control(packet: bytes, connection: int = ID) -> bytes:
    return packet[:1] + connection.to_bytes(2) + packet[3:]


SINGLE = b"\x03\x12\x34reply"
REQUEST = b"\x09\x12\x34\0\1\0\1\0\0x"
ACKNOWLEDGED = b"\x09\x12\x34\0\0\0\0"


def test_exchange_of_single_packets_completes() -> None:
    machine = exchange()
    assert octets(machine.begin(10.0)) == [REQUEST]
    assert (machine.complete, machine.deadline) == (False, 14.0)
    assert machine.take(SINGLE, PEER, 10.1) == []
    assert (machine.complete, machine.pieces) == (True, [b"reply"])


def test_long_request_is_split_and_numbered() -> None:
    request = bytes(range(256)) * 10
    packets = octets(exchange(request).begin(0.0))
    assert [packet[:9].hex() for packet in packets] == [f"091234{number:04x}00030000" for number in (1, 2, 3)]
    assert [len(packet) - 9 for packet in packets] == [1250, 1250, 60]
    assert b"".join(packet[9:] for packet in packets) == request


def test_packets_equal_sent_packets() -> None:
    for size in (1, 1250, 1251, 16 * 1250):
        machine = exchange(bytes(size))
        assert octets(machine.begin(0.0)) == [packet.octets for packet in machine.packets]
    assert [packet.octets[3:7].hex() for packet in exchange(bytes(40 * 1250)).packets] == [
        f"{number:04x}0028" for number in range(1, 41)
    ]


def test_request_beyond_window_waits_for_acknowledgment() -> None:
    request = bytes(20 * 1250)
    machine = exchange(request)
    first = octets(machine.begin(0.0))
    assert [packet[3:5] for packet in first] == [number.to_bytes(2) for number in range(1, 17)]
    # the last packet of the window requests an acknowledgment
    assert [packet[0] for packet in first] == [9] * 15 + [12]
    assert first[-1][11] == 0x80
    more = octets(machine.take(b"\x09\x12\x34\0\0\0\0\0\x03", PEER, 1.0))
    assert [packet[4] for packet in more] == [17, 18, 19]
    assert machine.deadline == 5.0
    rest = octets(machine.take(b"\x09\x12\x34\0\0\0\0\0\x10", PEER, 2.0))
    assert [packet[4] for packet in rest] == [20]
    assert rest[0][0] == 9


def test_unanswered_request_is_repeated_then_times_out() -> None:
    """The machine sends at 0, 4, 12 and 28 seconds and fails at 60 seconds (4.3)."""
    machine = exchange()
    machine.begin(0.0)
    deadlines = []
    for _ in range(3):
        deadlines.append(machine.deadline)
        assert machine.wake(machine.deadline - 0.1) == []
        assert octets(machine.wake(machine.deadline)) == [REQUEST]
    assert [*deadlines, machine.deadline] == [4.0, 12.0, 28.0, 60.0]
    with pytest.raises(TimedOut):
        machine.wake(60.0)


def test_reply_packets_out_of_order_or_repeated_are_assembled() -> None:
    machine = begun()
    for packet in (numbered(3, 3, b"c"), numbered(1, 0, b"a"), numbered(1, 0, b"no"), numbered(3, 0, b"no")):
        assert machine.take(packet, PEER, 0.0) == []
        assert not machine.complete
    machine.take(numbered(2, 0, b"b"), PEER, 0.0)
    assert (machine.complete, machine.pieces) == (True, [b"a", b"b", b"c"])


def test_empty_reply_completes_exchange() -> None:
    machine = begun()
    machine.take(b"\x03\x12\x34", PEER, 0.0)
    assert (machine.complete, machine.pieces) == (True, [b""])


def test_numbered_control_packet_counts_as_empty() -> None:
    machine = begun()
    machine.take(numbered(1, 0, b"a"), PEER, 0.0)
    machine.take(numbered(2, 0, b"secret", flags=0x40), PEER, 0.0)
    machine.take(numbered(3, 3, b"c"), PEER, 0.0)
    assert machine.pieces == [b"a", b"", b"c"]


def test_acknowledgment_is_sent_after_pending_packets() -> None:
    machine = begun()
    machine.take(numbered(1, 0, b"a", flags=0x80), PEER, 0.0)
    assert machine.deadline == float("-inf")
    assert machine.take(numbered(2, 0, b"b"), PEER, 0.0) == []
    assert octets(machine.wake(0.0)) == [ACKNOWLEDGED + b"\0\2"]
    assert machine.deadline == 4.0
    assert machine.wake(0.1) == []


def test_complete_reply_is_acknowledged_on_request() -> None:
    machine = begun()
    assert octets(machine.take(numbered(1, 1, b"a", flags=0x80), PEER, 0.0)) == [ACKNOWLEDGED + b"\0\1"]
    assert machine.complete


def test_gap_in_reply_repeats_request_with_acknowledgment() -> None:
    machine = begun()
    machine.take(numbered(1, 0, b"a"), PEER, 0.5)
    machine.take(numbered(3, 3, b"c"), PEER, 0.6)
    assert machine.deadline == 4.5
    assert octets(machine.wake(4.5)) == [b"\x09\x12\x34\0\1\0\1\0\1x"]


def test_received_request_is_not_repeated() -> None:
    machine = begun()
    machine.take(b"\x09\x12\x34\0\1\0\3\0\1a", PEER, 0.0)
    assert octets(machine.wake(4.0)) == [ACKNOWLEDGED + b"\0\1"]


def test_progress_restarts_retransmit_schedule() -> None:
    machine = begun()
    machine.wake(4.0)
    assert machine.deadline == 12.0
    machine.take(numbered(1, 0, b"a"), PEER, 5.0)
    assert machine.deadline == 9.0
    machine.take(numbered(3, 0, b"c"), PEER, 6.0)  # after a gap: no new data can be used
    assert machine.deadline == 9.0


def test_acknowledged_request_packets_are_not_repeated() -> None:
    machine = begun(bytes(2600))
    machine.take(b"\x09\x12\x34\0\0\0\0\0\x01", PEER, 1.0)
    assert [packet[4] for packet in octets(machine.wake(5.0))] == [2, 3]
    machine.take(b"\x09\x12\x34\0\0\0\0\0\0", PEER, 6.0)  # the highest acknowledged packet number counts
    assert [packet[4] for packet in octets(machine.wake(13.0))] == [2, 3]
    lowered = b"\x0d\x12\x34\0\0\0\0\0\0\0\0\0\2"  # only option 2 lowers it
    machine.take(lowered, PEER, 14.0)
    assert [packet[4] for packet in octets(machine.wake(29.0))] == [1, 2, 3]


def test_wait_packet_sets_deadline() -> None:
    machine = begun()
    machine.take(control(wait_packet(20, (3, 20))), PEER, 1.0)
    assert machine.deadline == 21.0
    machine.wake(21.0)
    assert machine.deadline == 61.0
    machine.take(control(wait_packet(2)), PEER, 22.0)  # never less than the usual timeout
    assert machine.deadline == 26.0
    machine.take(control(wait_packet(0)), PEER, 23.0)
    assert machine.deadline == 27.0
    machine.take(control(wait_packet(0)), PEER, 24.0)  # no new information
    assert machine.deadline == 27.0


def test_wait_packet_beyond_patience_times_out() -> None:
    """Some servers routinely ask for 900 seconds."""
    machine = begun(patience=60.0)
    machine.take(control(wait_packet(900, (3, 20))), PEER, 1.0)
    assert machine.deadline == 60.0
    for second in range(2, 60):
        machine.take(control(wait_packet(900 + second)), PEER, float(second))
    with pytest.raises(TimedOut, match=r" 959 s \(position 3 .* 20 s "):
        machine.wake(60.0)


def test_timers_expire_despite_constant_packets() -> None:
    machine = begun(patience=10.0)
    assert machine.take(b"junk", PEER, 3.9) == []
    assert octets(machine.take(b"junk", "198.51.100.1", 4.0)) == [REQUEST]
    with pytest.raises(TimedOut):
        machine.take(control(wait_packet(900)), PEER, 10.0)


def test_withdrawn_acknowledgment_is_no_progress() -> None:
    """With SET_RECEIVED, a server can acknowledge the same packet without end."""
    machine = begun(patience=10.0)
    acknowledged = b"\x09\x12\x34\0\0\0\0\0\1"
    withdrawn = b"\x0d\x12\x34\0\0\0\0\0\0\0\0\0\2"
    for second in (2.0, 4.0, 6.0):
        machine.take(acknowledged, PEER, second)
        machine.take(withdrawn, PEER, second)
    with pytest.raises(TimedOut):
        machine.take(acknowledged, PEER, 12.0)


#: Packets that end an exchange immediately.
ENDS: list[tuple[bytes, str, str]] = [
    (control(refusal_packet()), "refused", "refused"),
    (control(version_packet(1)), "version not supported", " 1$"),
    (b"\0\1\2", "version not supported", " 1, 2$"),
    (b"\0", "version not supported", "ARDP$"),
]


@pytest.mark.parametrize(("packet", "code", "versions"), ENDS)
def test_refusal_packet_is_declined(packet: bytes, code: str, versions: str) -> None:
    with pytest.raises(Declined, match=versions) as raised:
        begun().take(packet, PEER, 0.0)
    assert raised.value.code == code


def test_redirect_repeats_packets_at_new_address() -> None:
    machine = begun()
    turn, *packets = machine.take(control(redirect_packet("192.0.2.9", 1600)), PEER, 1.0)
    assert turn == RedirectAddress("192.0.2.9", 1600, lasting=False)
    assert octets(packets) == [REQUEST]
    assert machine.deadline == 5.0
    assert machine.take(SINGLE, PEER, 1.0) == []
    assert not machine.complete  # packets from the previous address are ignored
    machine.take(SINGLE, "192.0.2.9", 1.0)
    assert machine.complete


def test_lasting_redirect_is_marked() -> None:
    actions = begun().take(control(redirect_packet("192.0.2.9", 1600, lasting=True)), PEER, 1.0)
    assert actions[0] == RedirectAddress("192.0.2.9", 1600, lasting=True)


def test_redirect_repeats_only_unacknowledged_packets() -> None:
    machine = begun(bytes(2600))
    machine.take(b"\x09\x12\x34\0\0\0\0\0\x02", PEER, 0.0)
    redirect = control(redirect_packet("192.0.2.9", 1600))
    actions = machine.take(redirect[:7] + b"\0\2" + redirect[9:], PEER, 1.0)
    assert [packet[4] for packet in octets(actions)] == [3]


def test_redirect_without_address_is_ignored() -> None:
    assert begun().take(b"\x0d\x12\x34" + bytes(9) + b"\4", PEER, 0.0) == []


def test_redirects_over_limit_are_refused() -> None:
    machine = begun()
    for turn in range(MAX_REDIRECTS):
        machine.take(control(redirect_packet("192.0.2.1", 1600 + turn)), PEER, 0.0)
    with pytest.raises(Refused, match="redirects") as raised:
        machine.take(control(redirect_packet("192.0.2.1", 1600)), PEER, 0.0)
    assert (raised.value.rule, raised.value.exit_code) == ("S10", 15)


#: Datagrams that are ignored: source address and bytes.
NOT_BELIEVED = [
    ("192.0.2.2", SINGLE),
    (PEER, b"\x03\x12\x35reply"),
    (PEER, b"\x03\0\0reply"),  # id 0 belongs to requests with VERSION 1
    (PEER, b"\x01reply"),
    (PEER, b""),
    (PEER, b"\x81\0\0\0\x0b\x12\x34\0\1\0\1reply"),
    (PEER, b"Vreply"),
    ("192.0.2.2", b"\0\1"),
]


@pytest.mark.parametrize(("address", "datagram"), NOT_BELIEVED)
def test_datagram_of_other_source_or_id_is_ignored(address: str, datagram: bytes) -> None:
    machine = begun()
    assert machine.take(datagram, address, 0.0) == []
    assert (machine.complete, machine.deadline) == (False, 4.0)


def test_byte_swapped_id_is_accepted() -> None:
    """Little-endian servers swap the id in packets that they resend (page 11, 8)."""
    machine = begun()
    machine.take(numbered(1, 2, b"a"), PEER, 0.0)
    machine.take(numbered(2, 2, b"b", connection=0x3412), PEER, 0.0)
    assert machine.pieces == [b"a", b"b"]


@pytest.mark.parametrize("connection", [1, 0x100, 0x1111, 0xFFFF])
def test_exchange_works_with_any_id(connection: int) -> None:
    machine = exchange(connection=connection)
    assert octets(machine.begin(0.0))[0][1:3] == connection.to_bytes(2)
    assert machine.cancel().octets == b"\x0d" + connection.to_bytes(2) + bytes(9) + b"\1"
    machine.take(b"\x03" + connection.to_bytes(2), PEER, 0.0)
    assert machine.complete


def test_reply_over_limit_raises() -> None:
    machine = begun(max_size=10)
    machine.take(numbered(2, 0, b"12345"), PEER, 0.0)
    machine.take(numbered(2, 0, b"12345"), PEER, 0.0)  # a repeated packet does not count again
    machine.take(numbered(9, 0, b"12345"), PEER, 0.0)
    with pytest.raises(LimitExceeded) as raised:
        machine.take(numbered(1, 0, b"1"), PEER, 0.0)
    assert (raised.value.limit, raised.value.exit_code) == ("body", 14)


def deliver(
    weather: Channel, request: bytes, reply: bytes, timing: RetransmitTiming
) -> tuple[bytes | None, float]:
    """Carry an exchange over a lossy network to a server like that of the recordings.

    Return the reply (None after a timeout) and the elapsed time.
    """
    server = Transport(lambda text: (reply, ReplyOptions()), kind_to_oldest=False)
    machine = exchange(request, patience=600.0, timing=timing)
    now = 0.0
    waiting = machine.begin(now)
    try:
        while not machine.complete:
            arrived = weather.carry(octets(waiting))
            back = [octets_ for datagram in arrived for octets_ in server.receive(datagram, "us")]
            waiting = []
            for datagram in weather.carry(back):
                if not machine.complete:
                    waiting += machine.take(datagram, PEER, now)
            if not machine.complete and not waiting:
                now = max(now, machine.deadline)
                waiting = machine.wake(now)
    except TimedOut:
        return None, now
    assert server.violations == []
    return b"".join(machine.pieces), now


REPLY = bytes(range(256)) * 250  # 52 packets, four windows


def test_delivery_without_loss_takes_no_time() -> None:
    assert deliver(Channel(), bytes(40 * 1250), REPLY, RetransmitTiming()) == (REPLY, 0.0)


@pytest.mark.parametrize("seed", range(40))
def test_delivery_despite_30_percent_loss(seed: int) -> None:
    """Loss applies each way; some datagrams are duplicated or reordered.

    If the schedule of the page ends in `TimedOut`, the request is repeated, as a retrieval does.
    """
    weather = Channel(lost=0.3, doubled=0.1, shuffled=True, seed=seed)
    for request in (b"x", bytes(3000)):
        for reply in (b"short", REPLY):
            tries = [deliver(weather, request, reply, RetransmitTiming())]
            while tries[-1][0] is None and len(tries) < 5:
                tries.append(deliver(weather, request, reply, RetransmitTiming()))
            assert tries[-1][0] == reply


def test_default_timing_mostly_survives_30_percent_loss() -> None:
    outcomes = [
        deliver(Channel(lost=0.3, seed=seed), b"x", b"y", RetransmitTiming())[0] for seed in range(300)
    ]
    assert outcomes.count(b"y") > 270


def test_persistent_timing_survives_30_percent_loss() -> None:
    for request, reply in ((b"x", b"y"), (bytes(3000), REPLY[:20_000])):
        for seed in range(60):
            assert deliver(Channel(lost=0.3, seed=seed), request, reply, PERSISTENT)[0] == reply


TIMINGS = [
    (RetransmitTiming(), 60.0, [4, 8, 16, 32]),
    (RetransmitTiming(), 20.0, [4, 8, 8]),
    (PERSISTENT, 60.0, [2, *[4] * 14, 2]),
    (PERSISTENT, 1.0, [1]),
]


@pytest.mark.parametrize(("timing", "patience", "pauses"), TIMINGS)
def test_timing_pauses_equal_deadlines_of_exchange(
    timing: RetransmitTiming, patience: float, pauses: list[float]
) -> None:
    machine = exchange(patience=patience, timing=timing)
    machine.begin(0.0)
    found, now = [], 0.0
    with pytest.raises(TimedOut):  # noqa: PT012
        while True:
            found.append(machine.deadline - now)
            now = machine.deadline
            machine.wake(now)
    assert found == list(timing.pauses(patience)) == pauses


def test_wait_packet_sets_interval_of_persistent_timing() -> None:
    """The client does not retransmit before the requested time, and then at that interval."""
    machine = exchange(patience=60.0, timing=PERSISTENT)
    machine.begin(0.0)
    machine.take(control(wait_packet(10)), PEER, 1.0)
    assert machine.deadline == 11.0
    machine.wake(11.0)
    assert machine.deadline == 21.0


def test_heavy_loss_yields_reply_or_timeout() -> None:
    """A complete reply equals the sent reply, even if windows are truncated."""
    weather = Channel(lost=0.6, doubled=0.3, shuffled=True, seed=5)
    outcomes = [deliver(weather, b"x", REPLY, RetransmitTiming(retries=12))[0] for _ in range(20)]
    assert set(outcomes) <= {REPLY, None}
    assert REPLY in outcomes


# A server with several addresses: the client asks each address in turn and keeps the first that answers (rule
# S09, protocol page 4.6).

A, B, C = "2001:db8::1", "192.0.2.1", "192.0.2.2"
CANDIDATES_REPLY = b"\x03\x12\x34reply"


def asking(*addresses: str, destination: SwitchAddress | RedirectAddress | None = None) -> ArdpExchange:
    message = Line(b"x", b"x")
    return ArdpExchange(message, 0x1234, addresses, patience=100.0, max_size=1000, destination=destination)


def candidates_begun(*addresses: str) -> ArdpExchange:
    machine = asking(*addresses)
    assert addresses_and_bytes(machine.begin(0.0)) == [REQUEST]
    return machine


def addresses_and_bytes(actions: list[DatagramAction]) -> list[str | bytes]:
    """Return the selected addresses and the sent bytes."""
    return [
        action.address if isinstance(action, SwitchAddress) else action.octets
        for action in actions
        if isinstance(action, (SwitchAddress, Line))
    ]


def wake_until(machine: ArdpExchange, end: float) -> dict[float, list[str | bytes]]:
    """Return the actions at each deadline up to `end`."""
    done = {}
    while machine.deadline <= end:
        at = machine.deadline
        done[at] = addresses_and_bytes(machine.wake(at))
    return done


def test_next_address_is_tried_after_250_ms() -> None:
    machine = candidates_begun(A, B, C)
    assert wake_until(machine, 3.9) == {0.25: [B, REQUEST], 0.5: [C, REQUEST]}
    assert machine.deadline == 4.0


def test_addresses_are_retried_on_schedule() -> None:
    machine = candidates_begun(A, B)
    again = [A, REQUEST, B, REQUEST]
    assert wake_until(machine, 59.0) == {0.25: [B, REQUEST], 4.0: again, 12.0: again, 28.0: again}
    with pytest.raises(TimedOut):
        machine.wake(60.0)


@pytest.mark.parametrize("answering", [A, B, C])
def test_first_answering_address_is_selected(answering: str) -> None:
    """The last address answers before it was asked: a host may answer from another of its addresses."""
    machine = candidates_begun(A, B, C)
    machine.wake(0.25)
    assert addresses_and_bytes(machine.take(b"\x07\x12\x34\0\1\0\0one", answering, 0.3)) == [answering]
    assert machine.deadline == 4.3
    for other in {A, B, C} - {answering}:
        assert machine.take(b"\x07\x12\x34\0\2\0\2other", other, 0.4) == []
    assert addresses_and_bytes(machine.take(b"\x07\x12\x34\0\2\0\2two", answering, 0.5)) == []
    assert (machine.complete, machine.pieces) == (True, [b"one", b"two"])


def test_unsendable_address_is_skipped_immediately() -> None:
    machine = candidates_begun(A, B, C)
    assert machine.lose(A, 0.0)
    assert machine.lose(A, 0.0)  # the other packets to this address cannot be sent either
    assert addresses_and_bytes(machine.wake(machine.deadline)) == [B, REQUEST]
    assert machine.lose(B, 0.0)
    assert addresses_and_bytes(machine.wake(machine.deadline)) == [C, REQUEST]
    assert wake_until(machine, 4.0) == {4.0: [C, REQUEST]}
    assert not machine.lose(C, 4.0)


def test_answer_with_other_id_selects_no_address() -> None:
    machine = candidates_begun(A, B)
    assert machine.take(b"\x03\x99\x99reply", B, 0.1) == []
    assert addresses_and_bytes(machine.take(CANDIDATES_REPLY, A, 0.2)) == [A]
    assert machine.complete


def test_single_address_is_never_switched() -> None:
    machine = candidates_begun(B)
    assert wake_until(machine, 4.0) == {4.0: [REQUEST]}
    assert addresses_and_bytes(machine.take(CANDIDATES_REPLY, B, 5.0)) == []
    assert not machine.lose(B, 5.0)


@pytest.mark.parametrize("toward", [SwitchAddress(C), RedirectAddress(C, 1600, lasting=True)])
def test_known_address_is_asked_alone(toward: SwitchAddress | RedirectAddress) -> None:
    """The address has answered, or a redirect named it: datagrams from other addresses are ignored."""
    machine = asking(A, B, C, destination=toward)
    first, *rest = machine.begin(0.0)
    assert (first, addresses_and_bytes(rest)) == (toward, [REQUEST])
    assert machine.deadline == 4.0
    machine.take(CANDIDATES_REPLY, A, 0.1)
    assert not machine.complete
    machine.take(CANDIDATES_REPLY, C, 0.2)
    assert (machine.complete, machine.redirect) == (True, None)


# Datagrams of ARDP version 0, and invalid datagrams (protocol page, sections 2 and 3).

#: A datagram in hex and its fields: the header lengths that occur (2.2), then truncated fields.
DECODED: list[tuple[str, ArdpPacket]] = [
    ("01 74", ArdpPacket(text=b"t")),
    ("03 1101 74", ArdpPacket(connection=0x1101, text=b"t")),
    ("07 1104 0001 0000 74", ArdpPacket(connection=0x1104, total=0, text=b"t")),
    ("07 1104 0003 0003", ArdpPacket(connection=0x1104, number=3, total=3)),
    (
        "09 1104 0000 0000 0010",
        ArdpPacket(connection=0x1104, number=0, total=0, received_through=16),
    ),
    (
        "0b f35a 0000 0000 0000 0003",
        ArdpPacket(connection=0xF35A, number=0, total=0, received_through=0, wait=3),
    ),
    (
        "0c 1ea1 0001 0001 0001 0000 80 74",
        ArdpPacket(connection=0x1EA1, received_through=1, wait=0, acknowledge=True, text=b"t"),
    ),
    (
        "0d 488b 0000 0000 0000 0000 00 01",
        ArdpPacket(
            connection=0x488B, number=0, total=0, received_through=0, wait=0, option=ArdpOption.REFUSED
        ),
    ),
    (
        "13 25ea 0000 0000 0000 0000 00 04 7f000001 3b93",
        ArdpPacket(
            connection=0x25EA,
            number=0,
            total=0,
            received_through=0,
            wait=0,
            option=ArdpOption.REDIRECT,
            data=bytes.fromhex("7f0000013b93"),
        ),
    ),
    # a header that ends within a field omits the field
    ("02 11 74", ArdpPacket(text=b"t")),
    ("04 1101 00 74", ArdpPacket(connection=0x1101, text=b"t")),
    ("06 1101 0002 00 74", ArdpPacket(connection=0x1101, number=2, total=0, text=b"t")),
    ("08 1101 0002 0003 00", ArdpPacket(connection=0x1101, number=2, total=3)),
    ("0a 1101 0002 0003 0001 00", ArdpPacket(connection=0x1101, number=2, total=3, received_through=1)),
    # a control packet with a number carries no text of the message
    (
        "0c 1101 0002 0003 0001 0000 40 74",
        ArdpPacket(connection=0x1101, number=2, total=3, received_through=1, wait=0),
    ),
    # data for the flags precede data for the option, lowest bit first
    (
        "1d 1101 0000 0000 0000 0000 0f 04 00 02 aabb 0001 0002 0003 7f000001 3b93",
        ArdpPacket(
            connection=0x1101,
            number=0,
            total=0,
            received_through=0,
            wait=0,
            option=ArdpOption.REDIRECT,
            data=bytes.fromhex("7f0000013b93"),
        ),
    ),
    (
        "0e 1101 0000 0000 0000 0000 01 04 00",
        ArdpPacket(
            connection=0x1101, number=0, total=0, received_through=0, wait=0, option=ArdpOption.REDIRECT
        ),
    ),
]


@pytest.mark.parametrize(("datagram", "packet"), DECODED)
def test_decode_packet_reads_fields_within_header(datagram: str, packet: ArdpPacket) -> None:
    assert decode_packet(bytes.fromhex(datagram)) == packet


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\x09\0\1",  # shorter than its header
        b"\x20" + bytes(40),  # 32 and more: plain text from before ARDP
        b"VERSION 5\n",
        b"\x81\0\0\0\x0b" + bytes(20),  # version 1
        b"\xff",
    ],
)
def test_decode_packet_of_foreign_datagram_returns_none(datagram: bytes) -> None:
    assert decode_packet(datagram) is None


def test_decode_packet_reads_version_list() -> None:
    assert decode_packet(b"\0\1\2") == SupportedVersions((1, 2))
    assert decode_packet(b"\0") == SupportedVersions(())


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("7f000001 3b93", ("127.0.0.1", 15251)),
        ("c0000201 0000 ff", ("192.0.2.1", 0)),
        ("7f000001 3b", None),
        ("", None),
    ],
)
def test_decode_redirect_reads_address_and_port(data: str, place: tuple[str, int] | None) -> None:
    assert decode_redirect(bytes.fromhex(data)) == place


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("03 0003 00000014", "position 3 in the queue, 20 s left"),
        ("01 0003", "position 3 in the queue"),
        ("02 00000014", "20 s left"),
        ("00", ""),
        ("", ""),
        ("03 00", ""),
        ("03 0003 0000", "position 3 in the queue"),
    ],
)
def test_decode_queue_describes_position(data: str, words: str) -> None:
    assert decode_queue(bytes.fromhex(data)) == words


def test_encoders_write_client_packets() -> None:
    message = encode_commands((b"A",))
    assert encode_piece(0x1101, 1, 2, 3, message, acknowledge=False).octets == (
        bytes.fromhex("09 1101 0001 0002 0003") + b"A\n"
    )
    assert encode_piece(0x1101, 1, 2, 3, message, acknowledge=True).octets == (
        bytes.fromhex("0c 1101 0001 0002 0003 0000 80") + b"A\n"
    )
    assert encode_acknowledgment(0x1104, 16).octets == bytes.fromhex("09 1104 0000 0000 0010")
    assert encode_cancel(0x78A6).octets == bytes.fromhex("0d 78a6 0000 0000 0000 0000 00 01")


def test_commands_are_encoded_and_split() -> None:
    message = encode_commands((b"VERSION", b"5", b"x"), (b"LIST", b"''"))
    assert message.octets == message.shown == b"VERSION 5 x\nLIST ''\n"
    pieces = split_message(message, 9)
    assert [piece.octets for piece in pieces] == [b"VERSION 5", b" x\nLIST '", b"'\n"]
    assert encode_datagram(b"\x01", pieces[2]).octets == b"\x01'\n"
    assert encode_datagram(b"\x01").octets == b"\x01"


@pytest.mark.parametrize("word", [b"a\nb", b"a\rb", b"a\0b", b"'a\nb'"])
def test_encode_commands_with_line_end_is_refused(word: bytes) -> None:
    with pytest.raises(Refused) as raised:
        encode_commands((b"A", word))
    assert raised.value.rule == "S02"
