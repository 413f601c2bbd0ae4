"""Lists that say more than URLs, and lists that are URLs: names, digests, sizes and places of each file."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.cli.command import resolve
from tests.cli.places import A, B


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def digest(octets: bytes) -> str:
    return hashlib.sha256(octets).hexdigest()


def metalink(path: Path, *elements: str) -> None:
    inside = "".join(elements)
    path.write_text(f'<metalink xmlns="urn:ietf:params:xml:ns:metalink">{inside}</metalink>')


@pytest.mark.parametrize("path", ["/pub/SHA256SUMS", "/elsewhere"])
def test_digests_of_names_are_asked_for_where_the_list_is_from(
    path: str, at: dict[str, str], folder: Path
) -> None:
    done = resolve("get", "--json", "-i", at["lists"] + path)
    assert files(folder) == {"a": A, "sub/b": B}
    assert [record["verified"] for record in done.records] == [["digest", "length"]] * 2
    assert done.status == 0


def test_a_list_of_ones_own_is_where_its_referrer_says(at: dict[str, str], folder: Path) -> None:
    (folder.parent / "sums").write_text(f"SHA256 (a) = {digest(A)}\n\\{digest(A)} *a\\\\b\n")
    source = str(folder.parent / "sums")
    told = resolve("get", "-i", source)
    assert (told.status, files(folder)) == (3, {})
    assert all(word in told.told for word in ("sums, line 1:", "--referrer"))
    done = resolve("get", "-q", "--json", "-i", source, "--referrer", at["lists"] + "/pub/SHA256SUMS")
    assert files(folder) == {"a": A}
    assert done.status == 3
    assert all(word in done.told for word in ("line 2:", "'a\\\\b'", "S14"))


def test_what_is_wrong_gets_no_name(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "--json", "-d", "into", "-i", at["lists"] + "/pub/WRONG")
    assert files(folder) == {"into/a": A}
    assert done.status == 1
    assert all(word in done.told for word in ("line 2:", "'../../b'", "S14"))
    errors = {record["url"].rpartition("/")[2]: record["error"] for record in done.records}
    assert errors["b"]["code"] == "ChecksumMismatch"
    assert errors["a"] is None


@pytest.mark.parametrize("fetched", [True, False])
def test_files_of_a_metalink(fetched: bool, at: dict[str, str], folder: Path) -> None:
    """Each under the name that it has there, from the place that has it."""
    source = at["lists"] + "/pub/two.meta4"
    if not fetched:
        assert resolve("get", "-q", "-O", "../two", source).status == 0
        source = "../two"
    done = resolve("get", "--json", "-t", "1", "-i", source)
    assert (done.status, files(folder)) == (0, {"kept/under/a": A, "b": B})
    first, second = sorted(done.records, key=lambda record: str(record["path"]), reverse=True)
    assert (first["path"], first["verified"]) == ("kept/under/a", ["digest", "length"])
    assert first["mirror"] == at["lists"] + "/pub/a"
    assert {finding["rule"] for finding in first["findings"]} == {"list:place", "save:mirror"}
    assert [finding["rule"] for finding in second["findings"]] == ["metalink:no-hash"]
    assert all(word in done.told for word in ("rsync://127.0.0.1/a", "S19"))


def test_one_that_is_cut_off_gives_what_is_before(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "-t", "1", "-i", at["lists"] + "/pub/cut.meta4")
    assert (done.status, files(folder)) == (3, {"kept/under/a": A})
    assert "not well-formed XML" in done.told


def test_the_directories_of_urls_are_kept_to_where_they_are_wanted(at: dict[str, str], folder: Path) -> None:
    resolve("get", "-q", "-t", "1", "--cut-dirs", "0", "-i", at["lists"] + "/pub/two.meta4")
    assert set(files(folder)) == {"a", "pub/sub/b"}  # the first place of `a` is in no directory


@pytest.mark.parametrize(
    ("element", "code"),
    [
        (f"<size>{len(A) + 1}</size>", "ChecksumMismatch"),
        (f'<hash type="sha-256">{digest(B)}</hash>', "ChecksumMismatch"),
        (f'<hash type="md5">{"0" * 32}</hash><hash type="sha-256">{digest(A)}</hash>', None),
    ],
)
@pytest.mark.parametrize("verb", ["get", "cat"])
def test_what_a_metalink_says_is_held_to(
    verb: str, element: str, code: str | None, at: dict[str, str], folder: Path
) -> None:
    metalink(folder.parent / "a.meta4", f"<file name='x'>{element}<url>{at['lists']}/pub/a</url></file>")
    done = resolve(verb, "-q", "--json", "-i", "../a.meta4")
    (record,) = done.records if verb == "get" else map(json.loads, done.err.splitlines())
    assert (record["error"] and record["error"]["code"]) == code
    assert done.status == (0 if code is None else 10)
    assert files(folder) == ({"x": A} if verb == "get" and code is None else {})


def test_nobody_who_wrote_a_list_says_who_chose_it(at: dict[str, str], folder: Path) -> None:
    """What came from elsewhere is derived, and so no file of this machine."""
    done = resolve("get", "-q", "-i", at["lists"] + "/pub/list")
    assert (done.status, files(folder)) == (15, {"a": A})
    assert "file:///etc/passwd: S10: " in done.told


def test_a_list_that_cannot_be_had_keeps_no_other_from_being_read(at: dict[str, str], folder: Path) -> None:
    (folder.parent / "list").write_text(at["lists"] + "/pub/a\n")
    done = resolve("get", "-q", "-i", at["lists"] + "/gone", "-i", "../list")
    assert (done.status, files(folder)) == (8, {"a": A})
    assert f"{at['lists']}/gone: " in done.told
    assert resolve("get", "-i", at["ftp"] + "/pub/").status == 3


def test_a_list_is_read_piece_by_piece(at: dict[str, str], folder: Path) -> None:
    """Wherever the pieces end, and an empty one is no mistake."""
    done = resolve("get", "-q", "-i", at["lists"] + "/pub/long", "-i", at["lists"] + "/pub/empty")
    assert (done.status, files(folder), done.told) == (0, {"a": A, "sub/b": B}, "")


def test_who_fetches_nothing_fetches_no_list(at: dict[str, str], folder: Path) -> None:
    done = resolve("explain", "-i", at["lists"] + "/pub/list")
    assert (done.status, done.out) == (3, b"")
    assert "/pub/list: explain " in done.told


def test_what_is_left_is_known_to_the_next_run(at: dict[str, str], folder: Path) -> None:
    """Its name, its size, its digest, its places."""
    element = f'<size>{len(A)}</size><hash type="sha-256">{digest(A)}</hash>'
    places = f"<url>{at['closed']}/a</url><url>{at['closed']}/b</url>"
    metalink(folder / "list", f"<file name='sub/x'>{element}{places}</file>")
    done = resolve("get", "-qq", "-t", "1", "--retry-delay", "0.01", "--failed", "left", "-i", "list")
    assert done.status == 4
    (record,) = map(json.loads, (folder / "left").read_text().splitlines())
    assert record["url"] == f"{at['closed']}/a"
    assert record["listed"] == {
        "name": "sub/x",
        "mirrors": [f"{at['closed']}/b"],
        "checksum": f"sha256:{digest(A)}",
        "size": len(A),
    }
    record["listed"]["mirrors"] = [at["lists"] + "/pub/sub/b", at["lists"] + "/pub/a"]
    (folder / "left").write_text(json.dumps(record) + "\n")
    done = resolve("get", "-q", "--json", "-t", "1", "--retry-delay", "0.01", "-i", "left")
    assert (done.records[0]["path"], done.records[0]["mirror"]) == ("sub/x", at["lists"] + "/pub/a")
    assert (folder / "sub/x").read_bytes() == A


@pytest.mark.parametrize(
    "listed",
    [
        *(7, {}, {"name": "../x", "mirrors": [], "checksum": None, "size": None}),
        {"name": None, "mirrors": [7], "checksum": None, "size": None},
        {"name": None, "mirrors": [], "checksum": "sha256:x", "size": None},
    ],
)
def test_what_an_edited_one_cannot_say(listed: object, folder: Path) -> None:
    (folder / "list").write_text(json.dumps({"url": "file:///none", "listed": listed}) + "\n")
    done = resolve("get", "-i", "list")
    assert done.status == 3
    assert "list, line 1: " in done.told
    assert os.listdir(folder) == ["list"]
