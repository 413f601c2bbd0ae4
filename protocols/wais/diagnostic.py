"""Diagnostics: how a server says no, in a format of their own (wais page, section 8).

A diagnostic has a code of two characters, and words that are the server's own. Codes are those of
Z39.50-1988; the table says them in words where the server has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocols.errors import AccessDenied, Declined, NotFound, ProtocolError, TryLater
from protocols.values import NamedTuple
from protocols.wais.text import display_text

TAG = 28
#: Tag and length, then code, text and surrogate flag, then the end of the record.
_FRAME = 4
_SHORTEST = 3
_END = b"\x1d"

OUT_OF_RANGE = "SF"

_MEANINGS: dict[str, str] = {
    "S1": "permanent system error",
    "S2": "temporary system error",
    "S3": "unsupported search",
    "S5": "only stop words",
    "S6": "too many words",
    "S7": "too many operators",
    "S8": "too many truncated words",
    "S9": "too many incomplete subfields",
    "SA": "truncated word too short",
    "SB": "bad record number",
    "SC": "search too long",
    "SD": "too many records",
    "SF": "request out of range",
    "SG": "system error in presenting records",
    "SH": "record not authorised",
    "SI": "record exceeds the preferred message size",
    "SJ": "record exceeds the maximum record size",
    "SK": "result set cannot be a search term",
    "SL": "only one result set",
    "SM": "only AND of result sets",
    "SN": "result set exists",
    "SO": "no named result sets",
    "SP": "databases cannot be combined",
    "SQ": "no element set names",
    "SR": "element set name invalid",
    "SS": "only one element set name",
    "ST": "result set deleted",
    "SU": "result set in use",
    "SV": "database locked",
    "SW": "ended, cannot be continued",
    "SX": "no such result set",
    "SY": "no results",
    "SZ": "unpredictable results",
    "T1": "valid subset",
    "T2": "access control failure",
    "T3": "security",
    "T4": "security",
}

_ERRORS: dict[str, type[Declined]] = {"T2": AccessDenied, "S2": TryLater}


class Diagnostic(NamedTuple):
    """`text` are the server's words, for a person; `surrogate`: it stands in place of a record."""

    code: str
    text: str
    surrogate: bool = False

    @property
    def is_out_of_range(self) -> bool:
        """Does it say that a range was asked for which is not (all) there? Also said of what is missing."""
        return self.code == OUT_OF_RANGE

    @property
    def reports_the_end(self) -> bool:
        """Does it say so in words, and not of a document that is missing?"""
        return self.is_out_of_range and "out of range" in self.text.lower()


def take_diagnostic(group: bytes, at: int) -> tuple[Diagnostic, int]:
    """The diagnostic whose tag stands at index `at`, and the index behind it.

    Its length is a plain number of two octets and does not count the last octet. Raises `ProtocolError`.
    """
    length = int.from_bytes(group[at + 1 : at + 3], "big")
    end = at + length + _FRAME
    if length < _SHORTEST or end > len(group) or group[end - 1 : end] != _END:
        raise ProtocolError(f"a diagnostic of {length} octets that does not end as one")
    code, text, flag = group[at + 3 : at + 5], group[at + 5 : end - 2], group[end - 2]
    return Diagnostic(display_text(code), display_text(text).strip(), flag != 0), end


def refusal(diagnostics: Sequence[Diagnostic], doing: str) -> Declined:
    """The error for what a server declined, `doing` in words: of several diagnostics, the first that is
    not `SF`, which servers add to others."""
    reporting = next((each for each in diagnostics if not each.is_out_of_range), diagnostics[0])
    kind = _ERRORS.get(reporting.code, Declined)
    return kind(f"{doing}: {_shown(reporting)}", code=reporting.code, text=reporting.text)


def missing(diagnostic: Diagnostic, doing: str) -> NotFound:
    """The error for an `SF` where nothing of a document came and nothing says that it is empty."""
    said = _shown(diagnostic)
    return NotFound(f"{doing}: no such document: {said}", code=diagnostic.code, text=diagnostic.text)


def _shown(diagnostic: Diagnostic) -> str:
    meaning = _MEANINGS.get(diagnostic.code, "unknown code")
    return f"the server declined with {diagnostic.code} ({meaning}): {diagnostic.text!r}"
