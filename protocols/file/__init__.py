"""file: RFC 1738 3.10, RFC 8089, for files of this machine only."""

from __future__ import annotations

from protocols.file.url import FileUrl, as_directory, build, list_names, parse, with_name
from protocols.scheme import KeptListing, Scheme, Tree

__all__ = ["FILE", "FileUrl"]


FILE = Scheme(
    name="file",
    names="data object or directory",
    default_port=None,
    parse=parse,
    build=build,
    transport=None,
    resumes=True,
    stops=True,
    listing_kept=KeptListing("names", "application/x-file-listing+jsonl"),
    named_by=("segments",),
    listed=True,
    beside=with_name,
    tree=Tree(list_names, as_directory),
    converse="protocols.file.dialogue:read_file",
)
