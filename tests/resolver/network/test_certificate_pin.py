"""The pin of a server certificate: the run's `pin`, and `Host(pin=…)`."""

from __future__ import annotations

import datetime
import re
import ssl
from hashlib import sha256

import pytest
import trio
import trustme

from resolver import Host, NotConfigured, Resolver, TlsError
from resolver.policy.settings import normal_pin
from tests.resolver.network.peers import start_tls

BODY = b"pinned"
_PAST = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


def digest(certificate: trustme.LeafCert) -> str:
    octets = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())
    return f"sha256:{sha256(octets).hexdigest()}"


class Server:
    """A server over TLS that answers one request per connection."""

    def __init__(self, certificate: trustme.LeafCert, head: str = "200 OK") -> None:
        self.certificate = certificate
        self.head = head
        self.requests = 0
        self.port = 0

    async def start(self, nursery: trio.Nursery, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Server:
        self.port = await start_tls(nursery, self.certificate, self._answer, version)
        return self

    async def _answer(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.receive_some(65_536)
        self.requests += 1
        await stream.send_all(f"HTTP/1.1 {self.head}\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        await stream.aclose()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/"


def appliance(*, expired: bool = False) -> trustme.LeafCert:
    """Return a certificate of an unknown authority, for another name."""
    dates = (_PAST - datetime.timedelta(days=1), _PAST) if expired else (None, None)
    return trustme.CA().issue_cert("other.example", not_before=dates[0], not_after=dates[1])


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("by", ["run", "host", "host and port"])
async def test_pin_of_the_certificate_replaces_name_date_and_authority(
    nursery: trio.Nursery, by: str, expired: bool
) -> None:
    server = await Server(appliance(expired=expired)).start(nursery)
    pin = digest(server.certificate)
    name = "127.0.0.1" if by == "host" else f"127.0.0.1:{server.port}"
    async with Resolver(pin=pin) if by == "run" else Resolver(hosts={name: Host(pin=pin)}) as session:
        assert (await session.fetch(server.url)).content == BODY


@pytest.mark.parametrize("by", ["run", "host"])
async def test_pin_of_another_certificate_refuses_a_trusted_server(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, by: str
) -> None:
    """A certificate that an authority vouches for is refused too; the server receives no request."""
    server = await Server(authority.issue_cert("127.0.0.1")).start(nursery)
    other = "sha256:" + "0" * 64
    settings = {"pin": other} if by == "run" else {"hosts": {"127.0.0.1": Host(pin=other)}}
    async with Resolver(cafile=cafile, **settings) as session:
        with pytest.raises(TlsError) as raised:
            await session.fetch(server.url)
    assert f"expected {other}, got {digest(server.certificate)}" in raised.value.message
    assert raised.value.certificate is None  # the message suggests no other pin
    assert server.requests == 0


async def test_pin_of_run_does_not_apply_to_the_host_of_a_redirect(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    """The second host is verified by authorities, with and without success."""
    certificate = appliance()
    for second, is_trusted in ((authority.issue_cert("127.0.0.1"), True), (certificate, False)):
        landed = await Server(second).start(nursery)
        first = await Server(certificate, f"302 Found\r\nLocation: {landed.url}").start(nursery)
        async with Resolver(cafile=cafile, pin=digest(certificate)) as session:
            if is_trusted:
                assert (await session.fetch(first.url)).content == BODY
            else:
                with pytest.raises(TlsError) as raised:
                    await session.fetch(first.url)
                assert (raised.value.url, landed.requests) == (landed.url, 0)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_untrusted_certificate_error_has_its_digest(
    nursery: trio.Nursery, version: ssl.TLSVersion
) -> None:
    server = await Server(appliance()).start(nursery, version)
    async with Resolver() as session:
        with pytest.raises(TlsError) as raised:
            await session.fetch(server.url)
    assert raised.value.certificate == digest(server.certificate)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected sha256: and the 64 hexadecimal digits"),
        ("sha256:12", "expected sha256:"),
        ("sha1:" + "0" * 40, "expected sha256:"),
        ("sha256:" + "g" * 64, "expected sha256:"),
        ("sha256//AAAA=", "the public key alone"),
    ],
)
def test_invalid_pin_is_not_configured(text: str, words: str) -> None:
    for settings in ({"pin": text}, {"hosts": {"h": Host(pin=text)}}):
        with pytest.raises(NotConfigured, match=re.escape(words)):
            Resolver(**settings)


def test_pin_takes_the_digest_as_openssl_prints_it() -> None:
    octets = sha256(b"").hexdigest()
    shown = ":".join(octets[at : at + 2] for at in range(0, 64, 2)).upper()
    assert normal_pin(f"sha256:{shown}") == normal_pin(f"SHA256:{octets}") == f"sha256:{octets}"
