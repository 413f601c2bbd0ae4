"""HTTP authentication: none, Basic (RFC 7617) or Digest (RFC 7616), as the server requires.

- Credentials in the URL are sent with the first request.
- Stored credentials are sent with the first request if others cannot read the connection (TLS or loopback).
  Otherwise, stored credentials are sent only after the server requested a login (401).
- Digest is preferred to Basic, and Basic is never tried after Digest failed.
- A user name and password that the server rejected are not sent to this server again in the same run.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from protocols.authority import comparable_host
from protocols.errors import AccessDenied, Declined, LoginRequired
from protocols.http.call import HttpAnswer
from protocols.http.cookies import jar_of
from protocols.http.request import Headers, HttpRequest, check_login, encode_basic, has_field
from protocols.http.response import ResponseHead
from protocols.http.url import HttpUrl
from protocols.location import Finding
from protocols.options import Credentials, Options
from protocols.step import Dialogue, RandomBytes, RequestCredentials
from protocols.wire import secret_parts

#: The status code that requires a login (RFC 9110 15.5.2).
CHALLENGED = 401
#: The number of random bytes in a `cnonce` (client nonce of Digest).
_UNGUESSABLE = 16
#: The maximum number of consecutive responses with a stale nonce.
_MOST_STALE = 3
#: The maximum number of stored nonces. Untrusted URLs can contain any number of hosts (memory exhaustion).
_CAPACITY = 1_024

Place: TypeAlias = "tuple[str, int, Credentials]"
Sent: TypeAlias = Literal["nothing", "basic", "digest"]


class AuthSessions:
    """The Digest state of every server in one run, keyed by host, port, user name and password.

    A value is the current nonce of the server, or None after the server rejected the login.
    """

    def __init__(self) -> None:
        self.held: OrderedDict[Place, Digest | None] = OrderedDict()

    def find(self, place: Place) -> Digest | None:
        return self.held.get(place)

    def has_refused(self, place: Place) -> bool:
        return place in self.held and self.held[place] is None

    def keep(self, place: Place, digest: Digest | None) -> None:
        self.held[place] = digest
        self.held.move_to_end(place)
        if len(self.held) > _CAPACITY:
            self.held.popitem(last=False)


class HttpLogin:
    """The authentication of one retrieval. The reply of the retrieval reports its `findings`.

    First set `credentials` to the result of the step `wanted`, if there is one. Then send each request after
    `sign`, and pass the head of its response to `take_head`. `refusal` is the error if the server rejected
    the login in its last response.
    """

    def __init__(self, url: HttpUrl, options: Options) -> None:
        self._url = url
        self._options = options
        self._own = bool(options.headers) and has_field(options.headers, b"authorization")
        own_cookies = bool(options.headers) and has_field(options.headers, b"cookie")
        self._jar = None if own_cookies else jar_of(options.memory)
        self.credentials: Credentials | None = None
        self._sent: Sent = "nothing"
        self._stale = 0
        self.findings: list[Finding] = []
        self.refusal: AccessDenied | None = None
        # Credentials in the URL are used first. The next choice is credentials from a redirect to the same
        # host and port. The last choice is stored credentials for this host and port.
        self.wanted: RequestCredentials | None = None
        if self._own:
            return
        if url.password is not None:
            self.credentials = Credentials(url.user or b"", url.password)
        elif options.login is not None and not url.user:
            self.credentials = options.login
        elif options.has_credentials:
            self.wanted = RequestCredentials(url.user or None, None, challenged=False)

    def sign(self, request: HttpRequest) -> HttpRequest:
        """Add the known credentials and the cookies of the run to a request.

        If the caller has set the field Authorization or Cookie, this field is not added.
        """
        if not self._own and (self.credentials is not None or self._url.user):
            request = self._with_login(request)
        if self._jar is None or not self._jar.cookies or not (value := self._jar.header(self._url)):
            return request
        return request._replace(headers=(*request.headers, (b"Cookie", value)))

    def take_head(self, head: ResponseHead, request: HttpRequest) -> None:
        """Store the cookies in a response head, and check the server's proof of the password."""
        if self._jar is not None:
            self._jar.take(head, self._url, self._options.suffix_of)
        if self._sent == "digest" and head.status != CHALLENGED:
            self._check_server(head, request)

    def _with_login(self, request: HttpRequest) -> HttpRequest:
        login = self.credentials
        if login is None:
            return self._with_basic(request, b"")
        if self._sessions.has_refused(self._place):
            return request
        digest = self._sessions.find(self._place)
        if digest is not None and digest.covers(request.target):
            self._sent = "digest"
            value = digest.authorization(request.method, request.target, login)
            return request.sign(value, (b"Digest", login.user))
        return self._with_basic(request, login.password)

    def _with_basic(self, request: HttpRequest, password: bytes) -> HttpRequest:
        self._sent = "basic"
        user = self._url.user or b"" if self.credentials is None else self.credentials.user
        value = encode_basic(Credentials(user, password))
        return request.sign(value)

    @property
    def _sessions(self) -> AuthSessions:
        memory = self._options.memory
        held = memory.get("http logins") or memory.setdefault("http logins", AuthSessions())
        assert isinstance(held, AuthSessions)
        return held

    @property
    def _place(self) -> Place:
        assert self.credentials is not None
        return comparable_host(self._url.host), self._url.effective_port, self.credentials

    def can_answer(self, answer: HttpAnswer) -> Dialogue[bool]:
        """Return whether the same request with new credentials can satisfy a 401 response.

        If the result is True, the body of the response is skipped.

        Raises:
            Declined: the server requires an authentication scheme that is not supported.
        """
        if self._own:
            return False
        if self.credentials is None:
            wanted_login = RequestCredentials(self._url.user or None, None)
            self.credentials = yield wanted_login
        if self.credentials is None:
            return False
        challenges = parse_challenges(answer.head.values("www-authenticate"))
        wanted = choose(challenges)
        if wanted is None:
            is_new = self._sent == "nothing" and any(each.scheme == "basic" for each in challenges)
            if is_new:
                yield from answer.pass_over(self.findings)
            return is_new
        self.refusal = self._find_refusal(wanted, answer.head)
        if self.refusal is not None:
            return False
        yield from answer.pass_over(self.findings)
        unguessable: bytes = yield RandomBytes(_UNGUESSABLE)
        digest = Digest(wanted, unguessable.hex())
        self._sessions.keep(self._place, digest)
        return True

    def _find_refusal(self, challenge: Challenge, head: ResponseHead) -> AccessDenied | None:
        """Return the error if the server rejected the password, in this response or earlier in the run."""
        again = self._sent == "digest"
        self._stale += again and challenge.is_stale
        if (
            self._sessions.has_refused(self._place)
            or (again and not challenge.is_stale)
            or self._stale > _MOST_STALE
        ):
            self._sessions.keep(self._place, None)
            message = f"the server answers {head.shown} to this name and password"
            return AccessDenied(message, code=str(head.status), text=head.reason)
        return None

    def _check_server(self, head: ResponseHead, request: HttpRequest) -> None:
        """Check the server's proof of the password after a Digest login.

        The next nonce of the server is stored.
        """
        fields = head.values("authentication-info")
        if not fields or self.credentials is None:
            return

        digest = self._sessions.find(self._place)
        (info,) = parse_challenges([f"Info {fields[0]}"])[:1]
        if digest is not None and not digest.proves(info, request.target, self.credentials):
            detail = "the server does not prove that it knows the password (rspauth)"
            self.findings.append(Finding("http:rspauth", "warn", detail))


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
_MOST = 32


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
    found: list[Challenge] = []
    for field in fields:
        found += _challenges_of(field)
    return found[:_MOST]


