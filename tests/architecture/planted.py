"""Modules that break the house: a kind of violation each, and the words by which its rule tells of it.

What is new here was let pass at some time, or nearly: a rule that looks at how a thing is written and not at
what it means finds the first spelling only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from tests.architecture import adapters, doors, line_ends, machines, never, schemes, shape
from tests.architecture.source import Module

Rule: TypeAlias = Callable[[Module], list[str]]


class Planted(NamedTuple):
    """In a module of that name, and what its rule says of it."""

    name: str
    source: str
    words: str


ADAPTERS: Mapping[str, Planted] = {
    "an inner name": Planted(
        "resolver.adapters.mcp.tools", "from resolver.policy import judge", "has public names alone"
    ),
    "an inner module": Planted("resolver.adapters.x", "import resolver.gate.lookup", "public names alone"),
    "an inner module, for types": Planted(
        "resolver.adapters.x", "if TYPE_CHECKING:\n  from resolver.gate import Network", "public names alone"
    ),
    "an inner module, later": Planted(
        "resolver.adapters.x", "import resolver\nresolver.gate.Network()", "which is not public"
    ),
    "an inner module, by a text": Planted(
        "resolver.adapters.x", "import resolver\ngetattr(resolver, 'gate')", "which is not public"
    ),
    "a scheme's module": Planted(
        "resolver.adapters.x", "from protocols.ftp import url", "public names alone"
    ),
    "another adapter": Planted("resolver.adapters.x", "import resolver.adapters.mcp", "public names alone"),
}
USED_ADAPTERS: Mapping[str, Planted] = {
    "the session an adapter": Planted(
        "resolver.retrieval.session", "from resolver.adapters.mcp import serve", "nothing of ours needs"
    ),
    "another verb": Planted(
        "resolver.cli.online", "def f():\n  import resolver.adapters.mcp", "nothing of ours needs"
    ),
    "an adapter another one": Planted(
        "resolver.adapters.x", "from resolver.adapters import mcp", "nothing of ours needs"
    ),
    "the package all of them": Planted(
        "resolver.adapters", "from resolver.adapters.mcp import serve", "nothing of ours needs"
    ),
    "a verb another adapter": Planted(
        "resolver.cli.agents", "import resolver.adapters.other", "nothing of ours needs"
    ),
}
SCHEME_NAMES: Mapping[str, Planted] = {
    "a scheme compared": Planted(
        "resolver.retrieval.streaming", "if url.scheme == 'https': x = 1", "names the scheme 'https'"
    ),
    "a table by scheme": Planted("resolver.plan", "PORTS = {'gopher': 70}", "names the scheme 'gopher'"),
    "a scheme matched": Planted("resolver.gate", "match x:\n  case 'ftp' | b'nntp': y", "names the scheme"),
    "the beginning of a URL": Planted("resolver.cli.verbs", "f'ftp://{host}/'", "names the scheme 'ftp://'"),
    "a set of schemes": Planted(
        "resolver.policy.hops", "FOLLOWED = frozenset({'http', 'wais'})", "names the scheme"
    ),
}
FORBIDDEN: Mapping[str, Planted] = {
    "a socket's function": Planted("protocols.ftp", "from socket import create_connection", "nobody may"),
    "the date of today": Planted(
        "protocols.news.dates", "from datetime import UTC, datetime as d\nd.now(UTC)", "nobody may"
    ),
    "a date in the policy": Planted(
        "resolver.policy.subject", "import datetime\ndatetime.date.today()", "nobody may"
    ),
    "trio's socket": Planted("resolver.retrieval.session", "import trio\ntrio.socket.socket()", "nobody may"),
    "trio by another name": Planted(
        "resolver.loops.on_trio", "import trio as t\nt.open_tcp_stream(h, 1)", "nobody may"
    ),
    "a stream of trio's, imported": Planted(
        "resolver.loops.on_trio", "from trio import open_tcp_stream as connect", "nobody may"
    ),
    "a stream of trio's, later": Planted(
        "resolver.loops.on_trio", "import trio\nopened = trio\nopened.open_tcp_stream(h, 1)", "nobody may"
    ),
    "a stream of trio's, by a text": Planted(
        "resolver.loops.on_trio", "import trio\ngetattr(trio, 'open_tcp_stream')(h, 1)", "nobody may"
    ),
    "a client of httpx's": Planted(
        "resolver.http_transport.hop", "import httpx\nhttpx.AsyncClient()", "nobody may"
    ),
    "a function of httpx's": Planted("resolver.http_transport.hop", "from httpx import get", "nobody may"),
    "a look-up that waits": Planted(
        "resolver.gate.lookup", "import socket\nsocket.getaddrinfo(h, 1)", "nobody may"
    ),
    "a connection of the system's": Planted(
        "resolver.gate", "from socket import create_connection", "nobody may"
    ),
    "an adapter's connection in another": Planted(
        "resolver.adapters.x", "from socket import create_connection", "nobody may"
    ),
    "a program": Planted("resolver.retrieval.session", "import os\nos.system('ls')", "nobody may"),
    "a program in the gate": Planted("resolver.disk.file", "import os\nos.system('ls')", "nobody may"),
    "a program from a fork": Planted("resolver.disk.file", "from os import execvp", "nobody may"),
    "a program by trio": Planted("resolver.disk.file", "import trio\ntrio.run_process('ls')", "nobody may"),
    "a module by any text": Planted(
        "resolver.url", "from importlib import import_module as load\nload(name)", "nobody may"
    ),
    "a module by any builtin": Planted("resolver.url", "__import__(name)", "nobody may"),
    "a file by a builtin": Planted("resolver.retrieval.session", "open(name)", "nobody may"),
    "a file by a builtin, aside": Planted("resolver.retrieval.session", "o = open\no(name)", "nobody may"),
    "a file by builtins": Planted(
        "resolver.retrieval.session", "import builtins\nbuiltins.open(name)", "nobody may"
    ),
    "a file by a text": Planted(
        "resolver.retrieval.session", "import builtins\ngetattr(builtins, 'open')(name)", "nobody may"
    ),
    "text that is run": Planted("resolver.url", "eval(text)", "nobody may"),
    "everything of a module": Planted("resolver.disk.file", "from os import *", "nobody may"),
}
BY_NAME: Mapping[str, Planted] = {
    "any text": Planted("resolver.disk.file", "import os\ngetattr(os, name)()", "reaches into os"),
    "any text of builtins": Planted(
        "resolver.url", "import builtins\ngetattr(builtins, name)", "into builtins"
    ),
    "all names": Planted("resolver.disk.file", "import os\nvars(os)['system']", "reaches into os"),
    "its dictionary": Planted("resolver.disk.file", "import os\nos.__dict__['system']", "reaches into os"),
    "a function's globals": Planted("resolver.url", "parse.__globals__['x']", "reaches into"),
    "put in place of": Planted(
        "resolver.cli", "import resolver.url as u\nu.parse = p", "reaches into resolver.url"
    ),
    "set in place of": Planted(
        "resolver.cli", "from resolver import url\nsetattr(url, n, p)", "reaches into"
    ),
}
MACHINES: Mapping[str, Planted] = {
    "a coroutine": Planted("protocols.ftp.dialogue", "async def f():\n  return 1", "async def f"),
    "an await": Planted("protocols.ftp", "async def f(s):\n  await s.receive()", "awaits"),
    "an async generator": Planted(
        "protocols.gopher.menu", "async def f(b):\n  async for x in b: yield x", "awaits"
    ),
    "an async comprehension": Planted(
        "protocols.wire", "async def f(b):\n  return [x async for x in b]", "awaits"
    ),
    "an async context": Planted("protocols.news", "async def f(b):\n  async with b: pass", "awaits"),
}
FILES: Mapping[str, Planted] = {
    "a path that reads": Planted("resolver.retrieval.session", "path.read_bytes()", "read_bytes"),
    "a path that opens": Planted("resolver.retrieval.session", "path.open('rb')", "calls path.open"),
    "a name that is removed": Planted(
        "resolver.retrieval.session", "folder.unlink(name)", "calls folder.unlink"
    ),
}
SHORT_FILES: Mapping[str, Planted] = {
    "a long file": Planted("resolver.retrieval.session", "x = 1\n" * 801, "801 lines")
}
CATCHES: Mapping[str, Planted] = {
    "every exception": Planted(
        "resolver.retrieval.session", "try: x\nexcept Exception: y", "catches Exception"
    ),
    "every exception with others": Planted(
        "resolver.retrieval.session", "try: x\nexcept (Exception, ValueError): y", "catches Exception"
    ),
    "every exception by a name": Planted(
        "resolver.retrieval.session", "E = Exception\ntry: x\nexcept E: y", "catches Exc"
    ),
    "every exception in a tuple's name": Planted(
        "resolver.retrieval.session", "ALL = (OSError, Exception)\ntry: x\nexcept ALL: y", "catches Exception"
    ),
    "every exception of builtins": Planted(
        "resolver.retrieval.session",
        "import builtins as b\ntry: x\nexcept b.Exception: y",
        "catches Exception",
    ),
    "every exception of a group": Planted(
        "resolver.retrieval.session", "try: x\nexcept* Exception: y", "catches Exception"
    ),
    "anything": Planted("resolver.retrieval.session", "try: x\nexcept: raise", "catches everything"),
    "a cancel": Planted(
        "resolver.retrieval.session", "try: x\nexcept BaseException: y", "catches BaseException"
    ),
    "a cancel with others": Planted(
        "resolver.retrieval.session", "try: x\nexcept (OSError, BaseException): y", "catches BaseException"
    ),
    "suppressed": Planted(
        "resolver.retrieval.session",
        "from contextlib import suppress\nwith suppress(Exception): x",
        "catches Exception",
    ),
    "suppressed by another name": Planted(
        "resolver.retrieval.session",
        "import contextlib as c\nwith c.suppress(OSError, BaseException): x",
        "catches Base",
    ),
    "left in finally": Planted(
        "resolver.retrieval.session", "def f():\n  try: x\n  finally: return 1", "loses"
    ),
    "an exit that says yes": Planted(
        "resolver.retrieval.session", "class A:\n  def __exit__(self, *a):\n    return True", "loses"
    ),
}
PATTERNS: Mapping[str, Planted] = {
    "a possessive group": Planted("protocols.ftp", "import re\nre.compile(r'(?:a|b)*+')", "possessive"),
    "a possessive set": Planted("protocols.ftp", "import re\nA = rb'[^]]++]'\nre.match(A, b)", "possessive"),
    "a possessive question": Planted(
        "protocols.ftp", "from re import match\nmatch(f'[{a}]?+', b)", "possessive"
    ),
    "a possessive count": Planted("protocols.ftp", "import re\nA = re.compile('a{2}+')", "possessive"),
    "an atomic group": Planted(
        "protocols.ftp", "def f():\n  import re as r\n  r.match('(?>a)', b)", "possessive"
    ),
}
LINES_MADE: Mapping[str, Planted] = {
    "a line": Planted("protocols.ftp", "Line(b'', b'')", "makes a Line"),
    "a line of the contract": Planted(
        "protocols.ftp", "from protocols import contract\ncontract.Line(b'', b'')", "makes a Line"
    ),
    "a line by another name": Planted(
        "protocols.ftp", "from protocols.step import Line as L\nL(b'', b'')", "makes a Line"
    ),
    "a line, aside": Planted(
        "protocols.ftp", "from protocols.connection import Line\nmake = Line\nmake(b'', b'')", "makes a Line"
    ),
    "a line out of a line": Planted("protocols.ftp", "line._replace(octets=b'')", "makes a Line"),
    "a line by its class": Planted("protocols.ftp", "Line._replace(line, octets=b'')", "makes a Line"),
    "a line out of parts": Planted("protocols.ftp", "Line._make((b'', b'', ()))", "makes a Line"),
    "a line by new": Planted("protocols.ftp", "tuple.__new__(Line, (b'', b'', ()))", "makes a Line"),
    "a line by map": Planted("protocols.ftp", "map(Line, octets, octets)", "makes a Line"),
    "a line's own class": Planted("protocols.ftp", "type(line)(b'', b'')", "makes a Line"),
    "a line's derived class": Planted("protocols.ftp", "class Mine(Line): ...", "makes a Line"),
}
LINE_ENDS: Mapping[str, Planted] = {
    "a line end added": Planted("protocols.ftp", r"x = word + b'\r\n'", "holds a CR"),
    "a line end kept": Planted("protocols.ftp", r"CRLF = '\r\n'", "holds a CR"),
    "a line end between": Planted("protocols.ftp", r"b'\r\n'.join(words)", "holds a CR"),
    "a line end formatted": Planted("protocols.ftp", r"f'{word}\r\n'", "holds a CR"),
    "a line end put for another": Planted("protocols.ftp", r"text.replace('\n', '\r\n')", "holds a CR"),
    "a line end sent": Planted("protocols.ftp", r"send(b'QUIT\x0d\x0a')", "holds a CR"),
    "a line end of numbers": Planted("protocols.ftp", "bytes([13, 10])", "holds a CR"),
    "a line end of a number": Planted("protocols.ftp", "chr(0x0D)", "holds a CR"),
    "a line end of digits": Planted("protocols.ftp", "bytes.fromhex('0D0A')", "holds a CR"),
}

PLANTED: Mapping[Rule, Mapping[str, Planted]] = {
    adapters.adapters_use_what_is_public: ADAPTERS,
    adapters.nobody_imports_an_adapter: USED_ADAPTERS,
    schemes.only_the_tables_name_schemes: SCHEME_NAMES,
    never.reaches_nothing_by_name: BY_NAME,
    never.uses_nothing_forbidden: FORBIDDEN,
    machines.machines_do_not_wait: MACHINES,
    doors.only_the_disk_opens_files: FILES,
    shape.files_are_short: SHORT_FILES,
    shape.catches_what_it_means: CATCHES,
    shape.patterns_let_go: PATTERNS,
    line_ends.only_wire_makes_lines: LINES_MADE,
    line_ends.only_wire_ends_lines: LINE_ENDS,
}

#: What the rules must let pass.
KEPT: tuple[tuple[Rule, str, str], ...] = (
    (adapters.adapters_use_what_is_public, "resolver.adapters.x", "import resolver\nresolver.fetch(u)"),
    (adapters.adapters_use_what_is_public, "resolver.adapters.x.a", "from resolver.adapters.x.b import c"),
    (adapters.nobody_imports_an_adapter, "resolver.adapters.x.a", "from resolver.adapters.x.b import c"),
    (adapters.nobody_imports_an_adapter, "resolver.cli.agents", "from resolver.adapters.mcp import serve"),
    (schemes.only_the_tables_name_schemes, "resolver.registry", "S = {'ftp': 'protocols.ftp:FTP'}"),
    (schemes.only_the_tables_name_schemes, "resolver.retrieval.session", "f(want='file')\n'a news server'"),
    (never.reaches_nothing_by_name, "resolver.retrieval.streaming", "getattr(url, name)\nvars(error)"),
    (
        machines.machines_do_not_wait,
        "protocols.contract",
        "class G:\n  async def f(self) -> int:\n    '''What.'''\n    ...",
    ),
    (machines.machines_do_not_wait, "protocols.conversation.driver", "async def f(s): await s.receive()"),
    (never.uses_nothing_forbidden, "protocols.scheme", "class Scheme:\n  open: int\nx.open()"),
    (never.uses_nothing_forbidden, "resolver.loops.on_trio", "import trio\ntrio.Lock()"),
    (doors.only_the_disk_opens_files, "resolver.disk.file", "open(name)"),
    (doors.only_the_disk_opens_files, "resolver.retrieval.retrieval", "scheme.open(url, gate)"),
    (
        shape.catches_what_it_means,
        "resolver.retrieval.session",
        "try: x\nexcept BaseException:\n  y\n  raise",
    ),
    (
        shape.catches_what_it_means,
        "resolver.retrieval.session",
        "try: x\nexcept (OSError, e.Own): y\nfinally: z",
    ),
    (shape.patterns_let_go, "protocols.ftp", r"re.compile(r'[A-Z*+]+[+]+\++\*+(?:a)*?b+?')"),
    (shape.patterns_let_go, "protocols.ftp", "import re\nA = 'C++'"),
    (line_ends.only_wire_makes_lines, "protocols.wire", "Line(b'', b'')"),
    (line_ends.only_wire_makes_lines, "protocols.ftp", "def f(a: Line) -> list[Line]: isinstance(a, Line)"),
    (line_ends.only_wire_makes_lines, "resolver.plan", "plan._replace(verdict='refuse')"),
    (line_ends.only_wire_ends_lines, "protocols.wire", r"_CRLF = b'\r\n'"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"line.endswith((b'\r\n', b'\n'))"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"b'\r' in line or line == b'\r\n'"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"text.replace('\r\n', '\n')"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"FORBIDDEN = b'\0\r\n'"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"re.compile(b'\r\n')"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", "def f():\n  'ends at \\r\\n'"),
)
