"""What the system or the TLS library says of a connection becomes an error of ours, here and nowhere else in
the gate.

The caller raises it `from` the original: `connection_fault` for a connection that stood, `tls_fault` for TLS.
"""

from __future__ import annotations

import errno
import os
import ssl

from protocols.errors import Disconnected, NetworkError, TimedOut, TlsError
from resolver.disk.faults import reason

#: What OpenSSL calls a certificate that no authority known here has signed (X509_V_ERR_…).
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})


def connection_fault(error: OSError, peer: str) -> NetworkError:
    """What ends a connection that stood. A peer that acknowledges nothing is silence, not departure."""
    if error.errno == errno.ETIMEDOUT:
        return TimedOut(f"timed out: {peer} no longer answers, says the system")
    return Disconnected(f"the connection to {peer} broke: {reason(error)}")


def tls_fault(error: ssl.SSLError, host: str) -> NetworkError:
    """Why there is no trustworthy TLS. A peer that leaves during the handshake has said nothing about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = " (--cacert FILE trusts its own)" if error.verify_code in _UNKNOWN_AUTHORITY else ""
        return TlsError(f"the certificate of {host} is not to be trusted: {error.verify_message}{remedy}")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or is_cut(error):
        return Disconnected(f"{host} ended the connection during the TLS handshake")
    words: str = getattr(error, "reason", None) or str(error)
    if "CERTIFICATE_REQUIRED" in words:
        return TlsError(f"{host} wants a certificate of ours (--cert FILE)")
    return TlsError(f"TLS with {host} failed: {words.replace('_', ' ').lower()}")


def is_cut(error: OSError) -> bool:
    """Did the octets end without close_notify? Only from Python 3.11.4 on has that a class of its own."""
    return getattr(error, "reason", None) == "UNEXPECTED_EOF_WHILE_READING"


def lasting(error: OSError) -> OSError:
    """What is raised from now on: the system tells of a reset once, and of an end from then on. Inside TLS an
    older Python gives a reset the class of an end, but OpenSSL has no words for it."""
    if not isinstance(error, ssl.SSLEOFError):
        return error
    reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    reset.__cause__ = error
    return reset
