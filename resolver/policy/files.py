"""file URLs (S12), as far as the URL itself tells; what is on the disk is for the gate to see."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from resolver.policy.case import Case
from resolver.policy.octets import position_in
from resolver.policy.verdict import Ruling

_SEPARATORS = frozenset(b"/" + os.fsencode(os.sep + (os.altsep or "")))
_NO_NAME = _SEPARATORS | {0}


def judge_file(case: Case) -> Iterator[Ruling]:
    """S12."""
    if case.url.scheme == "file":
        yield from _judge_host(case)
        yield from _judge_origin(case)
        segments = _segments(case)
        yield from _judge_segments(case, segments)
        yield from _judge_root(case, segments)


def _segments(case: Case) -> tuple[bytes, ...]:
    segments: object = getattr(case.url, "segments", ())
    assert isinstance(segments, tuple)
    return segments


def _judge_host(case: Case) -> Iterator[Ruling]:
    host: object = getattr(case.url, "host", None)
    if host not in (None, "", "localhost"):
        yield Ruling(
            rule="S12",
            action="refuse",
            detail=f"{host!r} is another machine; file URLs name files of this one",
            position=case.start_of("host"),
        )


def _judge_origin(case: Case) -> Iterator[Ruling]:
    if case.policy.public_only and case.policy.file_root is None:
        yield Ruling(
            rule="S12",
            action="refuse",
            detail="the policy allows no files of this machine",
            flag="--file-root DIR",
        )
    if case.origin != "user" and (case.source is None or case.source.scheme != "file"):
        yield Ruling(
            rule="S12", action="refuse", detail="only a file may lead to a file of this machine", position=0
        )


def _judge_segments(case: Case, segments: Sequence[bytes]) -> Iterator[Ruling]:
    for index, segment in enumerate(segments):
        if bad := _NO_NAME.intersection(segment):
            octet = next(octet for octet in segment if octet in bad)
            position = position_in(case.url, f"segments[{index}]", frozenset(bad))
            yield Ruling(
                rule="S12",
                action="refuse",
                detail=f"octet {octet:02X} in segments[{index}] cannot be part of a file's name",
                position=position,
            )


def _judge_root(case: Case, segments: Sequence[bytes]) -> Iterator[Ruling]:
    root = case.policy.file_root
    if root is None:
        return
    if not is_below(segments, root):
        yield Ruling(
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
