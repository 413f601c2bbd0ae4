"""ftp and ftps: RFC 1738 3.2 (the URL), RFC 959, 1123, 2228, 2389, 2428, 3659, 4217.

`url` is the URL. From there down, each on those below it: `handler` meets the gate; `dialogue` chooses the
commands, with `directory` for listings and `description` for facts alone; `visit` gets to the URL's
directory, `login` through the login, `transfer` through one `data_connection`; `control` asks and hears.
Text is taken apart by `reply`, `passive`, `facts`, `text` and `listing`; `refusal` says what a no means,
`reuse` when a connection may serve again.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.ftp.url import FtpUrl, build, parse, with_typecode
from protocols.scheme import Dialogue, Scheme

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["FTP", "FTPS", "FtpUrl"]


def _open(url: FtpUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.ftp.handler import open_ftp  # parsing a URL needs none of it

    return open_ftp(url, gate)


def _dialogue(url: FtpUrl, options: Options) -> Dialogue:
    from protocols.ftp.dialogue import retrieve  # as above

    return retrieve(url, options)


FTP = Scheme(
    name="ftp",
    names="data object or directory",
    default_port=21,
    parse=parse,
    build=build,
    resumes=True,
    open=_open,
    dialogue=_dialogue,
    refine={"type": with_typecode},
)
FTPS = FTP._replace(name="ftps", default_port=990, tls=True)
