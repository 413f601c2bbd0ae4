"""A terminal at one end of a session: results do not depend on the chunks, and answers are limited."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures import recordings
from protocols.telnet.octets import (
    NegotiationVerb,
    TelnetCommand,
    TelnetData,
    TelnetEvent,
    TelnetOption,
    UnknownCommand,
)
from protocols.telnet.terminal import MAX_CONSECUTIVE, MAX_TYPES, NvtTerminal, OptionChanged, WindowSize
from resolver import LimitExceeded
from tests.protocols.telnet.runs import octet_by_octet, run_terminal

RECORDED = sorted((recordings.FOLDER / "telnet").glob("*.json"))


def server_octets(name: str) -> bytes:
    exchanges = json.loads((recordings.FOLDER / "telnet" / f"{name}.json").read_text("utf-8"))["exchanges"]
    return b"".join(bytes.fromhex(each["hex"]) for each in exchanges if each["dir"] == "server")


@pytest.mark.parametrize("name", [path.stem for path in RECORDED])
def test_capture_in_single_bytes_gives_same_result(name: str) -> None:
    octets = server_octets(name)
    assert run_terminal([octets]) == run_terminal(octet_by_octet(octets))


def test_login_capture_is_decoded_to_text() -> None:
    result = run_terminal([server_octets("login-inetutils-inetutils")])
    assert b"vt.example.test login: guest\nPassword: " in result.text
    assert b"\xff" not in result.text
    on = [
        TelnetOption(each.option).name
        for each in result.happenings
        if isinstance(each, OptionChanged) and each.on
    ]
    assert on == ["TERMINAL_TYPE", "SGA", "NAWS", "ECHO", "BINARY"]


def test_seven_requests_get_seven_answers() -> None:
    """The first requests of telnetd from inetutils; the server sends text only after all seven answers."""
    asked = bytes.fromhex("fffb25fffb26fffd18fffd20fffd23fffd27fffd24")
    assert run_terminal([asked]).answers == bytes.fromhex("fffe25fffe26fffb18fffc20fffc23fffc27fffc24")


WILL, WONT, DO, DONT = (
    bytes((0xFF, verb))
    for verb in (NegotiationVerb.WILL, NegotiationVerb.WONT, NegotiationVerb.DO, NegotiationVerb.DONT)
)


@pytest.mark.parametrize(
    ("came", "answered"),
    [
        (DO + b"\x01", WONT + b"\x01"),  # if both sides echo, the echo never ends
        (WILL + b"\x01" + WONT + b"\x01", DO + b"\x01" + DONT + b"\x01"),
        (DO + b"\x03" + WILL + b"\x03", WILL + b"\x03" + DO + b"\x03"),
        # TIMING-MARK: each request gets an answer
        (DO + b"\x06" + DO + b"\x06", WONT + b"\x06" + WONT + b"\x06"),
        (WILL + b"\x56", DONT + b"\x56"),  # compression
        (DO + b"\xff", WONT + b"\xff"),
        (5 * (DO + b"\x1f"), WILL + b"\x1f" + b"\xff\xfa\x1f\0\x50\0\x18\xff\xf0"),
        (WONT + b"\x01" + DONT + b"\x18", b""),
        (b"\xff\xfa\x18\x01\xff\xf0", b""),  # for an option that is off
        (DO + b"\x27" + b"\xff\xfa\x27\x01\xff\xf0", WONT + b"\x27"),
        (b"\xff\xf6", b""),  # the server would take an answer to AYT for typed text
    ],
)
def test_option_requests_are_answered(came: bytes, answered: bytes) -> None:
    assert run_terminal([came]).answers == answered == run_terminal(octet_by_octet(came)).answers


@pytest.mark.parametrize(
    ("came", "happened"),
    [
        (b"a\xff\xffb", [TelnetData(b"a\xffb")]),
        (
            b"a\xff\xf1\xff\xf2b",
            [
                TelnetData(b"a"),
                TelnetEvent(TelnetCommand.NOP),
                TelnetEvent(TelnetCommand.DM),
                TelnetData(b"b"),
            ],
        ),
        (
            b"\xff\x05x",
            [
                UnknownCommand("telnet:command", "IAC 05 is not a command; both bytes are dropped"),
                TelnetData(b"x"),
            ],
        ),
        (
            b"\xff\xfa\x18\x01\xff\xfb\x01x\xff\xf0ok",
            [
                UnknownCommand("telnet:subnegotiation", "IAC FB inside a subnegotiation, which is dropped"),
                OptionChanged(1, True, True),
                TelnetData(b"x"),
                TelnetEvent(TelnetCommand.SE),
                TelnetData(b"ok"),
            ],
        ),
        (
            b"\xff\xfa\x18" + 2_000 * b"a" + b"\xff\xf0b",
            [
                UnknownCommand(
                    "telnet:subnegotiation", "subnegotiation of 2000 bytes is too long, it is dropped"
                ),
                TelnetData(b"b"),
            ],
        ),
    ],
)
def test_bytes_are_split_into_events(came: bytes, happened: list[object]) -> None:
    assert run_terminal([came]).happenings == happened == run_terminal(octet_by_octet(came)).happenings


@pytest.mark.parametrize(
    ("came", "text"),
    [
        (b"a\r\nb", b"a\nb"),
        (b"a\r\0b", b"a\rb"),
        (b"a\rb", b"a\rb"),
        (b"a\r\0\r\nb", b"a\r\nb"),
        (b"a\r\r\nb", b"a\r\nb"),
        (b"a\nb\0c", b"a\nbc"),
        (b"a\r", b"a\r"),
        (WILL + b"\0" + b"a\r\nb\0\rc", b"a\nb\0\rc"),
    ],
)
def test_line_ends_are_decoded(came: bytes, text: bytes) -> None:
    assert run_terminal([came]).text == text == run_terminal(octet_by_octet(came)).text


def test_terminal_type_answers_are_limited() -> None:
    result = run_terminal(
        [DO + b"\x18", *(MAX_TYPES + 5) * [b"\xff\xfa\x18\x01\xff\xf0"]], NvtTerminal(b"xterm")
    )
    assert result.answers.count(b"\xff\xfa\x18\0xterm\xff\xf0") == MAX_TYPES
    assert [each.rule for each in result.happenings if isinstance(each, UnknownCommand)] == ["telnet:limit"]


@pytest.mark.parametrize(
    ("size", "encoded"),
    [
        ((132, 40), b"\0\x84\0\x28"),
        ((255, 24), b"\0\xfe\0\x18"),
        ((511, 99_999), b"\x01\xfe\x27\x0f"),
        ((0, 0), bytes(4)),
    ],
)
def test_window_size_is_sent_once_per_size(size: tuple[int, int], encoded: bytes) -> None:
    terminal = NvtTerminal()
    terminal.resize(WindowSize(*size))
    assert terminal.answers() == ()
    assert (
        run_terminal([DO + b"\x1f"], terminal).answers == WILL + b"\x1f\xff\xfa\x1f" + encoded + b"\xff\xf0"
    )
    terminal.resize(WindowSize(*size))
    assert terminal.answers() == ()
    terminal.resize(WindowSize(1, 1))
    assert [line.octets for line in terminal.answers()] == [b"\xff\xfa\x1f\0\x01\0\x01\xff\xf0"]


def test_encode_keys_escapes_iac_and_cr() -> None:
    terminal = NvtTerminal()
    assert terminal.encode_keys(b"a\r\n\xff") == (b"a\r\0\n\xff\xff", b"****", ())
    run_terminal([DO + b"\0"], terminal)
    assert terminal.encode_keys(b"a\r\n\xff").octets == b"a\r\n\xff\xff"


def test_end_reports_missing_close_notify_and_open_command() -> None:
    terminal = NvtTerminal()
    assert list(terminal.end(is_complete=True)) == []
    run_terminal([b"text\xff"], terminal)
    assert [odd.rule for odd in terminal.end(is_complete=False)] == ["telnet:cut", "telnet:close-notify"]


def test_encode_typed_follows_binary_option() -> None:
    terminal = NvtTerminal()
    assert terminal.encode_typed(b"a\r\xff\r\n").octets == b"a\r\0\xff\xff\r\n"
    assert terminal.encode_line(b"me\xff") == (b"me\xff\xff\r\n", b"****\r\n", (b"me\xff\xff",))
    assert terminal.encode_line(b"").shown == b"\r\n"
    run_terminal([DO + b"\0"], terminal)
    assert terminal.encode_typed(b"a\r\xff").octets == b"a\r\xff\xff"
    assert terminal.encode_line(b"me").octets == b"me\r"


@pytest.mark.parametrize(
    "round_of", [DO + b"\x63", WILL + b"\x01" + WONT + b"\x01", DO + b"\x1f" + DONT + b"\x1f"]
)
def test_endless_negotiation_raises(round_of: bytes) -> None:
    with pytest.raises(LimitExceeded) as error:
        run_terminal((MAX_CONSECUTIVE + 1) * [round_of])
    assert (error.value.limit, error.value.exit_code) == ("negotiation", 7)
    run_terminal(3 * MAX_CONSECUTIVE * [round_of + b"text"])


def test_endless_subnegotiation_raises() -> None:
    with pytest.raises(LimitExceeded) as error:
        run_terminal([b"\xff\xfa\x18", *(70 * [1_000 * b"a"])])
    assert error.value.limit == "subnegotiation"


#: Bytes with a meaning, and a few without.
MEANINGFUL = st.lists(
    st.sampled_from([0xFF, 0xFF, 0xFF, *range(0xF0, 0xFF), 0, 1, 3, 6, 24, 31, 39, 10, 13, 65]), max_size=200
).map(bytes)


@settings(max_examples=200)
@given(MEANINGFUL, st.lists(st.integers(0, 200), max_size=5))
def test_random_bytes_in_chunks_give_same_result(octets: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(octets)), len(octets)]
    pieces = [octets[start:end] for start, end in pairwise(places)]
    whole = run_terminal([octets])
    assert run_terminal(pieces) == whole
    requests = sum(octets.count(bytes((0xFF, verb))) for verb in NegotiationVerb)
    assert len(whole.answers) <= 4 * len(octets) + 9 * requests


@settings(max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0, 1, 3, 24, 31, 99])), max_size=20))
def test_requests_of_two_ends_settle(wishes: list[tuple[bool, int]]) -> None:
    """RFC 1143: negotiation ends for any requests in any order."""
    ends = NvtTerminal(), NvtTerminal()
    waiting = [b"", b""]
    for number, (of_server, option) in enumerate(wishes):
        verb = NegotiationVerb.DO if of_server else NegotiationVerb.WILL
        side = ends[number % 2].server if of_server else ends[number % 2].client
        if side.request(option):
            waiting[1 - number % 2] += bytes((0xFF, verb, option))
    for _ in range(10):
        for at, end in enumerate(ends):
            said, waiting[at] = waiting[at], b""
            waiting[1 - at] += run_terminal([said], end).answers
    assert waiting == [b"", b""]
    for _, option in wishes:
        assert ends[0].server.is_on(option) == ends[1].client.is_on(option)
        assert ends[1].server.is_on(option) == ends[0].client.is_on(option)
