"""S12: file URLs, as far as the URL tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver import Policy, Refused, check
from resolver.policy.files import is_below
from tests.resolver.policy.rows import CAUTIOUS, DEFAULT, MENU, PAGE, UNTRUSTED, Row

ROOTED = Policy(file_root="/srv/data")
ROOTED_UNTRUSTED = Policy(name="untrusted", file_root="/srv/data")
PARENT = ("file:///srv/data/", None)


@pytest.mark.parametrize(
    "row",
    [
        Row("file:///etc/motd", "allow", (), CAUTIOUS),
        Row("file://localhost/etc/motd", "allow"),
        Row("file://LOCALHOST/etc/motd", "allow"),
        Row("file:/etc/motd", "allow"),
        Row("file://localhost", "allow"),
        Row("file://h.example/etc/motd", "refuse", ("S12",)),
        Row("file://127.0.0.1/etc/motd", "allow"),
        Row("file://[::1]/etc/motd", "allow"),
        Row("file://127.0.0.2/etc/motd", "refuse", ("S12",)),
        Row("file://[::ffff:127.0.0.1]/etc/motd", "refuse", ("S12",)),
        Row("file://x.localhost/etc/motd", "refuse", ("S12",)),
        Row("file://localhost./etc/motd", "refuse", ("S12",)),
        Row("file:///a%00b", "refuse", ("S12",)),
        Row("file:///a%2Fb", "refuse", ("S12",)),
        Row("file:///..%2f..%2fetc/passwd", "refuse", ("S12",)),
        Row("file:///a%0Ab", "allow"),
        Row("file:///etc/motd", "refuse", ("S12",), origin="chosen", referrer=PAGE),
        Row("file:///etc/motd", "refuse", ("S12",), origin="chosen"),
        Row("file:///etc/motd", "refuse", ("S20", "S12"), origin="chosen", referrer=MENU),
        Row("file:///srv/data/x", "allow", origin="chosen", referrer=PARENT),
        Row("file:///etc/motd", "refuse", ("S12",), UNTRUSTED),
        Row("file:///srv/data/x", "allow", (), ROOTED_UNTRUSTED),
        Row("file:///etc/motd", "refuse", ("S12",), ROOTED_UNTRUSTED),
        Row("file:///srv/data/x", "refuse", ("S12",), ROOTED, "chosen", PAGE),
        # With a root: it narrows, and the path in the URL stays what it is.
        Row("file:///srv/data", "allow", (), ROOTED),
        Row("file:///srv/data/", "allow", (), ROOTED),
        Row("file:///srv//./data/a/b", "allow", (), ROOTED),
        Row("file:///srv/data/a/../b", "allow", (), ROOTED),
        Row("file:///etc/../srv/data/b", "allow", (), ROOTED),
        Row("file:///srv/data/%2e%2e/%2e%2e/etc/passwd", "refuse", ("S12",), ROOTED),
        Row("file:///srv/data/..", "refuse", ("S12",), ROOTED),
        Row("file:///srv/database/x", "refuse", ("S12",), ROOTED),
        Row("file:///x", "refuse", ("S12",), ROOTED),
        Row("file:///../../srv/data/x", "allow", (), ROOTED),
        Row("file:///anything", "allow", (), Policy(name="untrusted", file_root="/")),
        Row("file:///dev/null", "allow"),  # what it is, only the disk can tell
    ],
    ids=str,
)
def test_table(row: Row) -> None:
    row.hold()


def test_refusals_point_and_name_the_flag() -> None:
    separator = check("file:///a/b%2Fc").error()
    assert isinstance(separator, Refused)
    assert (separator.rule, separator.flag, separator.position) == ("S12", None, 11)
    forbidden = check("file:///x", policy=UNTRUSTED).error()
    assert isinstance(forbidden, Refused)
    assert (forbidden.rule, forbidden.flag) == ("S12", "--file-root DIR")
    assert "--file-root" in str(forbidden)


def test_special_files_are_no_matter_of_the_url() -> None:
    for policy in (DEFAULT, Policy(allow_special=True)):
        assert check("file://h.example/x", policy=policy).rules == ("S12",)


def test_root_given_relative_counts_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = Policy(file_root="data")
    assert policy.file_root == str(tmp_path / "data")
    assert check(f"{tmp_path.as_uri()}/data/x", policy=policy).action == "allow"


@pytest.mark.parametrize(
    ("path", "root", "below"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/ab", "/a", False),
        ("/a/..", "/a", False),
        ("/", "/", True),
    ],
)
def test_is_below(path: str, root: str, below: bool) -> None:
    assert is_below(os.fsencode(path).split(b"/"), root) is below
