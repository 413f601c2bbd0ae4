"""Dialogues on a network in memory: results of URLs, and requests to servers (protocol page 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from fixtures.prospero import (
    DISTRIBUTED,
    EXAMPLE,
    MOVED_OBJECTS,
    Behavior,
    Channel,
    Flavor,
    Link,
    Moved,
    Node,
    external,
    file,
    method,
    tree,
)
from fixtures.prospero.tree import CONTENTS, LOCAL, OCTETS, TEXT, attribute, intrinsic
from protocols.contract import Moved as MovedReply
from protocols.contract import Reply
from protocols.conversation.driver import hold
from protocols.prospero.objects import Attribute
from protocols.prospero.resolution import MAX_METHODS, join_contents
from resolver import (
    AccessDenied,
    Declined,
    Entry,
    Kind,
    LimitExceeded,
    Limits,
    NotFound,
    Options,
    ProsperoUrl,
    ProtocolError,
    Referrer,
    Refused,
    ResolveError,
    TimedOut,
    Truncated,
    parse,
)
from tests.protocols.in_memory import MemorySink
from tests.protocols.opening import open_url
from tests.protocols.prospero.network import Network, run
from tests.protocols.typed_url import parse_as

SAME = (b"", b"", b"", b"")
AM = "GET-OBJECT-INFO ACCESS-METHOD+SIZE+LAST-MODIFIED+UNIX-MODES ASCII"
LIST = "LIST ATTRIBUTES COMPONENTS"

FACTS = Options(want="facts")


@dataclass
class Got:
    """The result of a URL."""

    reply: Reply
    body: bytes = b""
    entries: list[Entry] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        return [finding.rule for finding in self.reply.findings]


async def _get(network: Network, url: str, limits: Limits | None, options: Options | None) -> Got:
    parsed = parse_as(ProsperoUrl, url)
    gate = network.gate(url, limits, options)
    async with open_url(parsed, gate) as reply:
        got = Got(reply)
        assert not any(each.open for each in gate.opened), "nothing stays open while a reply lives"
        async for octets in reply.body:
            got.body += octets
        if reply.listing is not None:
            got.entries = [*reply.listing.feed(got.body), *reply.listing.finish()]
        return got


def get(network: Network, url: str, *, limits: Limits | None = None, options: Options | None = None) -> Got:
    got = run(_get(network, url, limits, options))
    assert network.violations == []
    return got


def network(
    tree: Mapping[bytes, Node] = EXAMPLE, behaviors: Mapping[bytes | None, Behavior] | None = None
) -> Network:
    """Return a network with one server, `h`."""
    found = Network()
    found.add("h", tree, behaviors)
    return found


def asked(found: Network, host: str = "h") -> list[str]:
    return found.hosts[host, 1525].service.queries


def test_file_is_retrieved_by_contents() -> None:
    net = network()
    got = get(net, "prospero://h/AFTP/pub/all.bin")
    assert got.body == OCTETS
    assert (got.reply.kind, got.reply.size, got.reply.media_type) == (
        Kind.DOCUMENT,
        len(OCTETS),
        "application/octet-stream",
    )
    assert got.reply.modified == datetime(1994, 3, 1, 12, tzinfo=UTC)
    assert got.reply.meta[0] == ("SIZE", f"{len(OCTETS)} bytes")
    assert got.reply.verified == {"length"}
    assert asked(net) == [f"{AM} AFTP/pub/all.bin 0", "GET-OBJECT-INFO CONTENTS ASCII AFTP/pub/all.bin 0"]


def test_requests_have_separate_ids() -> None:
    net = network()
    get(net, "prospero://h/AFTP/pub/hello.txt")
    assert [octets[:9].hex() for _, octets in net.sent] == ["090001000100010000", "090002000100010000"]


def test_long_file_is_retrieved_in_windows() -> None:
    net = network({b"x": file(OCTETS * 300)})
    assert get(net, "prospero://h/x").body == OCTETS * 300


async def test_body_drain_writes_contents() -> None:
    url, sink = parse("prospero://h/AFTP/pub/hello.txt"), MemorySink()
    assert isinstance(url, ProsperoUrl)
    async with open_url(url, network().gate(url.text)) as reply:
        assert await reply.body.drain(sink) == len(TEXT)
    assert sink.octets == TEXT


def test_directory_is_listed_with_entries() -> None:
    net = network()
    got = get(net, "prospero://h//example")
    assert got.body.split(b"\n")[:5] == [b"hello.txt", b"all.bin", b"more", b"nothing", b"it's a file"]
    assert (got.reply.kind, got.reply.media_type) == (Kind.DIRECTORY, "text/plain")
    assert [(entry.name, entry.kind.value, entry.url) for entry in got.entries] == [
        ("hello.txt", "document", "prospero://h/AFTP/pub/hello.txt"),
        ("all.bin", "document", "prospero://h/AFTP/pub/all.bin"),
        ("more", "directory", "prospero://h//example/more"),
        ("nothing", "directory", "prospero://h//example/nothing"),
        ("it's a file", "document", "prospero://h/AFTP/pub/it%27s%20a%20file"),
        ("moved", "document", "prospero://h//example/old"),
        ("readme", "document", "ftp://ftp.example.org/pub/readme;type=a"),
        ("library", "service", "telnet://opac.example.org:2323/"),
    ]  # without the hidden entry
    assert all(entry.referrer is None for entry in got.entries)
    assert asked(net) == [f"{AM} /example 0", "DIRECTORY ASCII /example 0", LIST]


def test_empty_directory_has_no_entries() -> None:
    got = get(network(), "prospero://h//example/nothing")
    assert (got.reply.kind, got.body, got.entries) == (Kind.DIRECTORY, b"", [])


ONLY_LISTED = {b"q": Node(links=(Link(b"FILE", b"hit", b"x"),), only_listed=True)}


def test_object_without_attributes_is_listed() -> None:
    net = network(ONLY_LISTED)
    assert [entry.name for entry in get(net, "prospero://h/q").entries] == ["hit"]
    assert asked(net) == [f"{AM} q 0", "DIRECTORY ASCII q 0", LIST]


AFTP_FIRST = Node(
    attributes=(
        method(b"AFTP", b"INTERNET-D", b"ftp.example.org", b"ASCII", b"/pub/one.txt", b"TEXT"),
        CONTENTS,
        LOCAL,
        method(b"GOPHER", b"INTERNET-D", b"g.example(70)", b"ASCII", b"0/one"),
        method(b"TELNET", b"INTERNET-D", b"t.example", b"ASCII", b""),
    ),
    contents=b"by contents",
)


def test_access_methods_are_offered_in_order() -> None:
    net = network({b"x": AFTP_FIRST})
    reply = get(net, "prospero://h/x").reply
    assert reply.moved is not None
    assert (reply.moved.location, reply.moved.code) == ("ftp://ftp.example.org/pub/one.txt;type=a", "AFTP")
    contents, gopher = reply.moved.others
    assert gopher == "gopher://g.example/00/one"
    assert reply.moved.found_in is None
    assert not isinstance(contents, str)

    async def read() -> bytes:
        async with hold(contents(), net.gate("prospero://h/x")) as further:
            assert further.size == len(b"by contents")
            return b"".join([octets async for octets in further.body])

    assert run(read()) == b"by contents"
    assert asked(net) == [f"{AM} x 0", "GET-OBJECT-INFO CONTENTS ASCII x 0"]


def test_later_access_method_is_checked_with_referrer() -> None:
    """This also applies after earlier access methods failed, and on another connection."""
    there = intrinsic(b"ACCESS-METHOD", b"PROSPERO-CONTENTS", b"", b"c", b"", b"y")
    net = Network()
    net.add("h", {b"x": Node(moved=Moved(b"x", host=b"b"))})
    net.add("b", {b"x": Node(attributes=(method(b"AFTP", *SAME), there))})
    net.add("c", {b"y": file(b"at c")})
    url = parse("prospero://h/x")
    gate = net.gate(url.text)

    async def read() -> bytes:
        async with open_url(url, gate) as reply:
            assert reply.moved is not None
            (method,) = reply.moved.others
        assert not isinstance(method, str)
        async with hold(method(), gate) as further:
            return b"".join([octets async for octets in further.body])

    assert run(read()) == b"at c"
    assert net.checked == [
        ("prospero://b/x", "prospero://h/x", "192.0.2.1"),
        ("prospero://c/y", "prospero://b/x", "192.0.2.2"),
    ]


def objects(*attributes: object, contents: bytes | None = None) -> dict[bytes, Node]:
    return {b"x": Node(attributes=tuple(attributes), contents=contents)}  # type: ignore[arg-type]


def test_missing_contents_fall_back_to_next_access_method() -> None:
    ftp = method(b"AFTP", b"INTERNET-D", b"f.example", b"ASCII", b"/x")
    reply = get(network(objects(CONTENTS, ftp)), "prospero://h/x").reply
    assert reply.moved is not None
    assert reply.moved._replace(failed=None) == MovedReply("ftp://f.example/x", "AFTP")


def test_contents_shorter_than_size_are_truncated() -> None:
    size = intrinsic(b"SIZE", b"9 bytes")
    net = network(objects(size, CONTENTS, contents=b"short"))
    with pytest.raises(Truncated) as raised:
        get(net, "prospero://h/x")
    assert (raised.value.received, raised.value.expected) == (5, 9)
    ftp = method(b"AFTP", b"INTERNET-D", b"f.example", b"ASCII", b"/x")
    reply = get(network(objects(size, CONTENTS, ftp, contents=b"short")), "prospero://h/x").reply
    assert reply.moved is not None


@pytest.mark.parametrize(
    ("tagged", "contents", "shown"),
    [
        (((b"a", b"one"), (b"b", b"two\n"), (b"c", b"")), None, b"a: one\nb: two\nc: "),
        (((b"a", b"one"),), b"data", b"a: one\ndata"),
        ((), b"", b""),
    ],
)
def test_tagged_contents_include_tags(
    tagged: tuple[tuple[bytes, bytes], ...], contents: bytes | None, shown: bytes
) -> None:
    tree = {b"x": Node(attributes=(CONTENTS,), contents=contents, tagged=tagged)}
    assert get(network(tree), "prospero://h/x").body == shown


def test_telnet_method_becomes_service_reply() -> None:
    telnet = method(b"TELNET", b"INTERNET-D", b"opac.example(2323)", b"ASCII", b"", b"Say hello")
    reply = get(network(objects(LOCAL, telnet)), "prospero://h/x").reply
    assert (reply.kind, reply.target, reply.moved) == (Kind.SERVICE, "telnet://opac.example:2323/", None)
    assert reply.extra is not None
    assert reply.extra["message"] == "Say hello"


#: Objects that cannot be retrieved: the tree of the server, and the error.
DENIED: list[tuple[dict[bytes, Node], type[ResolveError], str]] = [
    ({}, NotFound, "NOT-FOUND"),
    ({b"x": Node(refused=True)}, AccessDenied, "NOT-AUTHORIZED"),
    ({b"x": Node()}, Declined, "attributes"),
    (objects(intrinsic(b"SIZE", b"3 bytes")), Declined, "attributes"),
    (objects(CONTENTS), Declined, "contents"),
    (objects(CONTENTS, LOCAL), Declined, "contents"),
    (objects(LOCAL), Refused, "absolute path"),
    (
        objects(intrinsic(b"ACCESS-METHOD", b"LOCAL", b"", b"", b"", b"/etc/passwd")),
        Refused,
        "this machine",
    ),
    (objects(method(b"AFS", *SAME)), Declined, "AFS"),
    (objects(method(b"AFTP", b"", b"bad host", b"", b"x")), Declined, "bad-host"),
    ({b"x": Node(moved=Moved(b"x"))}, Refused, "circle"),
    ({b"x": Node(moved=Moved(b"y")), b"y": Node(moved=Moved(b"x"))}, Refused, "circle"),
    ({b"x": Node(moved=Moved(b"y", host=b"no host"))}, ProtocolError, "moved"),
    ({b"x": Node(moved=Moved(b"y", host_type=b"NULL"))}, ProtocolError, "moved"),
    ({b"x": Node(moved=Moved(b"a\nb"))}, ProtocolError, "moved"),
]


@pytest.mark.parametrize(("tree", "error", "words"), DENIED)
def test_unavailable_object_raises_typed_error(
    tree: dict[bytes, Node], error: type[ResolveError], words: str
) -> None:
    with pytest.raises(error, match=words) as raised:
        get(network(tree), "prospero://h/x")
    assert type(raised.value) is error
    if isinstance(raised.value, Refused):
        assert (raised.value.rule, raised.value.exit_code) == ("S10", 15)


def test_directory_with_local_access_method_is_listed() -> None:
    tree = {b"x": Node(links=(Link(b"FILE", b"in it", b"y"),), attributes=(LOCAL,))}
    assert [entry.name for entry in get(network(tree), "prospero://h/x").entries] == ["in it"]


def test_unsupported_url_sends_no_packet() -> None:
    net = network()
    with pytest.raises(Declined):
        get(net, "prospero://h/x;HOST-TYPE=X25")
    assert net.sent == []


def test_moved_object_is_requested_at_new_location() -> None:
    net = Network()
    net.add("h", {b"x": Node(moved=Moved(b"/y z", host=b"B.Example(1570)"))})
    net.add("b.example", {b"/y z": file(b"moved here", method(b"AFTP", *SAME))}, port=1570)
    got = get(net, "prospero://h/x;id=REMOTE%209")
    assert got.body == b"moved here"
    assert got.reply.peer == "192.0.2.2"
    assert got.reply.extra is not None
    assert got.reply.extra["moved_to"] == "prospero://b.example:1570//y%20z"
    assert net.checked == [
        ("prospero://b.example:1570//y%20z", "prospero://h/x;id=REMOTE%209", "192.0.2.1"),
    ]
    there = net.hosts["b.example", 1570].service
    assert there.queries == [f"{AM} /y z 0", "GET-OBJECT-INFO CONTENTS ASCII /y z 0"]
    assert [
        command for request in there.requests for command in request.commands if command[0] == b"SELECT"
    ] == [(b"SELECT", b"OBJECT", b"FIELD", b"ID", b"SEQUENCE", b"REMOTE", b"9")] * 2


def test_moved_object_defaults_come_from_new_location() -> None:
    net = Network()
    net.add("h", {b"x": Node(moved=Moved(b"y", host=b"b"))})
    net.add("b", {b"y": Node(attributes=(method(b"AFTP", *SAME),))})
    reply = get(net, "prospero://h/x").reply
    assert reply.moved is not None
    assert reply.moved.location == "ftp://b/y"  # default tokens come from the new location (7.5)
    assert reply.moved.found_in == Referrer("prospero://b/y", "192.0.2.2")


def chain(moves: int) -> dict[bytes, Node]:
    tree = {b"%d" % number: Node(moved=Moved(b"%d" % (number + 1))) for number in range(moves)}
    return {**tree, b"%d" % moves: file(b"at last")}


def test_object_moved_over_20_times_is_refused() -> None:
    assert get(network(chain(20)), "prospero://h/0").body == b"at last"
    net = network(chain(21))
    with pytest.raises(Refused, match="20 times") as raised:
        get(net, "prospero://h/0")
    assert raised.value.rule == "S10"
    assert len(asked(net)) == 21


def test_moved_directory_is_listed_at_new_location() -> None:
    net = Network()
    net.add("h", {b"d": Node(moved=Moved(b"e", host=b"b"))})
    net.add("b", {b"e": Node(links=(Link(b"FILE", b"f", b"g"),))})
    (entry,) = get(net, "prospero://h/d").entries
    assert (entry.url, entry.referrer) == ("prospero://b/g", Referrer("prospero://b/e", "192.0.2.2"))


def test_forbidden_host_receives_no_packet() -> None:
    net = Network(forbidden=frozenset({"inside"}))
    net.add("h", {b"x": Node(moved=Moved(b"y", host=b"inside"))})
    net.add("inside", {b"y": file(b"secret")})
    with pytest.raises(Refused, match="farther inside"):
        get(net, "prospero://h/x")
    assert asked(net, "inside") == []
    assert {place for place, _ in net.sent} == {"192.0.2.1:1525"}


def test_contents_on_other_server_are_retrieved() -> None:
    net = Network(forbidden=frozenset({"inside"}))
    inside, elsewhere = (
        intrinsic(b"ACCESS-METHOD", b"PROSPERO-CONTENTS", b"", host, b"", b"y") for host in (b"inside", b"b")
    )
    net.add("h", objects(inside, elsewhere))
    net.add("inside", {b"y": file(b"secret")})
    net.add("b", {b"y": file(b"public")})
    got = get(net, "prospero://h/x")
    assert (got.body, got.reply.peer) == (b"public", "192.0.2.3")
    assert asked(net, "inside") == []
    assert [where for where, *_ in net.checked] == ["prospero://inside/y", "prospero://b/y"]


def union(*hosts: bytes) -> tuple[Link, ...]:
    return tuple(Link(b"DIRECTORY", b"", b"u", host=host, ltype=b"U") for host in hosts)


def named(*names: bytes) -> tuple[Link, ...]:
    return tuple(Link(b"FILE", name, b"file " + name) for name in names)


def test_unions_are_listed_depth_first_after_own_links() -> None:
    net = Network()
    net.add("h", {b"d": Node(links=(*named(b"a"), *union(b"b", b"c"), *named(b"z", b"z")))})
    net.add("b", {b"u": Node(links=(*union(b"deep"), *named(b"b1", b"a")))})
    net.add("c", {b"u": Node(links=named(b"c1", b"b1", b"d1"))})
    net.add("deep", {b"u": Node(links=(*named(b"d1"), *union(b"h", b"b")))})
    got = get(net, "prospero://h/d")
    assert [(entry.name, entry.url) for entry in got.entries] == [
        ("a", "prospero://h/file%20a"),
        ("z", "prospero://h/file%20z"),
        ("z", "prospero://h/file%20z"),
        ("b1", "prospero://b/file%20b1"),
        ("d1", "prospero://deep/file%20d1"),
        ("c1", "prospero://c/file%20c1"),
    ]
    assert [entry.referrer and entry.referrer.url for entry in got.entries] == [
        None,
        None,
        None,
        "prospero://b/u",
        "prospero://deep/u",
        "prospero://c/u",
    ]
    assert got.entries[3].referrer == Referrer("prospero://b/u", "192.0.2.2")
    assert got.body == b"a\nz\nz\nb1\nd1\nc1\n"


def test_union_referrer_is_parent_directory() -> None:
    net = Network()
    net.add("h", {b"d": Node(links=union(b"b"))})
    net.add("b", {b"u": Node(links=union(b"c"))})
    net.add("c", {b"u": Node(links=named(b"x"))})
    get(net, "prospero://h/d")
    assert net.checked == [
        ("prospero://b/u", "prospero://h/d", "192.0.2.1"),
        ("prospero://c/u", "prospero://b/u", "192.0.2.2"),
    ]


def test_unreadable_unions_are_reported() -> None:
    net = Network(forbidden=frozenset({"inside"}))
    tree = {
        b"d": Node(links=(*named(b"a"), *union(b"missing", b"inside", b"b", b"c", b"bad host"), *named(b"z")))
    }
    net.add("h", tree)
    net.add("inside", {b"u": Node(links=named(b"secret"))})
    net.add("b", {})
    net.add("c", {b"u": Node(links=named(b"c1"))})
    got = get(net, "prospero://h/d")
    assert [entry.name for entry in got.entries] == ["a", "z", "c1"]
    assert got.findings == ["prospero:incomplete"] * 4
    told = [finding.detail for finding in got.reply.findings]
    assert [
        any(word in detail for detail in told)
        for word in ("missing", "inside", "NOT-A-DIRECTORY", "bad host")
    ] == [True] * 4
    assert got.reply.verified == set()
    assert asked(net, "inside") == []


def test_union_depth_and_number_are_limited() -> None:
    tree = {
        b"%d" % number: Node(
            links=(*named(b"n%d" % number), Link(b"DIRECTORY", b"", b"%d" % (number + 1), ltype=b"U"))
        )
        for number in range(50)
    }
    got = get(network(tree), "prospero://h/0")
    assert [entry.name for entry in got.entries] == [f"n{number}" for number in range(9)]
    assert got.findings == ["prospero:incomplete"]
    wide = Node(links=tuple(Link(b"DIRECTORY", b"", b"%d" % number, ltype=b"U") for number in range(60)))
    leaves = {b"%d" % number: Node(links=named(b"n%d" % number)) for number in range(60)}
    got = get(network({b"wide": wide, **leaves}), "prospero://h/wide")
    assert (len(got.entries), got.findings) == (32, ["prospero:incomplete"] * 28)


def test_filters_are_reported_and_not_run() -> None:
    rule = attribute(b"LINK", b"FIELD", b"FILTER", b"FILTER", b"DIRECTORY", b"CLIENT", b"POST", b"X")
    got = get(network({b"d": Node(links=(Link(b"FILE", b"a", b"b", attributes=(rule,)),))}), "prospero://h/d")
    assert got.findings == ["prospero:filter"]
    assert got.entries[0].extra is not None
    assert got.entries[0].extra["filters"] == ["DIRECTORY CLIENT POST X"]


def test_warnings_and_odd_lines_are_findings() -> None:
    reply = b"WARNING OUT-OF-DATE 'old links'\nNEW x\nLINK L FILE n INTERNET-D h ASCII x 0\n"
    got = get(network(ONLY_LISTED, {b"q": Behavior(instead=reply)}), "prospero://h/q")
    warning, odd_line = got.reply.findings[:2]
    assert tuple(warning) == ("prospero:warning", "warn", "OUT-OF-DATE old links")
    assert (odd_line.rule, odd_line.action) == ("prospero:odd-line", "warn")
    assert "'NEW'" in odd_line.detail


def test_filter_and_warnings_of_union_are_reported() -> None:
    rule = attribute(b"LINK", b"FIELD", b"FILTER", b"FILTER", b"DIRECTORY", b"CLIENT", b"POST", b"X")
    links = (Link(b"DIRECTORY", b"", b"u", ltype=b"U", attributes=(rule,)),)
    warning = b"WARNING MESSAGE hello\nNONE-FOUND\n"
    net = network({b"d": Node(links=links), b"u": Node()}, {b"u": Behavior(instead=warning)})
    assert get(net, "prospero://h/d").findings == ["prospero:warning", "prospero:filter"]


#: Answers to LIST that show no directory: only the object's attributes, or the rest of a path.
NO_LISTINGS = [b"ATTRIBUTE OBJECT INTRINSIC SIZE SEQUENCE '3 bytes'\n", b"UNRESOLVED a\n"]


@pytest.mark.parametrize("instead", NO_LISTINGS)
@pytest.mark.parametrize("options", [Options(), FACTS])
def test_answer_without_links_is_not_a_directory(instead: bytes, options: Options) -> None:
    net = network(ONLY_LISTED, {b"q": Behavior(instead=instead)})
    if options is FACTS:
        assert get(net, "prospero://h/q", options=options).reply.kind is Kind.UNKNOWN
    else:
        with pytest.raises(Declined, match="attributes"):
            get(net, "prospero://h/q")
    assert asked(net)[-1] == LIST


def test_union_without_directory_is_reported() -> None:
    tree = {b"d": Node(links=(*named(b"a"), *union(b"h"))), b"u": Node()}
    got = get(network(tree, {b"u": Behavior(instead=NO_LISTINGS[0])}), "prospero://h/d")
    assert ([entry.name for entry in got.entries], got.findings) == (["a"], ["prospero:incomplete"])


def test_directory_with_file_attributes_is_listed() -> None:
    """A server may send file attributes for a directory, with directory modes (protocol page 6.4)."""
    modes = intrinsic(b"UNIX-MODES", b"drwxr-xr-x")
    tree = {b"d": Node(links=named(b"a"), attributes=(modes, CONTENTS))}
    net = network(tree)
    assert [entry.name for entry in get(net, "prospero://h/d").entries] == ["a"]
    assert get(net, "prospero://h/d", options=FACTS).reply.kind is Kind.DIRECTORY
    assert not any("CONTENTS" in each for each in asked(net))


def test_file_with_directory_modes_is_retrieved() -> None:
    modes = intrinsic(b"UNIX-MODES", b"drwxr-xr-x")
    net = network(objects(modes, CONTENTS, contents=b"a file after all"))
    assert get(net, "prospero://h/x").body == b"a file after all"
    assert asked(net)[2] == LIST


@pytest.mark.parametrize("flavor", [DISTRIBUTED, MOVED_OBJECTS])
def test_file_is_retrieved_from_any_server_flavor(flavor: Flavor) -> None:
    net = Network()
    net.add("h", EXAMPLE, flavor=flavor)
    assert get(net, "prospero://h/AFTP/pub/hello.txt").body == TEXT


def test_size_attribute_of_directory_is_not_reply_size() -> None:
    tree = {b"d": Node(links=(Link(b"FILE", b"f", b"g"),), attributes=(intrinsic(b"SIZE", b"4096 bytes"),))}
    got = get(network(tree), "prospero://h/d")
    assert (got.reply.size, got.body) == (None, b"f\n")
    assert got.reply.meta == (("SIZE", "4096 bytes"),)


@pytest.mark.parametrize(
    ("name", "kind", "size", "target", "questions"),
    [
        ("AFTP/pub/hello.txt", Kind.DOCUMENT, 15, None, 1),
        ("/example", Kind.DIRECTORY, None, None, 3),
        ("/example/old", Kind.DOCUMENT, 15, None, 2),
        ("ftp", Kind.LINK, 7, "ftp://f.example/x", 1),
        ("telnet", Kind.SERVICE, None, "telnet://t.example/", 1),
        ("bare", Kind.UNKNOWN, 7, None, 3),
    ],
)
def test_facts_request_no_contents(
    name: str, kind: Kind, size: int | None, target: str | None, questions: int
) -> None:
    sized = intrinsic(b"SIZE", b"7 bytes")
    tree = {
        **EXAMPLE,
        b"ftp": Node(attributes=(sized, method(b"AFTP", b"", b"f.example", b"", b"/x"))),
        b"telnet": Node(attributes=(method(b"TELNET", b"", b"t.example", b"", b""),)),
        b"bare": Node(attributes=(sized,)),
    }
    net = network(tree)
    got = get(net, f"prospero://h/{name}", options=FACTS)
    assert (got.reply.kind, got.reply.size, got.reply.target, got.body) == (kind, size, target, b"")
    assert got.reply.moved is None
    assert len(asked(net)) == questions
    assert not any("CONTENTS" in each for each in asked(net))


def test_facts_of_missing_name_raise_not_found() -> None:
    """The real server also answers NONE-FOUND to LIST VERIFY for a missing name (protocol page 6.3)."""
    with pytest.raises(NotFound) as raised:
        get(network(), "prospero://h/nope", options=FACTS)
    assert raised.value.code == "NOT-FOUND"


def test_total_size_of_replies_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is twice the maximum size of the object: each byte may be a quote, which is sent twice."""
    monkeypatch.setattr("protocols.prospero.message._OVERHEAD", 500)
    net = network({b"x": file(b"'" * 4000)})
    assert get(net, "prospero://h/x", limits=Limits(body=4000)).body == b"'" * 4000
    with pytest.raises(LimitExceeded) as raised:
        get(net, "prospero://h/x", limits=Limits(body=3000))
    assert raised.value.exit_code == 14
    assert net.hosts["h", 1525].service.cancelled == 1  # the client cancels the request at the server
    tree = {
        b"d": Node(links=(*named(b"a"), *union(b"h"))),
        b"u": Node(links=named(*(b"n%d" % n for n in range(99)))),
    }
    with pytest.raises(LimitExceeded):
        get(network(tree), "prospero://h/d", limits=Limits(body=1000))


