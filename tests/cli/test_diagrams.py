"""`--trace-html FILE` and `explain --html`: what was said, and what would be, as a page that stands alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lxml import etree, html

from tests.cli import contract
from tests.cli.command import resolve

PAGE = "page.html"


def page_in(folder: Path) -> html.HtmlElement:
    return html.fromstring((folder / PAGE).read_bytes())


def sections(folder: Path) -> dict[str, list[str]]:
    """By URL: what stands in each of its diagrams, in one text."""
    return {
        section.xpath("string(h2)"): [
            " ".join(" ".join(each.xpath(".//text()")).split()) for each in section.xpath(".//figure")
        ]
        for section in page_in(folder).xpath("//section")
    }


def test_every_scheme_has_its_dialogue_and_its_plan(at: dict[str, str], folder: Path) -> None:
    urls = [*contract.DOCUMENTS, "{wais}/demo?ferry", "{nntp}/comp.misc/1235", "{telnet_login}/"]
    given = [url.format_map(at) for url in urls]
    done = resolve("cat", "-q", "--trace-html", PAGE, *given)
    assert done.status == 0
    found = sections(folder)
    assert list(found) == given
    for said, planned in found.values():
        assert said.startswith("What was said")
        assert "done" in said
        assert planned.startswith("What would be said")
    text = found["{ftp}/pub/a.txt".format_map(at)][0]
    for words in ("220 ", "USER anonymous", "PASS ****", "RETR a.txt", "150 ", "29 octets", "226 "):
        assert words in text
    assert "A text of two lines." in found["{gopher}/00/about".format_map(at)][0]
    assert "HTTP/1.1 200 OK" in found["{http}/about.txt".format_map(at)][0]


@pytest.mark.parametrize("verb", ["get", "cat", "ls", "info"])
def test_every_verb_that_fetches_takes_it(verb: str, at: dict[str, str], folder: Path) -> None:
    done = resolve(verb, "-q", "--trace-html", PAGE, f"{at['ftp']}/pub/{'' if verb == 'ls' else 'a.txt'}")
    assert done.status == 0
    assert "230 " in (folder / PAGE).read_text()


def test_what_fails_is_what_a_teacher_wants_to_show(at: dict[str, str], folder: Path) -> None:
    done = resolve(
        "cat", "-q", "--trace-html", PAGE, f"{at['ftp']}/nothing", f"{at['ftp_later']}/", "-t", "1"
    )
    assert done.status == 8
    missing, later = sections(folder).values()
    assert "550" in missing[0]
    assert "NotFound" in missing[0]
    assert "421 not now" in later[0]


def test_what_is_refused_is_shown_too(folder: Path) -> None:
    done = resolve("cat", "-q", "--trace-html", PAGE, "http://127.0.0.1:25/")
    assert done.status == 9
    ((said, planned),) = sections(folder).values()
    assert "Refused" in said
    assert "verdict: refuse" in planned


def test_no_secret_is_in_it(at: dict[str, str], folder: Path) -> None:
    (folder / "password").write_text("hunter2\n")
    url = at["http"].replace("://", "://user:s3cret@") + "/private?token=t0ken"
    options = [
        "--user",
        "alice",
        "--password-file",
        "password",
        "-H",
        "Cookie: id=c00kie",
        "--allow-password",
    ]
    resolve("cat", "-q", "--trace-html", PAGE, *options, f"{at['http']}/private", f"{at['ftp']}/pub/a.txt")
    first = (folder / PAGE).read_text()
    resolve("cat", "-q", "--trace-html", PAGE, url)
    for secret in ("hunter2", "c00kie", "s3cret", "t0ken", "dXNlcj", "YWxpY2U"):
        assert secret not in first + (folder / PAGE).read_text()
    assert "Authorization: ****" in first
    assert "Cookie: ****" in first


def test_whatever_a_peer_says_is_text(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at[name]}/" for name in ("gopher_menu", "ftp_garbage", "gopher_odd", "login")]
    urls += [f"{at['nntp_escape']}/a.b", f"{at['wais_garbage']}/db"]
    resolve("cat", "-q", "-t", "1", "--trace-html", PAGE, *urls)
    markup = (folder / PAGE).read_text()
    assert "\x1b" not in markup
    assert len(sections(folder)) == len(urls)
    for drawn in page_in(folder).xpath("//*[local-name()='svg']"):
        etree.fromstring(etree.tostring(drawn))


def test_the_page_takes_the_place_of_the_one_before_and_is_never_half_there(
    at: dict[str, str], folder: Path
) -> None:
    (folder / PAGE).write_text("before")
    done = resolve("cat", "-q", "--trace-html", "gone/page.html", f"{at['http']}/about.txt")
    assert (done.status, done.out) == (3, b"")  # before anything was asked for
    assert "there is no directory" in done.told
    assert resolve("cat", "-q", "--trace-html", PAGE, f"{at['http']}/about.txt").status == 0
    assert (folder / PAGE).read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in folder.iterdir()) == [PAGE]


def test_a_redirect_and_what_is_saved_in_bulk_are_counted(at: dict[str, str], folder: Path) -> None:
    done = resolve(
        "get", "-q", "-d", "d", "--trace-html", PAGE, f"{at['http']}/moved", f"{at['ftp']}/pub/large.bin"
    )
    assert done.status == 0
    size = (folder / "d" / "large.bin").stat().st_size
    moved, large = sections(folder).values()
    assert f"goes on to {at['http']}/about.txt" in moved[0]
    assert f"{size:,} octets" in large[0]


def test_a_plan_is_drawn(folder: Path) -> None:
    done = resolve("explain", "--html", "ftp://h.example/a", "gopher://h:25/1x%0D%0A")
    assert done.status == 9
    found = html.fromstring(done.out)
    assert found.xpath("//h2//text()") == ["ftp://h.example/a", "gopher://h:25/1x%0D%0A"]
    assert found.xpath("count(//figure)") == 2
    done = resolve("explain", "--html", "-O", PAGE, "ftp://h.example/a")
    assert (done.status, done.out) == (0, b"")
    assert "RETR a" in sections(folder)["ftp://h.example/a"][0]
    assert "verdict: allow" in sections(folder)["ftp://h.example/a"][0]


def test_a_page_is_no_list_of_objects(folder: Path) -> None:
    done = resolve("explain", "--html", "--json", "ftp://h.example/a")
    assert done.status == 2
    assert "--html" in done.told


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("resolver.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for argv in (
        ["explain", "--html", "ftp://h.example/a"],
        ["cat", "--trace-html", PAGE, "ftp://h.example/a"],
    ):
        done = resolve(*argv)
        assert (done.status, done.out) == (2, b"")
        assert done.told.endswith(" needs jinja2 3.1.2 or later (the extra web): pip install jinja2\n")
    assert list(folder.iterdir()) == []


def test_what_needs_no_page_brings_none(folder: Path) -> None:
    """A plan as text starts as fast as it did."""
    from tests.fresh import run_alone

    told = run_alone(
        "import sys; from resolver.cli import main; main(['explain', '--config', 'none', 'gopher://h.example/']);"
        "print(sorted(name for name in sys.modules if name.startswith(('jinja2', 'resolver.web'))))"
    )
    assert told.splitlines()[-1] == "[]"
