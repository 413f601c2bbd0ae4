"""TLS: trust, client certificates, close_notify, session resumption, and the mapping of errors."""

from __future__ import annotations

import datetime
import errno
import os
import re
import ssl
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme
from cryptography.hazmat.primitives import serialization

from protocols.wire import encode_line
from resolver import (
    AccessDenied,
    Connected,
    Disconnected,
    Event,
    LocalError,
    NotConfigured,
    NotFound,
    Policy,
    Referrer,
    ResolveError,
    TimedOut,
    TlsError,
    parse,
)
from resolver.files.faults import object_fault, reason, writing_fault
from resolver.network.stream import SocketStream
from resolver.network.tls import Trust, connection_fault, is_locked, is_truncation, tls_fault
from resolver.policy.subject import refusal
from resolver.transfer.network import Network
from tests.resolver.network.peers import admit, reset, start, start_tls, stay_silent

TlsStream = trio.SSLStream[trio.SocketStream]
HELLO = encode_line(b"HELLO")


async def greet(stream: TlsStream) -> None:
    await stream.send_all(b"hello")
    await stream.aclose()


@pytest.mark.parametrize(
    ("names", "host"),
    [(("localhost",), "localhost"), (("localhost",), "localhost."), (("127.0.0.1",), "127.0.0.1")],
)
async def test_tls_connection_to_trusted_peer_ends_with_close_notify(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, names: tuple[str, ...], host: str
) -> None:
    port = await start_tls(nursery, authority.issue_cert(*names), greet)
    events: list[Event] = []
    async with admit(f"https://{host}:{port}/", cafile=cafile, events=events).connect(tls=True) as stream:
        assert stream.secured
        assert await stream.receive() == b"hello"
        assert not stream.close_notify_seen
        assert await stream.receive() == b""
        assert stream.close_notify_seen
    assert events[0] == Connected(f"https://{host}:{port}/", "127.0.0.1", port, True)


async def test_tls_server_name_is_sent_only_for_names(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    """An IP address is not sent as the server name, and a trailing dot is removed (RFC 6066 section 3)."""
    asked: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    context.sni_callback = lambda sock, name, context: asked.append(name)

    async def serve(stream: trio.SocketStream) -> None:
        await greet(trio.SSLStream(stream, context, server_side=True))

    port = await start(nursery, serve)
    for host in ("localhost", "localhost.", "127.0.0.1"):
        async with admit(f"https://{host}:{port}/", cafile=cafile).connect(tls=True) as stream:
            assert await stream.receive() == b"hello"
    assert asked == ["localhost", "localhost", None]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("expired", "localhost .*: certificate has expired"),
        ("other name", ": Hostname mismatch, .*'localhost'"),
        ("unknown authority", ": unable to get local issuer"),
    ],
)
async def test_tls_invalid_certificate_is_a_tls_error(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, fault: str, words: str
) -> None:
    issuer = trustme.CA() if fault == "unknown authority" else authority
    past = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    certificate = issuer.issue_cert(
        "other.example" if fault == "other name" else "localhost",
        not_after=past if fault == "expired" else None,
        not_before=past - datetime.timedelta(days=1) if fault == "expired" else None,
    )
    port = await start_tls(nursery, certificate, greet)
    with pytest.raises(TlsError) as raised:
        async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True):
            pass
    assert re.search(words, raised.value.message)
    assert isinstance(raised.value.__cause__, ssl.SSLCertVerificationError)


async def test_tls_unknown_authority_is_not_trusted(nursery: trio.Nursery, authority: trustme.CA) -> None:
    port = await start_tls(nursery, authority.issue_cert("localhost"), greet)
    with pytest.raises(TlsError, match="local issuer"):
        async with admit(f"https://localhost:{port}/").connect(tls=True):
            pass


async def test_tls_to_plain_text_server_is_a_tls_error(nursery: trio.Nursery, cafile: str) -> None:
    async def greet_in_clear(stream: trio.SocketStream) -> None:
        await stream.send_all(b"220 this is no TLS server\r\n")
        await stream.receive_some()

    port = await start(nursery, greet_in_clear)
    with pytest.raises(TlsError, match=r"localhost .*: (wrong version|record layer)"):
        async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True):
            pass


async def test_tls_end_during_handshake_is_disconnected(nursery: trio.Nursery, cafile: str) -> None:
    async def leave(stream: trio.SocketStream) -> None:
        await stream.receive_some()

    port = await start(nursery, leave)
    with pytest.raises(Disconnected, match=r"localhost .*TLS handshake"):
        async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True):
            pass