def test_silent_server_times_out_at_idle_limit() -> None:
    net = network(behaviors={None: Behavior(silent=True)})
    before = net.now
    with pytest.raises(TimedOut):
        get(net, "prospero://h/x", limits=Limits(idle=30.0))
    assert (net.now - before, len(net.sent)) == (30.0, 8)  # at 0, 2, 6, 10, … seconds
    assert net.hosts["h", 1525].service.cancelled == 0


def contents_of(name: bytes, host: bytes = b"") -> tree.Attribute:
    return intrinsic(b"ACCESS-METHOD", b"PROSPERO-CONTENTS", b"", host, b"", name)


@pytest.mark.parametrize(
    ("silent", "more", "limits", "waited"),
    [
        (2, (contents_of(b"good", b"b"),), Limits(), 30.0),
        (1, (contents_of(b"good", b"b"),), Limits(connect=5.0), 5.0),
        (1, (contents_of(b"good", b"b"),), Limits(idle=20.0), 20.0),
        (1, (method(b"TELNET", b"", b"b", b"", b""),), Limits(), 30.0),
        (1, (), Limits(), 60.0),
    ],
    ids=["two, then another server", "connect timeout", "idle timeout", "then a service", "no other way"],
)
def test_silent_contents_cost_one_connect_timeout_before_next_way(
    silent: int, more: tuple[tree.Attribute, ...], limits: Limits, waited: float
) -> None:
    methods = (*(contents_of(b"y") for _ in range(silent)), *more)
    net = network({b"x": Node(attributes=methods), b"y": file(b"never")}, {b"y": Behavior(silent=True)})
    net.add("b", {b"good": file(b"from b")})
    before = net.now
    if more:
        assert get(net, "prospero://h/x", limits=limits).reply.kind is not Kind.UNKNOWN
    else:
        with pytest.raises(TimedOut):
            get(net, "prospero://h/x", limits=limits)
    assert net.now - before == waited
    assert sum("CONTENTS" in each for each in asked(net)) == 1


