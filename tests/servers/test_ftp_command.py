"""The command against real FTP servers: what a person sees of a directory."""

from __future__ import annotations

import pytest

from tests.cli.command import resolve
from tests.servers.ftp_servers import FtpServer
from tests.servers.ftp_tree import LINES

#: The member of a record that says it, and what that says of a file.
TOLD = {"vsftpd": ("mode", "-rw-r--r--"), "proftpd": ("perm", "adfr"), "pure-ftpd": ("unix.mode", "0644")}


@pytest.mark.parametrize("path", ["pub/", "pub;type=d", "pub/;type=d"])
def test_a_long_listing_says_what_may_be_done(path: str, ftp_server: FtpServer) -> None:
    """Facts where the server has MLSD, else the modes of its LIST; a record has all of them."""
    port = ftp_server.ports["plain"]
    words = ("ls", "-lq", "--allow-port", str(port), f"ftp://127.0.0.1:{port}/{path}")
    rows = {line.split()[-1]: line.split() for line in resolve(*words).out.decode("latin-1").splitlines()}
    facts = {each["name"]: each["extra"] for each in resolve(*words, "--json").records}
    assert rows["a.txt"][:2] == ["document", str(len(LINES))]
    assert rows["names/"][:2] == ["directory", "-"]
    told, file = TOLD[ftp_server.name]
    assert [row[3] for row in rows.values()][:2] == [facts[name.rstrip("/")][told] for name in list(rows)[:2]]
    assert rows["a.txt"][3] == file
