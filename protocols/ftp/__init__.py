"""ftp and ftps: RFC 1738 3.2 (the URL), RFC 959, 2428, 3659, 4217."""

from __future__ import annotations

from protocols.ftp.url import FtpUrl, build, parse
from protocols.scheme import Scheme

__all__ = ["FTP", "FTPS", "FtpUrl"]

_NAMES = "data object or directory"

FTP = Scheme(name="ftp", names=_NAMES, default_port=21, parse=parse, build=build)
FTPS = Scheme(name="ftps", names=_NAMES, default_port=990, parse=parse, build=build, tls=True)
