"""The pages for users of other programs: each row of their tables runs, on both sides where that is possible.

The right side runs always, and must succeed or end with the exit status that its cell shows. The left side
runs if the program is there. Both sides must write the same files, or print the same lines.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trio

from fixtures.__main__ import server_tls
from fixtures.ftp.session import Session
from fixtures.http.request import Request
from fixtures.http.site import DATA, SUMS, WEIGHTS
from resolver.cli.habits import ADVICE_BY_OPTION
from resolver.cli.options import rows as option_rows
from tests.hang import HANG
from tests.sampled import FULL, sampled
from tests.servers.packages import Unpacked
from tests.test_recipes import CHECKOUT, prepare, start_servers, with_ports

FOLDER = CHECKOUT / "docs/how-to/coming-from"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}
#: The pages whose programs have options: each is known to `resolve`, or it has advice.
COMMANDS = ("aria2", "curl", "wget")

#: Rows of which only the right side runs, by the page and the task, with the reason.
NOT_COMPARED: Mapping[tuple[str, str], str] = {
    ("aria2", "Use a proxy"): "the mock proxy refuses fields of aria2",
    ("curl", "Show the header fields only"): "the formats differ",
    ("curl", "Use a proxy"): "the mock proxy refuses the field Proxy-Connection",
    ("curl", "Use a SOCKS5 proxy"): "the mock proxy refuses the login methods that curl offers",
    ("curl", "Read and write cookies"): "curl writes its own comments to the file",
    **{
        ("ftplib", task): "the outputs differ"
        for task in ("Log in", "Limit the time", "Show the commands", "Use TLS")
    },
    ("nntplib", "List the groups"): "nntplib sends LIST ACTIVE, which the mock server refuses",
    ("nntplib", "Save a group as files"): "the example of nntplib saves two articles",
    ("nntplib", "Log in"): "the mock server of the other side needs no login",
    ("nntplib", "Use TLS"): "the example has no server",
    ("telnetlib", "Show the options"): "the outputs differ",
    ("telnetlib", "Talk at the terminal"): "there is no terminal",
    ("telnetlib", "Use TLS"): "the example has no server",
    ("lftp", "List with sizes and dates"): "the columns differ",
    ("lftp", "Show the actions of a mirror"): "the notation differs",
}

#: Files of all rows; the pages list these.
FILES = {
    "list": b"http://127.0.0.1:8920/about.txt\nhttp://127.0.0.1:8920/models/config.json\n",
    "secret": b"password\n",
    "cookies": b"# Netscape HTTP Cookie File\n",
    "models.meta4": textwrap.dedent(
        f"""\
        <?xml version="1.0" encoding="UTF-8"?>
        <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="model.safetensors">
        <hash type="sha-256">{SUMS.split()[2].decode()}</hash>
        <url>http://127.0.0.1:8920/models/model.safetensors</url></file></metalink>
        """
    ).encode(),
}
#: More files, by a word of the task.
EXISTING = {
    "Resume": {"model.safetensors": WEIGHTS[:2_000_000], "data": DATA[:20_000]},
    "Keep": {"about.txt": b"old\n"},
    "newer": {"about.txt": b"old\n"},
}
NETRC = "machine 127.0.0.1 login user password password\n"
#: lftp lists with LIST by default, which the mock server does not have.
LFTPRC = "set ftp:use-mlsd yes\nset net:max-retries 1\nset cmd:fail-exit yes\n"


@dataclass(frozen=True)
class Row:
    """A row of a table: the task, and the code of both sides."""

    task: str
    theirs: str
    ours: str
    note: str

    @property
    def status(self) -> int:
        found = re.search(r"exit status (\d+)", self.note)
        return int(found[1]) if found else 0


def rows(page: str) -> list[Row]:
    """Return the rows of the first table of a page."""
    table = re.search(r"(?:^\|.*\|\n)+", PAGES[page], re.MULTILINE)
    assert table is not None, page
    found = []
    for line in table[0].splitlines()[2:]:
        task, left, right = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        theirs, ours = (re.match(r"`([^`]*)`", cell.replace("\\|", "|")) for cell in (left, right))
        assert theirs is not None, task
        found.append(Row(task, theirs[1], ours[1] if ours else "", right[ours.end() if ours else 0 :]))
    return found


def blocks(page: str) -> list[str]:
    """Return the Python that precedes each side of a row."""
    return re.findall(r"^```python\n(.*?)^```\n", PAGES[page], re.MULTILINE | re.DOTALL)


def program(before: str, line: str) -> str:
    """Return a program that runs the line (⏎ is a line end), and prints its value if it is an expression."""
    line = line.replace("⏎", "\n")
    try:
        ast.parse(line, mode="eval")
    except SyntaxError:
        return f"{before}\n{line}\n"
    return f"{before}\nvalue = {line}\nif value is not None:\n    print(value)\n"


def programs(page: str, folder: Path) -> dict[str, str]:
    """Return an environment with `resolve`, `python`, and the clients that are installed or unpacked.

    The folder has a netrc file only if the page names one: wget would log in with it everywhere.
    """
    environment = prepare("", folder)
    root = Path(os.environ.get("RESOLVE_SERVERS_ROOT") or CHECKOUT / ".servers")
    for name, client in {"aria2": "aria2c", "lftp": "lftp"}.items():
        unpacked = Unpacked(root / name, str(root / name / "usr/bin" / client))
        if os.path.isfile(unpacked.program):
            libraries = unpacked.environment()["LD_LIBRARY_PATH"]
            words = shlex.join(["env", f"LD_LIBRARY_PATH={libraries}", unpacked.program])
            (folder / ".bin" / client).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / ".bin" / client).chmod(0o755)
    netrc = {".netrc": NETRC} if "netrc" in PAGES[page] else {}
    for name, text in {**netrc, ".lftprc": LFTPRC}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    return {**environment, "HOME": str(folder)}


def written_files(folder: Path, before: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Return the names and contents of the new and changed files, also in subdirectories."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return sorted(
        (path.name, data) for path, data in found.items() if before.get(str(path.relative_to(folder))) != data
    )


@dataclass
class Desk:
    """The files and servers of a test."""

    folder: Path
    ports: dict[str, str]
    environment: dict[str, str]
    cafile: Path

    def write_files(self, folder: Path, row: Row) -> dict[str, bytes]:
        """Make the folder of a row; return its files."""
        more = [
            (name, data)
            for word, files in EXISTING.items()
            if word in row.task
            for name, data in files.items()
        ]
        files = {
            name: with_ports(data.decode("latin-1"), self.ports).encode("latin-1")
            for name, data in [*FILES.items(), *more]
        }
        files["ca.pem"] = self.cafile.read_bytes()
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
            (folder / name).chmod(0o600)
            os.utime(folder / name, (0, 0))
        return files

    async def run(self, page: str, row: Row, side: str) -> tuple[int, bytes, bytes, list[tuple[str, bytes]]]:
        """Run one side; return its status, its output, its messages, and the files that it wrote."""
        code = row.theirs if side == "theirs" else row.ours
        folder = self.folder / f"{re.sub('[^a-z]+', '-', row.task.lower())}.{side}"
        files = self.write_files(folder, row)
        environment = self.environment
        if blocks(page):
            code = f"python -c {shlex.quote(program(blocks(page)[side == 'ours'], code))}"
            if side == "theirs":  # nntplib and telnetlib are deprecated
                environment = {**environment, "PYTHONWARNINGS": "ignore"}
        with trio.fail_after(HANG):
            done = await trio.run_process(
                ["/bin/sh", "-c", with_ports(code, self.ports)],
                cwd=folder,
                env=environment,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        return done.returncode, done.stdout, done.stderr, written_files(folder, files)

    async def compare(self, page: str, row: Row) -> None:
        status, output, messages, written = await self.run(page, row, "ours")
        assert status == row.status, f"{row.ours}\n{output!r} {messages.decode(errors='replace')}"
        program = shlex.split(row.theirs)[0] if not blocks(page) else "python"
        if (page, row.task) in NOT_COMPARED or not shutil.which(program, path=self.environment["PATH"]):
            return
        theirs = await self.run(page, row, "theirs")
        assert (theirs[0] != 0) == (status != 0), (
            f"{row.theirs}\n{theirs[1]!r} {theirs[2].decode(errors='replace')}"
        )
        if written or theirs[3]:
            assert [name for name, _ in written] == [name for name, _ in theirs[3]], row
            assert written == theirs[3], row.task
        else:
            assert sorted(output.split(b"\n")) == sorted(theirs[1].split(b"\n")), row


@pytest.mark.parametrize("page", sampled(PAGES, lambda page: None, 2))
async def test_rows_of_page_do_the_same(
    page: str, nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = Request.values

    def whole(request: Request, name: str) -> list[str]:
        return values(request, name) or (["identity"] if name == "accept-encoding" else [])

    async def features(session: Session, argument: bytes | None) -> bytes:
        return b"211-Features:\r\n MLST type*;size*;modify*;\r\n211 End\r\n"

    # Other clients send a Referer, the Host after other fields, ranges of any coding, and FEAT before USER.
    monkeypatch.setattr("fixtures.http.request._check", lambda request: None)
    monkeypatch.setattr(Request, "values", whole)
    monkeypatch.setattr(Session, "_do_feat", features)
    tls, cafile = server_tls(tmp_path)
    ports = await start_servers(nursery, tls)
    home = tmp_path / "home"
    home.mkdir()
    desk = Desk(tmp_path, ports, programs(page, home), cafile)
    limit = trio.CapacityLimiter(3)
    faults: list[str] = []

    async def try_row(row: Row) -> None:
        async with limit:
            try:
                await desk.compare(page, row)
            except AssertionError as error:
                faults.append(f"{row.task}: {str(error)[:2000]}")

    async with trio.open_nursery() as running:
        for row in rows(page) if FULL else rows(page)[::2]:
            if row.ours:
                running.start_soon(partial(try_row, row))
    assert not faults, "\n\n".join(faults)


def test_pages_have_their_rows() -> None:
    for page in PAGES:
        found = rows(page)
        assert 8 <= len(found) <= 24, page
        assert len({row.task for row in found}) == len(found), page
        for row in found:
            assert row.ours or row.note.startswith("none: "), row.task
        assert len(blocks(page)) in (0, 2), page
    tasks = {(page, row.task) for page in PAGES for row in rows(page) if row.ours}
    assert NOT_COMPARED.keys() <= tasks


@pytest.mark.parametrize("page", COMMANDS)
def test_options_of_page_agree_with_advice(page: str) -> None:
    """The page agrees with the advice for a foreign option: the same reason, or an option of the row."""
    own = {"-x", *(flag for row in option_rows() for flag in row.flags)}  # -x is known by its grammar
    for row in rows(page):
        flags = [word.partition("=")[0] for word in shlex.split(row.theirs) if re.match(r"--?[A-Za-z]", word)]
        for flag in flags:
            assert flag in own or flag in ADVICE_BY_OPTION, f"{row.task}: {flag}"
        told = [ADVICE_BY_OPTION[flag] for flag in flags if flag in ADVICE_BY_OPTION]
        if not row.ours and told:
            assert row.note.removeprefix("none: ") in told, row.task
        for advice in told:
            named = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", advice))
            used = {word for word in shlex.split(row.ours) if word.startswith("-")}
            if row.ours and advice.startswith("use -"):
                assert named & used, f"{row.task}: {advice}"