def test_number_of_tried_access_methods_is_limited() -> None:
    hosts = [b"s%d" % number for number in range(40)]
    net = network({b"x": Node(attributes=tuple(contents_of(b"y", host) for host in hosts))})
    for host in hosts:
        net.add(host.decode(), {}, {None: Behavior(silent=True)})
    before = net.now
    with pytest.raises(TimedOut):
        get(net, "prospero://h/x")
    assert len(net.checked) == MAX_METHODS
    assert net.now - before == 30.0 * (MAX_METHODS - 1) + 60.0


def test_silent_server_of_unions_costs_one_connect_timeout() -> None:
    silent = (Link(b"DIRECTORY", b"", b"%d" % number, host=b"b", ltype=b"U") for number in range(9))
    net = network({b"d": Node(links=(*silent, *union(b"c")))})
    net.add("b", {}, {None: Behavior(silent=True)})
    net.add("c", {b"u": Node(links=named(b"c1"))})
    before = net.now
    got = get(net, "prospero://h/d")
    assert ([entry.name for entry in got.entries], got.findings) == (["c1"], ["prospero:incomplete"] * 9)
    assert (net.now - before, {destination for destination, _ in net.sent}) == (
        30.0,
        {"192.0.2.1:1525", "192.0.2.2:1525", "192.0.2.3:1525"},
    )


