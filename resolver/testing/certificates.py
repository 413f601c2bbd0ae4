"""TLS for test servers: a new certificate authority, and a certificate that it issued for loopback."""

from __future__ import annotations

import ssl
from pathlib import Path


def server_tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a server context with a new certificate for 127.0.0.1, and the authority's file.

    Args:
        folder: the directory of the authority's file.
    """
    import trustme

    authority = trustme.CA()
    cafile = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(cafile))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context, cafile
