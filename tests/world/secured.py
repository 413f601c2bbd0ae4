"""The certificate of the simulated TLS servers, with which all handshakes have constant lengths."""

from __future__ import annotations

import ssl
from functools import cache
from itertools import count
from unittest import mock

import trustme
from trustme import KeyType

#: The hosts of all runs, including the hosts of the servers with one object.
_HOSTS = ("one.example", "two.example", *(f"other{number}.example" for number in range(7)))


@cache
def server_tls() -> tuple[dict[ssl.TLSVersion, ssl.SSLContext], bytes]:
    """Return the servers' TLS contexts by maximum version, and the certificate of their authority as PEM.

    They are created once per process. Other processes have other keys, but all lengths are the same: those of
    the serial numbers, of the RSA signatures, and of the session tickets, which are numbers of the server.
    """
    with mock.patch("cryptography.x509.random_serial_number", side_effect=count(1 << 158)):
        authority = trustme.CA(key_type=KeyType.RSA)
        certificate = authority.issue_cert(*_HOSTS, key_type=KeyType.RSA)
    contexts = {}
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        contexts[version] = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = version
        context.options |= ssl.OP_NO_TICKET
        certificate.configure_cert(context)
    return contexts, authority.cert_pem.bytes()
