"""Parsers without I/O for Metalink 4 and checksum files: lists of names, sizes, digests and mirrors.

Each parser returns a `ListedFile` for each file of the list. For an invalid file, the parser returns an error
instead, and continues with the next file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias
from xml.parsers import expat

from protocols.errors import Refused
from protocols.location import Finding
from resolver.policy.files import is_safe_name, local_path
from resolver.transfer.verification import Checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file in a list.

    Attributes:
        urls: The mirrors of the file, in order of preference.
        name: The sanitized path of the file below the output directory, or None.
        size: The size in bytes, or None.
        checksum: The digest with the preferred algorithm, or None.
        findings: The findings about this file.
    """

    urls: tuple[str, ...]
    name: str | None = None
    size: int | None = None
    checksum: Checksum | None = None
    findings: tuple[Finding, ...] = ()


class BadItem(ValueError):
    """The error for an invalid file in a list. The message contains the reason."""


# File names in lists are untrusted. A name is converted to a path below the output directory (S14, path
# traversal).

#: The maximum length of a file name in a list, in bytes: the maximum length of a path on common operating
#: systems.
_LONGEST = 4_096


def split_name(name: str) -> list[bytes]:
    """Return the path components of a name, without leading `./`. Raises `BadItem`."""
    octets = name.encode("utf-8", "surrogateescape")
    if len(octets) > _LONGEST:
        raise BadItem(f"the name is too long: expected at most {_LONGEST} bytes")
    while octets.startswith(b"./"):
        octets = octets[2:]
    parts = octets.split(b"/")
    if not all(map(is_safe_name, parts)):
        raise BadItem(f"{name!r} is not a file name below the directory (S14)")
    return parts


def safe_path(parts: list[bytes]) -> str:
    """Return the local path with each component sanitized. Raises `BadItem`."""
    try:
        return local_path(parts)
    except Refused as error:
        raise BadItem(error.message) from error


# Checksum files, in the formats of `sha256sum` and similar tools, and of the BSD tools.
#
#     HEX  name    HEX *name    HEX name    SHA256 (name) = HEX    SHA256(name)= HEX
#
# A backslash at the start of the line means that the name contains escape sequences: `\\`, `\n`, `\r`. If the
# line does not name an algorithm, the length of the digest determines the algorithm: MD5, SHA-1 or SHA-2.

#: Matches a line in the format of `sha256sum`. A URL never matches, because a URL cannot contain a space.
_PLAIN = re.compile(r"(\\?)([0-9A-Fa-f]{32,128})[ \t][ *]?(.+)", re.DOTALL)
_TAGGED = re.compile(r"(\\?)([A-Z][A-Za-z0-9/-]{1,15}) ?\((.+)\) ?= ?([0-9A-Fa-f]{32,128})", re.DOTALL)
_ALGORITHMS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}
_ESCAPE = re.compile(r"\\.?", re.DOTALL)


class ListedDigest(NamedTuple):
    """A file name and its digest from a checksum file."""

    name: str
    checksum: Checksum


def parse_sum(line: str) -> ListedDigest | None:
    """Parse one line of a checksum file, without the line end; return None for another format.

    Raises:
        BadItem: The algorithm or an escape sequence is unknown.
    """
    if (tagged := _TAGGED.fullmatch(line)) is not None:
        escaped, algorithm, name, digest = tagged.groups()
    elif (plain := _PLAIN.fullmatch(line)) is not None:
        escaped, digest, name = plain.groups()
        algorithm = _ALGORITHMS.get(len(digest), f"{len(digest)} digits")
    else:
        return None
    try:
        checksum = Checksum.parse(f"{algorithm}:{digest}")
    except ValueError as error:
        raise BadItem(f"unknown digest algorithm {algorithm}") from error
    return ListedDigest(_unescape_name(name) if escaped else name, checksum)


def _unescape_name(name: str) -> str:
    def meaning(escape: re.Match[str]) -> str:
        if escape[0] not in _ESCAPES:
            raise BadItem(f"the name {name!r} has the unknown escape {escape[0]!r}")
        return _ESCAPES[escape[0]]

    return _ESCAPE.sub(meaning, name)


# Metalink 4 (RFC 5854): files with mirrors, sizes and digests, parsed incrementally.
#
# Protection against malicious XML (XXE, billion laughs): a document type (DTD) is an error. So entities
# cannot be defined, and external resources are not read. To limit memory, the parser stores only one file at
# a time, and the number of mirrors, the nesting depth and the length of a text are limited.
#
# Unknown elements and elements of other namespaces are skipped, including their content (RFC 5854 section 3).
# The elements `pieces` and `signature` are skipped too. The attribute `location` is ignored, because the
# client does not know its own geographical location.

