"""Octets that a component may not bring along (S02): the ones that would end a command or a field.

`schemes` says it per scheme and component; a component that no row names, be it of a plug-in's scheme or
one that was forgotten there, may not end a line, whether it is sent as it is or decoded first. The URL is
judged before anything is looked up, and the refusal points at the escape; that is the courtesy.
`protocols.wire` refuses the same octets again when a command is written; that is the guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocols.location import Action, Url, Word
from protocols.syntax import position_of
from resolver.policy.schemes import LINE_END, STRICTEST, ComponentRule
from resolver.policy.subject import Subject
from resolver.policy.verdict import Decision

_NONE: frozenset[int] = frozenset()


def judge_octets(subject: Subject) -> Iterator[Decision]:
    """S02. The first place of each sort is reported: a hostile URL may have thousands."""
    url, rules = subject.url, subject.rules
    reported: set[str] = set()
    for word in url.words():
        rule = rules.components.get(word.component, STRICTEST)
        octets = word.octets
        if octets is None:
            if "type" not in reported:
                reported.add("type")
                yield _refused_type(word)
            continue
        if word.encoded and rule is STRICTEST and b"%" in octets:
            octets = _decoded(octets)
        if not (rule.refused.isdisjoint(octets) and rule.warned.isdisjoint(octets)):
            for decision in _judge_content(url, rule, word, octets, reported):
                reported.add(f"octet {decision.action}")
                yield decision
        if rule.longest is not None and len(octets) > rule.longest:
            for decision in _judge_length(url, rule, word, octets, reported):
                reported.add(f"length {decision.action}")
                yield decision
    if rules.line is not None:
        yield from _judge_request_length(url, *rules.line)
    if rules.fields is not None:
        yield from _judge_mail_headers(url, rules.fields)


def _decoded(octets: bytes) -> bytes:
    """What no row names may still be encoded and be decoded by who sends it."""
    from urllib.parse import unquote_to_bytes  # hardly any URL needs it

    return unquote_to_bytes(octets)


def _refused_type(word: Word) -> Decision:
    return Decision(
        rule="S02",
        action="refuse",
        detail=f"{word.name} is neither octets nor text nor a number, and cannot be judged",
    )


def _judge_content(
    url: Url, rule: ComponentRule, word: Word, octets: bytes, reported: set[str]
) -> Iterator[Decision]:
    present = frozenset(octets)
    if (bad := present & rule.refused) and "octet refuse" not in reported:
        yield _decision(
            url, "refuse", word.name, octets, bad, "could end a command, a field of it, or a name in it"
        )
    elif not bad and (bad := present & rule.warned) and "octet warn" not in reported:
        yield _decision(
            url, "warn", word.name, octets, bad, "is a control character or a blank that no real name needs"
        )


def _judge_length(
    url: Url, rule: ComponentRule, word: Word, octets: bytes, reported: set[str]
) -> Iterator[Decision]:
    length = len(octets) - 2 * octets.count(b"%") if word.encoded else len(octets)
    if rule.longest is not None and length > rule.longest and "length refuse" not in reported:
        yield Decision(
            rule="S02",
            action="refuse",
            detail=f"{word.name} has {length} octets; more than {rule.longest} no server takes",
            position=position_in(url, word.name, _NONE),
        )


def _decision(
    url: Url, action: Action, name: str, octets: bytes, bad: frozenset[int], reason: str
) -> Decision:
    octet = next(octet for octet in octets if octet in bad)
    position = position_in(url, name, bad)
    where = name if position is None else f"{name}, at position {position} of the URL,"
    return Decision(
        rule="S02", action=action, detail=f"octet {octet:02X} in {where} {reason}", position=position
    )


def position_in(url: Url, name: str, octets: frozenset[int]) -> int | None:
    """Where in the URL text the first of `octets` stands within the component `name`."""
    place = url.place(name)
    return None if place is None else position_of(url.text, place, octets)


def _judge_mail_headers(url: Url, component: str) -> Iterator[Decision]:
    """Names and values that would end their line in a draft; only the body has several (RFC 6068 5)."""
    headers: tuple[tuple[bytes, bytes], ...] = getattr(url, component)
    for index, (name, value) in enumerate(headers):
        shown = b"" if name.lower() == b"body" else value
        for where, octets in ((f"{component}[{index}].name", name), (f"{component}[{index}].value", shown)):
            if bad := LINE_END.intersection(octets):
                yield _decision(url, "refuse", where, octets, bad, "would end a header field of the mail")
                return


def _judge_request_length(url: Url, components: tuple[str, ...], longest: int) -> Iterator[Decision]:
    """The first line of a request that some components share."""
    parts = [part for name in components if type(part := getattr(url, name)) is bytes]
    line = b"\t".join(parts).partition(b"\r\n")[0]
    if len(line) > longest:
        yield Decision(
            rule="S02",
            action="refuse",
            detail=f"the request has {len(line)} octets; more than {longest} no server takes",
            position=position_in(url, components[0], _NONE),
        )
