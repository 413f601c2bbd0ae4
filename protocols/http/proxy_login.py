"""Who we are to one proxy of http, in one run (RFC 9110 11.7): nobody, until the proxy asks by a 407.

Some proxies that want no login hand `Proxy-Authorization` on to the origin, so nothing is said unasked. Once
one asked it is said with every request to it: by Digest where it knows that (RFC 7616), of which what is sent
differs each time, else by Basic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from protocols.errors import AccessDenied, Declined, LoginRequired
from protocols.http.challenge import Challenge, parse_challenges
from protocols.http.request import Headers, encode_basic
from protocols.options import Credentials
from protocols.wire import secret_parts

TYPE_CHECKING = False
if TYPE_CHECKING:  # few proxies want it
    from protocols.http.digest import Digest

#: Octets that nobody can guess, which `heed` takes.
UNGUESSABLE = 16
#: How often in a row a proxy may say that its nonce was too old.
_MOST_STALE = 3
#: Requests under way at once whose secrets are known as such.
_REMEMBERED = 256


class HttpProxyAuth:
    """`proxy` is its URL for a person."""

    def __init__(self, proxy: str, credentials: Credentials | None) -> None:
        self.proxy = proxy
        self._credentials = credentials
        self._basic: Headers = ()
        self._digest: Digest | None = None
        self._said: deque[bytes] = deque(maxlen=2 * _REMEMBERED)
        self._asked = 0
        self._stale = 0

    def fields(self, method: bytes, target: bytes) -> Headers:
        """What to send with a request now, whose target is as the proxy gets it."""
        self._asked += 1
        if self._digest is None or self._credentials is None:
            return self._basic
        fields = ((b"Proxy-Authorization", self._digest.authorization(method, target, self._credentials)),)
        self._said += secret_parts(fields)
        return fields

    @property
    def secrets(self) -> tuple[bytes, ...]:
        return (*secret_parts(self._basic), *self._said)

    def heed(self, challenges: Sequence[str], sent: Headers, unguessable: bytes) -> None:
        """It answered 407 to a request with these fields: what they should be can be had now. Raises
        `LoginRequired` where there is nothing to send, `AccessDenied` where that was refused, `Declined`
        where it wants what we cannot give."""
        from protocols.http.digest import Digest, choose

        if self._credentials is None:
            words = f"the proxy {self.proxy} wants a login (user:password@ in its URL)"
            raise LoginRequired(words, code="407")
        asked = parse_challenges(challenges)
        wanted = choose(asked, f"the proxy {self.proxy}")
        digest = None if wanted is None else Digest(wanted, unguessable.hex())
        if sent and not self._is_outdated(digest):
            raise AccessDenied(f"the proxy {self.proxy} refuses this user and password", code="407")
        self._digest = digest
        if digest is None:
            self._basic = self._basic_for(asked, self._credentials)

    def _is_outdated(self, digest: Digest | None) -> bool:
        """Was it no more than the nonce that it refused? One that says so of every nonce refuses us."""
        self._stale = self._stale + 1 if self._asked <= 1 else 1
        self._asked = 0
        return digest is not None and digest.stale and self._stale <= _MOST_STALE

    def _basic_for(self, asked: list[Challenge], credentials: Credentials) -> Headers:
        schemes = [each.scheme for each in asked]
        if "basic" not in schemes:
            named = ", ".join(schemes) or "nothing that is known"
            words = f"the proxy {self.proxy} wants a login by {named}, and not by basic or digest"
            raise Declined(words, code="407")
        return ((b"Proxy-Authorization", encode_basic(credentials)),)
