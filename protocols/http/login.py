"""Who asks, and how it is proved: nothing, Basic (RFC 7617) or Digest (RFC 7616), as the server wants it.

What the person wrote into the URL goes with the first request. What is held for the place goes with it too
where nobody can read it on the way, else once the server has asked. Digest comes before Basic, and Basic
never after Digest failed; a name and password that the server did not take are not sent there again in this
run.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal, TypeAlias, cast

from protocols.authority import comparable_host
from protocols.errors import AccessDenied
from protocols.http.answer import HttpAnswer
from protocols.http.call import perform
from protocols.http.cookies import jar_of
from protocols.http.head import ResponseHead
from protocols.http.request import HttpRequest, encode_basic, has_field
from protocols.http.url import HttpUrl
from protocols.location import Finding
from protocols.options import Credentials, Limits, Options
from protocols.step import Dialogue, RandomBytes, RequestCredentials

TYPE_CHECKING = False
if TYPE_CHECKING:  # few answers ask for anything
    from protocols.http.digest import Digest

_CHALLENGED = 401
#: Octets of a `cnonce`.
_UNGUESSABLE = 16
#: How often in a row a server may say that its nonce was too old.
_MOST_STALE = 3
#: Places whose nonces are remembered: strangers' URLs name any number of them.
_CAPACITY = 1_024

Place: TypeAlias = "tuple[str, int, Credentials]"
Sent: TypeAlias = Literal["nothing", "basic", "digest"]


class AuthSessions:
    """What the servers of a run have said of Digest, by host, port, and the name and password: the nonce that
    is being counted, None where they were not taken."""

    def __init__(self) -> None:
        self.held: OrderedDict[Place, Digest | None] = OrderedDict()

    def find(self, place: Place) -> Digest | None:
        return self.held.get(place)

    def refused(self, place: Place) -> bool:
        return place in self.held and self.held[place] is None

    def keep(self, place: Place, digest: Digest | None) -> None:
        self.held[place] = digest
        self.held.move_to_end(place)
        if len(self.held) > _CAPACITY:
            self.held.popitem(last=False)


def _sessions_of(memory: dict[str, object]) -> AuthSessions:
    """The run's own."""
    held = memory.get("http logins") or memory.setdefault("http logins", AuthSessions())
    assert isinstance(held, AuthSessions)
    return held


class HttpLogin:
    """One retrieval's way through. `findings` are for its reply."""

    def __init__(self, url: HttpUrl, options: Options, limits: Limits) -> None:
        self._url = url
        self._options = options
        self._limits = limits
        self._own = bool(options.headers) and has_field(options.headers, b"authorization")
        own_cookies = bool(options.headers) and has_field(options.headers, b"cookie")
        self._jar = None if own_cookies else jar_of(options.memory)
        self._credentials: Credentials | None = None
        self._sessions = _sessions_of(options.memory)
        self._sent: Sent = "nothing"
        self._stale = 0
        self.findings: list[Finding] = []

    def begin(self) -> Dialogue[None]:
        """Those of the URL, else those that came with a redirect to the same place, else those held for
        it."""
        if self._own:
            return
        if self._url.password is not None:
            self._credentials = Credentials(self._url.user or b"", self._url.password)
        elif self._options.login is not None and not self._url.user:
            self._credentials = self._options.login
        else:
            self._credentials = yield from self._held(challenged=False)

    def _held(self, *, challenged: bool) -> Dialogue[Credentials | None]:
        return cast(
            "Credentials | None",
            (yield RequestCredentials(self._url.user or None, None, challenged=challenged)),
        )

    def perform(self, request: HttpRequest) -> Dialogue[HttpAnswer]:
        """The answer to the request, and to it once more where a login was asked for that can be given.

        Raises `AccessDenied` where that was not taken, `Declined` where the server wants what we cannot give.
        """
        while True:
            asked = self._with_cookies(self._signed(request))
            answer = yield from perform(asked, self._options, self._limits, tls=self._url.secured)
            if self._jar is not None:
                self._jar.take(answer.head, self._url, self._options.suffix_of)
            if answer.head.status != _CHALLENGED or self._own:
                break
            if not (yield from self._can_answer(answer, request)):
                return answer
        if self._sent == "digest":
            self._check_server(answer.head, request)
        return answer

    def _with_cookies(self, request: HttpRequest) -> HttpRequest:
        """With those of the run, unless the caller set some himself."""
        if self._jar is None or not self._jar.cookies or not (value := self._jar.header(self._url)):
            return request
        return request._replace(headers=(*request.headers, (b"Cookie", value)))

    def _signed(self, request: HttpRequest) -> HttpRequest:
        """The request with what proves who asks, as far as that is known."""
        login = self._credentials
        if self._own or login is None:
            return request if self._own or not self._url.user else self._with_basic(request, b"")
        if self._sessions.refused(self._place):
            return request
        digest = self._sessions.find(self._place)
        if digest is not None and digest.covers(request.target):
            self._sent = "digest"
            value = digest.authorization(request.method, request.target, login)
            return request.signed(value, (b"Digest", login.user))
        return self._with_basic(request, login.password)

    def _with_basic(self, request: HttpRequest, password: bytes) -> HttpRequest:
        self._sent = "basic"
        user = self._url.user or b"" if self._credentials is None else self._credentials.user
        value = encode_basic(Credentials(user, password))
        return request.signed(value)

    @property
    def _place(self) -> Place:
        assert self._credentials is not None
        return comparable_host(self._url.host), self._url.effective_port, self._credentials

    def _can_answer(self, answer: HttpAnswer, request: HttpRequest) -> Dialogue[bool]:
        """Is there something to say to a 401 that was not said before? Then its body is passed over."""
        from protocols.http.challenge import parse_challenges
        from protocols.http.digest import Digest, choose

        if self._credentials is None:
            self._credentials = yield from self._held(challenged=True)
        if self._credentials is None:
            return False
        challenges = parse_challenges(answer.head.values("www-authenticate"))
        wanted = choose(challenges)
        if wanted is None:
            is_new = self._sent == "nothing" and any(each.scheme == "basic" for each in challenges)
            if is_new:
                yield from answer.pass_over(self.findings)
            return is_new
        yield from answer.pass_over(self.findings)
        digest = Digest(wanted, cast(bytes, (yield RandomBytes(_UNGUESSABLE))).hex())
        self._check_not_refused(digest, answer.head)
        self._sessions.keep(self._place, digest)
        return True

    def _check_not_refused(self, digest: Digest, head: ResponseHead) -> None:
        """Raises `AccessDenied` where the password itself was not taken, now or before."""
        again = self._sent == "digest"
        self._stale += again and digest.stale
        if self._sessions.refused(self._place) or (again and not digest.stale) or self._stale > _MOST_STALE:
            self._sessions.keep(self._place, None)
            message = f"the server answers {head.shown} to this name and password"
            raise AccessDenied(message, code=str(head.status), text=head.reason)

    def _check_server(self, head: ResponseHead, request: HttpRequest) -> None:
        """What the server says of itself where Digest was sent: a proof, and the next nonce."""
        fields = head.values("authentication-info")
        if not fields or self._credentials is None:
            return
        from protocols.http.challenge import parse_challenges

        digest = self._sessions.find(self._place)
        (info,) = parse_challenges([f"Info {fields[0]}"])[:1]
        if digest is not None and not digest.proves(info, request.target, self._credentials):
            detail = "the server does not prove that it knows the password (rspauth)"
            self.findings.append(Finding("http:rspauth", "warn", detail))
