"""TLS for servers of tests: a fresh authority, and a certificate of it for loopback."""

from __future__ import annotations

import ssl
from pathlib import Path


def server_tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A context with a fresh certificate for 127.0.0.1, and the file of the authority that issued it.

    Args:
        folder: where that file is written.
    """
    import trustme

    authority = trustme.CA()
    cafile = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(cafile))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context, cafile
