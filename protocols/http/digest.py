"""Digest: a name and a password are proved, and the password never leaves (RFC 7616; without qop, RFC 2069).

One `Digest` is what one nonce of a server allows: it counts how often that was used, and says what to send
for a request. The values of a challenge are Latin-1, as fields are; what they are hashed with are the octets.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

from protocols.errors import Declined
from protocols.http.challenge import Challenge
from protocols.http.request import check_login
from protocols.options import Credentials

_HASHES: dict[str, Callable[[bytes], str]] = {
    "MD5": lambda octets: hashlib.md5(octets, usedforsecurity=False).hexdigest(),
    "SHA-256": lambda octets: hashlib.sha256(octets).hexdigest(),
}
#: The algorithms, the strongest last.
_ALGORITHMS = ("MD5", "MD5-SESS", "SHA-256", "SHA-256-SESS")

_NONCE_COUNT_LIMIT = 0xFFFF_FFFF


class Digest:
    """Made of a challenge that `choose` has taken. `cnonce` is a text that nobody can guess."""

    def __init__(self, challenge: Challenge, cnonce: str) -> None:
        said = challenge.parameters
        self._said = said
        self._algorithm = said.get("algorithm", "MD5")
        name = self._algorithm.upper()
        self._hash = _HASHES[name.removesuffix("-SESS")]
        self._session = name.endswith("-SESS")
        self._qop = "qop" in said
        self._userhash = said.get("userhash", "").lower() == "true"
        self._nonce = said.get("nonce", "")
        self._cnonce = cnonce
        self._count = 0
        self.stale = said.get("stale", "").lower() == "true"

    @property
    def spent(self) -> bool:
        """Can this nonce not be counted any further?"""
        return self._count >= _NONCE_COUNT_LIMIT

    def covers(self, target: bytes) -> bool:
        """May the answer be sent to this target of the same origin before it is asked for? `domain` names
        the paths, and places elsewhere, which nothing is sent to (S11)."""
        if "domain" not in self._said:
            return True
        paths = [path for path in self._said["domain"].split() if path.startswith("/")]
        return any(target.startswith(path.encode("latin-1")) for path in paths)

    def authorization(self, method: bytes, target: bytes, login: Credentials) -> bytes:
        """The value of the field `Authorization` for the next request. Raises `Refused` (S02) for octets that
        would end it."""
        check_login(login)
        self._count += 1
        count = f"{self._count:08x}"
        response = self._response(self._first_hash(login), count, method + b":" + target)
        words = [
            self._username(login),
            ("realm", _quoted(self._said.get("realm", ""))),
            ("nonce", _quoted(self._nonce)),
            ("uri", _quoted(target.decode("latin-1"))),
            *([("algorithm", self._algorithm)] if "algorithm" in self._said else []),
            ("response", _quoted(response)),
            *([("opaque", _quoted(self._said["opaque"]))] if "opaque" in self._said else []),
            *([("qop", "auth"), ("nc", count), ("cnonce", _quoted(self._cnonce))] if self._qop else []),
            *([("userhash", "true")] if self._userhash else []),
        ]
        return b"Digest " + ", ".join(f"{name}={value}" for name, value in words).encode("latin-1")

    def proves(self, info: Challenge, target: bytes, login: Credentials) -> bool:
        """Does `Authentication-Info` show that the server knows the password too? It need not say so. The
        nonce that it names for the next request is taken."""
        said = info.parameters.get("rspauth")
        expected = self._response(self._first_hash(login), f"{self._count:08x}", b":" + target)
        if next_nonce := info.parameters.get("nextnonce"):
            self._nonce, self._count = next_nonce, 0
        return said is None or said.lower() == expected

    def _first_hash(self, login: Credentials) -> str:
        realm = self._said.get("realm", "").encode("latin-1")
        first = self._hash(b":".join((login.user, realm, login.password)))
        if not self._session:
            return first
        return self._hash(f"{first}:{self._said.get('nonce', '')}:{self._cnonce}".encode("latin-1"))

    def _response(self, first: str, count: str, what: bytes) -> str:
        second = self._hash(what)
        if not self._qop:
            return self._hash(f"{first}:{self._nonce}:{second}".encode("latin-1"))
        return self._hash(f"{first}:{self._nonce}:{count}:{self._cnonce}:auth:{second}".encode("latin-1"))

    def _username(self, login: Credentials) -> tuple[str, str]:
        if self._userhash:
            realm = self._said.get("realm", "").encode("latin-1")
            return "username", _quoted(self._hash(login.user + b":" + realm))
        if self._said.get("charset", "").upper() == "UTF-8" and not login.user.isascii():
            return "username*", f"UTF-8''{quote(login.user, safe='')}"
        return "username", _quoted(login.user.decode("latin-1"))


def choose(challenges: Iterable[Challenge], who: str = "the server") -> Challenge | None:
    """The strongest that we can answer; of equals the first. None where none asks for Digest. Raises
    `Declined` where all that do want what we cannot give."""
    digests = [challenge for challenge in challenges if challenge.scheme == "digest"]
    known = [challenge for challenge in digests if _wanting(challenge) is None]
    if digests and not known:
        raise Declined(f"{who} wants Digest with {_wanting(digests[0])}, which is not done here")
    return max(known, key=lambda each: _ALGORITHMS.index(_algorithm_of(each)), default=None)


def _algorithm_of(challenge: Challenge) -> str:
    return challenge.parameters.get("algorithm", "MD5").upper()


def _wanting(challenge: Challenge) -> str | None:
    """What we cannot give of what it wants."""
    qop = challenge.parameters.get("qop")
    if _algorithm_of(challenge) not in _ALGORITHMS:
        return f"the algorithm {challenge.parameters['algorithm']!r}"
    if qop is not None and "auth" not in [each.strip().lower() for each in qop.split(",")]:
        return f"the protection {qop!r}"
    if qop is None and _algorithm_of(challenge) != "MD5":  # which is older than all the others
        return f"{_algorithm_of(challenge)} and no qop"
    return None


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
