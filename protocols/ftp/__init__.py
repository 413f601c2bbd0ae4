"""ftp and ftps: RFC 1738 3.2 (the URL), RFC 959, 1123, 2228, 2389, 2428, 3659, 4217.

`url` parses the URL. Each module in the following list imports only modules below it:

- `dialogue`: selects the commands for a file, a listing or only metadata
- `session`: logs in and changes to the URL's directory
- `transfer`: runs one transfer over one data connection
- `control`: sends commands, receives replies, and decides whether a connection can be reused
- `reply`: parses replies and their values, and maps 4yz and 5yz replies to errors
- `listing`: parses the output of NLST, MLSD and LIST
"""

from __future__ import annotations

from protocols.ftp.url import FtpUrl, as_directory, build, list_names, parse, with_name, with_typecode
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
    tree=Tree(list_names, as_directory, stays=True),
    kept_as="data",
    replayed="protocols.ftp.dialogue:FtpReplayServer",
    archived_as="ftp",
    converse="protocols.ftp.dialogue:retrieve",
    refine={"type": with_typecode},
)
FTPS = FTP._replace(name="ftps", default_port=990, tls="always")