_NAMESPACE = "urn:ietf:params:xml:ns:metalink"
_OLD_NAMESPACE = "http://www.metalinker.org/"

#: Matches the start of an XML file. A URL never matches, even in angle brackets.
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml\s|!--|(?:[A-Za-z_][\w.-]{0,63}:)?metalink[\s>/])")

_MAX_DEPTH = 32  # Maximum nesting depth of elements. A Metalink file has five levels.
_MAX_TEXT = 65_536  # Maximum number of characters in a text, which equals the maximum of a URL.
_MAX_URLS = 1_000  # Maximum number of URLs (mirrors) of one file.
#: Maximum size in bytes of one tag, comment or text, which the parser must buffer completely.
_MAX_BUFFERED = 1_048_576
#: Maximum number of bytes per call of the parser. Before 2.6, expat rescanned its complete buffer in each
#: call, which takes quadratic time (CVE-2023-52425). So each call passes at least as many bytes as the parser
#: has already buffered, but not more than this maximum.
_MAX_PARSED = 65_536
_MAX_UNKNOWN = 8  # Maximum number of unknown digest types that a finding lists.
_LAST_PRIORITY = 1_000_000  # The default priority of a URL, after all others (RFC 5854 section 4.2.16).

#: The supported digest algorithms by IANA name, in order of preference.
_ALGORITHM_BY_HASH_TYPE = {
    "sha-256": "sha256",
    "sha-512": "sha512",
    "sha-384": "sha384",
    "sha-224": "sha224",
    "sha-1": "sha1",
    "md5": "md5",
}

Item: TypeAlias = "ListedFile | BadItem"


class BrokenList(ValueError):
    """The error for a list that cannot be parsed further. The message contains the reason and the line."""


def is_metalink(beginning: bytes) -> bool:
    """Return whether a list that begins with these bytes is XML."""
    return _XML.match(beginning) is not None


