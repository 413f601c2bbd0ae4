"""Tests of the archive settings in scheme definitions."""

from __future__ import annotations

import pytest

from protocols.file import FILE
from protocols.ftp import FTP, FTPS
from protocols.gopher import GOPHER, GOPHERS
from protocols.http import HTTP, HTTPS
from protocols.news import NEWS, NNTP, NNTPS, SNEWS
from protocols.prospero import PROSPERO
from protocols.scheme import Scheme
from protocols.wais import WAIS


@pytest.mark.parametrize(
    ("rows", "kept_as", "how"),
    [
        ((HTTP, HTTPS), "exchange", None),
        ((FTP, FTPS), "data", None),
        ((GOPHER, GOPHERS), "body", None),
        ((NEWS, SNEWS, NNTP, NNTPS), "body", "answers"),
        ((WAIS,), "body", "last"),
        ((PROSPERO,), "body", "packets"),
        ((FILE,), "body", "names"),
    ],
)
def test_archive_settings_are_equal_with_tls(rows: tuple[Scheme, ...], kept_as: str, how: str | None) -> None:
    for row in rows:
        assert row.kept_as == kept_as
        assert (None if row.listing_kept is None else row.listing_kept.how) == how
    assert len({row.listing_kept for row in rows}) == 1
