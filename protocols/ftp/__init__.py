"""ftp and ftps: RFC 1738 3.2 (the URL), RFC 959, 1123, 2228, 2389, 2428, 3659, 4217.

`url` is the URL. From there down, each on those below it: `dialogue` chooses the
commands, with `directory` for listings and `description` for facts alone; `session` gets to the URL's
directory, `login` through the login, `transfer` through one `data_connection`; `control` asks and hears.
Text is taken apart by `reply`, `passive`, `facts`, `text` and `listing`; `refusal` says what a no means,
`reuse` when a connection may serve again.
"""

from __future__ import annotations

from protocols.ftp.url import FtpUrl, as_directory, build, names_of, parse, with_name, with_typecode
from protocols.scheme import Scheme, Tree

__all__ = ["FTP", "FTPS", "FtpUrl"]


FTP = Scheme(
    name="ftp",
    names="data object or directory",
    default_port=21,
    parse=parse,
    build=build,
    tls="on request",
    resumes=True,
    userinfo=True,
    named_by=("name",),
    within="cwds",
    listed=True,
    beside=with_name,
    tree=Tree(names_of, as_directory, stays=True),
    kept_as="data",
    replayed="protocols.ftp.dialogue:FtpReplayServer",
    archived_as="ftp",
    converse="protocols.ftp.dialogue:retrieve",
    refine={"type": with_typecode},
)
FTPS = FTP._replace(name="ftps", default_port=990, tls="always")
