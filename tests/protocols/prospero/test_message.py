"""Replies assembled from lines: attribution, results, refusals and limits (page 7), and their transport."""

from __future__ import annotations

import pytest

from fixtures.prospero import file
from protocols.contract import Line
from protocols.conversation.performer import run_exchange
from protocols.prospero.ardp import ArdpExchange
from protocols.prospero.message import ProsperoReply, join_packets
from protocols.prospero.objects import ObjectPointer
from resolver import (
    AccessDenied,
    Declined,
    LimitExceeded,
    Limits,
    LoginRequired,
    NotFound,
    ProtocolError,
    ResolveError,
    TryLater,
    Unreachable,
)
from tests.protocols.prospero.captures import parse_reply
from tests.protocols.prospero.network import Datagrams, Network


def parse(text: bytes, limits: Limits | None = None) -> ProsperoReply:
    return parse_reply(text, limits or Limits())


#: A refusal line and its error.
REFUSALS: list[tuple[bytes, type[ResolveError], str, str]] = [
    (b"FAILURE NOT-FOUND", NotFound, "NOT-FOUND", ""),
    (b"FAILURE NOT-FOUND FILE 'x y' z", NotFound, "NOT-FOUND", "FILE x y z"),
    (b"FAILURE NOT-A-DIRECTORY", NotFound, "NOT-A-DIRECTORY", ""),
    (b"FAILURE NOT-AUTHORIZED 'not yours'", AccessDenied, "NOT-AUTHORIZED", "not yours"),
    (b"FAILURE AUTHENTICATION-REQUIRED", LoginRequired, "AUTHENTICATION-REQUIRED", ""),
    (b"FAILURE AUTHENTICATION-DATA", AccessDenied, "AUTHENTICATION-DATA", ""),
    (b"FAILURE SERVER-FAILED", TryLater, "SERVER-FAILED", ""),
    (b"FAILURE TOO-MANY", Declined, "TOO-MANY", ""),
    (b"FAILURE UNIMPLEMENTED", Declined, "UNIMPLEMENTED", ""),
    (b"FAILURE AMBIGUOUS", Declined, "AMBIGUOUS", ""),
    (b"FAILURE BAD-VALUE", Declined, "BAD-VALUE", ""),
    (b"FAILURE FILTER-APPLICATION", Declined, "FILTER-APPLICATION", ""),
    (b"FAILURE SOMETHING-NEW", Declined, "SOMETHING-NEW", ""),
    (b"FAILURE", Declined, "FAILURE", ""),
    (b"ERROR wrong number", Declined, "ERROR", "wrong number"),
    (b"ERROR", Declined, "ERROR", ""),
    (b"VERSION-NOT-SUPPORTED TRY 5", Declined, "VERSION-NOT-SUPPORTED", "TRY 5"),
]


@pytest.mark.parametrize(("line", "error", "code", "text"), REFUSALS)
def test_refusal_line_raises_typed_error(line: bytes, error: type[Declined], code: str, text: str) -> None:
    answer = parse(line + b"\n")
    with pytest.raises(Declined) as raised:
        answer.check()
    assert type(raised.value) is error
    assert (raised.value.code, raised.value.text) == (code, text)
    assert code in raised.value.message


def test_first_refusal_counts() -> None:
    answer = parse(b"FAILURE NOT-FOUND\nERROR later\n")
    assert answer.is_not_found
    assert not answer.is_not_directory


@pytest.mark.parametrize(
    "text", [b"", b"\n\n", b"VERSION 5 x\n", b"SUCCESS\n", b"FROBNICATE a\n", b"LINK L\n"]
)
def test_reply_without_information_raises(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="no information"):
        parse(text).check()


@pytest.mark.parametrize(
    "text", [b"NONE-FOUND\n", b"UNRESOLVED a b\n", b"LINK L FILE n INTERNET-D h ASCII x 0\n"]
)
def test_reply_with_information_is_accepted(text: bytes) -> None:
    parse(text).check()


