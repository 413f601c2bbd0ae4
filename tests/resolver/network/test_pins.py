"""Certificate pinning on first use.

The pinned certificate is accepted again. A server with another certificate receives no data. The pins are
stored
in a file of the user.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

from protocols.wire import encode_line
from resolver import LocalError, NotConfigured, TlsError
from resolver.network.tls import Pins
from tests.plugin import registered
from tests.plugin.netstring import NETSTRING
from tests.resolver.network.peers import admit, start

PINNED = NETSTRING._replace(name="pinned", certificates="pin")


class PinFile:
    """The file of pins, in a directory that does not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "resolve/known-certificates"

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    def write(self, text: str, mode: int = 0o600) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(text)
        self.path.chmod(mode)

    def modes(self) -> tuple[int, int]:
        return self.path.stat().st_mode & 0o777, self.path.parent.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PinFile]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with registered(PINNED):
        yield PinFile(tmp_path)


class Server:
    """A server with an untrusted certificate for another host; records the bytes it receives."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.renew()

    def renew(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("other.example").configure_cert(self.context)

    async def attend(self, raw: trio.SocketStream) -> None:
        stream = trio.SSLStream(raw, self.context, server_side=True)
        try:
            self.heard.append(bytes(await stream.receive_some()))
            await stream.send_all(b"hello")
            await stream.aclose()
        except trio.BrokenResourceError:
            self.heard.append(b"")


async def meet(port: int) -> bytes:
    async with admit(f"pinned://127.0.0.1:{port}/").connect(tls=True) as stream:
        assert stream.secured
        await stream.send(encode_line(b"HELLO"))
        return await stream.receive()


async def test_first_certificate_is_pinned_and_a_changed_one_is_an_error(
    nursery: trio.Nursery, home: PinFile
) -> None:
    server = Server()
    port = await start(nursery, server.attend)
    assert [await meet(port), await meet(port)] == [b"hello", b"hello"]
    (line,) = home.lines()
    assert line.startswith(f"127.0.0.1 {port} sha256:")
    assert home.modes() == (0o600, 0o700)
    server.renew()
    server.heard.clear()
    with pytest.raises(TlsError) as caught:
        await meet(port)
    assert (caught.value.exit_code, caught.value.retryable) == (5, False)
    assert f"'127.0.0.1 {port}'" in caught.value.message
    assert str(home.path) in caught.value.message
    assert line.split()[2] in caught.value.message
    await trio.testing.wait_all_tasks_blocked()
    assert server.heard == [b""]
    home.write("")
    assert await meet(port) == b"hello"


async def test_pins_host_with_the_dot_of_the_root_is_the_same_host(home: PinFile) -> None:
    pins = Pins()
    await pins.check("h.example", 1, b"one")
    with pytest.raises(TlsError, match="another certificate"):
        await pins.check("H.example.", 1, b"another")
    assert [line.split()[0] for line in home.lines()] == ["h.example"]


async def test_pinning_does_not_affect_other_schemes(nursery: trio.Nursery) -> None:
    server = Server()
    port = await start(nursery, server.attend)
    assert await meet(port) == b"hello"
    with pytest.raises(TlsError) as caught:
        async with admit(f"https://127.0.0.1:{port}/").connect(tls=True):
            raise AssertionError("the certificate was accepted")
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)


async def test_pins_distinguish_host_and_port(home: PinFile) -> None:
    pins = Pins()
    for host, port in (("h.example", 1), ("h.example", 2), ("::1", 1)):
        await pins.check(host, port, host.encode() + b"%d" % port)
    await Pins().check("H.EXAMPLE", 1, b"h.example1")
    with pytest.raises(TlsError):
        await Pins().check("h.example", 1, b"another")
    await Pins().check("i.example", 1, b"another")
    assert len(home.lines()) == 4


async def test_concurrent_first_contacts_write_one_pin(home: PinFile) -> None:
    """Two runs that contact a server for the first time write one pin.

    The later run is checked against that pin.
    """
    await Pins().check("h.example", 1, b"mine")
    before = home.lines()
    one, other = Pins(), Pins()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.check, "i.example", 1, b"same")
        nursery.start_soon(other.check, "i.example", 1, b"same")
    assert home.lines()[:-1] == before


async def test_pin_written_by_user_is_checked_on_first_contact(home: PinFile) -> None:
    home.write(f"H.example 1 SHA256:{sha256(b'mine').hexdigest().upper()}\n")
    await Pins().check("h.example", 1, b"mine")
    with pytest.raises(TlsError):
        await Pins().check("h.example", 1, b"another")


async def test_concurrent_first_contacts_accept_one_certificate(home: PinFile) -> None:
    """Each run gets another certificate. The certificate that is written first is the pin for both runs."""
    ended: list[bool] = []

    async def meet_one(certificate: bytes) -> None:
        try:
            await Pins().check("h.example", 1, certificate)
        except TlsError:
            ended.append(False)
        else:
            ended.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(meet_one, b"one")
        nursery.start_soon(meet_one, b"other")
    assert sorted(ended) == [False, True]
    assert len(home.lines()) == 1


def test_pins_work_under_asyncio(home: PinFile) -> None:
    asyncio.run(Pins().check("h.example", 1, b"one"))
    with pytest.raises(TlsError):
        asyncio.run(Pins().check("h.example", 1, b"other"))


@pytest.mark.parametrize("written", ["h.example sha256:aa\n", "a b c d\n", "h.example port sha256:aa\n"])
async def test_pins_report_line_of_malformed_entry(home: PinFile, written: str) -> None:
    home.write("# mine\n\n" + written)
    with pytest.raises(NotConfigured, match="line 3"):
        await Pins().check("h.example", 1, b"x")


async def test_pins_refuse_file_writable_by_others(home: PinFile) -> None:
    home.write("", 0o666)
    with pytest.raises(NotConfigured, match="chmod"):
        await Pins().check("h.example", 1, b"x")


async def test_pins_that_cannot_be_stored_are_a_local_error(home: PinFile) -> None:
    home.path.parent.write_text("no directory")
    with pytest.raises(LocalError):
        await Pins().check("h.example", 1, b"x")


async def test_pins_refuse_missing_certificate(home: PinFile) -> None:
    with pytest.raises(TlsError, match="no certificate"):
        await Pins().check("h.example", 1, b"")
