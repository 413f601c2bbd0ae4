"""What is known of a control connection that may serve again, and whether it may serve a URL.

The draft of RFC 1738 says that after a CWD there is no general way back. So a connection serves again
only where it stands (the same CWD arguments as before, octet for octet), or through the login directory
(`CWD` to what `PWD` said right after login, believed only if `PWD` says it again). Paths are compared
with nothing else and never combined. All this is state and no I/O; a pool keeps it beside its connection.
"""

from __future__ import annotations

import enum

from protocols.ftp.url import FtpUrl
from protocols.options import Options
from protocols.values import dataclass, field


@dataclass(frozen=True, slots=True)
class LoginKey:
    """All that makes a login as far as the protocol knows it. A pool adds what the gate knows: address
    family, proxy, trust (CVE-2014-0138, CVE-2023-27535)."""

    scheme: str
    host: str
    port: int
    user: bytes | None
    password: bytes | None = field(repr=False)
    anonymous_password: bytes | None = field(repr=False)
    tls: str = "never"


def stands_in(cwds: tuple[bytes, ...], state: object) -> bool:
    """Is a connection in this state where these CWDs lead?"""
    return isinstance(state, FtpSessionState) and state.route(cwds) is DirectoryRoute.STAY


def login_key(url: FtpUrl, options: Options) -> LoginKey:
    anonymous = options.anonymous_password if url.user is None else None
    tls = "implicit" if url.scheme == "ftps" else options.tls
    return LoginKey(url.scheme, url.host, url.effective_port, url.user, url.password, anonymous, tls)


class DirectoryRoute(enum.Enum):
    """How to get from where a connection stands to where a URL's directory is."""

    STAY = "send no CWD"
    HOME = "go to the login directory first"
    ANEW = "make a new connection"


@dataclass(slots=True)
class FtpSessionState:
    """The server's side of one control connection, as far as its replies have told.

    `protected` says that data goes through TLS. `type_code` is the last TYPE that was answered 2yz,
    `extended` whether EPSV works (None: not tried), `lists_facts` whether FEAT names MLSD (None: not asked).
    `in_order`: it is a server that is known to answer commands in order that were sent together, to say 150
    before data comes, and to end each data connection of which it said that. `home` is what PWD said right
    after login.
    `cwds` are the CWD arguments that led from the login directory to where it stands, None after a failed or
    an additional CWD. `idle` is False while a transfer is under way, and stays so without its final reply:
    then the connection must not serve again.
    """

    protected: bool = False
    type_code: bytes | None = None
    extended: bool | None = None
    in_order: bool = False
    lists_facts: bool | None = None
    home: bytes | None = None
    cwds: tuple[bytes, ...] | None = ()
    idle: bool = True

    def route(self, cwds: tuple[bytes, ...]) -> DirectoryRoute:
        if not self.idle:
            return DirectoryRoute.ANEW
        if self.cwds == cwds:
            return DirectoryRoute.STAY
        return DirectoryRoute.ANEW if self.home is None else DirectoryRoute.HOME
