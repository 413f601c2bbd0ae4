"""HTTP authentication: none, Basic (RFC 7617) or Digest (RFC 7616), as the server requires.

- Credentials in the URL are sent with the first request.
- Stored credentials are sent with the first request if others cannot read the connection (TLS or loopback).
  Otherwise, stored credentials are sent only after the server requested a login (401).
- Digest is preferred to Basic, and Basic is never tried after Digest failed.
- A user name and password that the server rejected are not sent to this server again in the same run.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from protocols.authority import comparable_host
from protocols.errors import AccessDenied, Declined, LoginRequired
from protocols.http.call import UNGUESSABLE, HttpAnswer
from protocols.http.request import Headers, HttpRequest, encode_basic, has_field
from protocols.http.response import ResponseHead
from protocols.http.url import HttpUrl
from protocols.location import Finding
from protocols.options import Credentials, Options
from protocols.step import Dialogue, RandomBytes, RequestCredentials
from protocols.wire import secret_parts

if TYPE_CHECKING:
    from protocols.http.cookies import Jar
    from protocols.http.digest import Challenge, Digest

#: The status code that requires a login (RFC 9110 15.5.2).
UNAUTHORIZED = 401
#: The maximum number of consecutive responses with a stale nonce.
_MAX_STALE = 3
#: The maximum number of stored nonces. Untrusted URLs can contain any number of hosts (memory exhaustion).
_CAPACITY = 1_024

#: The key of the cookie jar in the dictionary that stores the state of a run.
JAR = "http cookies"

Place: TypeAlias = "tuple[str, int, Credentials]"
Sent: TypeAlias = Literal["nothing", "basic", "digest"]


class AuthSessions:
    """The Digest state of every server in one run, keyed by host, port, user name and password.

    A value is the current nonce of the server, or None after the server rejected the login.
    """

    def __init__(self) -> None:
        self.digests: OrderedDict[Place, Digest | None] = OrderedDict()

    def find(self, key: Place) -> Digest | None:
        return self.digests.get(key)

    def is_rejected(self, key: Place) -> bool:
        return key in self.digests and self.digests[key] is None

    def store(self, key: Place, digest: Digest | None) -> None:
        self.digests[key] = digest
        self.digests.move_to_end(key)
        if len(self.digests) > _CAPACITY:
            self.digests.popitem(last=False)


class HttpLogin:
    """The authentication of one retrieval. The reply of the retrieval reports its `findings`.

    First set `credentials` to the result of `credentials_step`, if there is one. Then send each request after
    `sign`, and pass the head of its response to `process_head`. `refusal` is the error if the server rejected
    the login in its last response.
    """

    def __init__(self, url: HttpUrl, options: Options) -> None:
        self._url = url
        self._options = options
        self._has_own_login = bool(options.headers) and has_field(options.headers, b"authorization")
        self._has_cookies = not (options.headers and has_field(options.headers, b"cookie"))
        self.credentials: Credentials | None = None
        self._sent: Sent = "nothing"
        self._stale = 0
        self.findings: list[Finding] = []
        self.refusal: AccessDenied | None = None
        # Credentials in the URL are used first. The next choice is credentials from a redirect to the same
        # host and port. The last choice is stored credentials for this host and port.
        self.credentials_step: RequestCredentials | None = None
        if self._has_own_login:
            return
        if url.password is not None:
            self.credentials = Credentials(url.user or b"", url.password)
        elif options.login is not None and not url.user:
            self.credentials = options.login
        elif options.has_credentials:
            self.credentials_step = RequestCredentials(url.user or None, None, challenged=False)

    def sign(self, request: HttpRequest) -> HttpRequest:
        """Add the known credentials and the cookies of the run to a request.

        If the caller has set the field Authorization or Cookie, this field is not added.
        """
        if not self._has_own_login and (self.credentials is not None or self._url.user):
            request = self._with_login(request)
        if self._has_cookies and JAR in self._options.memory:
            jar = cast("Jar", self._options.memory[JAR])
            if jar.cookies and (value := jar.header(self._url)):
                return request.add_fields(((b"Cookie", value),))
        return request

    def process_head(self, head: ResponseHead, request: HttpRequest) -> None:
        """Store the cookies in a response head, and check the server's proof of the password."""
        if self._has_cookies and "set-cookie" in head.first:
            from protocols.http.cookies import Jar  # lazy import: most servers set no cookie

            jar = self._options.memory.setdefault(JAR, Jar())
            assert isinstance(jar, Jar)
            jar.update(head, self._url, self._options.suffix_of)
        if self._sent == "digest" and head.status != UNAUTHORIZED:
            self._check_server(head, request)

    def _with_login(self, request: HttpRequest) -> HttpRequest:
        login = self.credentials
        if login is None:
            return self._with_basic(request, b"")
        if self._sessions.is_rejected(self._place):
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
        sessions = memory.get("http logins") or memory.setdefault("http logins", AuthSessions())
        assert isinstance(sessions, AuthSessions)
        return sessions

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
        if self._has_own_login:
            return False
        if self.credentials is None:
            step = RequestCredentials(self._url.user or None, None)
            self.credentials = yield step
        if self.credentials is None:
            return False
        from protocols.http.digest import Digest, choose, parse_challenges  # lazy: hashlib takes 2 ms

        challenges = parse_challenges(answer.head.values("www-authenticate"))
        challenge = choose(challenges)
        if challenge is None:
            is_new = self._sent == "nothing" and any(challenge.scheme == "basic" for challenge in challenges)
            if is_new:
                yield from answer.skip_body(self.findings)
            elif self._sent == "basic":
                self.refusal = _rejection(answer.head)
            return is_new
        self.refusal = self._find_refusal(challenge, answer.head)
        if self.refusal is not None:
            return False
        yield from answer.skip_body(self.findings)
        unguessable: bytes = yield RandomBytes(UNGUESSABLE)
        digest = Digest(challenge, unguessable.hex())
        self._sessions.store(self._place, digest)
        return True

    def _find_refusal(self, challenge: Challenge, head: ResponseHead) -> AccessDenied | None:
        """Return the error if the server rejected the password, in this response or earlier in the run."""
        is_repeated = self._sent == "digest"
        self._stale += is_repeated and challenge.is_stale
        if (
            self._sessions.is_rejected(self._place)
            or (is_repeated and not challenge.is_stale)
            or self._stale > _MAX_STALE
        ):
            self._sessions.store(self._place, None)
            return _rejection(head)
        return None

    def _check_server(self, head: ResponseHead, request: HttpRequest) -> None:
        """Check the server's proof of the password after a Digest login, and store its next nonce."""
        fields = head.values("authentication-info")
        if not fields or self.credentials is None:
            return
        from protocols.http.digest import parse_challenges

        digest = self._sessions.find(self._place)
        (info,) = parse_challenges([f"Info {fields[0]}"])[:1]
        if digest is not None and not digest.proves(info, request.target, self.credentials):
            detail = "the server does not prove that it knows the password (rspauth)"
            self.findings.append(Finding("http:rspauth", "warn", detail))