def test_contents_that_server_announces_may_take_idle_timeout() -> None:
    tree = {**objects(contents_of(b"y"), CONTENTS), b"y": file(b"never")}
    net = network(tree, {b"y": Behavior(wait=900, silent=True)})
    before = net.now
    with pytest.raises(ResolveError):
        get(net, "prospero://h/x")
    assert net.now - before == 60.0


#: Behaviors of servers and networks that lose no data.
HARMLESS = [
    Behavior(wait=20, queue=(2, 9)),
    Behavior(other_port=True),
    Behavior(swaps=True),
]


@pytest.mark.parametrize("behavior", HARMLESS)
def test_odd_server_behavior_is_tolerated(behavior: Behavior) -> None:
    net = network({b"x": file(OCTETS * 60)}, {None: behavior})
    assert get(net, "prospero://h/x").body == OCTETS * 60


def test_nul_of_old_server_is_removed() -> None:
    reply = b"VERSION 5 A51x\nATTRIBUTE OBJECT INTRINSIC CONTENTS SEQUENCE DATA '" + b"y" * 4000 + b"'\n"
    tree = {b"x": Node(attributes=(intrinsic(b"ACCESS-METHOD", b"PROSPERO-CONTENTS", b"", b"", b"", b"y"),))}
    net = network(tree, {b"y": Behavior(instead=reply, ends_with_nul=True)})
    assert get(net, "prospero://h/x").body == b"y" * 4000


