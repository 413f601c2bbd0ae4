"""A request that a program made itself, and its answer as it is: no status is judged, no redirect followed.

Of the answer nothing is changed but a content coding, which is undone here, within the bounds of S16; the
fields that speak of it are left out.
"""

from __future__ import annotations

from protocols.http.answer import HttpAnswer
from protocols.http.call import perform
from protocols.http.codings import ALWAYS, Decoding, choose
from protocols.http.head import BodyFraming
from protocols.http.request import HttpRequest
from protocols.location import Kind
from protocols.options import Limits, Options
from protocols.reply import Reply
from protocols.step import Dialogue, StartBody

_OF_THE_CODING = ("content-encoding", "content-length")


def relay(request: HttpRequest, options: Options, limits: Limits, *, tls: bool) -> Dialogue[None]:
    """The reply's `extra` has the status, the reason and the version. Where there is no body the connection
    may serve again at once."""
    answer = yield from perform(request, options, limits, tls=tls)
    bodiless = answer.head.framing is BodyFraming.NONE
    decoding = None if bodiless else _decoding(answer, options, limits)
    reply = _describe(answer, coded=decoding is not None)
    if bodiless:
        yield from answer.pass_over(reply.findings)
    yield StartBody(reply)
    if not bodiless:
        yield from answer.give(reply, decoding)


def _decoding(answer: HttpAnswer, options: Options, limits: Limits) -> Decoding | None:
    if not (codings := answer.head.codings):
        return None
    return Decoding(choose(codings, {**ALWAYS, **options.codings}), limits.ratio, options.most)


def _describe(answer: HttpAnswer, *, coded: bool) -> Reply:
    head = answer.head
    left_out = _OF_THE_CODING if coded else ()
    return Reply(
        kind=Kind.DOCUMENT,
        meta=tuple(field for field in head.fields if field[0] not in left_out),
        extra={"status": head.status, "reason": head.reason, "version": answer.exchange.version},
    )
