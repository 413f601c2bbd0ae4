"""The files that the real Gopher servers serve.

Texts with unusual periods and line ends, bytes of every value, folders with and without a gophermap, and a
script that answers searches.
"""

from __future__ import annotations

from pathlib import Path

#: Every byte value, and input that a text reader would alter: CR LF, a lone period, no final line end.
OCTETS = bytes(range(256)) * 4 + b"\r\n.\r\n..\n."
#: 1 MiB; larger than any buffer involved.
LARGE = b"".join(b"%015d\n" % number for number in range(65_536))
#: One white pixel.
GIF = bytes.fromhex("474946383961 01000100800000 FFFFFF000000 2C000000000100010000 02024401003B")

FILES: dict[str, bytes] = {
    "about.txt": b"A text of two lines.\nThe second one.\n",
    "about.txt.abstract": b"What the text is about.\n",
    "dots.txt": b".\n..\n.profile\n...\nplain\n",
    "empty.txt": b"",
    "no-newline.txt": b"no line end at the end",
    "utf8.txt": "Grüße — 日本\n".encode(),
    "latin1.txt": b"caf\xe9 cr\xe8me\n",
    "header.txt": b"+44 is no Gopher+ header here\n",
    "octets.bin": OCTETS,
    "large.bin": LARGE,
    "pixel.gif": GIF,
    "page.html": b"<html><body><p>a page</p></body></html>\n",
    "with space/inner file.txt": b"inner\n",
    "plain/one.txt": b"one\n",
    "plain/two.txt": b"two\n",
    "odd/target.txt": b"found\n",
}

#: A menu written by hand; fields are separated by TAB, lines without TAB are prose.
ODD_MENU = (
    "Prose at the top\n"
    "\n"
    "0A text\ttarget.txt\n"
    "1Elsewhere\t/x y\tother.example\t7070\n"
    "hA page of the web\tURL:http://www.example.org/\n"
    "8A terminal\tguest\tother.example\t23\n"
    "gA picture\t/pixel.gif\n"
    "?Unheard of\t/about.txt\n"
    "Grüße\n"
).encode()

#: Answers a search with one item; its display string holds the search terms, from either server's variable.
SEARCH = b"""#!/bin/sh
printf '0Found %s\\t/about.txt\\t%s\\t%s\\r\\n' "${SEARCHREQUEST-$QUERY_STRING}" 127.0.0.1 "$SERVER_PORT"
"""


def write_gopher_tree(top: Path) -> None:
    """Write the tree into the folder `top`, world-readable, as the servers require."""
    for name, content in {**FILES, "odd/gophermap": ODD_MENU, "cgi-bin/search": SEARCH}.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if content is SEARCH else 0o644)
    for folder in (top, *(path for path in top.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
