"""What is said for a prospero URL: the questions of its resolution, and what they have found as a reply.

A willing server gives the contents itself; what other answers lead to is told in notes. By the time a body
begins, all that was asked is answered, and nothing is open.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

from protocols.location import Kind
from protocols.options import Limits, Options
from protocols.prospero.access_method import AccessMethod, first_url
from protocols.prospero.ardp import PERSISTENT, RetransmitTiming
from protocols.prospero.contents import guess_media_type
from protocols.prospero.question import Inquirer, request_links
from protocols.prospero.resolution import (
    MOST_MOVES,
    Found,
    ResolvedAlternatives,
    ResolvedDirectory,
    ResolvedDocument,
    ResolvedFacts,
    ResolvedService,
    read_contents,
    resolve,
)
from protocols.prospero.target import RequestObject, target_of
from protocols.prospero.token import read_text
from protocols.prospero.url import ProsperoUrl
from protocols.reply import Moved, Reply
from protocols.step import Dialogue, EmitBody, PlanNote, StartBody
from protocols.values import replace


def converse(
    url: ProsperoUrl,
    options: Options | None = None,
    limits: Limits | None = None,
    timing: RetransmitTiming = PERSISTENT,
) -> Dialogue[None]:
    """The dialogue: an object's contents, a directory, a service that is announced, or with `moved` the URLs
    that an object's access methods come to.

    Raises `Declined` by the server's failures and for a URL that nothing can be asked for, `TimedOut`,
    `ProtocolError`, `LimitExceeded`, `Refused` (S02), and `Refused` (S10) where only a file of this machine
    is named or an object moves in circles.
    """
    options, target = options or Options(), target_of(url)
    limits = limits or Limits()
    inquiry = Inquirer(limits, timing)
    found = yield from resolve(inquiry, target, options.want)
    yield from _branches(target, timing, limits.idle)
    yield from _give(inquiry, found, options)


def _branches(target: RequestObject, timing: RetransmitTiming, patience: float) -> Dialogue[None]:
    pauses = [f"{pause:g}" for pause in islice(timing.pauses(patience), 4)]
    more = "" if len(pauses) < 4 else f" and so on, {patience:g} in all"
    yield PlanNote(
        f"without an answer a packet is sent again, with pauses of {', '.join(pauses)} seconds{more}"
    )
    yield PlanNote(
        f"an object that has moved is asked for where it is now, at most {MOST_MOVES} times; "
        "each place is judged first, as one that no person chose"
    )
    yield PlanNote(
        "access methods are gone in the server's order: one of another scheme is a URL that is followed "
        "as far as S10 and S08 let it; where it fails, the next one"
    )
    lines = request_links(target).message.shown.decode("latin-1").splitlines()[-2:]
    yield PlanNote(f"an object without access methods is listed: {' / '.join(lines)}")


def _give(inquiry: Inquirer, found: Found, options: Options) -> Dialogue[None]:
    match found:
        case ResolvedDocument():
            yield from _give_document(inquiry, found)
        case ResolvedDirectory(listing=None):
            yield StartBody(found.facts.reply(Kind.DIRECTORY))
        case ResolvedDirectory():
            from protocols.prospero.entries import give_directory  # a plan has none

            yield from give_directory(inquiry, found, raw=options.raw)
        case ResolvedAlternatives():
            yield StartBody(_leading_on(inquiry, found))
        case ResolvedService():
            yield StartBody(_session(found))
        case ResolvedFacts():
            yield StartBody(_facts(inquiry, found))


def _give_document(inquiry: Inquirer, document: ResolvedDocument) -> Dialogue[None]:
    facts, place = document.facts, document.place
    reply = replace(
        facts.reply(Kind.DOCUMENT),
        size=len(document.octets),
        peer=inquiry.address(place),
        media_type=_media_type(inquiry, facts, place),
    )
    reply.verified.add("length")  # the server said how many packets there are, and all of them came
    yield StartBody(reply)
    yield EmitBody(document.octets)


def _media_type(inquiry: Inquirer, facts: ResolvedFacts, place: RequestObject) -> str | None:
    """The table of types takes 30 ms to read; a plan, where nobody answers, shows none."""
    return guess_media_type(facts.methods, place.hsoname) if inquiry.address(place) else None


def _give_contents(inquiry: Inquirer, facts: ResolvedFacts, method: AccessMethod) -> Dialogue[None]:
    yield from _give_document(inquiry, (yield from read_contents(inquiry, facts, method)))


def _leading_on(inquiry: Inquirer, alternatives: ResolvedAlternatives) -> Reply:
    """The first URL, and what else there is if it fails: URLs, and contents to be read here."""
    facts, (first, *others) = alternatives.facts, alternatives.methods
    assert first.url is not None
    moved = Moved(
        location=first.url,
        code=read_text(first.name),
        others=tuple(method.url or partial(_give_contents, inquiry, facts, method) for method in others),
        found_in=None if facts.place.via is None else inquiry.referrer(facts.place),
        failed=alternatives.failed,
    )
    return replace(facts.reply(Kind.LINK), moved=moved)


def _session(session: ResolvedService) -> Reply:
    lead = session.method.lead
    assert lead is not None
    return session.facts.reply(Kind.SERVICE, lead.url, {"message": lead.message})


def _facts(inquiry: Inquirer, facts: ResolvedFacts) -> Reply:
    """What is known without reading the object: a document where this server has it, else the way to it."""
    method = next((method for method in facts.methods if method.target or method.lead), None)
    if method is None:
        return facts.reply(Kind.UNKNOWN)
    if method.target is None:
        first = first_url(facts.methods)
        return facts.reply(Kind.LINK, None if first is None else first.url)
    return replace(facts.reply(Kind.DOCUMENT), media_type=_media_type(inquiry, facts, facts.place))
