"""One file of a list: where it is, and what is known of it before it is asked for."""

from __future__ import annotations

from protocols.location import Finding
from protocols.values import dataclass
from resolver.retrieval.checksum import Checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """`urls` are the places that have it, the first one first; `name` is a path below the directory for
    files, safe in each part. What the list does not say is None."""

    urls: tuple[str, ...]
    name: str | None = None
    size: int | None = None
    checksum: Checksum | None = None
    findings: tuple[Finding, ...] = ()


class BadItem(ValueError):
    """One file of a list cannot be had by what the list says of it. The message says why."""
