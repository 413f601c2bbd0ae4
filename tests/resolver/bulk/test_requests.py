"""Where a request goes: one place for one URL, whatever else there is."""

from __future__ import annotations

import pickle

import pytest

import resolver
from resolver import SaveRequest
from resolver.bulk.plan import placed, request_of
from resolver.transfer.verification import Checksum

SHA1 = "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"


@pytest.mark.parametrize(
    ("url", "host", "scheme", "name"),
    [
        ("http://h.example/a/b.txt", "h.example", "http", "-b.txt"),
        ("ftp://H.example:2121/pub/", "h.example", "ftp", "-index"),
        ("gopher://h.example/00/x%2Fy", "h.example", "gopher", ""),
        ("file:///etc/hostname", "", "file", "-hostname"),
        ("news:a@h.example", "news:", "news", "-a@h.example"),
        ("no URL", "", "", ""),
    ],
)
def test_a_place_is_of_the_host_and_the_url(url: str, host: str, scheme: str, name: str) -> None:
    found = placed(url)
    assert (found.host, found.scheme) == (host, scheme)
    directory, part, last = found.item.path.split("/")
    assert directory == (host.removesuffix(":") or "local")
    assert last.startswith(part)
    assert last.endswith(name)
    assert placed(url) == found


def test_a_place_says_nothing_of_a_password() -> None:
    one, other = placed("ftp://me:secret@h.example/a"), placed("ftp://me:other@h.example/a")
    assert one.item.path == other.item.path
    assert one.item.url == "ftp://me:secret@h.example/a"


def test_long_names_and_names_that_are_no_text_are_left_away() -> None:
    for url in (f"http://h.example/{'x' * 200}", "http://h.example/."):
        assert len(placed(url).item.path.rpartition("/")[2]) == 20


def test_what_was_asked_for_arrives_as_it_was() -> None:
    given = SaveRequest(
        "http://h.example/a",
        "mine/a",
        mirrors=("http://m.example/a",),
        checksum=Checksum.parse(SHA1),
        size=0,
        origin="derived",
        referrer=("http://r.example/", None),
    )
    item = pickle.loads(pickle.dumps(placed(given).item))
    assert request_of(item) == SaveRequest(
        "http://h.example/a",
        "mine/a",
        mirrors=("http://m.example/a",),
        checksum=SHA1,
        size=0,
        origin="derived",
        referrer=("http://r.example/", None),
    )
    assert request_of(placed(resolver.parse("http://h.example/a")).item).url == "http://h.example/a"
