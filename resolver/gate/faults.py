"""Foreign exceptions become ours, here and nowhere else in the gate.

Each function takes what the operating system or the TLS library raised and gives the error of ours
that says whose doing it was; the caller raises it `from` the original. The distinction that matters:
the peer's connection (`connection_fault`, `tls_fault`), an object of this machine that a URL names
(`object_fault`), and a file that we write (`writing_fault`).
"""

from __future__ import annotations

import errno
import os
import ssl

from protocols.errors import (
    AccessDenied,
    Disconnected,
    LocalError,
    NetworkError,
    NotFound,
    Refused,
    ResolveError,
    TimedOut,
    TlsError,
)
from resolver.policy import Ruling

#: No such object, seen from the URL: a name too long for the system cannot name anything either.
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
#: What OpenSSL calls a certificate that no authority known here has signed (X509_V_ERR_…).
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})

#: What the person can do about a file of ours that cannot be written.
_REMEDIES = {
    errno.ENOSPC: "free some space there, or choose another place",
    errno.EDQUOT: "the quota is used up: free some space there, or choose another place",
    errno.EFBIG: "it would be larger than this process may write (ulimit -f) or the file system can hold",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "the file system is read-only: choose another place",
    errno.ENOENT: "the directory is not there; -d DIR makes one",
    errno.ENOTDIR: "part of the path is not a directory",
    errno.EEXIST: "what has the name of the directory is none",
    errno.EISDIR: "there is a directory of that name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "too many files are open: do less at once (-j)",
}


def refusal(rule: str, detail: str, *, flag: str | None = None) -> Refused:
    """The policy's no where only the gate can see the reason."""
    return Ruling(rule=rule, action="refuse", detail=detail, flag=flag).refusal()


def reason(error: OSError) -> str:
    """The system's words for an error, without numbers and paths."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def connection_fault(error: OSError, peer: str) -> NetworkError:
    """What ends a connection that stood. A peer that acknowledges nothing is silence, not departure."""
    if error.errno == errno.ETIMEDOUT:
        return TimedOut(f"{peer} no longer answers")
    return Disconnected(f"the connection to {peer} broke: {reason(error)}")


def tls_fault(error: ssl.SSLError, host: str) -> NetworkError:
    """Why there is no trustworthy TLS. A peer that leaves during the handshake has said nothing about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = " (--cacert FILE trusts its own)" if error.verify_code in _UNKNOWN_AUTHORITY else ""
        return TlsError(f"the certificate of {host} is not to be trusted: {error.verify_message}{remedy}")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return Disconnected(f"{host} ended the connection during the TLS handshake")
    words = getattr(error, "reason", None) or str(error)
    return TlsError(f"TLS with {host} failed: {words.replace('_', ' ').lower()}")


def object_fault(error: OSError, path: bytes) -> ResolveError:
    """Why an object of this machine that a URL names cannot be opened or read."""
    shown = repr(os.fsdecode(path))
    if error.errno in _MISSING:
        return NotFound(f"{shown}: {reason(error)}", text=reason(error))
    if error.errno in _FORBIDDEN:
        return AccessDenied(f"{shown}: {reason(error)}", text=reason(error))
    return LocalError(f"reading {shown} failed: {reason(error)}")


def writing_fault(error: OSError, path: str) -> LocalError:
    """Why a file of ours cannot be written: what, where, and what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0)
    return LocalError(f"cannot write {path!r}: {reason(error)}" + (f" ({remedy})" if remedy else ""))
