"""What a stranger has saved under a name of ours is never taken for what we left there (S14)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import resolve

GOOD = b"the tool, by those who made it\n" * 400
#: Its end is what everybody knows: nothing that is compared there proves anything.
EVIL = b"something else" + GOOD[14:-1]


@pytest.mark.parametrize("options", [(), ("--policy", "untrusted", "--file-root", "/")])
@pytest.mark.parametrize("ending", ["part", "PART", "%70art", "p%E2%80%8Dart"])
def test_octets_of_a_stranger_are_not_gone_on_with(
    ending: str, options: tuple[str, ...], folder: Path
) -> None:
    """Two files of a stranger, as they would look here to somebody who knows the format; then the tool."""
    served = folder.parent / f"{folder.name}-served"
    served.mkdir()
    (served / "tool.bin").write_bytes(GOOD)
    tool = (served / "tool.bin").as_uri()
    state = {
        "format": "url-resolver part state 1",
        "url": tool,
        "size": len(GOOD),
        "modified": None,
        "etag": None,
    }
    state |= {"device": folder.stat().st_dev, "inode": 1, "token": None, "withheld": 0, "complete": False}
    names = [f"tool.bin.{ending}", f"tool.bin.{ending}-state"]
    urls = [f"{served.as_uri()}/{name}" for name in names]
    for url, content in zip(urls, (EVIL, json.dumps(state).encode()), strict=True):
        (served / _decoded(url)).write_bytes(content)
        assert resolve("get", *options, url).status == 0
    assert resolve("get", *options, tool).status == 0
    assert (folder / "tool.bin").read_bytes() == GOOD
    assert sum(path.name.endswith("_") for path in folder.iterdir()) == 2


def _decoded(url: str) -> str:
    return url.rpartition("/")[2].replace("%70", "p").replace("%E2%80%8D", "\u200d")


@pytest.mark.parametrize("exists", ["fail", "replace"])
def test_nor_where_a_server_chose_the_name(exists: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "--allow-server-name", "--exists", exists, at["named_part"] + "/x")
    assert (done.status, [path.name for path in folder.iterdir()]) == (0, ["tool.PART_"])


@pytest.mark.parametrize(
    "name", ["x.part", "x.Part-State", "x.part-state.new", "x.ｐａｒｔ", "x.meta.json", "x.META.json.new"]
)
def test_a_person_is_told_to_choose_another(name: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "--json", "-O", name, "--trace", "trace", at["http"] + "/about.txt")
    assert (done.status, done.records[0]["error"]["code"]) == (3, "LocalError")
    assert "choose another name" in done.told
    assert "GET" not in (folder / "trace").read_text()


def test_how_a_file_came_is_written_beside_it(at: dict[str, str], folder: Path) -> None:
    """And nothing that a stranger names is taken for that."""
    (served := folder.parent / f"{folder.name}-served").mkdir(exist_ok=True)
    (served / "about.txt.meta.json").write_text('{\n  "format": "url-resolver meta 1"\n}')
    assert resolve("get", "-q", f"{served.as_uri()}/about.txt.meta.json").status == 0
    url = at["http"] + "/about.txt"
    assert resolve("get", "-q", "--meta", url).status == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "about.txt",
        "about.txt.meta.json",
        "about.txt.meta.json_",
    ]
    found = json.loads((folder / "about.txt.meta.json").read_text())
    assert (found["url"], found["bytes"]) == (url, (folder / "about.txt").stat().st_size)
