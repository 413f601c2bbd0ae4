"""What has to come before an answer: reader mode, TLS, a login (RFC 3977 5.3, RFC 4642, RFC 4643).

None of it is done unasked. An answer that asks for it is a `Hurdle`: what has been sent is drained, the
hurdle is taken here, and the commands are sent again. Credentials leave only where nobody can read
along, or where the caller has said that this does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LoginRequired,
    NetworkError,
    ProtocolError,
    Refused,
    TlsError,
)
from protocols.location import Finding
from protocols.news.commands import LISTS, READER_VERBS, Command, Verb
from protocols.news.link import Talk, undivided
from protocols.news.refusals import declined, refusal
from protocols.news.reply import Answer
from protocols.options import Credentials, Options
from protocols.step import AskCredentials, Dialogue, Note, StartTls
from protocols.wire import Secret

_NOT_WITHOUT_TLS = (
    "the server wants a login, and the password would go there without TLS: it offers none"
    " (--tls never sends it all the same)"
)


#: What a plan says of a server that offers no TLS: where it was wanted, and where it was required.
_WITHOUT_TLS = (
    "if the server does not offer STARTTLS: the same without TLS",
    "if the server does not offer STARTTLS: nothing more is sent",
)


class Hurdle(Exception):
    """An answer that is none yet. Never leaves a dialogue."""

    def __init__(self, command: Command, answer: Answer) -> None:
        super().__init__(answer.shown)
        self.command = command
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Login:
    """A name and its password. Without a password a person is asked for it when the server wants it;
    an empty or no name is that of a URL without one."""

    user: bytes | None
    password: bytes | None = field(repr=False)


def check_way(talk: Talk, command: Command, answer: Answer) -> None:
    """Raises `Hurdle` for an answer that something could be done about.

    A server in transit mode says 401; one from before RFC 3977 says 500, 502 or 480 instead, which is
    taken for the same while nothing has told that it is in reader mode. So is 501 to a variant of LIST.
    """
    link = talk.link
    unknown = (500, 501, 502) if command.verb in LISTS else (500, 502)
    if answer.code in (480, 483) or (answer.code == 401 and _wants_reader(answer) and link.may_ask_reader):
        raise Hurdle(command, answer)
    if command.verb in READER_VERBS:
        if answer.code in unknown and link.may_ask_reader and not link.reader:
            raise Hurdle(command, answer)
        if command.verb not in LISTS:  # transit mode has these too
            link.reader = True


def _wants_reader(answer: Answer) -> bool:
    return answer.text.upper().split()[:1] == [b"MODE-READER"]


class Usher:
    """Takes hurdles out of the way of a dialogue, as its URL's login and options allow."""

    def __init__(self, talk: Talk, login: Login, options: Options) -> None:
        self._talk = talk
        self._link = talk.link
        self._login = login
        self._options = options

    def begin(self) -> Dialogue[None]:
        """Right behind the greeting: TLS where the caller asks for it. `TlsError` where it was required."""
        if self._options.tls == "never" or self._link.tls:
            return
        yield Note(_WITHOUT_TLS[self._options.tls == "require"])
        secured = yield from self._start_tls()
        if not secured and self._options.tls == "require":
            raise TlsError("TLS was required, and the server has none to offer (STARTTLS)")

    def take(self, hurdle: Hurdle) -> Dialogue[None]:
        """Drain what was sent and do what the answer asks for. Raises what the answer means where there
        is nothing to be done."""
        link, code = self._link, hurdle.answer.code
        try:
            yield from self._talk.drop_all()
            if code == 401 or (code in (480, 500, 501, 502) and link.may_ask_reader and not link.reader):
                yield from self._ask_reader()
                return
        except Disconnected as error:
            if code == 502:  # and closed, as it says
                raise refusal(hurdle.command, hurdle.answer) from error
            raise
        if code == 480:
            yield from self.log_in(hurdle.command, hurdle.answer)
        else:
            yield from self._need_tls(hurdle.command, hurdle.answer)

    def log_in(self, doing: Command | str, answer: Answer) -> Dialogue[None]:
        """Log in because `answer` wants it."""
        if self._link.logged_in:
            raise declined(AccessDenied, doing, answer, "not permitted, logged in as we are")
        if self._link.login_refused:
            raise declined(AccessDenied, doing, answer, "this connection has refused the login before")
        login = yield from self._find_login()
        if login is None:
            raise refusal(doing, answer)
        yield from self.authenticate(login)

    def authenticate(self, login: Login) -> Dialogue[None]:
        """Log in. What was heard before does not count any more after that."""
        yield from self._protect()
        command, answer = yield from self._identify(login)
        if answer.code == 483:
            yield from self._need_tls(command, answer)
            command, answer = yield from self._identify(login)
        if answer.refused:
            self._link.login_refused = True
            raise (yield from self._login_refusal(command, answer))
        self._link.logged_in = True
        self._link.forget()

    def find_help(self) -> Dialogue[Login | None]:
        """A login that is at hand and may show what is hidden without one, if the server takes logins.
        Nobody is asked. Drains what was sent unless there is none."""
        tried = self._link.logged_in or self._link.login_refused
        login = None if tried else (yield from self._find_login())
        if login is None or login.password is None:
            return None
        yield from self._talk.drop_all()
        yield from self._know()
        offered = self._link.capabilities
        if offered is None or not offered.has(b"AUTHINFO"):
            return None
        open_way = offered.has(b"AUTHINFO", b"USER") and (self._link.private or self._options.login_in_clear)
        return login if open_way or offered.has(b"STARTTLS") else None

    def _find_login(self) -> Dialogue[Login | None]:
        """The URL's, else what is held for this place."""
        if self._login.user:
            return self._login
        held = yield from self._ask_credentials(None)
        return None if held is None else Login(held.user, held.password)

    def _ask_credentials(self, user: bytes | None) -> Dialogue[Credentials | None]:
        held = yield AskCredentials(user, None)
        assert held is None or isinstance(held, Credentials)
        if held is not None:  # for this scheme, and for no other (S11)
            self._link.held_for = self._talk.scheme
        if held is not None and len((held.user + b"." + held.password).split()) > 1:
            detail = "the name or password has a blank in it; servers take what stands before it"
            self._link.findings.append(Finding("nntp:login-blank", "warn", detail))
        return held

    def _protect(self) -> Dialogue[None]:
        """Nobody may read along from here on, or the caller does not mind. `Refused` (S06) else."""
        link = self._link
        offered = link.capabilities
        insists = (  # RFC 4643 2.1: the password is not taken without TLS
            offered is not None and offered.has(b"AUTHINFO") and not offered.has(b"AUTHINFO", b"USER")
        )
        if link.tls or self._options.login_in_clear or (link.private and not insists):
            return
        if not (yield from self._start_tls()) and not link.private:
            raise Refused("S06", _NOT_WITHOUT_TLS, flag="--tls never")

    def _identify(self, login: Login) -> Dialogue[tuple[Command, Answer]]:
        """AUTHINFO USER, and PASS if that is wanted: the last command and its answer."""
        user, password = login.user, login.password
        command = Command(Verb.AUTHINFO_USER, user)
        answer = yield from undivided(self._talk.ask(command, Answer(381)))
        if answer.code != 381:
            return command, answer
        if password is None:
            held = yield from self._ask_credentials(user)
            if held is None or held.user != user:
                raise LoginRequired(f"{command}: a password is needed and none is at hand", code="381")
            password = held.password
        command = Command(Verb.AUTHINFO_PASS, Secret(password))
        return command, (yield from undivided(self._talk.ask(command, Answer(281))))

    def _login_refusal(self, command: Command, answer: Answer) -> Dialogue[Declined | ProtocolError]:
        if answer.code in (500, 501, 503):
            return declined(Declined, command, answer, "no login there")
        if answer.code == 482 and (yield from self._is_old()):
            return declined(AccessDenied, command, answer, "wrong name or password")
        return refusal(command, answer)

    def _is_old(self) -> Dialogue[bool]:
        """From before RFC 4643? There 482 meant what 481 means now."""
        if self._link.capabilities is None and not self._link.old:
            try:
                yield from self._talk.hear_capabilities()
            except NetworkError:
                return False
        return self._link.old

    def _need_tls(self, command: Command, answer: Answer) -> Dialogue[None]:
        """483: go on inside TLS. `Declined` where that is not to be had, or not wanted."""
        if self._link.tls or self._options.login_in_clear or not (yield from self._start_tls()):
            raise refusal(command, answer)

    def _start_tls(self) -> Dialogue[bool]:
        """STARTTLS. False where the server has none; a handshake that fails is the end (`TlsError`)."""
        link = self._link
        yield from self._know()
        if link.capabilities is not None and not link.capabilities.has(b"STARTTLS"):
            return False
        command = Command(Verb.STARTTLS)
        answer = yield from self._talk.ask(command, Answer(382))
        if answer.refused:
            return False
        if answer.code != 382:
            raise ProtocolError(f"{answer.shown} is no answer to {command}")
        yield StartTls()
        link.tls = link.secured = link.private = True
        link.forget()
        yield from self._talk.hear_capabilities()
        return True

    def _know(self) -> Dialogue[None]:
        """Ask for the capabilities, once, and go by them: reading may need MODE READER first."""
        link = self._link
        if link.capabilities is not None or link.old:
            return
        yield from self._talk.hear_capabilities()
        transit = link.capabilities is not None and link.capabilities.in_transit
        if link.may_ask_reader and (transit or (link.old and not link.reader)):
            yield from self._ask_reader()
            if transit:
                yield from self._talk.hear_capabilities()

    def _ask_reader(self) -> Dialogue[None]:
        """MODE READER. A server that does not know it has no other mode."""
        link, command = self._link, Command(Verb.MODE_READER)
        link.reader_asked = True
        answer = yield from self._talk.ask(command, Answer(200))
        if answer.code == 480:
            yield from self.log_in(command, answer)
            # RFC 4643 2.2 has no MODE READER after a login; a server that asks for one first wants it.
            answer = yield from self._talk.ask(command, Answer(200))
        if answer.refused and answer.code not in (500, 501):
            after_login = answer.code == 480 and link.logged_in
            raise (
                declined(AccessDenied, command, answer, "not permitted")
                if after_login
                else refusal(command, answer)
            )
        link.reader = True
        link.capabilities = None
        link.group = None