def _challenges_of(field: str) -> list[Challenge]:
    found: list[Challenge] = []
    for scheme, name, value in _words_of(field):
        if scheme is not None:
            found.append(Challenge(scheme, {}))
            if len(found) > _MOST:
                break
        elif found:
            held = found[-1].parameters
            assert isinstance(held, dict)
            held.setdefault(name, value)
    return found


def _words_of(field: str) -> Iterator[tuple[str | None, str, str]]:
    """Yield each authentication scheme, and each parameter as name and value."""
    at = _end_of(_GAP.match(field))
    while at < len(field):
        if (parameter := _PARAMETER.match(field, at)) is not None:
            quoted, plain = parameter[2], parameter[3]
            value = plain if quoted is None else _QUOTED_PAIR.sub(r"\1", quoted)
            yield None, parameter[1].lower(), value
            at = parameter.end()
        elif (scheme := _SCHEME.match(field, at)) is not None:
            yield scheme[1].lower(), "", ""
            at = scheme.end()
            is_alone = scheme[0] == scheme[1] or _PARAMETER.match(field, at) is not None
            if not is_alone and (token := _TOKEN68.match(field, at)) is not None:
                at = token.end()
        else:
            return
        at = _end_of(_GAP.match(field, at))


def _end_of(found: re.Match[str] | None) -> int:
    assert found is not None
    return found.end()


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

