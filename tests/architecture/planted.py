"""Modules that break the house: a kind of violation each, and the words by which its rule tells of it.

What is new here was let pass at some time, or nearly: a rule that looks at how a thing is written and not at
what it means finds the first spelling only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from tests.architecture import adapters, allowed, doors, layers, line_ends, machines, schemes, shape
from tests.architecture.source import Module

Rule: TypeAlias = Callable[[Module], list[str]]


class Planted(NamedTuple):
    """In a module of that name, and what its rule says of it."""

    name: str
    source: str
    words: str


LAYERS: Mapping[str, Planted] = {
    "protocols imports resolver": Planted(
        "protocols.wire", "from resolver import policy", "protocols never imports resolver"
    ),
    "for types, too": Planted("protocols.wire", "if TYPE_CHECKING:\n  import resolver.url", "never imports"),
    "the ground imports a floor": Planted(
        "protocols.wire", "import protocols.conversation", "not a layer below"
    ),
    "the contract imports the wire": Planted(
        "protocols.contract", "from protocols import wire", "not a layer below"
    ),
    "relatively": Planted("protocols.contract", "from .wire import Buffer", "not a layer below"),
    "a neighbour": Planted("protocols.wire", "from protocols.conversation import hold", "not a layer"),
    "a scheme imports a scheme": Planted(
        "protocols.ftp", "from protocols.gopher import url", "not a layer below"
    ),
    "a scheme's module a scheme's module": Planted(
        "protocols.ftp.url", "import protocols.gopher.url", "not a layer below"
    ),
    "a scheme, late": Planted("protocols.wire", "def f():\n  import protocols.ftp", "not a layer below"),
    "a scheme, by a text": Planted(
        "protocols.ftp", "import importlib\nimportlib.import_module('protocols.gopher')", "not a layer below"
    ),
    "the registry imports the parser": Planted(
        "resolver.registry", "from resolver.url import parse", "not a layer"
    ),
    "the policy imports the gate": Planted(
        "resolver.policy.ports", "import resolver.gate", "not a layer below"
    ),
    "the gate imports the session": Planted(
        "resolver.gate.stream", "import resolver.retrieval.session", "not a layer below"
    ),
    "the session imports the command": Planted(
        "resolver.retrieval.session", "from resolver.cli import streams", "not a layer"
    ),
}
PLACES: Mapping[str, Planted] = {"a module without a place": Planted("resolver.novelty", "", "no place")}
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
SCHEMES_OWN: Mapping[str, Planted] = {
    "a scheme's folder": Planted(
        "resolver.retrieval.naming",
        "from protocols.http.disposition import suggested_name",
        "is a scheme's own",
    ),
    "a scheme's package": Planted(
        "resolver.retrieval.streaming", "from protocols import gopher", "is a scheme's own"
    ),
    "a scheme, for types": Planted(
        "resolver.gate", "if TYPE_CHECKING:\n  from protocols.ftp.url import FtpUrl", "is a scheme's own"
    ),
    "another scheme than the face's": Planted(
        "resolver.http_transport.hop", "import protocols.ftp.url", "is a scheme's own"
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
ALLOWED: Mapping[str, Planted] = {
    "another loop": Planted("protocols.ftp", "import trio", "imports trio"),
    "a socket's function": Planted("protocols.ftp", "from socket import create_connection", "imports socket"),
    "a class that is compiled while it is imported": Planted(
        "resolver.policy.verdict", "from dataclasses import dataclass", "imports dataclasses"
    ),
    "a tuple that is": Planted(
        "protocols.step", "from typing import NamedTuple", "uses typing.NamedTuple, which nobody may"
    ),
    "a clock": Planted("protocols.ftp", "def f():\n  import time", "imports time"),
    "a clock by another name": Planted("protocols.ftp", "import time as t\nt.monotonic()", "imports time"),
    "the date of today": Planted(
        "protocols.news.dates", "from datetime import UTC, datetime as d\nd.now(UTC)", "nobody may"
    ),
    "a date in the policy": Planted(
        "resolver.policy.subject", "import datetime\ndatetime.date.today()", "nobody may"
    ),
    "chance": Planted("protocols.prospero", "from random import randrange", "imports random"),
    "chance of the system": Planted("protocols.prospero", "import os\nos.urandom(2)", "imports os"),
    "a log": Planted("protocols.ftp", "import logging", "imports logging"),
    "another client": Planted("resolver.retrieval.session", "import requests", "imports requests"),
    "another client of the standard library": Planted(
        "resolver.gate", "import urllib.request", "imports urllib.request"
    ),
    "trio in the gate": Planted("resolver.gate.stream", "import trio", "imports trio"),
    "trio on the disk": Planted("resolver.disk.file", "from trio import to_thread", "imports trio"),
    "trio in a retrieval": Planted(
        "resolver.retrieval.retry", "def f():\n  import trio\n  trio.sleep(1)", "imports trio"
    ),
    "anyio in the gate": Planted("resolver.gate.race", "from anyio import Event", "imports anyio"),
    "anyio beside trio": Planted("resolver.loops.on_trio", "import anyio", "imports anyio"),
    "trio beside asyncio": Planted("resolver.loops.on_asyncio", "import trio", "imports trio"),
    "a loop where one is chosen": Planted("resolver.loops.__init__", "import asyncio", "imports asyncio"),
    "asyncio under httpx": Planted("resolver.http_transport.streams", "import asyncio", "imports asyncio"),
    "asyncio in the gate": Planted("resolver.gate", "import asyncio", "imports asyncio"),
    "a socket outside the gate": Planted("resolver.retrieval.retrieval", "import socket", "imports socket"),
    "TLS outside the gate": Planted("resolver.cli.online", "from ssl import SSLContext", "imports ssl"),
    "trio's socket": Planted(
        "resolver.retrieval.session", "import trio\ntrio.socket.socket()", "trio.socket"
    ),
    "trio by another name": Planted(
        "resolver.loops.on_trio", "import trio as t\nt.open_tcp_stream(h, 1)", "trio.open_tcp"
    ),
    "a stream of trio's, imported": Planted(
        "resolver.loops.on_trio", "from trio import open_tcp_stream as connect", "trio.open_tcp_stream"
    ),
    "a stream of trio's, later": Planted(
        "resolver.loops.on_trio",
        "import trio\nopened = trio\nopened.open_tcp_stream(h, 1)",
        "trio.open_tcp_stream",
    ),
    "a stream of trio's, by a text": Planted(
        "resolver.loops.on_trio",
        "import trio\ngetattr(trio, 'open_tcp_stream')(h, 1)",
        "trio.open_tcp_stream",
    ),
    "trio in the policy": Planted("resolver.policy.ports", "from trio import Lock", "trio.Lock"),
    "a client of httpx's": Planted(
        "resolver.http_transport.hop", "import httpx\nhttpx.AsyncClient()", "httpx.AsyncClient"
    ),
    "a function of httpx's": Planted("resolver.http_transport.hop", "from httpx import get", "httpx.get"),
    "a file's function": Planted(
        "resolver.retrieval.session", "from os import open as o\no(name, 0)", "os.open"
    ),
    "a file's function, aside": Planted(
        "resolver.retrieval.session", "import os\no = os.open\no(name, 0)", "os.open"
    ),
    "a look-up that waits": Planted(
        "resolver.gate.lookup", "import socket\nsocket.getaddrinfo(h, 1)", "nobody may"
    ),
    "a connection of the system's": Planted(
        "resolver.gate", "from socket import create_connection", "nobody may"
    ),
    "an adapter's connection in another": Planted(
        "resolver.adapters.x", "from socket import create_connection", "nobody may"
    ),
    "an adapter's library in another": Planted(
        "resolver.adapters.guard.sockets", "import aiohttp", "imports aiohttp"
    ),
    "a program": Planted("resolver.retrieval.session", "import os\nos.system('ls')", "os.system"),
    "a program in the gate": Planted("resolver.disk.file", "import os\nos.system('ls')", "nobody may"),
    "a program from a fork": Planted("resolver.disk.file", "from os import execvp", "nobody may"),
    "a program by subprocess": Planted("resolver.disk.file", "import subprocess", "imports subprocess"),
    "a program by trio": Planted(
        "resolver.disk.file", "import trio\ntrio.run_process('ls')", "trio.run_process"
    ),
    "a thread": Planted("resolver.retrieval.session", "import threading", "imports threading"),
    "a module by a text": Planted(
        "resolver.retrieval.session", "import importlib\nimportlib.import_module('socket')", "imports socket"
    ),
    "a module by any text": Planted(
        "resolver.url", "from importlib import import_module as load\nload(name)", "importlib.import_module"
    ),
    "a module by a builtin": Planted("resolver.url", "__import__('socket').socket()", "imports socket"),
    "a module by any builtin": Planted("resolver.url", "__import__(name)", "builtins.__import__"),
    "a module as a value": Planted("resolver.retrieval.session", "import os\nf(os)", "uses os"),
    "a file by a builtin": Planted("resolver.retrieval.session", "open(name)", "builtins.open"),
    "a file by a builtin, aside": Planted("resolver.retrieval.session", "o = open\no(name)", "builtins.open"),
    "a file by builtins": Planted(
        "resolver.retrieval.session", "import builtins\nbuiltins.open(name)", "builtins.open"
    ),
    "a file by a text": Planted(
        "resolver.retrieval.session", "import builtins\ngetattr(builtins, 'open')(name)", "builtins.open"
    ),
    "a path": Planted("resolver.retrieval.session", "from pathlib import Path", "imports pathlib"),
    "a temporary file": Planted("resolver.retrieval.session", "import tempfile", "imports tempfile"),
    "text that is run": Planted("resolver.url", "eval(text)", "builtins.eval"),
    "everything of a module": Planted("resolver.disk.file", "from os import *", "nobody may"),
    "pickled text": Planted("resolver.disk.part_state", "import pickle", "imports pickle"),
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
    "a long file": Planted("resolver.retrieval.session", "x = 1\n" * 401, "401 lines")
}
SHORT_FUNCTIONS: Mapping[str, Planted] = {
    "a long function": Planted("resolver.retrieval.session", "def f():\n" + "  x = 1\n" * 60, "61 lines"),
    "a long method": Planted(
        "resolver.retrieval.session", "class A:\n def f(self):\n" + "  x = 1\n" * 60, "61 lines"
    ),
}
NAMES: Mapping[str, Planted] = {
    "utilities": Planted("resolver.utils", "", "utils"),
    "a base": Planted("protocols.ftp.ftp_base", "", "base"),
}
RULES_STATED: Mapping[str, Planted] = {
    "no docstring": Planted("resolver.retrieval.session", "x = 1", "no docstring")
}
KEYWORDS: Mapping[str, Planted] = {
    "keywords unseen": Planted("resolver.retrieval.session", "async def f(**kwargs): ...", "**kwargs")
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
    layers.layers_go_one_way: LAYERS,
    layers.has_a_layer: PLACES,
    adapters.adapters_use_what_is_public: ADAPTERS,
    adapters.nobody_imports_an_adapter: USED_ADAPTERS,
    layers.resolver_knows_no_scheme: SCHEMES_OWN,
    schemes.only_the_tables_name_schemes: SCHEME_NAMES,
    allowed.uses_what_is_allowed: ALLOWED,
    allowed.reaches_nothing_by_name: BY_NAME,
    machines.machines_do_not_wait: MACHINES,
    doors.only_the_disk_opens_files: FILES,
    shape.files_are_short: SHORT_FILES,
    shape.functions_are_short: SHORT_FUNCTIONS,
    shape.names_say_something: NAMES,
    shape.states_its_rule: RULES_STATED,
    shape.takes_no_keywords_unseen: KEYWORDS,
    shape.catches_what_it_means: CATCHES,
    shape.patterns_let_go: PATTERNS,
    line_ends.only_wire_makes_lines: LINES_MADE,
    line_ends.only_wire_ends_lines: LINE_ENDS,
}

#: What the rules must let pass.
KEPT: tuple[tuple[Rule, str, str], ...] = (
    (layers.layers_go_one_way, "protocols.ftp.url", "from protocols.ftp import reply"),
    (layers.layers_go_one_way, "protocols.ftp.url", "from protocols.wire import Buffer"),
    (
        layers.layers_go_one_way,
        "protocols.scheme",
        "if TYPE_CHECKING:\n  from protocols.contract import Gate",
    ),
    (adapters.adapters_use_what_is_public, "resolver.adapters.x", "import resolver\nresolver.fetch(u)"),
    (adapters.adapters_use_what_is_public, "resolver.adapters.x.a", "from resolver.adapters.x.b import c"),
    (adapters.nobody_imports_an_adapter, "resolver.adapters.x.a", "from resolver.adapters.x.b import c"),
    (adapters.nobody_imports_an_adapter, "resolver.cli.agents", "from resolver.adapters.mcp import serve"),
    (layers.layers_go_one_way, "resolver.cli.online", "from resolver.retrieval.session import Resolver"),
    (
        layers.resolver_knows_no_scheme,
        "resolver.http_transport.hop",
        "from protocols.http.url import HttpUrl",
    ),
    (layers.resolver_knows_no_scheme, "resolver.retrieval.streaming", "from protocols.wire import Buffer"),
    (
        layers.resolver_knows_no_scheme,
        "resolver",
        "if TYPE_CHECKING:\n  from protocols.http.url import HttpUrl",
    ),
    (
        shape.takes_no_keywords_unseen,
        "resolver.once",
        "from typing import Unpack\ndef f(**s: Unpack[Settings]): ...",
    ),
    (schemes.only_the_tables_name_schemes, "resolver.registry", "S = {'ftp': 'protocols.ftp:FTP'}"),
    (schemes.only_the_tables_name_schemes, "resolver.retrieval.session", "f(want='file')\n'a news server'"),
    (
        allowed.uses_what_is_allowed,
        "resolver.adapters.guard.sockets",
        "import socket\nsocket.create_connection(p)",
    ),
    (allowed.uses_what_is_allowed, "protocols.http.machine", "import h11\nh11.Connection(h11.CLIENT)"),
    (allowed.uses_what_is_allowed, "resolver.gate.stream", "import socket\nimport ssl\nssl.SSLError"),
    (allowed.uses_what_is_allowed, "resolver.loops.on_trio", "import trio\ntrio.Lock()"),
    (allowed.uses_what_is_allowed, "resolver.disk.file", "import os\ngetattr(os, 'O_PATH', os.O_RDONLY)"),
    (allowed.uses_what_is_allowed, "protocols.scheme", "class Scheme:\n  open: int\nx.open()"),
    (
        allowed.uses_what_is_allowed,
        "resolver.retrieval.streaming",
        "from datetime import datetime\ndatetime.now()",
    ),
    (allowed.reaches_nothing_by_name, "resolver.retrieval.streaming", "getattr(url, name)\nvars(error)"),
    (
        machines.machines_do_not_wait,
        "protocols.contract",
        "class G:\n  async def f(self) -> int:\n    '''What.'''\n    ...",
    ),
    (machines.machines_do_not_wait, "protocols.conversation.driver", "async def f(s): await s.receive()"),
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
    (
        shape.takes_no_keywords_unseen,
        "resolver.blocking.likeness",
        "def f(*args: P.args, **kwargs: P.kwargs): ...",
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