async def test_tls_reset_during_handshake_is_disconnected(nursery: trio.Nursery, cafile: str) -> None:
    async def leave(stream: trio.SocketStream) -> None:
        await stream.receive_some(1)
        reset(stream)

    port = await start(nursery, leave)
    with pytest.raises(Disconnected):
        async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True):
            pass


async def test_tls_idle_handshake_falls_under_the_connect_limit(nursery: trio.Nursery, cafile: str) -> None:
    port = await start(nursery, stay_silent)
    with pytest.raises(TimedOut, match=r" 127\.0\.0\.1 port \d+ .* 0\.2 s"):
        async with admit(f"https://127.0.0.1:{port}/", connect=0.2).connect(tls=True):
            pass
    async with admit(f"https://127.0.0.1:{port}/", connect=0.2).connect(tls=False) as stream:
        with pytest.raises(TimedOut, match=r"TLS .*127\.0\.0\.1 .*0\.2 s"):
            await stream.start_tls()


async def test_tls_truncation_is_end_without_close_notify(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, tmp_path: Path
) -> None:
    async def cut(stream: TlsStream) -> None:
        await stream.send_all(b"hello")
        await stream.transport_stream.aclose()

    port = await start_tls(nursery, authority.issue_cert("localhost"), cut)
    async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True) as stream:
        assert await stream.receive() == b"hello"
        assert [await stream.receive(), await stream.receive()] == [b"", b""]
        assert not stream.close_notify_seen


async def test_tls_reset_is_reported_after_received_bytes(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    async def serve(stream: TlsStream) -> None:
        await stream.send_all(b"hello")
        await stream.receive_some()
        reset(stream.transport_stream)

    port = await start_tls(nursery, authority.issue_cert("localhost"), serve)
    async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True) as stream:
        assert await stream.receive() == b"hello"
        await stream.send(HELLO)
        for _ in range(2):
            with pytest.raises(Disconnected, match="connection reset by peer"):
                await stream.receive()


async def test_tls_send_after_peer_left_does_not_name_the_handshake(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    async def serve(stream: TlsStream) -> None:
        await stream.send_all(b"hello")
        reset(stream.transport_stream)

    port = await start_tls(nursery, authority.issue_cert("localhost"), serve)
    async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True) as stream:
        assert await stream.receive() == b"hello"
        with pytest.raises(Disconnected):
            await stream.receive()
        with pytest.raises(Disconnected, match=r"the connection to .* broke"):
            await stream.send(HELLO)


