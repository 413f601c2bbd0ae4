"""Modules that break a rule, and modules that do not: one line each; ¶ ends a line of the source.

Each row of the first table passed a rule at some time, or nearly: a rule that compares spellings, and not the
names behind them, finds only the first spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tests.architecture import doors, line_ends, machines, never, schemes, shape
from tests.architecture.source import Module

Rule: TypeAlias = Callable[[Module], list[str]]


def planted(table: Mapping[Rule, str]) -> list[tuple[Rule, Module]]:
    """Return each rule with each module of its table."""
    found = [
        (rule, row.strip().partition(": ")) for rule in table for row in table[rule].strip().splitlines()
    ]
    return [(rule, Module(name, source.replace(" ¶ ", "\n"))) for rule, (name, _, source) in found]


BROKEN: Mapping[Rule, str] = {
    schemes.only_the_tables_name_schemes: r"""
        resolver.transfer.streaming: if url.scheme == 'https': x = 1
        resolver.transfer.plan: PORTS = {'gopher': 70}
        resolver.network: match x: ¶   case 'ftp' | b'nntp': y
        resolver.cli.verbs: f'ftp://{host}/'
        resolver.policy.redirects: FOLLOWED = frozenset({'http', 'wais'})
    """,
    never.reaches_nothing_by_name: r"""
        resolver.files.local: import os ¶ getattr(os, name)()
        resolver.url.parsing: import builtins ¶ getattr(builtins, name)
        resolver.files.local: import os ¶ vars(os)['system']
        resolver.files.local: import os ¶ os.__dict__['system']
        resolver.url.parsing: parse.__globals__['x']
        resolver.cli: import resolver.url.parsing as u ¶ u.parse = p
        resolver.cli: from resolver import url ¶ setattr(url, n, p)
    """,
    never.uses_nothing_forbidden: r"""
        protocols.ftp: from socket import create_connection
        protocols.news.article: from datetime import UTC, datetime as d ¶ d.now(UTC)
        resolver.policy.subject: import datetime ¶ datetime.date.today()
        resolver.transfer.session: import trio ¶ trio.socket.socket()
        resolver.loops.on_trio: import trio as t ¶ t.open_tcp_stream(h, 1)
        resolver.loops.on_trio: from trio import open_tcp_stream as connect
        resolver.loops.on_trio: import trio ¶ opened = trio ¶ opened.open_tcp_stream(h, 1)
        resolver.loops.on_trio: import trio ¶ getattr(trio, 'open_tcp_stream')(h, 1)
        resolver.adapters.httpx_transport: import httpx ¶ httpx.AsyncClient()
        resolver.adapters.httpx_transport: from httpx import get
        resolver.network.lookup: import socket ¶ socket.getaddrinfo(h, 1)
        resolver.network: from socket import create_connection
        resolver.adapters.x: from socket import create_connection
        resolver.transfer.session: import os ¶ os.system('ls')
        resolver.files.local: import os ¶ os.system('ls')
        resolver.files.local: from os import execvp
        resolver.files.local: import trio ¶ trio.run_process('ls')
        resolver.url.parsing: from importlib import import_module as load ¶ load(name)
        resolver.url.parsing: __import__(name)
        resolver.transfer.session: open(name)
        resolver.transfer.session: o = open ¶ o(name)
        resolver.transfer.session: import builtins ¶ builtins.open(name)
        resolver.transfer.session: import builtins ¶ getattr(builtins, 'open')(name)
        resolver.url.parsing: eval(text)
        resolver.files.local: from os import *
    """,
    machines.machines_do_not_wait: r"""
        protocols.ftp.dialogue: async def f(): ¶   return 1
        protocols.ftp: async def f(s): ¶   await s.receive()
        protocols.gopher.menu: async def f(b): ¶   async for x in b: yield x
        protocols.wire: async def f(b): ¶   return [x async for x in b]
        protocols.news: async def f(b): ¶   async with b: pass
    """,
    doors.only_the_disk_opens_files: r"""
        resolver.transfer.session: path.read_bytes()
        resolver.transfer.session: path.open('rb')
        resolver.transfer.session: folder.unlink(name)
    """,
    shape.errors_are_not_lost: r"""
        resolver.transfer.session: from contextlib import suppress ¶ with suppress(Exception): x
        resolver.transfer.session: import contextlib as c ¶ with c.suppress(OSError, BaseException): x
        resolver.transfer.session: class A: ¶   def __exit__(self, *a): ¶     return True
    """,
    shape.patterns_are_not_possessive: r"""
        protocols.ftp: import re ¶ re.compile(r'(?:a|b)*+')
        protocols.ftp: import re ¶ A = rb'[^]]++]' ¶ re.match(A, b)
        protocols.ftp: from re import match ¶ match(f'[{a}]?+', b)
        protocols.ftp: import re ¶ A = re.compile('a{2}+')
        protocols.ftp: def f(): ¶   import re as r ¶   r.match('(?>a)', b)
    """,
    line_ends.only_wire_makes_lines: r"""
        protocols.ftp: Line(b'', b'')
        protocols.ftp: from protocols import contract ¶ contract.Line(b'', b'')
        protocols.ftp: from protocols.step import Line as L ¶ L(b'', b'')
        protocols.ftp: from protocols.contract import Line ¶ make = Line ¶ make(b'', b'')
        protocols.ftp: line._replace(octets=b'')
        protocols.ftp: Line._replace(line, octets=b'')
        protocols.ftp: Line._make((b'', b'', ()))
        protocols.ftp: tuple.__new__(Line, (b'', b'', ()))
        protocols.ftp: map(Line, octets, octets)
        protocols.ftp: type(line)(b'', b'')
        protocols.ftp: class Mine(Line): ...
    """,
    line_ends.only_wire_ends_lines: r"""
        protocols.ftp: x = word + b'\r\n'
        protocols.ftp: CRLF = '\r\n'
        protocols.ftp: b'\r\n'.join(words)
        protocols.ftp: f'{word}\r\n'
        protocols.ftp: text.replace('\n', '\r\n')
        protocols.ftp: send(b'QUIT\x0d\x0a')
        protocols.ftp: bytes([13, 10])
        protocols.ftp: chr(0x0D)
        protocols.ftp: bytes.fromhex('0D0A')
    """,
}

KEPT: Mapping[Rule, str] = {
    schemes.only_the_tables_name_schemes: r"""
        resolver.url.registry: S = {'ftp': 'protocols.ftp:FTP'}
        resolver.transfer.session: f(want='file') ¶ 'a news server'
    """,
    never.reaches_nothing_by_name: r"""
        resolver.transfer.streaming: getattr(url, name) ¶ vars(error)
    """,
    never.uses_nothing_forbidden: r"""
        protocols.scheme: class Scheme: ¶   open: int ¶ x.open()
        resolver.loops.on_trio: import trio ¶ trio.Lock()
    """,
    machines.machines_do_not_wait: r"""
        protocols.contract: class G: ¶   async def f(self) -> int: ¶     '''What.''' ¶     ...
        protocols.conversation.driver: async def f(s): await s.receive()
    """,
    doors.only_the_disk_opens_files: r"""
        resolver.files.local: open(name)
        resolver.transfer.retrieval: scheme.open(url, gate)
    """,
    shape.errors_are_not_lost: r"""
        resolver.transfer.session: from contextlib import suppress ¶ with suppress(OSError): x
        resolver.transfer.session: class A: ¶   def __exit__(self, *a): ¶     return None
    """,
    shape.patterns_are_not_possessive: r"""
        protocols.ftp: re.compile(r'[A-Z*+]+[+]+\++\*+(?:a)*?b+?')
        protocols.ftp: import re ¶ A = 'C++'
    """,
    line_ends.only_wire_makes_lines: r"""
        protocols.wire: Line(b'', b'')
        protocols.ftp: def f(a: Line) -> list[Line]: isinstance(a, Line)
        resolver.transfer.plan: plan._replace(verdict='refuse')
    """,
    line_ends.only_wire_ends_lines: r"""
        protocols.wire: _CRLF = b'\r\n'
        protocols.ftp: line.endswith((b'\r\n', b'\n'))
        protocols.ftp: b'\r' in line or line == b'\r\n'
        protocols.ftp: text.replace('\r\n', '\n')
        protocols.ftp: FORBIDDEN = b'\0\r\n'
        protocols.ftp: re.compile(b'\r\n')
        protocols.ftp: def f(): ¶   'ends at \r\n'
    """,
}