_NONCE_COUNT_LIMIT = 0xFFFF_FFFF


class Digest:
    """The Digest state of one nonce, created from a challenge that `choose` accepted.

    `cnonce` must be unpredictable.
    """

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
        self.stale = challenge.is_stale

    @property
    def spent(self) -> bool:
        """Return whether the nonce is used up, because its counter has reached the maximum."""
        return self._count >= _NONCE_COUNT_LIMIT

    def covers(self, target: bytes) -> bool:
        """Return whether the nonce is valid for this request target.

        The target must have the same origin as the challenge. The parameter `domain` of the challenge lists
        the paths for which the login is valid. URLs of other hosts in `domain` are ignored, because the login
        is not sent to other hosts (S11, credential scope).
        """
        if "domain" not in self._said:
            return True
        paths = [path for path in self._said["domain"].split() if path.startswith("/")]
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
            ("realm", _quote(self._said.get("realm", ""))),
            ("nonce", _quote(self._nonce)),
            ("uri", _quote(target.decode("latin-1"))),
            *([("algorithm", self._algorithm)] if "algorithm" in self._said else []),
            ("response", _quote(response)),
            *([("opaque", _quote(self._said["opaque"]))] if "opaque" in self._said else []),
            *([("qop", "auth"), ("nc", count), ("cnonce", _quote(self._cnonce))] if self._qop else []),
            *([("userhash", "true")] if self._userhash else []),
        ]
        return b"Digest " + ", ".join(f"{name}={value}" for name, value in words).encode("latin-1")

    def proves(self, info: Challenge, target: bytes, login: Credentials) -> bool:
        """Return whether `Authentication-Info` proves that the server knows the password.

        The proof is optional, so the result is also True for a response without a proof. The next nonce in
        the field is stored.
        """
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
            return "username", _quote(self._hash(login.user + b":" + realm))
        if self._said.get("charset", "").upper() == "UTF-8" and not login.user.isascii():
            return "username*", f"UTF-8''{quote(login.user, safe='')}"
        return "username", _quote(login.user.decode("latin-1"))


def choose(challenges: Iterable[Challenge], who: str = "the server") -> Challenge | None:
    """Return the strongest supported Digest challenge, or None if no challenge uses Digest.

    Of equally strong challenges, the first is returned.

    Raises:
        Declined: the server offers Digest, but only with unsupported features.
    """
    digests = [challenge for challenge in challenges if challenge.scheme == "digest"]
    known = [challenge for challenge in digests if _find_unsupported(challenge) is None]
    if digests and not known:
        raise Declined(f"{who} requires Digest with {_find_unsupported(digests[0])}, which is not supported")
    return max(known, key=lambda each: _ALGORITHMS.index(_algorithm_of(each)), default=None)