def test_answer_from_other_address_is_ignored() -> None:
    net = network(behaviors={None: Behavior(other_address=True)})
    with pytest.raises(TimedOut):
        get(net, "prospero://h/AFTP/pub/hello.txt")


@pytest.mark.parametrize(
    ("behavior", "code"),
    [(Behavior(refuses=True), "refused"), (Behavior(versions=(1,)), "version not supported")],
)
def test_refusing_server_is_declined(behavior: Behavior, code: str) -> None:
    with pytest.raises(Declined) as raised:
        get(network(behaviors={None: behavior}), "prospero://h/x")
    assert raised.value.code == code


@pytest.mark.parametrize("lasting", [False, True])
def test_redirect_is_followed(lasting: bool) -> None:
    net = Network()
    net.add("h", {}, {None: Behavior(redirect=("192.0.2.2", 1600), lasting=lasting)})
    net.add("b", EXAMPLE, port=1600)
    assert get(net, "prospero://h/AFTP/pub/hello.txt").body == TEXT
    turns = [("192.0.2.1:1525", 1 if lasting else 2), ("192.0.2.2:1600", 2)]
    assert [(place, [to for to, _ in net.sent].count(place)) for place, _ in turns] == turns
    assert net.checked[0] == ("prospero://192.0.2.2:1600", "prospero://h/AFTP/pub/hello.txt", "192.0.2.1")


