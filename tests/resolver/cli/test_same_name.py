"""URLs of one run whose files would have the same name: each file gets a separate name (S14)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver.cli.arguments import read
from resolver.cli.options import EXISTS
from resolver.cli.targets import TargetNaming, targets
from tests.resolver.cli.command import Done, resolve

OLD = b"there before"


def create_files(folder: Path, count: int) -> list[str]:
    """Create `count` files `n` in separate directories, and return their URLs.

    Each file has a different content and is later than OLD.
    """
    urls = []
    for number in range(count):
        place = folder.parent / f"{folder.name}-{number}"
        place.mkdir()
        (place / "n").write_bytes(b"of %d" % number)
        os.utime(place / "n", (2e9, 2e9))
        urls.append((place / "n").as_uri())
    return urls


def paths(done: Done) -> dict[str, str | None]:
    """Return the path of each URL's file."""
    return {record["url"]: record["path"] for record in done.records}


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("jobs", ["1", "8"])
@pytest.mark.parametrize("exists", EXISTS)
@pytest.mark.parametrize("is_present", [True, False])
def test_equal_names_are_numbered_in_list_order(
    exists: str, jobs: str, is_present: bool, folder: Path
) -> None:
    """Names are assigned in the order of the list, for any value of `--exists`."""
    urls = create_files(folder, 12)
    if is_present:
        (folder / "n").write_bytes(OLD)
    listed = "\n".join(urls).encode()
    done = resolve("get", "--json", "-j", jobs, "--exists", exists, "-i", "-", stdin=listed)
    moved = is_present and exists == "rename"
    names = [f"n.{number}" for number in range(2, 15)]
    if not moved:
        names.insert(0, "n")
    expected = dict(zip(urls, names, strict=False))
    expected_files = {name: b"of %d" % number for number, name in enumerate(expected.values())}
    if is_present and exists in ("fail", "skip", "rename"):
        expected_files["n"] = OLD
    # the same length as the new file: it counts as complete, and the download starts again
    if is_present and exists == "resume":
        assert expected_files["n"] == b"of 0"
    failed = {urls[0]} if is_present and exists == "fail" else set()
    assert paths(done) == {url: None if url in failed else name for url, name in expected.items()}
    assert {record["url"] for record in done.records if record["exit"] != 0} == failed
    assert contents(folder) == expected_files
    done_paths = [record["path"] for record in done.records if record["status"] == "done"]
    assert len(done_paths) == len(set(done_paths))


def test_names_that_differ_only_in_case_are_numbered(folder: Path) -> None:
    """Trees do the same: on other systems, both names are the same file."""
    urls = create_files(folder, 2)
    Path(urls[1].removeprefix("file://")).rename(folder.parent / "N")
    urls[1] = (folder.parent / "N").as_uri()
    assert paths(resolve("get", "--json", *urls)) == dict(zip(urls, ["n", "N.2"], strict=True))
    assert contents(folder) == {"n": b"of 0", "N.2": b"of 1"}


@pytest.mark.parametrize("exists", ["fail", "resume", "skip", "newer", "replace"])
def test_later_run_assigns_same_names(exists: str, folder: Path) -> None:
    """A later run can resume the files of the first run, and keeps complete files."""
    urls = create_files(folder, 3)
    for url in urls[1:]:
        os.utime(url.removeprefix("file://"), (1e9, 1e9))
    assert resolve("get", "-q", *urls[:2]).status == 0
    before = contents(folder)
    done = resolve("get", "--json", "--exists", exists, *urls)
    failed = exists == "fail"
    assert paths(done) == dict(zip(urls, [None, None, "n.3"] if failed else ["n", "n.2", "n.3"], strict=True))
    assert contents(folder) == before | {"n.3": b"of 2"}


def test_rename_avoids_names_of_later_urls(folder: Path) -> None:
    """A number that is free on the disk may be reserved by another URL of this run that has not started."""
    first, second = create_files(folder, 2)
    third = folder.parent / f"{folder.name}-0" / "n.2"
    third.write_bytes(b"third")
    (folder / "n").write_bytes(OLD)
    done = resolve("get", "--json", "-j", "1", "--exists", "rename", first, second, third.as_uri())
    assert list(paths(done).values()) == ["n.2", "n.3", "n.2.2"]
    assert contents(folder) == {"n": OLD, "n.2": b"of 0", "n.3": b"of 1", "n.2.2": b"third"}


def test_names_are_compared_after_cleaning(folder: Path) -> None:
    """The comparison uses the cleaned names, not the names in the URLs."""
    first, second = (folder.parent / f"{folder.name}-{name}" for name in "ab")
    for place in (first, second):
        place.mkdir()
    (first / ".n").write_bytes(b"one")
    (second / "_n").write_bytes(b"two")
    done = resolve("get", "--exists", "replace", (first / ".n").as_uri(), (second / "_n").as_uri())
    assert (done.status, contents(folder)) == (0, {"_n": b"one", "_n.2": b"two"})


