"""`serve --register`: the desktop entry, its quoting, and its complete removal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resolver import NotConfigured
from resolver.cli import serve as handlers
from resolver.cli.arguments import read
from resolver.cli.serve import NAME, SCHEMES, desktop_entry, quote_argument, remove_handler
from resolver.cli.values import UsageError
from tests.resolver.cli.command import Done, resolve

FOREIGN = "lagrange.desktop"

#: A stub of `xdg-mime`: it answers queries, keeps a list, and records each call.
XDG_MIME = """#!/bin/sh
list="$XDG_CONFIG_HOME/mimeapps.list"
echo "$*" >> "$HOME/calls"
case "$1" in
--version) echo xdg-mime 1 ;;
query) sed -n "s|^$3=\\([^;]*\\).*|\\1|p" "$list" 2>/dev/null || true ;;
default)
    shift; name="$1"; shift
    mkdir -p "$XDG_CONFIG_HOME"
    [ -e "$list" ] || echo "[Default Applications]" > "$list"
    for kind; do
        grep -v "^$kind=" "$list" > "$list.new"
        echo "$kind=$name" >> "$list.new"
        mv "$list.new" "$list"
    done ;;
esac
"""


@pytest.fixture(name="home")
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home directory of a user with a desktop."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name, folder in (("CONFIG", ".config"), ("DATA", ".local/share"), ("STATE", ".local/state")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / folder))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sed", "grep", "mkdir", "mv"):
        result = next(place for place in ("/bin", "/usr/bin") if Path(place, name).exists())
        (programs / name).symlink_to(Path(result, name))
    (programs / "xdg-mime").write_text(XDG_MIME)
    (programs / "xdg-mime").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(sys, "argv", ["/opt/re solve/bin/resolve"])
    return home


def run(*words: str) -> Done:
    return resolve("serve", "--config", "none", *words)


def files(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


def test_register_writes_entry_and_defaults(home: Path) -> None:
    done = run("--register")
    assert (done.status, done.out) == (0, b"")
    entry = home / ".local/share/applications" / NAME
    assert entry.read_text().splitlines() == [
        "[Desktop Entry]",
        "Type=Application",
        "Name=resolve",
        'Exec="/opt/re solve/bin/resolve" open -- %u',
        "Terminal=false",
        "NoDisplay=true",
        "MimeType=x-scheme-handler/gopher;x-scheme-handler/ftp;x-scheme-handler/news;x-scheme-handler/nntp;"
        "x-scheme-handler/wais;x-scheme-handler/prospero;",
    ]
    chosen = (home / ".config/mimeapps.list").read_text().splitlines()
    assert chosen == ["[Default Applications]", *(f"x-scheme-handler/{each}={NAME}" for each in SCHEMES)]
    assert {name.rpartition("/")[2] for name in files(home)} == {
        "calls",
        NAME,
        "mimeapps.list",
        "handlers.json",
    }


@pytest.mark.parametrize("again", [1, 3])
@pytest.mark.parametrize("before", [None, "", f"[Default Applications]\nx-scheme-handler/gopher={FOREIGN}\n"])
def test_unregister_removes_all_changes(before: str | None, again: int, home: Path) -> None:
    (home / ".config").mkdir()
    if before is not None:
        (home / ".config/mimeapps.list").write_text(before)
    for _ in range(again):
        assert run("--register", "-q") == Done(0, b"", b"")
    state = json.loads((home / ".local/state/resolve/handlers.json").read_text())
    assert state["handlers"]["gopher"] == (FOREIGN if before else "")
    for _ in range(again):
        assert run("--unregister", "-q") == Done(0, b"", b"")
    rest = files(home)
    del rest["calls"]
    result = rest.pop(".config/mimeapps.list", None)
    assert rest == {}
    if before:
        assert result == before
    else:
        assert (result or "").replace("[Default Applications]\n", "") == (before or "")
        assert (result is None) == (before is None)


def test_unregister_keeps_later_choices(home: Path) -> None:
    run("--register")
    chosen = home / ".config/mimeapps.list"
    chosen.write_text(
        "[Default Applications]\nx-scheme-handler/gopher=other.desktop\n"
        f"text/html={FOREIGN};{NAME};x.desktop;\n"
        f"[Added Associations]\nx-scheme-handler/ftp={NAME};\n# {NAME}\n"
    )
    run("--unregister")
    assert chosen.read_text() == (
        "[Default Applications]\nx-scheme-handler/gopher=other.desktop\n"
        f"text/html={FOREIGN};x.desktop;\n[Added Associations]\n# {NAME}\n"
    )


def test_unregister_keeps_symlinked_list(home: Path) -> None:
    (home / ".config").mkdir()
    path = home / "kept.list"
    path.write_text(f"[Default Applications]\nx-scheme-handler/gopher={NAME}\n")
    (home / ".config/mimeapps.list").symlink_to(path)
    run("--unregister")
    assert (home / ".config/mimeapps.list").is_symlink()
    assert path.read_text() == "[Default Applications]\n"


def test_register_replaces_symlink_at_entry(home: Path) -> None:
    (home / ".local/share/applications").mkdir(parents=True)
    outside = home / "outside"
    outside.write_text("kept")
    (home / ".local/share/applications" / NAME).symlink_to(outside)
    run("--register")
    run("--unregister")
    assert outside.read_text() == "kept"


@pytest.mark.parametrize("content", ["no JSON", "{}", "[" * 100_000], ids=len)
def test_unregister_with_invalid_state_removes_entry(content: str, home: Path) -> None:
    run("--register")
    (home / ".local/state/resolve/handlers.json").write_text(content)
    assert run("--unregister", "-q").status == 0
    assert not (home / ".local/share/applications" / NAME).exists()


def test_register_without_xdg_mime_writes_entry(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no/such")
    done = run("--register")
    assert done.status == 0
    assert "settings" in done.messages
    assert set(files(home)) == {f".local/share/applications/{NAME}", ".local/state/resolve/handlers.json"}
    assert run("--unregister", "-q") == Done(0, b"", b"")
    assert files(home) == {}


def test_register_without_directory_exits_with_status_3(home: Path) -> None:
    (home / ".local").write_text("in the way")
    done = run("--register")
    assert (done.status, "Not a directory" in done.messages) == (3, True)
    assert set(files(home)) == {".local"}


#: Arguments, and their form in the entry.
WORDS = {
    "resolve": "resolve",
    "/a/b-c_d.e": "/a/b-c_d.e",
    "/a b": '"/a b"',
    "/a%u": "/a%%u",
    '/a"b': '"/a\\\\"b"',
    "/$HOME": '"/\\\\$HOME"',
    "/`id`": '"/\\\\`id\\\\`"',
    "/a\\b": '"/a\\\\\\\\b"',
    "/a;b&c|d": '"/a;b&c|d"',
    "/a'b": '"/a\'b"',
    "/é": "/é",
}


@pytest.mark.parametrize("word", WORDS)
def test_desktop_entry_argument_is_quoted(word: str) -> None:
    message = quote_argument(word)
    assert message == WORDS[word]
    text = message.replace("\\\\", "\\").replace("%%", "%")  # the escapes of desktop entries
    shell = ["/bin/sh", "-c", f"printf '<%s>' {text}"]  # with the same rules within double quotes
    assert subprocess.run(shell, capture_output=True, check=True).stdout.decode() == f"<{word}>"


@pytest.mark.parametrize("word", ["", "/a\nExec=evil", "/a\rb", "/a\x00b", "/a\tb", "/a\x7f", "/\udcff"])
def test_desktop_entry_with_invalid_program_raises(word: str) -> None:
    with pytest.raises(NotConfigured):
        desktop_entry([word])


def test_register_program_with_equals_sign_is_usage_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/a=b/resolve"])
    done = run("--register")
    assert (done.status, files(home)) == (2, {})


def test_remove_handler_keeps_other_lines() -> None:
    text = b"[A]\nx=y.desktop;\n\nz=not-resolve-url.desktop;\r\nq=resolve-url.desktop.old\n"
    assert remove_handler(text) == text


def test_register_and_unregister_are_exclusive() -> None:
    with pytest.raises(UsageError, match=r"--register .*--unregister"):
        read(["serve", "--register", "--unregister"])


def test_open_argument_after_two_dashes_is_url(home: Path) -> None:
    """The entry passes the URL of a page after `--`."""
    done = resolve("open", "--", "--help")
    assert (done.status, done.out) == (12, b"")


XDG = "/usr/bin/xdg-mime"


@pytest.mark.skipif(not os.path.exists(XDG), reason="there is no xdg-mime")
def test_register_with_installed_xdg_mime_is_reversible(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    for name in ("XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "KDE_FULL_SESSION", "GNOME_DESKTOP_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)

    def opens() -> str:
        words = [XDG, "query", "default", "x-scheme-handler/gopher"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    before = opens()
    assert run("--register", "-q").status == 0
    assert opens() == handlers.NAME
    assert run("--unregister", "-q").status == 0
    assert opens() == before
    assert NAME not in "".join(files(home).values())
