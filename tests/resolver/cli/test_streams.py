"""Standard streams in every state: closed, full, with a closed pipe, or a terminal (S15)."""

from __future__ import annotations

import io
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resolver.cli import main
from resolver.cli.streams import ListFile
from tests.fresh import environment
from tests.resolver.cli.command import resolve
from tests.resolver.cli.places import Places

CHECKOUT = Path(__file__).parents[3]
HOSTILE = b"a\x1b]0;title\x07b\r\nc\x9bd \xe2\x80\xae\xff\tcr\rcr\n"

#: A command line of each kind, and its status if its output cannot be written. Servers are in braces.
RUNS = {
    ("--version",): 3,
    ("--help",): 3,
    ("parse", "{http}/"): 3,
    ("parse", "--json", "a b"): 3,
    ("explain", "{http}/"): 3,
    ("schemes",): 3,
    ("extract", "{list}"): 3,
    ("cat", "{http}/data"): 3,
    ("cat", "--json", "{http}/about.txt"): 3,
    ("ls", "{ftp}/pub/names/"): 3,
    ("info", "--json", "{http}/about.txt"): 3,
    ("get", "--json", "{http}/about.txt"): 3,
    ("get", "-v", "-O", "x", "{http}/about.txt"): 0,
    ("cat", "-t", "1", "{closed}/"): 4,
    ("cat", "-i", "{list}", "-qq"): 3,
    ("cat", "-r"): 2,
}


@pytest.fixture(name="at")
def _at(places: Places, folder: Path) -> dict[str, str]:
    listed = folder / "list"
    listed.write_text("# <URL:http://h.example/>\n" + f"{places['http']}/about.txt\n" * 5)
    return {**places, "list": str(listed)}


