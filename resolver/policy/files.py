"""file URLs (S12), as far as the URL itself tells, and safe names for saved files (S14).

The gate checks what is on the disk.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence

from protocols.errors import Refused
from resolver.policy.components import position_in
from resolver.policy.schemes import rules_of
from resolver.policy.subject import Decision, Subject

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


# Names of saved files that another party suggests (S14). A saved file never ends like one of those that a
# transfer keeps beside it, because a later run could take it for its own.

_LONGEST = 200  # octets: room for `.part` and a number under the 255 of common file systems
# Patterns are text, compiled when the first file is named: most judgements name none.
#: C0, DEL and C1 controls, bidi controls, octets that were no UTF-8, and what Windows reserves.
_DOUBTFUL = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff"
    + re.escape(':*?"<>|')
    + "]"
)
#: Endings of the files that a transfer keeps beside its own: what has come of it, what a later run has to
#: know of that, and how it came. The last two are written whole under a first name with one more ending.
PART_SUFFIX, STATE_SUFFIX, META_SUFFIX, FIRST_SUFFIX = ".part", ".part-state", ".meta.json", ".new"
_KEPT_BESIDE = (
    *(PART_SUFFIX, STATE_SUFFIX, META_SUFFIX),
    *(STATE_SUFFIX + FIRST_SUFFIX, META_SUFFIX + FIRST_SUFFIX),
)
#: Code points that a file system which folds names passes over (Default_Ignorable_Code_Point of Unicode).
_IGNORED = (
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: An ending that tells what is in a file, which no number does (`ls.1`, `RFC-1.5`); those that tell only how
#: what is in it is packed or signed; and one that may stand before such a one.
_SUFFIX = r"\.[0-9]*[A-Za-z][A-Za-z0-9]{0,7}"
_WRAPPINGS = frozenset(
    [".Z", ".asc", ".br", ".bz2", ".gpg", ".gz", ".lz", ".lzma", ".lzo", ".sig", ".xz", ".zst"]
)
_WRAPPED = r"\.[A-Za-z][A-Za-z0-9]{0,3}"
_DEVICE = r"(?i:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?"


def local_name(component: bytes) -> str:
    """A safe file name out of the last component, decoded, of a URL or of a server's words.

    At most 200 octets of UTF-8, without separators, controls or characters that some system gives a
    meaning to, and not ending like what a transfer keeps beside its file. Raises `Refused` (S14) where
    nothing is left that could name a file.
    """
    last = re.split(rb"[/\\]", component)[-1]
    if last in (b"", b".", b".."):
        raise _refuse_nameless()
    name = re.sub(_DOUBTFUL, "_", last.decode("utf-8", "surrogateescape"))
    if name[0] in ".-":
        name = "_" + name[1:]
    name = _end_well(name)
    if re.fullmatch(_DEVICE, name):
        name = "_" + name
    name = _end_well(_cut(name, _LONGEST))
    return _cut(name, _LONGEST - 1) + "_" if is_kept_beside(name) else name


def local_path(components: Sequence[bytes]) -> str:
    """Names of directories, each as safe as that of a file; empty ones and `.` lead nowhere."""
    names = (b"__" if part == b".." else part for part in components if part not in (b"", b"."))
    return "/".join(local_name(name) for name in names)


def number_name(name: str, number: int) -> str:
    """The same name for the second, third, … of those that want it: `data.2.tar.gz`. The first has it as it
    is."""
    if number == 1:
        return name
    stem, suffixes = name, ""
    while found := re.search(f"(?<=.)({_WRAPPED if suffixes else _SUFFIX})$", stem):
        stem, suffixes = stem[: found.start()], found[0] + suffixes
        if found[0] not in _WRAPPINGS:
            break
    return f"{stem}.{number}{suffixes}"


def name_key(name: str) -> str:
    """Return what is equal for names, or paths, that are one where letters have no case, or accents no one
    form."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def is_kept_beside(name: str) -> bool:
    """Does a file of this name end like one that a transfer keeps beside its own? On any file system: some
    know no letter case, fold what looks alike, pass over what is not seen or drop a final period."""
    folded = name.casefold() if name.isascii() else _fold(name)
    return folded.rstrip(". ").endswith(_KEPT_BESIDE)


def _fold(name: str) -> str:
    """As NFKC_Casefold of Unicode has it."""
    folded = re.sub(_IGNORED, "", unicodedata.normalize("NFKC", name).casefold())
    return unicodedata.normalize("NFKC", folded)


def listing_name_ok(name: bytes) -> bool:
    """May a name out of a listing become the name of a file below the directory listed?"""
    return name not in (b"", b".", b"..") and not re.search(rb"[/\\\0]", name)


def _refuse_nameless() -> Refused:
    return Decision(
        rule="S14",
        action="refuse",
        detail="the last part of the URL gives no name for a file",
        flag="-O FILE",
    ).refusal()


def _end_well(name: str) -> str:
    """Windows drops a final period or space, and then it is another name."""
    return name[:-1] + "_" if name[-1] in ". " else name


def _cut(name: str, most: int) -> str:
    return name.encode("utf-8")[:most].decode("utf-8", "ignore")