def _algorithm_of(challenge: Challenge) -> str:
    return challenge.parameters.get("algorithm", "MD5").upper()


def _find_unsupported(challenge: Challenge) -> str | None:
    """Return a description of the unsupported feature of a challenge, or None."""
    qop = challenge.parameters.get("qop")
    if _algorithm_of(challenge) not in _ALGORITHMS:
        return f"the algorithm {challenge.parameters['algorithm']!r}"
    if qop is not None and "auth" not in [each.strip().lower() for each in qop.split(",")]:
        return f"qop {qop!r}"
    # RFC 2069 defined MD5 without the parameter qop. The other algorithms require qop.
    if qop is None and _algorithm_of(challenge) != "MD5":
        return f"{_algorithm_of(challenge)} without qop"
    return None


def _quote(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


# The login of one run to one HTTP proxy (RFC 9110 11.7). The login is sent only after the proxy responds 407.
# Some proxies do not require a login and forward `Proxy-Authorization` to the origin server (credential
# leak).
#
# After a 407 response, the login is sent with every request to the proxy. If the proxy supports Digest (RFC
# 7616), the client uses Digest. Otherwise, the client uses Basic. The Digest field differs in each request.

#: The number of random bytes that `heed` needs for a client nonce.
UNGUESSABLE = 16
#: The maximum number of pending requests whose secrets are stored.
_REMEMBERED = 256


class HttpProxyAuth:
    """The login to an HTTP proxy. `proxy` is the proxy's URL for display."""

    def __init__(self, proxy: str, credentials: Credentials | None) -> None:
        self.proxy = proxy
        self._credentials = credentials
        self._basic: Headers = ()
        self._digest: Digest | None = None
        self._said: deque[bytes] = deque(maxlen=2 * _REMEMBERED)
        self._asked = 0
        self._stale = 0

    def fields(self, method: bytes, target: bytes) -> Headers:
        """Return the login fields of a request.

        `target` is the request target that the proxy receives.
        """
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
        """Read the challenge in a 407 response, and prepare the next login.

        `sent` has the header fields of the rejected request.

        Args:
            challenges: the values of `Proxy-Authenticate`.
            sent: the login fields of the request.
            unguessable: random bytes for the client nonce of Digest, `UNGUESSABLE` in number.

        Raises:
            LoginRequired: no credentials are configured.
            AccessDenied: the proxy rejected the credentials.
            Declined: the proxy requires an unsupported scheme.
        """

        if self._credentials is None:
            words = f"the proxy {self.proxy} requires a login (user:password@ in its URL)"
            raise LoginRequired(words, code="407")
        asked = parse_challenges(challenges)
        wanted = choose(asked, f"the proxy {self.proxy}")
        digest = None if wanted is None else Digest(wanted, unguessable.hex())
        if sent and not self._is_outdated(digest):
            raise AccessDenied(f"the proxy {self.proxy} rejected this user and password", code="407")
        self._digest = digest
        if digest is None:
            self._basic = self._basic_for(asked, self._credentials)

    def _is_outdated(self, digest: Digest | None) -> bool:
        """Return whether the proxy rejected only an expired nonce (`stale`) and not the login.

        If a proxy rejects several consecutive nonces, the login counts as rejected.
        """
        self._stale = self._stale + 1 if self._asked <= 1 else 1
        self._asked = 0
        return digest is not None and digest.stale and self._stale <= _MOST_STALE

    def _basic_for(self, asked: list[Challenge], credentials: Credentials) -> Headers:
        schemes = [each.scheme for each in asked]
        if "basic" not in schemes:
            named = ", ".join(schemes) or "no known scheme"
            words = f"the proxy {self.proxy} requires a login by {named}: only basic and digest are supported"
            raise Declined(words, code="407")
        return ((b"Proxy-Authorization", encode_basic(credentials)),)
