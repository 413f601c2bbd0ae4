"""A certificate authority for the test session, and the files of a server certificate issued by it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Certificates:
    """PEM files: `authority` is for the clients' trust store; `combined` holds key and chain.

    The certificate is for localhost, 127.0.0.1 and ::1.
    """

    authority: Path
    key: Path
    chain: Path
    combined: Path


def write_certificates(folder: Path) -> Certificates:
    made = Certificates(
        authority=folder / "authority.pem",
        key=folder / "server.key",
        chain=folder / "server.crt",
        combined=folder / "server.pem",
    )
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1", "::1")
    authority.cert_pem.write_to_path(str(made.authority))
    for path in (made.key, made.combined):
        path.touch(0o600)
        certificate.private_key_pem.write_to_path(str(path))
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(str(made.chain), append=made.chain.exists())
        blob.write_to_path(str(made.combined), append=True)
    return made