def _rejection(head: ResponseHead) -> AccessDenied:
    message = f"the server answers {head.shown} to this name and password"
    return AccessDenied(message, code=str(head.status), text=head.reason)


# The login of one run to one HTTP proxy (RFC 9110 11.7). The login is sent only after the proxy responds 407.
# Some proxies do not require a login and forward `Proxy-Authorization` to the origin server (credential
# leak).
#
# After a 407 response, the login is sent with every request to the proxy. If the proxy supports Digest (RFC
# 7616), the client uses Digest. Otherwise, the client uses Basic. The Digest field differs in each request.

#: The maximum number of pending requests whose secrets are stored.
_MAX_PENDING = 256


class HttpProxyAuth:
    """The login to an HTTP proxy. `proxy` is the proxy's URL for display."""

    def __init__(self, proxy: str, credentials: Credentials | None) -> None:
        self.proxy = proxy
        self._credentials = credentials
        self._basic: Headers = ()
        self._digest: Digest | None = None
        self._recent_secrets: deque[bytes] = deque(maxlen=2 * _MAX_PENDING)
        self._request_count = 0
        self._stale = 0

    def fields(self, method: bytes, target: bytes) -> Headers:
        """Return the login fields of a request for `target`, the request target at the proxy."""
        self._request_count += 1
        if self._digest is None or self._credentials is None:
            return self._basic
        fields = ((b"Proxy-Authorization", self._digest.authorization(method, target, self._credentials)),)
        self._recent_secrets += secret_parts(fields)
        return fields

    @property
    def secrets(self) -> tuple[bytes, ...]:
        return (*secret_parts(self._basic), *self._recent_secrets)

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
        from protocols.http.digest import Digest, choose, parse_challenges

        if self._credentials is None:
            words = f"the proxy {self.proxy} requires a login (user:password@ in its URL)"
            raise LoginRequired(words, code="407").with_setting("proxy")
        parsed = parse_challenges(challenges)
        challenge = choose(parsed, f"the proxy {self.proxy}")
        digest = None if challenge is None else Digest(challenge, unguessable.hex())
        if sent and not self._is_outdated(digest):
            raise AccessDenied(f"the proxy {self.proxy} rejected this user and password", code="407")
        self._digest = digest
        if digest is None:
            self._basic = self._basic_for(parsed, self._credentials)

    def _is_outdated(self, digest: Digest | None) -> bool:
        """Return whether the proxy rejected only an expired nonce (`stale`) and not the login.

        If a proxy rejects several consecutive nonces, the login counts as rejected.
        """
        self._stale = self._stale + 1 if self._request_count <= 1 else 1
        self._request_count = 0
        return digest is not None and digest.stale and self._stale <= _MAX_STALE

    def _basic_for(self, challenges: list[Challenge], credentials: Credentials) -> Headers:
        schemes = [challenge.scheme for challenge in challenges]
        if "basic" not in schemes:
            names = ", ".join(schemes) or "no known scheme"
            words = f"the proxy {self.proxy} requires a login by {names}: only basic and digest are supported"
            raise Declined(words, code="407")
        return ((b"Proxy-Authorization", encode_basic(credentials)),)