def test_redirect_refused_by_policy_is_not_followed() -> None:
    net = Network(forbidden=frozenset({"192.0.2.2"}))
    net.add("h", {}, {None: Behavior(redirect=("192.0.2.2", 1600))})
    net.add("b", EXAMPLE, port=1600)
    with pytest.raises(Refused, match=r"192\.0\.2\.2") as raised:
        get(net, "prospero://h/AFTP/pub/hello.txt")
    assert raised.value.rule == "S08"
    assert {to for to, _ in net.sent} == {"192.0.2.1:1525"}


def test_circular_redirects_are_refused() -> None:
    net = Network()
    net.add("h", {}, {None: Behavior(redirect=("192.0.2.1", 1525))})
    with pytest.raises(Refused, match="redirects"):
        get(net, "prospero://h/x")


@pytest.mark.parametrize("seed", range(30))
def test_file_is_retrieved_despite_30_percent_loss(seed: int) -> None:
    """30% of the datagrams are lost each way; others are duplicated or reordered.

    With the timers of old clients, a quarter of these exchanges received no packet for a minute.
    """
    net = Network(Channel(lost=0.3, doubled=0.1, shuffled=True, seed=seed))
    net.add("h", {b"x": file(OCTETS * 60)})
    assert get(net, "prospero://h/x").body == OCTETS * 60
    assert net.weather.lost > 5
    assert net.violations == []


