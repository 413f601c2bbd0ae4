"""The one URL that sends more than one line and the one that changes something (S03, S05).

RFC 1738 3.4.9 puts a filled-in Gopher+ form into a URL, line ends and all. It may stand there only
as that: one dot-terminated block after a view, with nothing behind it, on a gopher port. Every value
in it is a line of a stranger's choosing, so it also takes a person who wanted to submit it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from resolver.policy.octets import position_in
from resolver.policy.subject import Subject
from resolver.policy.verdict import Decision

_ENDS = frozenset(b"\0\t\n\r")
_FORM = (  # compiled by the first form
    rb"\+ [^\x00-\x1f\x7f]* \t 1 \r\n"
    rb"\+-1 \r\n"
    rb"(?: (?!\.\r\n) [^\x00\r\n]* \r\n )*"
    rb"\. \r\n"
)


def judge_form(subject: Subject) -> Iterator[Decision]:
    """S03 for a Gopher+ string with octets that end a line or a field, then S05 if it is a form; asked where
    there is such a string."""
    form = subject.rules.form
    gopherplus: object = None if form is None else getattr(subject.url, form)
    if not isinstance(gopherplus, bytes) or _ENDS.isdisjoint(gopherplus):
        return
    if re.fullmatch(_FORM, gopherplus, re.VERBOSE):
        yield from _judge_port(subject)
        yield from _judge_submission(subject)
    else:
        yield _not_a_form(subject, gopherplus)


def _not_a_form(subject: Subject, gopherplus: bytes) -> Decision:
    octet = next(octet for octet in gopherplus if octet in _ENDS)
    position = position_in(subject.url, "gopherplus", _ENDS)
    where = "" if position is None else f", at position {position} of the URL,"
    return Decision(
        rule="S03",
        action="refuse",
        detail=f"octet {octet:02X} in gopherplus{where} is not part of one filled-in form (RFC 1738 3.4.9)",
        position=position,
    )


def _judge_port(subject: Subject) -> Iterator[Decision]:
    """Point 3 of the rule: to any other port the form would be a way to talk to a mail server."""
    endpoint = subject.endpoint
    if (
        endpoint is None
        or endpoint.port == endpoint.default_port
        or endpoint.port in subject.policy.allow_port
    ):
        return
    yield Decision(
        rule="S03",
        action="refuse",
        detail=f"a filled-in form goes to port {endpoint.default_port} only, not to {endpoint.port}",
        flag=f"--allow-port {endpoint.port}",
        position=subject.start_of("port"),
    )


def _judge_submission(subject: Subject) -> Iterator[Decision]:
    """S05."""
    if subject.policy.allow_form:
        return
    yield Decision(
        rule="S05",
        action="warn" if subject.origin == "user" else "refuse",
        detail="this URL submits a filled-in form, which may change something",
        flag="--allow-form",
        position=subject.start_of("gopherplus"),
    )