async def test_tls_close_sends_close_notify_without_waiting(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    ends = []

    async def serve(stream: TlsStream) -> None:
        ends.append(await stream.receive_some())  # raises unless close_notify came first

    port = await start_tls(nursery, authority.issue_cert("localhost"), serve)
    async with admit(f"https://localhost:{port}/", cafile=cafile).connect(tls=True):
        pass
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert ends == [b""]


async def test_start_tls_secures_an_open_connection(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(stream: trio.SocketStream) -> None:
        assert await stream.receive_some() == b"HELLO\r\n"
        await stream.send_all(b"234")
        secured = trio.SSLStream(stream, context, server_side=True)
        await secured.send_all(await secured.receive_some())
        await secured.aclose()

    port = await start(nursery, serve)
    async with admit(f"ftp://localhost:{port}/", cafile=cafile).connect(tls=False) as stream:
        await stream.send(HELLO)
        assert await stream.receive() == b"234"
        await stream.start_tls()
        assert stream.secured
        await stream.send(HELLO)
        assert await stream.receive() == b"HELLO\r\n"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_data_connection_resumes_control_session(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, version: ssl.TLSVersion
) -> None:
    """FTP servers require session resumption.

    A TLS 1.3 ticket arrives only with the first data that the client reads.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = version
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True)
        try:
            await secured.send_all(b"220")
            await secured.receive_some()
        except trio.BrokenResourceError:
            pass

    port = await start(nursery, serve)
    url_gate = admit(f"ftp://localhost:{port}/", cafile=cafile)
    async with url_gate.connect(tls=True) as control:
        assert await control.receive() == b"220"
        for _ in range(2):
            async with url_gate.connect_data(port) as data:
                await data.start_tls()
                assert await data.receive() == b"220"
                assert is_resumed(data)
        assert not is_resumed(control)


def is_resumed(stream: SocketStream) -> bool:
    layer = stream.describe("ssl_object")
    assert isinstance(layer, ssl.SSLSocket)
    return bool(layer.session_reused)


async def test_tls_session_for_resumption_is_read_once(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    """Each read of `SSLSocket.session` leaks memory in some versions of Python (CPython issue 116810)."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)

    async def serve(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, server, server_side=True)
        await secured.send_all(b"220")
        await trio.sleep_forever()

    port = await start(nursery, serve)
    url_gate = admit(f"ftp://localhost:{port}/", cafile=cafile)
    async with url_gate.connect(tls=True) as control:
        assert await control.receive() == b"220"
        secured = control.describe("ssl_object")
        assert isinstance(secured, ssl.SSLSocket)
        context = secured.context
        session = control.session_for(context)
        assert session is not None
        assert control.session_for(context) is session
        assert control.session_for(ssl.create_default_context()) is None


@pytest.mark.parametrize("option", ["cafile", "certfile"])
def test_trust_unusable_file_is_not_configured(option: str, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "o such file"), (Path(__file__), "")):
        trust = Trust(str(path)) if option == "cafile" else Trust(certfile=str(path))
        with pytest.raises(NotConfigured, match=f"--ca?cert|--cert.*{words}"):
            trust.context()


def test_trust_unwritable_key_log_is_not_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python opens the file; the error must not look like an error of the connection."""
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "missing" / "keys"))
    with pytest.raises(NotConfigured, match=r"SSLKEYLOGFILE '.*keys'.*o such file"):
        Trust().context()


async def start_asking(
    nursery: trio.Nursery, authority: trustme.CA, mode: ssl.VerifyMode
) -> tuple[int, list[dict[str, object] | None]]:
    """Start a server that asks for a certificate; return its port and the certificates it received."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = mode
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    shown: list[dict[str, object] | None] = []

    async def serve(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True)
        await secured.do_handshake()
        shown.append(secured.getpeercert())
        await greet(secured)

    return await start(nursery, serve), shown


async def test_client_certificate_is_sent_when_requested(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, ours: str
) -> None:
    port, shown = await start_asking(nursery, authority, ssl.CERT_REQUIRED)
    network = Network(policy=Policy.default(), cafile=cafile, certfile=ours)
    async with network.admit(parse(f"https://localhost:{port}/")).connect(tls=True) as stream:
        assert await stream.receive() == b"hello"
    assert [item and item["subjectAltName"] for item in shown] == [(("email", "me@here.example"),)]


@pytest.mark.parametrize("named", [True, False])
async def test_client_certificate_is_sent_only_to_hosts_named_by_user(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, ours: str, named: bool
) -> None:
    """The certificate is not sent to the target of a redirect unless the user named that host."""
    port, shown = await start_asking(nursery, authority, ssl.CERT_OPTIONAL)
    network = Network(policy=Policy.default(), cafile=cafile, certfile=ours)
    url = parse(f"https://localhost:{port}/")
    if named:
        network.admit(url)
    led = network.admit(url, origin="derived", referrer=Referrer("https://localhost/", "127.0.0.1"))
    async with led.connect(tls=True) as stream:
        assert await stream.receive() == b"hello"
    assert [bool(item) for item in shown] == [named]


async def test_unusable_client_certificate_is_reported_on_entry(tmp_path: Path) -> None:
    network = Network(policy=Policy.default(), certfile=str(tmp_path / "none"))
    with pytest.raises(NotConfigured, match="--cert"):
        await network.__aenter__()


async def test_client_certificate_and_key_may_be_two_files(authority: trustme.CA, tmp_path: Path) -> None:
    issued = authority.issue_cert("me@here.example")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    assert Trust(certfile=f"{certificate},{key}").context().post_handshake_auth
    with pytest.raises(NotConfigured, match="--cert"):
        Trust(certfile=str(certificate)).context()


LOCKS = serialization.BestAvailableEncryption(b"open sesame")


def lock(issued: trustme.LeafCert, path: Path) -> None:
    """Write a certificate and its password-protected key."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    form, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(form, kind, LOCKS) + issued.cert_chain_pems[0].bytes())


def test_client_key_with_password_needs_the_right_password(authority: trustme.CA, tmp_path: Path) -> None:
    """The client does not prompt for the password of a key, and no error contains the password."""
    locked, plain = tmp_path / "locked.pem", tmp_path / "plain.pem"
    issued = authority.issue_cert("me@here.example")
    lock(issued, locked)
    issued.private_key_and_cert_chain_pem.write_to_path(str(plain))
    assert (is_locked(str(locked)), is_locked(str(plain))) == (True, False)
    assert Trust(certfile=str(locked), password=b"open sesame").context().post_handshake_auth
    assert Trust(certfile=str(plain), password=b"open sesame").context().post_handshake_auth
    for password, words in (
        (None, "a password$"),
        (b"", "different password"),
        (b"wr0ng", "different password"),
    ):
        with pytest.raises(NotConfigured, match=f"--cert .*{words}") as caught:
            Trust(certfile=str(locked), password=password).context()
        assert "wr0ng" not in str(caught.value)


def test_tls_fault_names_required_client_certificate() -> None:
    """With TLS 1.3, the handshake succeeds. The alert arrives when the client reads the first data."""
    error = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")
    error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    result = tls_fault(error, "h.example")
    assert (type(result), "h.example" in result.message, result.setting) == (TlsError, True, "cert FILE")


def test_trust_context_is_shared_by_a_run() -> None:
    trust = Trust()
    assert trust.context() is trust.context()
    assert trust.context().minimum_version is ssl.TLSVersion.TLSv1_2
    assert trust.context().verify_mode is ssl.CERT_REQUIRED
    assert trust.context().check_hostname


# The mapping of errors of the system and OpenSSL to causes.


def openssl(kind: type[ssl.SSLError], reason: str) -> ssl.SSLError:
    """Return an error as the module `ssl` raises it; `reason` is OpenSSL's code."""
    error = kind(1, f"[SSL: {reason}] (_ssl.c:1)")
    error.reason = reason
    return error


#: The first: Python 3.11.3 and earlier. The second: later versions.
CUT = [openssl(kind, "UNEXPECTED_EOF_WHILE_READING") for kind in (ssl.SSLError, ssl.SSLEOFError)]


def system(code: int) -> OSError:
    return OSError(code, os.strerror(code))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ECONNRESET, Disconnected),
        (errno.EPIPE, Disconnected),
        (errno.ECONNABORTED, Disconnected),
        (errno.EHOSTUNREACH, Disconnected),
        (errno.ETIMEDOUT, TimedOut),  # the peer stopped acknowledging data
    ],
)
def test_connection_fault_maps_errno(code: int, error: type[ResolveError]) -> None:
    result = connection_fault(system(code), "192.0.2.1")
    assert type(result) is error
    assert "192.0.2.1" in result.message
    assert result.retryable