def test_lines_after_link_belong_to_link() -> None:
    answer = parse(
        b"ATTRIBUTE OBJECT FIELD OWN mine\n"
        b"LINK  L FILE one INTERNET-D h ASCII x 0\n"
        b"ID REMOTE 1\n"
        b"ATTRIBUTE CACHED FIELD A a\n"
        b"ATTRIBUTE> CACHED FIELD NESTED b\n"
        b"ATTRIBUTE>> CACHED FIELD NESTED c\n"
        b"ATTRIBUTE LINK FIELD ID SEQUENCE REMOTE 2\n"
        b"LINK  L FILE two INTERNET-D h ASCII y\n"
        b"UNRESOLVED rest\n"
        b"ATTRIBUTE OBJECT FIELD LATE mine\n"
    )
    one, two = answer.links
    assert [attribute.name for attribute in one.attributes] == [b"A", b"ID"]
    assert one.ids == ((b"REMOTE", b"1"), (b"REMOTE", b"2"))
    assert (two.attributes, two.pointer.version) == ((), 0)
    assert [attribute.name for attribute in answer.attributes] == [b"OWN", b"LATE"]
    assert one.raw == b"LINK  L FILE one INTERNET-D h ASCII x 0"
    assert answer.oddities == []


def test_lines_after_invalid_link_are_dropped() -> None:
    answer = parse(
        b"LINK L FILE x\nATTRIBUTE OBJECT FIELD A a\nID X 1\nLINK L FILE n INTERNET-D h ASCII x 0\n"
    )
    assert answer.attributes == []
    assert [(link.name, link.ids, link.attributes) for link in answer.links] == [(b"n", (), ())]
    (oddity,) = answer.oddities
    assert "'LINK'" in oddity


def test_link_keeps_expiry_and_drops_other_tokens() -> None:
    answer = parse(
        b"LINK L FILE n INTERNET-D h ASCII x 0 DEST-EXP 19991231235959Z more\n"
        b"LINK L FILE n INTERNET-D h ASCII x 0 MORE 19991231235959Z\n"
        b"LINK L FILE n INTERNET-D h ASCII x 0 DEST-EXP\n"
    )
    assert [link.expires for link in answer.links] == [b"19991231235959Z", None, None]


def test_first_forwarded_line_counts() -> None:
    first = b"FORWARDED INTERNET-D h(99) ASCII '/x y' 3 DEST-EXP 20000101000000Z\n"
    answer = parse(first + b"ID X 1\nFORWARDED A b c d\n")
    assert answer.forwarded == ObjectPointer(b"INTERNET-D", b"h(99)", b"ASCII", b"/x y", 3)


def test_forwarded_with_missing_tokens_is_reported() -> None:
    answer = parse(b"FORWARDED INTERNET-D h ASCII\n")
    (oddity,) = answer.oddities
    assert (answer.forwarded, "'FORWARDED'" in oddity) == (None, True)


def test_warnings_and_unknown_lines_are_unique_and_bounded() -> None:
    lines = [b"WARNING MESSAGE 'be%d careful'\n" % (number % 40) for number in range(80)]
    lines += [b"NEW%d x\n" % (number % 40) for number in range(80)] + [b"ATTRIBUTE X\n", b"NONE-FOUND\n"]
    answer = parse(b"".join(lines))
    assert answer.warnings[0] == "MESSAGE be0 careful"
    assert (len(answer.warnings), len(answer.oddities)) == (10, 10)
    assert answer.none_found


def test_status_lines_leave_reply_empty() -> None:
    answer = parse(b"VERSION 5 P53\nAUTHENTICATED\nPARAMETER VALUE x\nSUCCESS done\n")
    assert (answer.software, answer.is_empty, answer.oddities) == (b"P53", True, [])


LINK = b"LINK L FILE n INTERNET-D h ASCII x 0\n"
CONTENTS = b"ATTRIBUTE OBJECT INTRINSIC CONTENTS SEQUENCE DATA x\n"


@pytest.mark.parametrize(
    ("text", "limits", "limit"),
    [
        (b"ATTRIBUTE OBJECT FIELD A " + b"a" * 100 + b"\n", Limits(line=100), "line"),
        (b"FAILURE X " + b"'" + b"a\n" * 60 + b"'\n", Limits(line=100), "line"),
        (LINK + b"ATTRIBUTE LINK FIELD A a\n" * 6, Limits(lines=5), "lines"),
        (LINK + b"ID A a\n" * 6, Limits(lines=5), "lines"),
        (b"ATTRIBUTE OBJECT FIELD A a\n" * 6, Limits(lines=5), "lines"),
        (LINK + b"ATTRIBUTE> LINK FIELD A a\n" * 6, Limits(lines=5), "lines"),
        (b"NONE-FOUND\n" * 6, Limits(lines=5), "lines"),
        (LINK * 6, Limits(entries=4), "entries"),
        ((LINK + b"ATTRIBUTE LINK FIELD A a\n" * 90) * 3, Limits(entries=20), "entries"),
        (CONTENTS * 60, Limits(entries=5), "entries"),
        (b"A " * 5000, Limits(), "line"),
    ],
)
def test_parse_reply_over_limit_raises(text: bytes, limits: Limits, limit: str) -> None:
    with pytest.raises(LimitExceeded) as raised:
        parse(text, limits)
    assert (raised.value.limit, raised.value.exit_code) == (limit, 7)