def test_second_name_is_independent_of_first_outcome(folder: Path) -> None:
    """The list alone determines the name of each URL's file."""
    first, second = create_files(folder, 2)
    os.unlink(folder.parent / f"{folder.name}-0" / "n")
    done = resolve("get", "--json", first, second)
    assert paths(done) == {first: None, second: "n.2"}
    assert contents(folder) == {"n.2": b"of 1"}


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_server_chosen_names_are_numbered(jobs: str, at: dict[str, str], folder: Path) -> None:
    urls = [at["named"] + f"/{number}" for number in range(4)]
    done = resolve("get", "--json", "-j", jobs, "--exists", "replace", "--allow-server-name", *urls)
    assert done.status == 0
    assert (
        set(paths(done).values())
        == {"_bashrc", "_bashrc.2", "_bashrc.3", "_bashrc.4"}
        == set(contents(folder))
    )


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (
            ["--host-directories"],
            ["h/pub/n", "h/pub/n.2", "h/n", "h/n.2/deep", "h/pub.2", "h/pub/a/__/__/_b/k.z"],
        ),
        (
            ["--host-directories", "--cut-dirs", "1"],
            ["h/n", "h/n.2", "h/n.3", "h/deep", "h/pub", "h/a/__/__/_b/k.z"],
        ),
        (["--cut-dirs=2"], ["n", "n.2", "n.3", "deep", "pub", "__/__/_b/k.z"]),
        (
            ["--cut-dirs", "0", "-d", "D/E"],
            ["pub/n", "pub/n.2", "n", "n.2/deep", "pub.2", "pub/a/__/__/_b/k.z"],
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_directory_options_number_conflicting_directories(
    words: list[str], names: list[str], at: dict[str, str], folder: Path
) -> None:
    """Each directory of the URL is cleaned, and numbered if a file of the run has the name already."""
    paths = ["pub/n", "pub/n", "n", "n/deep", "pub", "pub/a/../%2e%2e//./.b/k.z"]
    done = resolve("get", "--json", "-j", "1", *words, *(f"{at['named']}/{path}" for path in paths))
    place = "D/E/" if "-d" in words else ""
    host = "127.0.0.1/" if "--host-directories" in words else "h/"
    expected = [place + name.replace("h/", host, 1) for name in names]
    assert [record["path"] for record in done.records] == expected
    assert sorted(contents(folder)) == sorted(expected)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("{ftp}/pub/a.txt", "127.0.0.1/pub/a.txt"),
        ("{ftp}/%2Fpub/a.txt", "127.0.0.1/pub/a.txt"),  # one argument of CWD, an absolute path
        ("{gopher}/00/about", "127.0.0.1/0/about"),
        ("{prospero}/AFTP/pub/hello.txt", "127.0.0.1/AFTP/pub/hello.txt"),
        ("mailto:joe@h.example?subject=hi", "joe@h.example"),
    ],
)
def test_host_directories_of_every_scheme(url: str, path: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "--json", "--host-directories", url.format_map(at))
    assert [record["path"] for record in done.records] == [path]
    assert list(contents(folder)) == [path]


@pytest.mark.parametrize("words", [["--host-directories"], ["--cut-dirs", "1"]])
def test_output_option_with_directory_options_is_usage_error(words: list[str], folder: Path) -> None:
    assert resolve("get", *words, "-O", "x", "file:///etc/hostname").status == 2


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("x?id=1", "x_id=1"),
        ("x?id=1&b=%2Fetc%2Fpasswd", "x_id=1&b=_etc_passwd"),
        ("x?a/b\\c", "x_a_b_c"),
        ("x?a:%00%1b%2a", "x_a____"),
        ("x?", "x"),
        ("d/x.tar.gz?n=2", "x.tar.gz_n=2"),
        ("x?a.part", "x_a.part_"),
    ],
)
def test_file_name_contains_cleaned_query(part: str, name: str, at: dict[str, str], folder: Path) -> None:
    """The query is cleaned like the rest of the name (S14)."""
    done = resolve("get", "--json", f"{at['named']}/{part}")
    assert ([record["path"] for record in done.records], list(contents(folder))) == ([name], [name])


def test_session_urls_reserve_no_name(folder: Path) -> None:
    done = resolve("get", "--json", "telnet://a.example/", "telnet://b.example/")
    assert [record["exit"] for record in done.records] == [15, 15]


def test_growing_list_is_processed_line_by_line(tmp_path: Path) -> None:
    """A URL is processed before the next line arrives."""
    fifo = tmp_path / "list"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    command = read(["get", "-i", str(fifo)])
    assert command is not None
    naming = TargetNaming(command, None)
    targets_ = map(naming.name, targets(command, lambda error: None))
    try:
        for url, name in (("http://a/n", "n"), ("http://b/n", "n.2"), ("http://c/m", "m")):
            os.write(writer, f"{url}\n".encode())
            target = next(targets_)
            assert target.url == url
            assert target.reserve(target.parse(command), command) == name
    finally:
        os.close(writer)


def test_named_target_keeps_parsed_url_and_name() -> None:
    """The target keeps its parsed URL and its reserved name."""
    command = read(["get", "http://h/a/n?x=1", "http://h/b/n?x=1", "-O", "-"])
    assert command is not None
    command.output = None
    naming = TargetNaming(command, None)
    for target, name in zip(targets(command, lambda error: None), ("n_x=1", "n_x=1.2"), strict=True):
        named = naming.name(target)
        assert named.path == name
        assert named.parse(command) is named.parse(command)
        assert named.host_and_scheme == ("h", "http")
        assert named.reserve(named.parse(command), command) is named.path
        assert named.reserve(named.parse(command), command, "other") != name
