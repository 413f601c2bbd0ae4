"""What the system and OpenSSL raise, and whose doing it is."""

from __future__ import annotations

import errno
import os
import ssl

import pytest

from resolver import AccessDenied, Disconnected, LocalError, NotFound, ResolveError, TimedOut, TlsError
from resolver.files.faults import object_fault, reason, writing_fault
from resolver.network.tls import connection_fault, is_cut, tls_fault
from resolver.policy.subject import refusal


def openssl(kind: type[ssl.SSLError], reason: str) -> ssl.SSLError:
    """As the module `ssl` raises it: `reason` is OpenSSL's word."""
    error = kind(1, f"[SSL: {reason}] (_ssl.c:1)")
    error.reason = reason
    return error


#: Python 3.11.3 and before; then since.
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
        (errno.ETIMEDOUT, TimedOut),  # nothing was acknowledged any more
    ],
)
def test_how_a_connection_ends(code: int, error: type[ResolveError]) -> None:
    found = connection_fault(system(code), "192.0.2.1")
    assert type(found) is error
    assert "192.0.2.1" in found.message
    assert found.retryable


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
def test_why_an_object_cannot_be_had(code: int, error: type[ResolveError], status: int) -> None:
    found = object_fault(system(code), b"/etc/a\nb\xff")
    assert (type(found), found.exit_code) == (error, status)
    assert r"'/etc/a\nb\udcff'" in found.message  # shown so that it stays one line


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOENT, errno.EFBIG, errno.EIO]
)
def test_what_cannot_be_written_says_what_and_where(code: int) -> None:
    found = writing_fault(system(code), "/home/me/x")
    assert found.exit_code == 3
    assert found.message.startswith(f"cannot write '/home/me/x': {os.strerror(code).lower()}")
    assert found.message.endswith(")") is (code != errno.EIO)  # there is no advice for a broken disk


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "handshake"),
        *((error, "handshake") for error in CUT),
        (ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed"), "handshake"),
        (ssl.SSLError(1, "[SSL] something (_ssl.c:1)"), "something"),
    ],
)
def test_why_there_is_no_tls(error: ssl.SSLError, words: str) -> None:
    found = tls_fault(error, "h.example")
    left = words == "handshake"
    assert type(found) is (Disconnected if left else TlsError)
    assert words in found.message
    assert found.retryable is left


def test_a_refusal_names_its_rule_and_the_flag() -> None:
    found = refusal("S12", "a device", flag="--allow-special")
    assert (found.rule, found.flag) == ("S12", "--allow-special")
    assert found.message.startswith("S12: a device; --allow-special ")


def test_a_reason_is_words_alone() -> None:
    assert reason(system(errno.ECONNREFUSED)) == "connection refused"
    assert reason(OSError("no number")) == "no number"


def test_an_end_without_close_notify_is_known_in_every_python() -> None:
    assert all(map(is_cut, CUT))
    others = [
        openssl(ssl.SSLError, "WRONG_VERSION_NUMBER"),
        ssl.SSLEOFError(8, "EOF occurred"),
        ssl.SSLError(1),
    ]
    assert not any(map(is_cut, others))
