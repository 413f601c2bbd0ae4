"""Who may come in: a token that is good for one entry, the cookie that it is exchanged for, and what the
forms of our pages prove by.

All of it is drawn at the start and gone with the process. Comparisons take as long whatever is wrong.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable
from hashlib import sha256

#: Seconds in which a token has to be used, and how many may wait for that.
_TOKEN_LASTS = 60.0
_MOST_TOKENS = 32
#: Octets of what nobody guesses.
_OCTETS = 32


class SessionKeys:
    """Those of one run, at one port; `now` gives seconds. Where pages go to other machines in the clear, no
    browser takes a cookie that says `Secure`, or has the name of one that does."""

    def __init__(self, port: int, now: Callable[[], float], *, in_clear: bool = False) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}
        self._session = secrets.token_urlsafe(_OCTETS)
        self._forms = secrets.token_bytes(_OCTETS)
        self.gateway = secrets.token_urlsafe(_OCTETS)
        #: For programs of the same person, who find it in a file that nobody else may read.
        self.start = secrets.token_urlsafe(_OCTETS)
        #: Cookies ignore ports, so the name has it: two servers do not take each other's.
        self.cookie_name = f"{'' if in_clear else '__Host-'}resolve-{port}"
        self._secure = "" if in_clear else "; Secure"

    def token(self, url: str = "") -> str:
        """A new one, for one entry, which leads to `url`: an address would show that to who sees it."""
        while len(self._tokens) >= _MOST_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(_OCTETS)
        self._tokens[token] = self._now() + _TOKEN_LASTS, url
        return token

    def enter(self, given: str) -> str | None:
        """Where it leads to, if it is good. It is used up by this."""
        found = [each for each in self._tokens if _same(each, given)]
        entries = [self._tokens.pop(each) for each in found]
        return next((url for deadline, url in entries if deadline >= self._now()), None)

    @property
    def cookie(self) -> str:
        """What is set for who has entered."""
        return f"{self.cookie_name}={self._session}; Path=/{self._secure}; HttpOnly; SameSite=Strict"

    def is_ours(self, cookies: Iterable[bytes]) -> bool:
        """Is the session's cookie among those of these headers?"""
        pairs = (each.strip().partition(b"=") for header in cookies for each in header.split(b";"))
        name = self.cookie_name.encode("ascii")
        return any(_same(self._session, value.decode("latin-1")) for key, _, value in pairs if key == name)

    def csrf(self, action: str) -> str:
        """What a form of ours holds that is sent to `action`, which no page but ours can know."""
        return hmac.new(self._forms, action.encode("utf-8", "replace"), sha256).hexdigest()

    def is_of_form(self, action: str, given: str) -> bool:
        """Did a form of ours send that there?"""
        return _same(self.csrf(action), given)

    def is_start(self, given: str) -> bool:
        """Is it what that file has?"""
        return _same(self.start, given)

    def is_gateway(self, given: str) -> bool:
        """Is it what other clients were given?"""
        return _same(self.gateway, given)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8"), other.encode("utf-8", "surrogatepass"))