def test_line_limits_do_not_apply_to_contents() -> None:
    text = b"ATTRIBUTE OBJECT INTRINSIC CONTENTS SEQUENCE DATA '" + b"a" * 1000 + b"'\n"
    answer = parse(text * 20, Limits(line=100, lines=5))
    assert len(answer.attributes) == 20


def test_line_limit_does_not_apply_to_links() -> None:
    assert len(parse(LINK * 2000, Limits(lines=5)).links) == 2000


#: Texts of packets and the text of the reply: old servers append a NUL to each packet (page 11, 10).
PACKETS: list[tuple[list[bytes], bytes]] = [
    ([b"VERSION 5 A50x\nLI\0", b"NK\0"], b"VERSION 5 A50x\nLINK"),
    ([b"VERSION 5 A51\n\0"], b"VERSION 5 A51\n"),
    ([b"VERSION  5\tB51.1\na\0", b"b"], b"VERSION  5\tB51.1\nab"),
    ([b"VERSION 5 A5", b"2\n\0"], b"VERSION 5 A52\n"),
    ([b"VERSION 5 A53\n\0"], b"VERSION 5 A53\n\0"),
    ([b"VERSION 5 P53.17May94b\na\0", b"b\0"], b"VERSION 5 P53.17May94b\na\0b\0"),
    ([b"A50\0"], b"A50\0"),
    ([], b""),
]


@pytest.mark.parametrize(("texts", "text"), PACKETS)
def test_join_packets_drops_nul_of_old_servers(texts: list[bytes], text: bytes) -> None:
    assert join_packets(texts) == text


# If a datagram cannot be sent, the client immediately tries the server's next address (rule S09).

AWAY = ("2001:db8::1", "2001:db8::2")
ASK = b"VERSION 5\nDIRECTORY ASCII / \nLIST VERIFY\n"


class PartialDatagrams(Datagrams):
    """A host that cannot send to some addresses: it has no route to them."""

    def __init__(self, network: Network, *addresses: str) -> None:
        super().__init__(network, network.gate("prospero://h/x"), addresses[0], 1525)
        self.addresses = addresses  # type: ignore[assignment]
        self.tried: list[str] = []

    async def send(self, packet: Line) -> None:
        self.tried.append(self.peer)
        if self.peer in AWAY:
            raise Unreachable(f"cannot send to {self.peer}")
        await super().send(packet)


def network() -> tuple[Network, str]:
    """Return a network with one host, and the address of the host."""
    found = Network()
    found.add("h", {b"x": file(b"text")})
    return found, found.hosts["h", 1525].address


def exchange(addresses: tuple[str, ...], request: bytes = ASK) -> ArdpExchange:
    return ArdpExchange(Line(request, request), 1, addresses, patience=60.0, max_size=1_000_000)


@pytest.mark.parametrize("away", [AWAY[:1], AWAY])
@pytest.mark.parametrize("request_size", [1, 200])  # one packet, and a full window
async def test_carry_with_unsendable_address_uses_next_immediately(
    away: tuple[str, ...], request_size: int
) -> None:
    net, here = network()
    began = net.now
    datagrams = PartialDatagrams(net, *away, here)
    asked = exchange(datagrams.addresses, ASK * request_size)
    await run_exchange(asked, datagrams)
    assert asked.redirect is None
    assert list(dict.fromkeys(datagrams.tried)) == [*away, here]
    assert datagrams.peer == here
    assert join_packets(asked.pieces) != b""
    assert net.now == began, "the exchange waited"


async def test_carry_without_sendable_address_raises_immediately() -> None:
    net, _ = network()
    began = net.now
    datagrams = PartialDatagrams(net, *AWAY)
    with pytest.raises(Unreachable, match=AWAY[1]):
        await run_exchange(exchange(datagrams.addresses), datagrams)
    assert datagrams.tried == list(AWAY)
    assert (net.sent, net.now) == ([], began)
