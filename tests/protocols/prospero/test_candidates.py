"""Of several addresses of one server each is asked in its turn, and the first that answers is the one (rule
S09, protocol page 4.6). The machine of an exchange shows what comes of it."""

from __future__ import annotations

import pytest

from protocols.contract import DatagramAction, Line, RedirectAddress, SwitchAddress
from protocols.prospero.ardp import ArdpExchange
from resolver import TimedOut

A, B, C = "2001:db8::1", "192.0.2.1", "192.0.2.2"
REQUEST = b"\x09\x12\x34\0\1\0\1\0\0x"
REPLY = b"\x03\x12\x34reply"


def asking(*addresses: str, toward: SwitchAddress | RedirectAddress | None = None) -> ArdpExchange:
    message = Line(b"x", b"x")
    return ArdpExchange(message, 0x1234, addresses, patience=100.0, most=1000, toward=toward)


def begun(*addresses: str) -> ArdpExchange:
    machine = asking(*addresses)
    assert told(machine.begin(0.0)) == [REQUEST]
    return machine


def told(actions: list[DatagramAction]) -> list[str | bytes]:
    """Addresses aimed at, and octets sent."""
    return [
        action.address if isinstance(action, SwitchAddress) else action.octets
        for action in actions
        if isinstance(action, (SwitchAddress, Line))
    ]


def wake_until(machine: ArdpExchange, end: float) -> dict[float, list[str | bytes]]:
    """What is done at each deadline up to `end`."""
    done = {}
    while machine.deadline <= end:
        at = machine.deadline
        done[at] = told(machine.wake(at))
    return done


def test_the_next_address_is_asked_when_a_quarter_of_a_second_has_brought_nothing() -> None:
    machine = begun(A, B, C)
    assert wake_until(machine, 3.9) == {0.25: [B, REQUEST], 0.5: [C, REQUEST]}
    assert machine.deadline == 4.0


def test_without_an_answer_all_are_asked_again_on_the_schedule_of_one() -> None:
    machine = begun(A, B)
    again = [A, REQUEST, B, REQUEST]
    assert wake_until(machine, 59.0) == {0.25: [B, REQUEST], 4.0: again, 12.0: again, 28.0: again}
    with pytest.raises(TimedOut):
        machine.wake(60.0)


@pytest.mark.parametrize("answering", [A, B, C])
def test_who_answers_first_is_the_server(answering: str) -> None:
    """The last one was not asked yet when it answers: a host may answer from another of its addresses."""
    machine = begun(A, B, C)
    machine.wake(0.25)
    assert told(machine.take(b"\x07\x12\x34\0\1\0\0one", answering, 0.3)) == [answering]
    assert machine.deadline == 4.3
    for other in {A, B, C} - {answering}:
        assert machine.take(b"\x07\x12\x34\0\2\0\2other", other, 0.4) == []
    assert told(machine.take(b"\x07\x12\x34\0\2\0\2two", answering, 0.5)) == []
    assert (machine.complete, machine.pieces) == (True, [b"one", b"two"])


def test_an_address_that_cannot_be_sent_to_gives_way_at_once() -> None:
    machine = begun(A, B, C)
    assert machine.lose(A, 0.0)
    assert machine.lose(A, 0.0)  # its other packets cannot leave either
    assert told(machine.wake(machine.deadline)) == [B, REQUEST]
    assert machine.lose(B, 0.0)
    assert told(machine.wake(machine.deadline)) == [C, REQUEST]
    assert wake_until(machine, 4.0) == {4.0: [C, REQUEST]}
    assert not machine.lose(C, 4.0)


def test_an_answer_with_another_id_settles_nothing() -> None:
    machine = begun(A, B)
    assert machine.take(b"\x03\x99\x99reply", B, 0.1) == []
    assert told(machine.take(REPLY, A, 0.2)) == [A]
    assert machine.complete


def test_one_address_alone_is_never_aimed_at_again() -> None:
    machine = begun(B)
    assert wake_until(machine, 4.0) == {4.0: [REQUEST]}
    assert told(machine.take(REPLY, B, 5.0)) == []
    assert not machine.lose(B, 5.0)


@pytest.mark.parametrize("toward", [SwitchAddress(C), RedirectAddress(C, 1600, lasting=True)])
def test_a_place_that_is_known_is_asked_alone(toward: SwitchAddress | RedirectAddress) -> None:
    """It has answered, or the server has turned us to it: nobody else is believed."""
    machine = asking(A, B, C, toward=toward)
    first, *rest = machine.begin(0.0)
    assert (first, told(rest)) == (toward, [REQUEST])
    assert machine.deadline == 4.0
    machine.take(REPLY, A, 0.1)
    assert not machine.complete
    machine.take(REPLY, C, 0.2)
    assert (machine.complete, machine.turned) == (True, None)
