"""Every recorded exchange, replayed against the machine with its times and losses.

The machine must send the same bytes as the reference client; the table has the expected outcome. A new
recording needs a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from protocols.conversation.rehearsal import rehearse
from protocols.prospero.dialogue import converse
from protocols.prospero.message import ATTRIBUTES
from protocols.prospero.objects import ObjectPointer, RequestObject
from protocols.prospero.resolution import join_contents
from protocols.step import ExchangeDatagrams
from resolver import Declined, Limits, ProsperoUrl, ResolveError, TimedOut
from tests.protocols.prospero.captures import (
    Replay,
    describe_reply,
    exchanges,
    names,
    parse_reply,
    reply_of,
    request_of,
)
from tests.protocols.typed_url import parse_as

HERE = "prospero://localhost:15251/"
VERSION = "VERSION P53.17May94b"
SMALL = [
    f"L FILE 'hello.txt' {HERE}AFTP/pub/hello.txt",
    f"L DIRECTORY 'docs' {HERE}AFTP/pub/docs",
    "L EXTERNAL 'readme' ftp://ftp.example.org/pub/readme;type=a",
]
#: Protocol page 8.2, one link per method.
DEMO = [
    *SMALL[:2],
    f"L DIRECTORY 'big' {HERE}/pfs/pfsdat/big",
    f"L DIRECTORY 'moved' {HERE}/pfs/pfsdat/old",
    "L DIRECTORY 'elsewhere' prospero://other.example.org//pfs/pfsdat/x",
    "L EXTERNAL 'aftp-file' ftp://ftp.example.org/pub/notes/readme.txt;type=a",
    "L EXTERNAL 'aftp-full' ftp://ftp.example.org:2121/pub/big%20file.tar.Z;type=i",
    "L EXTERNAL 'ftp-file' ftp://files.example.org/%2Fhome/u/notes.txt;type=a",
    "L EXTERNAL 'gopher-five' gopher://gopher.example.org/00/About%20this%20server",
    "L EXTERNAL 'gopher-six' gopher://gopher.example.org:7070/0R0-100-/mail/box",
    "L EXTERNAL 'gopher-word' gopher://gopher.example.org/99/archive/x.zip",
    f"L FILE 'wais-doc' {HERE}WAIS-GW/wais.example.org(210)/TEXT/demo-db/0%250a17%2520x",
    "L EXTERNAL 'telnet-portal' telnet://opac.example.org:2323/",
    "L EXTERNAL 'nfs-file' None",
    "L EXTERNAL 'afs-file' None",
    "L EXTERNAL 'many-ways' gopher://gopher.example.org/99/many",
    "L EXTERNAL 'no-method' None",
    "L EXTERNAL \"it's got spaces\" ftp://ftp.example.org/pub/it's%20got%20spaces;type=i",
    "L SYMBOLIC 'sym' None",
    f"L OBJECT 'obj' {HERE}/pfs/pfsdat/objects/one",
    f"U DIRECTORY 'more' {HERE}/pfs/pfsdat/more",
]
FILE = [
    "OBJECT SIZE 15 bytes",
    "OBJECT NATIVE-OWNER nobody",
    "OBJECT NATIVE-GROUP nogroup",
    "OBJECT LAST-MODIFIED 19940301120000Z",
    "OBJECT UNIX-MODES -rw-r--r--",
    "OBJECT ACCESS-METHOD PROSPERO-CONTENTS '' '' '' ''",
    "OBJECT ACCESS-METHOD LOCAL '' '' '' ''",
    "OBJECT ACCESS-METHOD AFTP INTERNET-D LOCALHOST ASCII /pub/hello.txt BINARY",
]
FIELD = [
    "OBJECT ACCESS-METHOD AFTP INTERNET-D ftp.example.org ASCII /pub/one.txt TEXT",
    "OBJECT TITLE One file, two ways",
    *FILE[5:7],
]
HELLO = b"hello prospero\n"
#: All byte values twice, then bytes like the end of a token.
OCTETS = bytes(range(256)) * 2 + b"\r\n''end'"
BLOB = bytes(33 + 7 * index % 90 for index in range(3000))


def series(count: int, tail: str = "") -> list[str]:
    """Return the links of a long directory in the recordings."""
    return [
        f"L EXTERNAL 'item-{number:03}' ftp://ftp.example.org/pub/series/item-{number:03}{tail};type=i"
        for number in range(count)
    ]


HUGE = series(120, "-" + "x" * 60)


@dataclass(frozen=True)
class Row:
    """The expected outcome of a recording.

    - `lines`: the lines of each exchange, None for an exchange without a reply
    - `error`: the error of an exchange without a reply
    - `contents`: the bytes of the object
    - `url`: the URL that yields the same request, if the protocol page gives one
    """

    lines: list[list[str] | None] = field(default_factory=list)
    error: type[ResolveError] | None = None
    contents: bytes | None = None
    url: str | None = None
    split_differently: bool = False


def single(*lines: str, url: str | None = None) -> Row:
    return Row([list(lines)], url=url and HERE + url)


ROWS: dict[str, Row] = {
    "contents_binary": Row(contents=OCTETS, url=HERE + "AFTP/pub/docs/all.bin"),
    "contents_multipacket": Row(contents=BLOB, url=HERE + "AFTP/pub/docs/blob.bin"),
    "contents_text": Row(contents=HELLO, url=HERE + "AFTP/pub/hello.txt"),
    "control_cancel": Row([None]),
    "control_redirect": single(VERSION, *SMALL),
    "control_refused": Row([None], Declined),
    "control_wait": single("L EXTERNAL 'waited' ftp://ftp.example.org/pub/waited;type=i"),
    "control_wait_plain": single("NONE-FOUND"),
    "duplicated_reply": single(*DEMO),
    "error_arguments": single("Declined ERROR wrong number of arguments"),
    "error_hsoname_type": single("Declined ERROR Directory handle type BINARY not supported"),
    "error_unknown_command": single("Declined ERROR Unknown message: FROBNICATE now"),
    "error_unterminated_quote": single(
        "Declined ERROR Malformed input line: Read Prospero message with an unterminated quote"
    ),
    "forwarded_directory": Row([[VERSION, f"FORWARDED {HERE}/pfs/pfsdat/small"], [VERSION, *SMALL]]),
    "forwarded_loop": Row(
        [[VERSION, f"FORWARDED {HERE}/pfs/pfsdat/loop-{'ba'[turn % 2]}"] for turn in range(21)]
    ),
    "forwarded_object": single(
        f"FORWARDED {HERE}/pfs/pfsdat/objects/with-am", url="/pfs/pfsdat/objects/moved-file"
    ),
    "list_empty": single("NONE-FOUND"),
    "list_multipacket": single(*DEMO),
    "list_native": single(
        SMALL[0],
        f"L DIRECTORY 'odd names' {HERE}AFTP/pub/odd%20names",
        f"L DIRECTORY 'docs' {HERE}AFTP/pub/docs",
    ),
    "list_nested_attributes": single(
        "L EXTERNAL 'with-related' ftp://ftp.example.org/pub/main.txt;type=a",
        f"L DIRECTORY 'filtered' {HERE}/pfs/pfsdat/small",
        "L EXTERNAL 'same' ftp://a.example.org/pub/same;type=i",
        "L EXTERNAL 'same' ftp://b.example.org/pub/same;type=i",
    ),
    "list_odd_names": single(
        f"L FILE 'plus+comma,name' {HERE}AFTP/pub/odd%20names/plus+comma,name",
        f'L FILE "it\'s a file" {HERE}AFTP/pub/odd%20names/it%27s%20a%20file',
    ),
    "list_one": single(SMALL[2]),
    "list_small": single(*SMALL),
    "list_verify": single("NONE-FOUND"),
    "list_wildcard": single(SMALL[0]),
    "list_window": single(*HUGE),
    "lost_ack": single(VERSION, *HUGE),
    "lost_in_window": single(VERSION, *HUGE),
    "lost_middle": single(VERSION, *series(20)),
    "lost_reply": single(VERSION, *SMALL),
    "lost_request": single(VERSION, *SMALL),
    "no_answer": Row([None], TimedOut),
    "not_authorized": single("AccessDenied NOT-AUTHORIZED", url="/private/x"),
    "not_found_component": single("NONE-FOUND"),
    "not_found_directory": single("NotFound NOT-A-DIRECTORY"),
    "not_found_object": single("NotFound NOT-FOUND", url="AFTP/pub/nosuch"),
    "object_info_attributes": single(
        "OBJECT KEYWORDS red green dark blue", "OBJECT OWNER ASRTHOST '' tester@127.0.0.1", *FILE[5:7]
    ),
    "object_info_directory": single("NONE-FOUND", url="/pfs/pfsdat/demo"),
    "object_info_field": single(*FIELD, url="/pfs/pfsdat/objects/with-am"),
    "object_info_file": single(*FILE, url="AFTP/pub/hello.txt"),
    "object_info_version": single(*FIELD, url="/pfs/pfsdat/objects/with-am;object-version=3;id=REMOTE%205"),
    "partial_request": Row([[SMALL[2]]], split_differently=True),
    "quirk_swapped_connection_id": single(*HUGE),
    "reference_client_get": Row(
        [[VERSION, SMALL[0]], [VERSION, *FILE], [VERSION, "OBJECT CONTENTS DATA hello prospero\n"]]
    ),
    "reference_client_list": single(VERSION, *SMALL),
    "reordered_reply": single(*DEMO),
    "request_multipacket": single(*(FIELD * 30)),
    "resolve_combined_directory": single(*SMALL, "NONE-FOUND"),
    "resolve_combined_file": single(*FILE, "NotFound NOT-A-DIRECTORY"),
    "resolved_two": single(f"L FILE 'README' {HERE}AFTP/pub/docs/README"),
    "union_expanded_by_client": Row(
        [
            [VERSION, f"U DIRECTORY 'more' {HERE}/pfs/pfsdat/more"],
            [
                VERSION,
                "L EXTERNAL 'from-union' ftp://ftp.example.org/pub/from-union;type=i",
                f"L FILE 'hello.txt' {HERE}AFTP/pub/docs/README",
            ],
        ]
    ),
    "unresolved": single(DEMO[4], DEMO[-1], "UNRESOLVED a b"),
    "version_1_client": Row([None]),  # the reply has another id, and this client never sends VERSION 1
    "version_not_supported": single("Declined VERSION-NOT-SUPPORTED TRY 1-5"),
    "version_query": single(VERSION),
}


def test_every_capture_has_row() -> None:
    assert names() == sorted(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_exchange_replays_capture(name: str) -> None:
    row = ROWS[name]
    played = [Replay(packets, free=row.split_differently).play() for packets in exchanges(name)]
    if row.contents is not None:
        assert [join_contents(each.answer.attributes) for each in played if each.answer] == [row.contents]
    else:
        lines = [None if each.answer is None else list(describe_reply(each.answer)) for each in played]
        assert lines == row.lines
    errors = [type(each.error) for each in played if each.error is not None]
    assert errors == ([] if row.error is None else [row.error])


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.url is not None])
def test_request_equals_capture(name: str) -> None:
    """The user, the software and the requested attributes differ.

    The recordings request ACCESS-METHOD alone, from a server with moved objects enabled, which reads the file
    for any attribute. A server built as distributed answers NOT-FOUND for every plain file to such a request;
    so this client also requests the attributes for which the server reads the file (protocol page 6.4). The
    answers are the same: servers send more attributes than requested.
    """
    url = parse_as(ProsperoUrl, str(ROWS[name].url))
    facts, contents = (
        step.exchange for step in rehearse(converse(url)) if isinstance(step, ExchangeDatagrams)
    )
    asked = contents if ROWS[name].contents is not None else facts
    recorded = request_of(exchanges(name)[0]).replace(b" example\n", b" url-resolver\n")
    recorded = recorded.replace(b"GET-OBJECT-INFO ACCESS-METHOD ", b"GET-OBJECT-INFO %s " % ATTRIBUTES)
    assert b"".join(packet.octets[9:] for packet in asked.packets) == recorded.replace(
        b" tester\n", b" anonymous\n"
    )


def test_redirect_of_capture_has_address() -> None:
    played = Replay(exchanges("control_redirect")[0], free=False).play()
    assert [(turn.address, turn.port, turn.lasting) for turn in played.redirects] == [
        ("127.0.0.1", 15251, False)
    ]


def test_parse_reply_reads_version_1_links() -> None:
    """The client never requests version 1; its lines have no quotes and other targets."""
    answer = parse_reply(reply_of(exchanges("version_1_client")[0]), Limits())
    assert [(link.target, link.name) for link in answer.links] == [
        (b"FILE", b"hello.txt"),
        (b"DIRECTORY", b"docs"),
        (b"EXTERNAL(AFTP,TEXT)", b"readme"),
    ]


def test_parse_reply_assigns_attributes_to_links() -> None:
    """Nested attributes are dropped; IDs and filters belong to the link (protocol page 7.2)."""
    answer = parse_reply(reply_of(exchanges("list_nested_attributes")[0]), Limits())
    related, filtered, same, replica = answer.links
    assert [attribute.name for attribute in related.attributes] == [b"ACCESS-METHOD", b"RELATED", b"EMPTY"]
    assert related.attributes[1].value_type == b"LINK"
    assert related.attributes[2].values == ()
    assert filtered.ids == ((b"REMOTE", b"4711"),)
    assert [attribute.value_type for attribute in filtered.attributes] == [b"SEQUENCE", b"FILTER"]
    assert same.ids == replica.ids == ((b"REMOTE", b"99"),)
    assert (same.pointer.host, replica.pointer.host) == (b"a.example.org", b"b.example.org")


def test_parse_reply_reads_symbolic_link_and_expiry() -> None:
    links = parse_reply(reply_of(exchanges("list_multipacket")[0]), Limits()).links
    symbolic, obj = links[18:20]
    assert symbolic.pointer == ObjectPointer(
        b"VIRTUAL-SYSTEM", b"/VIRTUAL-SYSTEMS/demo", b"ASCII", b"/lib/notes", 0
    )
    assert obj.expires == b"19991231235959Z"
    assert obj.pointer.target(RequestObject("h", 1525, b"")).hsoname == b"/pfs/pfsdat/objects/one"
