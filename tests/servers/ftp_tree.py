"""The files that the real FTP servers serve. Names are bytes; some are not valid UTF-8.

The tests depend on the content: line ends of every kind, all byte values, a large file, names that a client
must quote or might misread, links, and unreadable files and folders.
"""

from __future__ import annotations

import os

#: The modification time of every file: 2001-09-09T01:46:40Z.
MODIFIED = 1_000_000_000

LINES = b"line one\nline two\n\nlast line\n"
OCTETS = bytes(range(256)) * 64 + b"\r\n\r\r\n\n\xff\xff\xf4\xf2"
#: 8 MiB.
BIG = b"".join(b"%063d\n" % number for number in range(131_072))

#: pub/names/NAME holds `content of NAME`.
NAMES: tuple[bytes, ...] = (
    b"file with spaces.txt",
    b" leading space",
    b"trailing space ",
    b"na\xc3\xafve.txt",
    b"\xe6\x97\xa5\xe6\x9c\xac.txt",
    b"latin1-\xe9.txt",  # not valid UTF-8
    b"iac-\xff.txt",  # telnet's IAC
    b"semi;colon.txt",
    b"a;type=d",  # looks like a typecode
    b"per%cent.txt",
    b"x%2Fy.txt",  # looks encoded
    b"hash#tag.txt",
    b"q?mark.txt",
    b"at@sign",
    b"amp&eq=.txt",
    b"plus+plus",
    b"-dash.txt",
    b"-la",  # an option to a server's ls
    b'quote"quote.txt',
    b"back\\slash.txt",
    b"star*.txt",  # wildcards to a server's ls
    b"[ab].txt",
    b"{a,b}.txt",
    b"~tilde",
    b".hidden",
    b"README",
    b"archive.tar.gz",
    b"page.html",
    b"name.unknownsuffix",
)

#: A folder 20 levels deep, and its path.
DEEP = b"/".join(b"d%02d" % level for level in range(1, 21))

FILES: dict[bytes, bytes] = {
    b"etc/motd": b"root motd\n",
    b"home/bob/etc/motd": b"bob's motd\n",
    b"home/bob/private.txt": b"bob's private file\n",
    b"pub/a.txt": LINES,
    b"pub/crlf.txt": LINES.replace(b"\n", b"\r\n"),
    b"pub/nonl.txt": b"no newline at the end",
    b"pub/barecr.txt": b"one\rtwo\rthree\r",
    b"pub/bin.dat": OCTETS,
    b"pub/big.bin": BIG,
    b"pub/empty.bin": b"",
    b"pub/" + DEEP + b"/leaf.txt": b"deep leaf\n",
    b"pub/names/dir with spaces/inner file.txt": b"inner\n",
    b"pub/names/semi;dir/x.txt": b"in semi;dir\n",
    b'pub/names/quo"te dir/q.txt': b"in quoted dir\n",
    b"pub/weird/new\nline.txt": b"LF in name\n",
    b"pub/weird/plain.txt": b"plain\n",
    b"pub/unreadable.txt": b"you cannot read this\n",
    b"pub/noaccess/x.txt": b"x\n",
    **{b"pub/names/" + name: b"content of " + name + b"\n" for name in NAMES},
}

LINKS: dict[bytes, bytes] = {
    b"pub/link.txt": b"a.txt",
    b"pub/dirlink": b"names",
    b"pub/broken": b"no-such-target",
}

EMPTY_FOLDERS: tuple[bytes, ...] = (b"pub/emptydir",)
#: Paths that the servers' user may not read.
CLOSED: tuple[bytes, ...] = (b"pub/unreadable.txt", b"pub/noaccess")


def write_ftp_tree(top: bytes) -> None:
    """Write the tree below the folder `top`, world-readable except for `CLOSED`."""
    for folder in {*EMPTY_FOLDERS, *(os.path.dirname(name) for name in FILES)}:
        os.makedirs(os.path.join(top, folder), exist_ok=True)
    for name, content in FILES.items():
        with open(os.path.join(top, name), "wb") as file:
            file.write(content)
        os.utime(os.path.join(top, name), (MODIFIED, MODIFIED))
    for name, target in LINKS.items():
        os.symlink(target, os.path.join(top, name))
    for folder, _, names in os.walk(top):
        os.chmod(folder, 0o755)
        for name in names:
            if not os.path.islink(os.path.join(folder, name)):
                os.chmod(os.path.join(folder, name), 0o644)
    for name in CLOSED:
        os.chmod(os.path.join(top, name), 0)