def test_reply_with_open_quote_raises() -> None:
    with pytest.raises(ProtocolError, match="quotes"):
        get(network(behaviors={None: Behavior(instead=b"LINK 'L\n")}), "prospero://h/x")


def test_external_link_without_access_method_has_no_url() -> None:
    links = (
        external(b"none", b"h.example", b"/x"),
        Link(b"NULL", b"null", b"x"),
        Link(b"FILE", b"bad\nname", b"a\nb"),
    )
    got = get(network({b"d": Node(links=links)}), "prospero://h/d")
    assert [(entry.name, entry.url, entry.kind.value) for entry in got.entries] == [
        ("none", None, "unknown"),
        ("null", None, "unknown"),
        ("bad\nname", None, "document"),
    ]
    none, null, bad = [(entry.extra or {}).get("unusable") for entry in got.entries]
    assert "access method" in str(none)
    assert null is None
    assert str(bad).startswith("bad-char: ")
    assert got.body == b"none\nnull\nbad\\x0aname\n"


def test_link_attributes_become_entry_facts() -> None:
    told = (
        attribute(b"CACHED", b"INTRINSIC", b"SIZE", b"SEQUENCE", b"12 bytes"),
        attribute(b"CACHED", b"INTRINSIC", b"LAST-MODIFIED", b"SEQUENCE", b"19940301120000Z"),
        attribute(b"OBJECT", b"INTRINSIC", b"UNIX-MODES", b"SEQUENCE", b"-rw-r--r--"),
        attribute(b"LINK", b"APPLICATION", b"MENU-ITEM-DESCRIPTION", b"SEQUENCE", b"A", b"title"),
        attribute(b"LINK", b"FIELD", b"ID", b"SEQUENCE", b"REMOTE", b"9"),
    )
    search = attribute(b"CACHED", b"FIELD", b"OBJECT-INTERPRETATION", b"SEQUENCE", b"SEARCH")
    image = attribute(b"CACHED", b"FIELD", b"OBJECT-INTERPRETATION", b"SEQUENCE", b"IMAGE", b"GIF")
    links = (
        Link(b"FILE", b"told", b"x", attributes=told, more=(b"DEST-EXP", b"20000101000000Z"), version=3),
        Link(b"DIRECTORY", b"find", b"y", attributes=(search,)),
        Link(b"OBJECT", b"pixel", b"z", attributes=(image,)),
        Link(b"FILE+DIRECTORY", b"both", b"z"),
        Link(b"SYMBOLIC", b"symbolic", b"z", host=b"v", host_type=b"VIRTUAL-SYSTEM"),
    )
    entries = get(network({b"d": Node(links=links)}), "prospero://h/d").entries
    assert [entry.kind.value for entry in entries] == ["document", "search", "document", "directory", "link"]
    first = entries[0]
    assert (first.size, first.modified, first.title) == (12, datetime(1994, 3, 1, 12, tzinfo=UTC), "A title")
    assert first.raw == b"LINK  L FILE told INTERNET-D h ASCII x 3 DEST-EXP 20000101000000Z"
    assert first.url == "prospero://h/x;OBJECT-VERSION=3"
    assert first.extra == {
        "link": "L",
        "target": "FILE",
        "host": "h",
        "hsoname": "x",
        "version": 3,
        "expires": "20000101000000Z",
        "id": ["REMOTE 9"],
        "modes": "-rw-r--r--",
    }
    assert [entry.url for entry in entries[3:]] == ["prospero://h/z", None]


