"""TLS for test servers: a new certificate authority (CA), and a certificate for loopback from this CA."""

from __future__ import annotations

import ssl
from pathlib import Path


def server_tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a TLS server context with a new certificate for 127.0.0.1, and the path of the CA file.

    Args:
        folder: the directory in which the CA file is created.
    """
    import trustme

    authority = trustme.CA()
    cafile = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(cafile))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context, cafile
