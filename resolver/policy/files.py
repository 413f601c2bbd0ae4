"""Rules for `file:` URLs (S12) that need only the URL, and safe names for saved files (S14).

The gate applies the rules that need the file system, for example on symbolic links.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence

from protocols.syntax import remove_dot_segments
from resolver.policy.components import position_in
from resolver.policy.schemes import find_rules
from resolver.policy.subject import Decision, Subject, refusal

_SEPARATORS = frozenset(b"/" + os.fsencode(os.sep + (os.altsep or "")))
_NO_NAME = _SEPARATORS | {0}
#: The hosts in a file URL that mean this machine. The hosts are compared without a DNS lookup. Other names
#: and addresses of this machine are not accepted.
_THIS_MACHINE = (None, "", "localhost", "127.0.0.1", "::1")


def judge_file(subject: Subject) -> Iterator[Decision]:
    """Apply S12 (local files) to the URL of a local file."""
    yield from _judge_host(subject)
    yield from _judge_origin(subject)
    segments: object = getattr(subject.url, "segments", ())
    assert isinstance(segments, tuple)
    yield from _judge_segments(subject, segments)
    yield from _judge_root(subject, segments)


def _judge_host(subject: Subject) -> Iterator[Decision]:
    host: object = getattr(subject.url, "host", None)
    if host not in _THIS_MACHINE:
        detail = f"{host!r} is another machine; file URLs name local files"
        yield Decision("S12", "refuse", detail, position=subject.find_start("host"))


def _judge_origin(subject: Subject) -> Iterator[Decision]:
    if subject.policy.public_only and subject.policy.file_root is None:
        yield Decision("S12", "refuse", "the policy does not allow local files", "--file-root DIR")
    if subject.origin != "user" and (subject.source is None or not find_rules(subject.source.scheme).local):
        yield Decision("S12", "refuse", "only a local file may link to a local file", position=0)


def _judge_segments(subject: Subject, segments: Sequence[bytes]) -> Iterator[Decision]:
    """Report the first forbidden byte in the path segments.

    Only the first byte is reported, because a hostile URL may contain thousands of forbidden bytes. A search
    for each position would take quadratic time.
    """
    for index, segment in enumerate(segments):
        if bad := _NO_NAME.intersection(segment):
            octet = next(octet for octet in segment if octet in bad)
            position = position_in(subject.url, f"segments[{index}]", frozenset(bad))
            detail = f"byte {octet:02X} in segments[{index}] cannot be part of a file name"
            yield Decision("S12", "refuse", detail, position=position)
            return


def _judge_root(subject: Subject, segments: Sequence[bytes]) -> Iterator[Decision]:
    root = subject.policy.file_root
    if root is None:
        return
    if not is_below(segments, root):
        yield Decision("S12", "refuse", f"the file is not below {root!r}, the only allowed directory")


def is_below(segments: Sequence[bytes], root: str) -> bool:
    """Return whether the path is `root` or below it, by its segments only (path traversal).

    Symbolic links may still lead outside `root`. The code that opens the file follows the links and checks
    the path again.
    """
    top = remove_dot_segments(filter(None, os.fsencode(root).split(b"/")))
    return remove_dot_segments(filter(None, segments))[: len(top)] == top


# File names from untrusted sources (S14, path traversal). A saved file never gets the suffix of a partial
# file or a metadata file, because a later run could mistake the saved file for its own partial file.

_MAX_NAME = 200  # in bytes; common file systems allow 255, which leaves room for `.part` and a number
# The patterns are strings, which `re` compiles on first use, because most policy checks need no file name.
# `_DOUBTFUL` matches C0, DEL and C1 controls, bidi controls, bytes that are not UTF-8, and characters that
# Windows reserves.
_DOUBTFUL = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff"
    + re.escape(':*?"<>|')
    + "]"
)
#: The suffixes of the files next to a saved file: the partial file, the state file for a later run, and the
#: sidecar with the metadata of the retrieval. The state file and the sidecar are first written under a
#: temporary name with the additional suffix `.new`.
PART_SUFFIX, STATE_SUFFIX, META_SUFFIX, FIRST_SUFFIX = ".part", ".part-state", ".meta.json", ".new"
_COMPANION_SUFFIXES = (
    *(PART_SUFFIX, STATE_SUFFIX, META_SUFFIX),
    *(STATE_SUFFIX + FIRST_SUFFIX, META_SUFFIX + FIRST_SUFFIX),
)
#: The code points that a file system ignores when it compares names (Unicode's Default_Ignorable_Code_Point).
_IGNORED = (
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: The suffixes that follow the number of a duplicate (`data.2.tar.gz`). `_SUFFIX` matches a suffix for a
#: content type. A suffix must contain a letter, so `.1` in `ls.1` is not a suffix. `_WRAPPINGS` are the
#: suffixes for compression and signatures. `_WRAPPED` matches the suffix before a compression suffix.
_SUFFIX = r"\.[0-9]*[A-Za-z][A-Za-z0-9]{0,7}"
_WRAPPINGS = frozenset(
    [".Z", ".asc", ".br", ".bz2", ".gpg", ".gz", ".lz", ".lzma", ".lzo", ".sig", ".xz", ".zst"]
)
_WRAPPED = r"\.[A-Za-z][A-Za-z0-9]{0,3}"
_DEVICE = r"(?i:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?"


def local_name(component: bytes) -> str:
    """Return a safe file name for a decoded URL segment, or for a file name that a server suggests.

    The name has at most 200 bytes of UTF-8. The name contains no separators, no control characters, and no
    characters that are special on some operating system. The name does not end with the suffix of a partial
    file or a metadata file.

    Raises:
        Refused: no usable file name is left (S14).
    """
    last = component.replace(b"\\", b"/").rpartition(b"/")[2]
    if last in (b"", b".", b".."):
        raise refusal("S14", "the last part of the URL cannot be a file name", flag="-O FILE")
    name = re.sub(_DOUBTFUL, "_", last.decode("utf-8", "surrogateescape"))
    if name[0] in ".-":
        name = "_" + name[1:]
    name = _replace_end(name)
    if re.fullmatch(_DEVICE, name):
        name = "_" + name
    name = _replace_end(_truncate(name, _MAX_NAME))
    return _truncate(name, _MAX_NAME - 1) + "_" if is_companion_name(name) else name


def local_path(components: Sequence[bytes]) -> str:
    """Return a relative path of safe directory names, without empty components and `.`."""
    names = (b"__" if part == b".." else part for part in components if part not in (b"", b"."))
    return "/".join(local_name(name) for name in names)


def number_name(name: str, number: int) -> str:
    """Return the numbered file name of the second, third, … duplicate, such as `data.2.tar.gz`.

    The name of the first file has no number.
    """
    if number == 1:
        return name
    stem, suffixes = name, ""
    while match := re.search(f"(?<=.)({_WRAPPED if suffixes else _SUFFIX})$", stem):
        stem, suffixes = stem[: match.start()], match[0] + suffixes
        if match[0] not in _WRAPPINGS:
            break
    return f"{stem}.{number}{suffixes}"


def name_key(name: str) -> str:
    """Return a key that is equal for names that differ only in case or Unicode normalization.

    Some file systems are case-insensitive or normalize names, and would treat these names as one file.
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def is_companion_name(name: str) -> bool:
    """Return whether any file system could treat the name as the name of a partial or metadata file.

    Some file systems ignore case, invisible characters, the difference between look-alike characters, or a
    final period.
    """
    folded = name.casefold() if name.isascii() else _fold(name)
    return folded.rstrip(". ").endswith(_COMPANION_SUFFIXES)


def _fold(name: str) -> str:
    """Return the text in the Unicode normalization form NFKC_Casefold."""
    folded = re.sub(_IGNORED, "", unicodedata.normalize("NFKC", name).casefold())
    return unicodedata.normalize("NFKC", folded)


def is_safe_name(name: bytes) -> bool:
    """Return whether a name in a listing may become a file name below the listed directory.

    The name must not contain a path separator or a null byte (path traversal).
    """
    return name not in (b"", b".", b"..") and not re.search(rb"[/\\\0]", name)


def _replace_end(name: str) -> str:
    """Replace a period or space at the end of a name, because Windows would remove this character."""
    return name[:-1] + "_" if name[-1] in ". " else name


def _truncate(name: str, max_size: int) -> str:
    return name.encode("utf-8")[:max_size].decode("utf-8", "ignore")