@pytest.mark.parametrize(
    ("code", "error", "status"),
    [
        (errno.ENOENT, NotFound, 8),
        (errno.ENOTDIR, NotFound, 8),
        (errno.ENAMETOOLONG, NotFound, 8),
        (errno.ELOOP, NotFound, 8),
        (errno.EACCES, AccessDenied, 6),
        (errno.EPERM, AccessDenied, 6),
        (errno.EIO, LocalError, 3),
        (errno.EMFILE, LocalError, 3),
    ],
)
def test_object_fault_maps_errno(code: int, error: type[ResolveError], status: int) -> None:
    result = object_fault(system(code), b"/etc/a\nb\xff")
    assert (type(result), result.exit_code) == (error, status)
    assert r"'/etc/a\nb\udcff'" in result.message  # escaped, so that the message stays one line


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOENT, errno.EFBIG, errno.EIO]
)
def test_writing_fault_names_cause_and_path(code: int) -> None:
    result = writing_fault(system(code), "/home/me/x")
    assert result.exit_code == 3
    assert result.message.startswith(f"cannot write '/home/me/x': {os.strerror(code).lower()}")
    assert result.message.endswith(")") is (code != errno.EIO)  # no advice for a disk error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "handshake"),
        *((error, "handshake") for error in CUT),
        (ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed"), "handshake"),
        (ssl.SSLError(1, "[SSL] something (_ssl.c:1)"), "something"),
    ],
)
def test_tls_fault_distinguishes_disconnect_from_tls_error(error: ssl.SSLError, words: str) -> None:
    result = tls_fault(error, "h.example")
    is_retryable = words == "handshake"
    assert type(result) is (Disconnected if is_retryable else TlsError)
    assert words in result.message
    assert result.retryable is is_retryable


def test_refusal_names_rule_and_flag() -> None:
    result = refusal("S12", "a device", flag="--allow-special")
    assert (result.rule, result.flag) == ("S12", "--allow-special")
    assert (result.message, result.setting) == ("S12: a device", "allow_special")


def test_reason_has_no_error_number() -> None:
    assert reason(system(errno.ECONNREFUSED)) == "connection refused"
    assert reason(OSError("no number")) == "no number"


def test_is_cut_recognizes_missing_close_notify_of_each_python() -> None:
    assert all(map(is_truncation, CUT))
    others = [
        openssl(ssl.SSLError, "WRONG_VERSION_NUMBER"),
        ssl.SSLEOFError(8, "EOF occurred"),
        ssl.SSLError(1),
    ]
    assert not any(map(is_truncation, others))