@pytest.mark.parametrize("run", RUNS, ids=" ".join)
@pytest.mark.parametrize("stream_state", ["closed", "full", "left"])
def test_unwritable_stdout_has_expected_status(
    run: tuple[str, ...],
    stream_state: str,
    at: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = 141 if (stream_state, RUNS[run]) == ("left", 3) else RUNS[run]
    with _unwritable_stream(stream_state) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main([word.format_map(at) for word in run]) == status
    message = capsys.readouterr().err
    assert message.count("standard output") == (status == 3 and "-qq" not in run)


@contextmanager
def _unwritable_stream(state: str) -> Iterator[io.TextIOWrapper | None]:
    """Yield standard output as Python has it with a closed descriptor, a full disk or a closed pipe."""
    if state == "closed":
        yield None
        return
    if state == "full":
        fd = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, fd = os.pipe()
        os.close(reader)
    with open(fd, "w", encoding="utf-8") as stream:
        try:
            yield stream
        finally:
            os.dup2(nothing := os.open(os.devnull, os.O_WRONLY), fd)  # buffered data is written to /dev/null
            os.close(nothing)


def test_unwritable_stderr_keeps_status(at: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors cannot be reported; the command still does its work."""
    for state in ("closed", "full", "left"):
        for argv, status in (
            (["parse", "a b"], 12),
            (["cat", "-v", f"{at['http']}/nothing/here"], 8),
            (["-r"], 2),
        ):
            with _unwritable_stream(state) as stream:
                monkeypatch.setattr(sys, "stderr", stream)
                assert main(argv) == status


@pytest.mark.parametrize("stream_state", ["full", "left"])
def test_unwritable_stderr_keeps_exit_status_of_process(stream_state: str) -> None:
    """Python flushes standard error when the process ends, and reports an error as status 120."""
    with _unwritable_stream(stream_state) as stream:
        command = [sys.executable, "-m", "resolver", "parse", "a b"]
        done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, stderr=stream)
    assert done.returncode == 12


@pytest.mark.parametrize(
    ("argv", "status"),
    [(["extract"], 3), (["cat", "-i", "-"], 3), (["--password-file", "-", "--user", "me", "news:a@b"], 3)],
)
def test_closed_stdin_exits_with_status_3(
    argv: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(argv) == status


def test_endless_input_exits_with_status_3() -> None:
    for argv in (["extract", "/dev/zero"], ["cat", "-i", "/dev/zero"]):
        done = resolve(*argv)
        assert (done.status, done.out) == (3, b"")
        assert "/dev/zero: " in done.messages


def test_closed_descriptors_receive_no_messages(at: dict[str, str], folder: Path) -> None:
    """The next files that are opened get the numbers 0 to 2; no message may be written to them."""
    words = [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()"]
    command = [*words, "get", "-v", "--trace", "trace", "-O", "x", f"{at['http']}/about.txt"]

    def close() -> None:
        os.closerange(0, 3)

    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, preexec_fn=close)
    assert (done.returncode, done.stdout, b"Traceback" in done.stderr) == (0, b"", False)
    assert (folder / "x").read_bytes() == b"A text of two lines.\nThe second one.\n"
    assert (folder / "trace").read_text().startswith("U: http://")


# --- a terminal


def on_terminal(monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[int, bytes]:
    """Return the status and the bytes that a terminal received, with the terminal's line ends removed."""
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        status = main(list(argv))
        terminal.write("\0")  # a terminal has no end of file: this marks the end of the output
        terminal.flush()
        shown = b""
        while not shown.endswith(b"\0"):
            shown += os.read(master, 65_536)
    os.close(master)
    return status, shown[:-1].replace(b"\r\n", b"\n")


@pytest.fixture(name="hostile")
def _hostile(folder: Path) -> str:
    """Create a directory with names and contents that contain terminal escapes."""
    (folder / "text.txt").write_bytes(HOSTILE)
    (folder / "n\x1b[31mame\r\nline").write_bytes(b"")
    (folder / os.fsdecode(b"octet-\xff\x9b")).write_bytes(b"")
    (folder / "bidi-\u202e").write_bytes(b"")
    return folder.as_uri()


def test_text_on_terminal_is_escaped_unless_raw(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "a\\x1b]0;title\\x07b\nc\\x9bd \\u202eÿ\tcr\\x0dcr\n".encode()
    assert on_terminal(monkeypatch, "cat", f"{hostile}/text.txt") == (0, shown)
    assert on_terminal(monkeypatch, "-O", "-", f"{hostile}/text.txt") == (0, shown)
    raw = on_terminal(monkeypatch, "cat", "--allow-raw", f"{hostile}/text.txt")
    assert raw == (0, HOSTILE)
    assert resolve("cat", f"{hostile}/text.txt").out == HOSTILE


def test_names_on_terminal_are_escaped_unless_raw(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {rb"n\x1b[31mame\x0d\x0aline", rb"octet-\xff\x9b", rb"bidi-\u202e", b"text.txt"}
    status, shown = on_terminal(monkeypatch, "ls", f"{hostile}/")
    assert (status, set(shown.splitlines())) == (0, lines)
    plain = {b"n\x1b[31mame\\x0d\\x0aline", b"octet-\xff\x9b", "bidi-\u202e".encode(), b"text.txt"}
    assert set(resolve("ls", f"{hostile}/").out.split(b"\n")) == {*plain, b""}
    status, shown = on_terminal(monkeypatch, "ls", "--allow-raw", f"{hostile}/")
    assert {*shown.split(b"\n")} == {*plain, b""}


@pytest.mark.parametrize("verb", ["explain", "parse", "info", "ls"])
def test_terminal_output_has_no_control_characters(
    verb: str, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{hostile}/n%1B%5B31mame%0D%0Aline"
    for argv in ([verb, url], [verb, "--json", url], [verb, f"{hostile}/\x1b[31m\x9b"]):
        _, shown = on_terminal(monkeypatch, *argv)
        assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown.decode())


def test_binary_data_on_terminal_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bin").write_bytes(bytes(range(256)))
    url = (folder / "bin").as_uri()
    assert on_terminal(monkeypatch, "cat", url) == (9, b"")
    assert re.search("S15.*-O.*--allow-raw", capsys.readouterr().err)
    assert on_terminal(monkeypatch, "cat", "--allow-raw", url)[0] == 0


def test_explain_prints_one_line_per_step(hostile: str) -> None:
    done = resolve("explain", f"{hostile}/n%0A%20%20verdict%20%20allow")
    assert len(re.findall(rb"^  verdict ", done.out, re.MULTILINE)) == 1


def test_output_before_error_is_written(folder: Path) -> None:
    (folder / "text").write_text("<URL:http://h.example/>")
    done = resolve("extract", str(folder / "text"), str(folder / "missing"))
    assert (done.status, done.out) == (3, b"http://h.example/\n")


@pytest.mark.parametrize("stream_state", ["full", "left"])
def test_unwritten_output_is_discarded(stream_state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _unwritable_stream(stream_state) as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main(["--version"]) in (3, 141)
    assert resolve("parse", "http://h.example/").out.startswith(b"url: ")


def test_get_name_outside_locale_exits_with_status_3(folder: Path) -> None:
    """Without UTF-8: today, a locale is like that only on request."""
    (folder / "é").write_bytes(b"octets")
    (folder / "here").mkdir()
    for words, status, out in (
        (["get"], 3, b""),
        (["get", "--exists=rename"], 3, b""),
        (["cat"], 0, b"octets"),
    ):
        done = _resolve_in_ascii_locale(*words, f"{folder.as_uri()}/%C3%A9", cwd=folder / "here")
        assert (done.returncode, done.stdout) == (status, out)
        assert (b"LC_ALL=C.UTF-8" in done.stderr) == (status == 3)
    assert os.listdir(folder / "here") == []


def _resolve_in_ascii_locale(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-c", "from resolver.cli import run; run()", *words]
    return subprocess.run(command, cwd=cwd, env=ascii_only, capture_output=True)


@pytest.mark.parametrize("options", [["--exists=newer"], ["--exists=newer", "--delete", "--yes"]])
def test_get_recursive_with_names_outside_locale_saves_other_files(options: list[str], folder: Path) -> None:
    """Each file or directory with such a name is an error; --delete keeps its existing local copy."""
    source, saved = folder / "tree", folder / "out" / "tree"
    for name in ("a", "é", "ö/b"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"octets")
    shutil.copytree(source, saved)
    (saved / "a").unlink()
    done = _resolve_in_ascii_locale("-r", *options, "-d", "out", f"{source.as_uri()}/", cwd=folder)
    assert (done.returncode, done.stderr.count(b"LC_ALL=C.UTF-8")) == (3, 2)
    assert sorted(os.listdir(saved)) == ["a", "é", "ö"]
    assert os.listdir(saved / "ö") == ["b"]


def test_list_file_that_cannot_be_written_keeps_earlier_content(tmp_path: Path) -> None:
    """The list may be the only copy of the user's URLs (`get -i left --failed left`)."""
    path = tmp_path / "left"
    path.write_text("http://h.example/1\n")
    file = ListFile(str(path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as a full disk, for each write of the process
    try:
        fault = file.write(["http://h.example/2\n"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert fault is not None
    assert path.read_text() == "http://h.example/1\n"
