"""The challenges of an HTTP server or proxy that requires a login, and Digest authentication (RFC 7616)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from protocols.errors import Declined
from protocols.http.request import check_login
from protocols.options import Credentials

# The challenges of a 401 response (RFC 9110 11.2, 11.6.1). A response may contain several WWW-Authenticate
# fields, and a field may contain several challenges. Therefore the fields are parsed by the grammar. A search
# for a scheme name is not sufficient. Text after an invalid challenge is ignored.

_TOKEN = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_GAP = re.compile(r"[ \t,]*")
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,)|\Z)")
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_END = r"(?=[ \t]*(?:,|\Z))"
_PARAMETER = re.compile(rf"({_TOKEN})[ \t]*=[ \t]*(?:{_QUOTED}|({_TOKEN})){_END}", re.DOTALL)
_TOKEN68 = re.compile(rf"[-._~+/0-9A-Za-z]+=*{_END}")
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)

#: The maximum number of parsed challenges (resource exhaustion). A normal server sends only a few.
_MAX_CHALLENGES = 32


class Challenge(NamedTuple):
    """An authentication challenge.

    `scheme` and the parameter names are in lower case, and the parameter values are unquoted. If a parameter
    is repeated, the first value is used.
    """

    scheme: str
    parameters: Mapping[str, str]

    @property
    def is_stale(self) -> bool:
        """Return whether the server rejected only the nonce of the last Digest login."""
        return self.parameters.get("stale", "").lower() == "true"


def parse_challenges(fields: Iterable[str]) -> list[Challenge]:
    """Return the challenges of all fields, in order."""
    challenges: list[Challenge] = []
    for field in fields:
        challenges += _parse_challenges(field)
    return challenges[:_MAX_CHALLENGES]


def _parse_challenges(field: str) -> list[Challenge]:
    challenges: list[Challenge] = []
    for scheme, name, value in _split_words(field):
        if scheme is not None:
            challenges.append(Challenge(scheme, {}))
            if len(challenges) > _MAX_CHALLENGES:
                break
        elif challenges:
            parameters = challenges[-1].parameters
            assert isinstance(parameters, dict)
            parameters.setdefault(name, value)
    return challenges


def _split_words(field: str) -> Iterator[tuple[str | None, str, str]]:
    """Yield each authentication scheme, and each parameter as name and value."""
    position = _find_end(_GAP.match(field))
    while position < len(field):
        if (parameter := _PARAMETER.match(field, position)) is not None:
            quoted, plain = parameter[2], parameter[3]
            value = plain if quoted is None else _QUOTED_PAIR.sub(r"\1", quoted)
            yield None, parameter[1].lower(), value
            position = parameter.end()
        elif (scheme := _SCHEME.match(field, position)) is not None:
            yield scheme[1].lower(), "", ""
            position = scheme.end()
            is_complete = scheme[0] == scheme[1] or _PARAMETER.match(field, position) is not None
            if not is_complete and (token := _TOKEN68.match(field, position)) is not None:
                position = token.end()
        else:
            return
        position = _find_end(_GAP.match(field, position))


def _find_end(match: re.Match[str] | None) -> int:
    assert match is not None
    return match.end()


# Digest authentication proves a user name and a password without sending the password (RFC 7616). Without the
# parameter qop, RFC 2069 applies.
#
# A `Digest` contains one nonce of a server and the number of its uses. The `Digest` returns the Authorization
# field of a request. The values of a challenge are decoded as Latin-1, like all header fields. The hash is
# computed over their original bytes.

_HASHES: dict[str, Callable[[bytes], str]] = {
    "MD5": lambda octets: hashlib.md5(octets, usedforsecurity=False).hexdigest(),
    "SHA-256": lambda octets: hashlib.sha256(octets).hexdigest(),
}
#: The supported algorithms, the strongest last.
_ALGORITHMS = ("MD5", "MD5-SESS", "SHA-256", "SHA-256-SESS")


class Digest:
    """The Digest state of one nonce, created from a challenge that `choose` accepted.

    `cnonce` must be unpredictable.
    """

    def __init__(self, challenge: Challenge, cnonce: str) -> None:
        parameters = challenge.parameters
        self._parameters = parameters
        self._algorithm = parameters.get("algorithm", "MD5")
        name = self._algorithm.upper()
        self._hash = _HASHES[name.removesuffix("-SESS")]
        self._session = name.endswith("-SESS")
        self._qop = "qop" in parameters
        self._userhash = parameters.get("userhash", "").lower() == "true"
        self._nonce = parameters.get("nonce", "")
        self._cnonce = cnonce
        self._count = 0
        self.stale = challenge.is_stale

    def covers(self, target: bytes) -> bool:
        """Return whether the nonce is valid for this request target.

        The target must have the same origin as the challenge. The parameter `domain` of the challenge lists
        the paths for which the login is valid. URLs of other hosts in `domain` are ignored, because the login
        is not sent to other hosts (S11, credential scope).
        """
        if "domain" not in self._parameters:
            return True
        paths = [path for path in self._parameters["domain"].split() if path.startswith("/")]
        return any(target.startswith(path.encode("latin-1")) for path in paths)

    def authorization(self, method: bytes, target: bytes, login: Credentials) -> bytes:
        """Return the value of the `Authorization` field for a request.

        Raises:
            Refused: the login contains bytes that would end the field (S02, header injection).
        """
        check_login(login)
        self._count += 1
        count = f"{self._count:08x}"
        response = self._response(self._first_hash(login), count, method + b":" + target)
        words = [
            self._username(login),
            ("realm", _quote(self._parameters.get("realm", ""))),
            ("nonce", _quote(self._nonce)),
            ("uri", _quote(target.decode("latin-1"))),
            *([("algorithm", self._algorithm)] if "algorithm" in self._parameters else []),
            ("response", _quote(response)),
            *([("opaque", _quote(self._parameters["opaque"]))] if "opaque" in self._parameters else []),
            *([("qop", "auth"), ("nc", count), ("cnonce", _quote(self._cnonce))] if self._qop else []),
            *([("userhash", "true")] if self._userhash else []),
        ]
        return b"Digest " + ", ".join(f"{name}={value}" for name, value in words).encode("latin-1")

    def proves(self, info: Challenge, target: bytes, login: Credentials) -> bool:
        """Return whether `Authentication-Info` proves that the server knows the password.

        The proof is optional, so the result is also True for a response without a proof. The next nonce in
        the field is stored.
        """
        proof = info.parameters.get("rspauth")
        expected = self._response(self._first_hash(login), f"{self._count:08x}", b":" + target)
        if next_nonce := info.parameters.get("nextnonce"):
            self._nonce, self._count = next_nonce, 0
        return proof is None or proof.lower() == expected

    def _first_hash(self, login: Credentials) -> str:
        realm = self._parameters.get("realm", "").encode("latin-1")
        first = self._hash(b":".join((login.user, realm, login.password)))
        if not self._session:
            return first
        return self._hash(f"{first}:{self._parameters.get('nonce', '')}:{self._cnonce}".encode("latin-1"))

    def _response(self, first: str, count: str, request: bytes) -> str:
        second = self._hash(request)
        if not self._qop:
            return self._hash(f"{first}:{self._nonce}:{second}".encode("latin-1"))
        return self._hash(f"{first}:{self._nonce}:{count}:{self._cnonce}:auth:{second}".encode("latin-1"))

    def _username(self, login: Credentials) -> tuple[str, str]:
        if self._userhash:
            realm = self._parameters.get("realm", "").encode("latin-1")
            return "username", _quote(self._hash(login.user + b":" + realm))
        if self._parameters.get("charset", "").upper() == "UTF-8" and not login.user.isascii():
            return "username*", f"UTF-8''{quote(login.user, safe='')}"
        return "username", _quote(login.user.decode("latin-1"))


def choose(challenges: Iterable[Challenge], name: str = "the server") -> Challenge | None:
    """Return the strongest supported Digest challenge, or None if no challenge uses Digest.

    Of equally strong challenges, the first is returned.

    Raises:
        Declined: the server offers Digest, but only with unsupported features.
    """
    digests = [challenge for challenge in challenges if challenge.scheme == "digest"]
    supported = [challenge for challenge in digests if _find_unsupported(challenge) is None]
    if digests and not supported:
        raise Declined(f"{name} requires Digest with {_find_unsupported(digests[0])}, which is not supported")
    return max(supported, key=lambda challenge: _ALGORITHMS.index(_get_algorithm(challenge)), default=None)


def _get_algorithm(challenge: Challenge) -> str:
    return challenge.parameters.get("algorithm", "MD5").upper()


def _find_unsupported(challenge: Challenge) -> str | None:
    """Return a description of the unsupported feature of a challenge, or None."""
    qop = challenge.parameters.get("qop")
    if _get_algorithm(challenge) not in _ALGORITHMS:
        return f"the algorithm {challenge.parameters['algorithm']!r}"
    if qop is not None and "auth" not in [value.strip().lower() for value in qop.split(",")]:
        return f"qop {qop!r}"
    # RFC 2069 defined MD5 without the parameter qop. The other algorithms require qop.
    if qop is None and _get_algorithm(challenge) != "MD5":
        return f"{_get_algorithm(challenge)} without qop"
    return None


def _quote(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