# The object from the values of CONTENTS (protocol page 8.4).

VALUES: list[tuple[list[tuple[bytes, ...]], bytes | None]] = [
    ([], None),
    ([(b"DATA",)], None),
    ([(b"OTHER", b"x")], None),
    ([(b"TAGGED", b"t")], None),
    ([(b"DATA", b"")], b""),
    ([(b"DATA", b"a\0"), (b"DATA", b"\r\nb")], b"a\0\r\nb"),
    ([(b"TAGGED", b"t", b"v")], b"t: v"),
    ([(b"DATA", b"a"), (b"TAGGED", b"t", b"v"), (b"DATA", b"b"), (b"DATA", b"c")], b"a\nt: v\nbc"),
    (
        [(b"TAGGED", b"t", b"v\n"), (b"TAGGED", b"u", b"w"), (b"OTHER", b"x"), (b"DATA", b"b")],
        b"t: v\nu: w\nb",
    ),
]


@pytest.mark.parametrize(("values", "octets"), VALUES)
def test_join_contents_joins_data_and_tags(values: list[tuple[bytes, ...]], octets: bytes | None) -> None:
    attributes = [Attribute(b"OBJECT", b"CONTENTS", b"SEQUENCE", each) for each in values]
    size = Attribute(b"OBJECT", b"SIZE", b"SEQUENCE", (b"DATA", b"no contents"))
    assert join_contents([size, *attributes]) == octets
