"""file URLs (S12), as far as the URL itself tells; what is on the disk is for the gate to see."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from resolver.policy.octets import position_in
from resolver.policy.schemes import rules_of
from resolver.policy.subject import Subject
from resolver.policy.verdict import Decision

_SEPARATORS = frozenset(b"/" + os.fsencode(os.sep + (os.altsep or "")))
_NO_NAME = _SEPARATORS | {0}
#: What a file URL may call it; nothing is looked up, and no other spelling means it.
_THIS_MACHINE = (None, "", "localhost", "127.0.0.1", "::1")


def judge_file(subject: Subject) -> Iterator[Decision]:
    """S12, asked of URLs that name files of this machine."""
    yield from _judge_host(subject)
    yield from _judge_origin(subject)
    segments = _segments(subject)
    yield from _judge_segments(subject, segments)
    yield from _judge_root(subject, segments)


def _segments(subject: Subject) -> tuple[bytes, ...]:
    segments: object = getattr(subject.url, "segments", ())
    assert isinstance(segments, tuple)
    return segments


def _judge_host(subject: Subject) -> Iterator[Decision]:
    host: object = getattr(subject.url, "host", None)
    if host not in _THIS_MACHINE:
        yield Decision(
            rule="S12",
            action="refuse",
            detail=f"{host!r} is another machine; file URLs name files of this one",
            position=subject.start_of("host"),
        )


def _judge_origin(subject: Subject) -> Iterator[Decision]:
    if subject.policy.public_only and subject.policy.file_root is None:
        yield Decision(
            rule="S12",
            action="refuse",
            detail="the policy allows no files of this machine",
            flag="--file-root DIR",
        )
    if subject.origin != "user" and (subject.source is None or not rules_of(subject.source.scheme).local):
        yield Decision(
            rule="S12", action="refuse", detail="only a file may lead to a file of this machine", position=0
        )


def _judge_segments(subject: Subject, segments: Sequence[bytes]) -> Iterator[Decision]:
    """The first place is told: a hostile URL may have thousands, each to be looked for in its text."""
    for index, segment in enumerate(segments):
        if bad := _NO_NAME.intersection(segment):
            octet = next(octet for octet in segment if octet in bad)
            position = position_in(subject.url, f"segments[{index}]", frozenset(bad))
            yield Decision(
                rule="S12",
                action="refuse",
                detail=f"octet {octet:02X} in segments[{index}] cannot be part of a file's name",
                position=position,
            )
            return


def _judge_root(subject: Subject, segments: Sequence[bytes]) -> Iterator[Decision]:
    root = subject.policy.file_root
    if root is None:
        return
    if not is_below(segments, root):
        yield Decision(
            rule="S12", action="refuse", detail=f"the file is not below {root!r}, the only place allowed"
        )


def is_below(segments: Sequence[bytes], root: str) -> bool:
    """Does the path end at `root` or below it, taken by its words alone?

    Links may still lead elsewhere: whoever opens the path follows them and judges again.
    """
    top = _walk(os.fsencode(root).split(b"/"))
    return _walk(segments)[: len(top)] == top


def _walk(segments: Sequence[bytes]) -> list[bytes]:
    """Where the segments lead from `/`: dots undone, empty ones dropped."""
    path: list[bytes] = []
    for segment in segments:
        if segment == b"..":
            del path[-1:]
        elif segment not in (b"", b"."):
            path.append(segment)
    return path
