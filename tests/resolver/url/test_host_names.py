"""IRIs converted to URLs on request (RFC 3987; IDNA 2008, UTS 46 non-transitional); IPv6 zones (RFC 9844)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import Origin
from resolver import (
    HostUrl,
    InvalidUrl,
    Policy,
    Refused,
    Resolver,
    Unreachable,
    build,
    check,
    convert_iri,
    explain,
    parse,
)
from resolver.url.parsing import find_zone, make_url, strip_user


@pytest.mark.parametrize(
    ("iri", "url"),
    [
        # ASCII text stays, valid or not.
        ("http://H/%7e a?b#c", "http://H/%7e a?b#c"),
        ("", ""),
        ("no url", "no url"),
        # Text outside the host is encoded as UTF-8, then escaped.
        ("http://h/é", "http://h/%C3%A9"),
        ("http://h/a?é#é", "http://h/a?%C3%A9#%C3%A9"),
        ("ftp://ü:é@h/", "ftp://%C3%BC:%C3%A9@h/"),
        ("http://h/\U0001f600", "http://h/%F0%9F%98%80"),
        ("mailto:ü@h", "mailto:%C3%BC@h"),
        ("news:ü", "news:%C3%BC"),
        ("http:/ü/", "http:/%C3%BC/"),
        # The host is encoded by IDNA.
        ("http://münchen.example/", "http://xn--mnchen-3ya.example/"),
        ("http://MÜNCHEN.Example:80/", "http://xn--mnchen-3ya.example:80/"),
        ("<URL:http://münchen.example>", "<URL:http://xn--mnchen-3ya.example>"),
        ("ftp://u:p@ü.example?é", "ftp://u:p@xn--tda.example?%C3%A9"),
        ("http://straße.example/", "http://xn--strae-oqa.example/"),  # non-transitional: not ss
        ("http://ü", "http://xn--tda"),
        ("http://ü#ü", "http://xn--tda#%C3%BC"),
        ("x-foo://ü/", "x-foo://xn--tda/"),
        # UTS 46 maps these to the ASCII text that they resemble; the parser and the policy check the result.
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("http://ⓛocalhost/", "http://localhost/"),
        ("http://h:８0/", "http://h:%EF%BC%980/"),  # a port is not a name: the parser will refuse it
    ],
)
def test_convert_iri_encodes_host_and_path(iri: str, url: str) -> None:
    assert convert_iri(iri) == url


@pytest.mark.parametrize(
    ("iri", "kind", "position"),
    [
        ("http://a／b/", "bad-host", 7),  # would be mapped to a slash
        ("http://a＠b/", "bad-host", 7),
        ("http://a：80/", "bad-host", 7),
        ("http://u@é%41/", "bad-host", 9),
        ("http://a\u200db/", "bad-host", 7),
        ("http://\u00ad/", "bad-host", 7),  # a soft hyphen is mapped to nothing
        ("http://é..b/", "bad-host", 7),
        ("http://☃.example/", "bad-host", 7),  # IDNA 2008 allows no symbols
        ("http://é\ud800/", "bad-host", 7),
        ("http://h/a\udc00", "non-ascii", 10),
    ],
)
def test_convert_iri_without_ascii_form_raises(iri: str, kind: str, position: int) -> None:
    with pytest.raises(InvalidUrl) as caught:
        convert_iri(iri)
    assert (caught.value.kind, caught.value.position) == (kind, position)


def test_parse_does_not_convert_iris() -> None:
    with pytest.raises(InvalidUrl, match="non-ascii"):
        parse("http://münchen.example/")
    assert parse(convert_iri("http://münchen.example/")).findings == ()


@given(st.text(max_size=20), st.sampled_from(["", "http://", "http://h/", "ftp://u@", "mailto:"]))
def test_convert_iri_of_any_text_is_ascii_or_refused(text: str, start: str) -> None:
    try:
        converted = convert_iri(start + text)
    except InvalidUrl:
        return
    assert converted.isascii()
    assert convert_iri(converted) == converted


# Only the user may enter a zone (RFC 9844); a zone is never sent to another machine.

ZONED = "http://[fe80::1%25eth0]:81/a"


def read(text: str) -> HostUrl:
    url = parse(text, origin="user")
    assert isinstance(url, HostUrl)
    return url


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "gopher", "telnet", "nntp", "wais", "prospero"])
@pytest.mark.parametrize("zone", ["eth0", "2", "a.b_c~d-e", "z" * 64])
def test_zone_is_accepted_from_user(scheme: str, zone: str) -> None:
    url = read(f"{scheme}://[FE80::1%25{zone}]:81/a")
    assert (url.host, url.zone, url.port) == ("fe80::1", zone, 81)
    assert parse(build(url), origin="user") == url != replace(url, zone=None)
    assert zone not in strip_user(url)


def test_zone_is_accepted_in_news_url() -> None:
    url = parse("news://[fe80::1%25eth0]/comp.misc", origin="user")
    assert find_zone(url) == "eth0"
    assert parse(build(url), origin="user") == url


@pytest.mark.parametrize("origin", ["chosen", "derived"])
def test_zone_is_refused_from_links(origin: Origin) -> None:
    """Neither as text nor as a URL that was parsed from the user's input."""
    for named in (ZONED, read(ZONED)):
        with pytest.raises(InvalidUrl) as raised:
            make_url(named, origin=origin)
        assert raised.value.kind == "bad-host"
    assert check(ZONED, origin=origin).action == explain(ZONED, origin=origin).verdict == "refuse"
    with pytest.raises(InvalidUrl):
        parse(ZONED)