class MetalinkReader:
    """An incremental parser of Metalink 4, which yields each file as soon as it is complete."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = False
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.DefaultHandler = self._other
        self._buffered = 0
        self._pending = bytearray()
        self._elements: list[str] = []
        self._file: _MetalinkFile | None = None
        self._attributes: Mapping[str, str] = {}
        self._words: list[str] = []
        self._length = 0
        self._complete: list[Item] = []

    def feed(self, octets: bytes) -> Iterator[Item]:
        """Parse more bytes and yield the complete files.

        Raises:
            BrokenList: The XML is invalid. The files before the error are yielded first.
        """
        view = memoryview(octets)
        for start in range(0, len(view), _MAX_PARSED):
            self._pending += view[start : start + _MAX_PARSED]
            if len(self._pending) >= min(self._buffered, _MAX_PARSED):
                yield from self._parse(last=False)

    def finish(self) -> Iterator[Item]:
        """Parse the remaining bytes, and yield the last files. Raises `BrokenList` for a truncated list."""
        yield from self._parse(last=True)

    def _parse(self, *, last: bool) -> Iterator[Item]:
        broken: BrokenList | None = None
        octets, self._pending = bytes(self._pending), bytearray()
        self._buffered += len(octets)
        try:
            self._parser.Parse(octets, last)
            if self._buffered > _MAX_BUFFERED:
                self._fail(f"a tag, comment or text is longer than {_MAX_BUFFERED} bytes")
        except BrokenList as error:
            broken = error
        # An unknown or invalid encoding raises LookupError or ValueError.
        except (expat.ExpatError, LookupError, ValueError) as error:
            broken = BrokenList(f"not well-formed XML: {error}")
        complete, self._complete = self._complete, []
        yield from complete
        if broken is not None:
            raise broken

    def _fail(self, reason: str) -> NoReturn:
        raise BrokenList(f"line {self._parser.CurrentLineNumber}: {reason}")

    def _doctype(self, *_: object) -> NoReturn:
        self._fail("a Metalink must not have a document type")

    def _other(self, _: str) -> None:
        self._buffered = 0

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._buffered = 0
        if not self._elements and name != f"{_NAMESPACE} metalink":
            old = f"{_OLD_NAMESPACE} metalink"
            self._fail("expected Metalink 4 (RFC 5854), got Metalink 3" if name == old else "not a Metalink")
        if len(self._elements) == _MAX_DEPTH:
            self._fail(f"more than {_MAX_DEPTH} nested elements")
        space, _, plain = name.rpartition(" ")
        self._elements.append(plain if space == _NAMESPACE else "")
        if self._elements == ["metalink", "file"]:
            self._file = _MetalinkFile(attributes.get("name"))
        if len(self._elements) == 3:
            self._attributes = attributes
            self._words.clear()
            self._length = 0

    def _text(self, text: str) -> None:
        self._buffered = 0
        if len(self._elements) != 3 or self._elements[2] not in _MetalinkFile.TEXTS:
            return
        self._length += len(text)
        if self._length > _MAX_TEXT:
            self._fail(f"a text is longer than {_MAX_TEXT} characters")
        self._words.append(text)

    def _end(self, _: str) -> None:
        self._buffered = 0
        elements, self._elements = self._elements, self._elements[:-1]
        if self._file is None or elements[:2] != ["metalink", "file"]:
            return
        if len(elements) == 2:
            self._complete.append(self._file.make_item())
            self._file = None
        elif len(elements) == 3:
            # Pretty-printed Metalinks have white space around the texts. wget ignores this white space, too.
            self._file.add(elements[2], self._attributes, "".join(self._words).strip())
            self._words.clear()


class _MetalinkFile:
    """A `file` element while it is parsed.

    The first error is stored, and is returned instead of the file at the end of the element.
    """

    TEXTS = ("hash", "size", "url", "metaurl")

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._size: int | None = None
        self._places: list[tuple[int, str]] = []
        self._digests: dict[str, Checksum] = {}
        self._unknown: list[str] = []
        self._metaurls = 0
        self._error: BadItem | None = None

    def add(self, element: str, attributes: Mapping[str, str], text: str) -> None:
        """Process a complete child element."""
        try:
            match element:
                case "url":
                    self._add_place(attributes.get("priority"), text)
                case "hash":
                    self._add_digest(attributes.get("type"), text)
                case "size":
                    self._set_size(text)
                case "metaurl":
                    self._metaurls += 1
        except BadItem as error:
            self._error = self._error or error

    def _add_place(self, priority: str | None, url: str) -> None:
        if len(self._places) == _MAX_URLS:
            raise BadItem(f"more than {_MAX_URLS} URLs")
        self._places.append((_LAST_PRIORITY if priority is None else _number(priority, "priority"), url))

    def _add_digest(self, kind: str | None, digest: str) -> None:
        algorithm = _ALGORITHM_BY_HASH_TYPE.get((kind or "").lower())
        if algorithm is None:
            self._unknown += [(kind or "none")[:64]] if len(self._unknown) < _MAX_UNKNOWN else []
            return
        try:
            checksum = Checksum.parse(f"{algorithm}:{digest}")
        except ValueError as error:
            raise BadItem(f"invalid hash: {error}") from error
        if self._digests.setdefault(algorithm, checksum) != checksum:
            raise BadItem(f"two different hashes of {kind}")

    def _set_size(self, text: str) -> None:
        size = _number(text, "size")
        if self._size not in (None, size):
            raise BadItem("two different sizes")
        self._size = size

    def make_item(self) -> Item:
        """Return the parsed file, or the error of the file with its name."""
        name = "a file without a name" if self._name is None else repr(self._name[:200])
        try:
            return self._make_file()
        except BadItem as error:
            return BadItem(f"{name}: {error}")

    def _make_file(self) -> ListedFile:
        if self._error is not None:
            raise self._error
        if self._name is None:
            raise BadItem("the attribute name is missing (RFC 5854)")
        if not self._places:
            raise BadItem("the url is missing" + (" (a metaurl is not followed)" if self._metaurls else ""))
        digests = (self._digests[kind] for kind in _ALGORITHM_BY_HASH_TYPE.values() if kind in self._digests)
        return ListedFile(
            urls=tuple(dict.fromkeys(url for _, url in sorted(self._places, key=lambda item: item[0]))),
            name=safe_path(split_name(self._name)),
            size=self._size,
            checksum=next(digests, None),
            findings=tuple(self._findings()),
        )

    def _findings(self) -> Iterator[Finding]:
        if self._metaurls:
            detail = f"{self._metaurls} metaurl (a torrent or the like) not followed"
            yield Finding("metalink:metaurl", "allow", detail)
        if not self._digests:
            kinds = f" (unknown: {', '.join(self._unknown)})" if self._unknown else ""
            yield Finding("metalink:no-hash", "warn", f"the Metalink has no hash to compare{kinds}")


def _number(text: str, name: str) -> int:
    """Parse a number of at most 18 digits, which is sufficient for all file sizes."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadItem(f"the {name} is not a number: {text[:64]!r}")
    return int(text)