@pytest.mark.parametrize(
    ("host", "kind", "words"),
    [
        ("[fe80::1%eth0]", "bad-escape", " %25eth0"),
        ("[fe80::1%25]", "bad-host", "1 to 64"),
        (f"[fe80::1%25{'z' * 65}]", "bad-host", "1 to 64"),
        ("[fe80::1%25a%2520b]", "bad-host", "1 to 64"),
        ("[fe80::1%25a%25b]", "bad-host", "1 to 64"),
        ("[fe80::1%25a:b]", "bad-host", "1 to 64"),
        ("[fe80::1%25eth0]x", "bad-host", "without ]"),
        ("[%25eth0]", "bad-host", "IPv6 address"),
        ("[fec0::1%25eth0]", "bad-host", "not link-local"),
        ("[::1%25lo]", "bad-host", "not link-local"),
        ("[ff02::1%25eth0]", "bad-host", "not link-local"),
        ("[::ffff:169.254.1.1%25eth0]", "bad-host", "not link-local"),
    ],
)
def test_zone_invalid_in_url_is_refused(host: str, kind: str, words: str) -> None:
    with pytest.raises(InvalidUrl, match=words) as raised:
        parse(f"http://{host}/", origin="user")
    assert raised.value.kind == kind


@pytest.mark.parametrize(("host", "zone"), [("fe80::1", "a]b"), ("fe80::1", ""), ("::1", "lo"), ("h", "lo")])
def test_zone_invalid_is_not_built(host: str, zone: str) -> None:
    with pytest.raises(InvalidUrl):
        build(replace(read(ZONED), host=host, zone=zone))


def test_zone_is_not_sent_by_any_exchange() -> None:
    for scheme in ("http", "https", "ftp", "gopher", "wais", "nntp", "prospero"):
        plan = explain(f"{scheme}://[fe80::1%25zone9]/a")
        assert plan.verdict == "warn", plan
        assert [finding.rule for finding in plan.findings if finding.action == "warn"] == ["S08"]
        assert "zone9" in plan.url
        assert "zone9" not in str([step for step in plan.steps if step["action"] == "send"])


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:8080", "socks5://127.0.0.1:1080"])
def test_zone_is_refused_with_a_proxy(proxy: str) -> None:
    plan = explain("http://[fe80::1%25eth0]/", proxy=proxy)
    assert isinstance(plan.error, Refused)
    assert plan.error.rule == "S09"
    assert explain("http://[fe80::1]/", proxy=proxy).verdict == "warn"


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("%25no-such", "'no-such'"),
        ("%250", "'0'"),
        ("", "append an interface.*%25"),
    ],
)
async def test_zone_unknown_is_unreachable(zone: str, words: str) -> None:
    with pytest.raises(Unreachable, match=words) as raised:
        async with Resolver() as session:
            await session.fetch(f"http://[fe80::1{zone}]/")
    assert all(name in str(raised.value) for _, name in socket.if_nameindex())


def link_local() -> Iterator[tuple[str, str]]:
    """Yield the link-local addresses of this machine with their interfaces."""
    for _, name in socket.if_nameindex():
        for line in _lines_of("/proc/net/if_inet6"):
            octets, *_, device = line.split()
            if device == name and octets.startswith("fe80"):
                yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(octets)), name


def _lines_of(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _here() -> tuple[str, str]:
    for found in link_local():
        return found
    pytest.skip("this machine has no link-local address")


@pytest.mark.parametrize("scheme", ["https", "prospero"])
async def test_zone_is_not_sent_in_tls_or_datagram(nursery: trio.Nursery, scheme: str) -> None:
    """The first message is sent over the named interface and does not contain its name."""
    address, name = _here()
    kind = socket.SOCK_STREAM if scheme == "https" else socket.SOCK_DGRAM
    with trio.socket.socket(socket.AF_INET6, kind) as there:
        await there.bind((address, 0, 0, socket.if_nametoindex(name)))
        url = f"{scheme}://[{address}%25{name}]:{there.getsockname()[1]}/a"
        policy = Policy(allow_port=frozenset({there.getsockname()[1]}))
        if scheme == "https":
            there.listen()
        async with Resolver(policy=policy) as session, trio.open_nursery() as asking:
            asking.start_soon(session.fetch, url)
            if scheme == "https":
                connection, _ = await there.accept()
                with connection:
                    heard = await connection.recv(4096)
                    asking.cancel_scope.cancel()
            else:
                heard, _ = await there.recvfrom(4096)
                asking.cancel_scope.cancel()
    assert heard
    assert name.encode() not in heard


@pytest.mark.parametrize("numbered", [False, True])
async def test_zone_is_not_sent_in_host_field(nursery: trio.Nursery, numbered: bool) -> None:
    address, name = _here()
    index = socket.if_nametoindex(name)
    heard: list[bytes] = []
    with trio.socket.socket(socket.AF_INET6) as listener:
        await listener.bind((address, 0, 0, index))
        listener.listen()
        port = listener.getsockname()[1]

        async def serve() -> None:
            connection, _ = await listener.accept()
            with connection:
                heard.append(await connection.recv(4096))
                await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")

        nursery.start_soon(serve)
        async with Resolver() as session:
            zone = index if numbered else name
            response = await session.fetch(f"http://[{address}%25{zone}]:{port}/")
    assert response.content == b"hi"
    assert response.peer == f"{address}%{name}"
    assert f"Host: [{address}]:{port}\r\n".encode() in heard[0]
    assert b"%" not in heard[0]
