"""Modules that break a rule, each with why. One that keeps it has to go from here, as a test says."""

from __future__ import annotations

from collections.abc import Mapping

from tests.architecture import allowed, doors, line_ends, schemes, shape
from tests.architecture.planted import Rule

EXCEPTIONS: Mapping[Rule, Mapping[str, str]] = {
    line_ends.only_wire_makes_lines: {
        "protocols.values": "what makes the class of lines makes no line",
        "resolver.http2.framing": "a part of an answer has octets, too, and leaves on no connection",
    },
    line_ends.only_wire_ends_lines: {
        "protocols.ftp.text": "text that arrives: a CR is carried over to the next octets, CR NUL is a CR",
        "protocols.telnet.newlines": "text that arrives, the same",
        "resolver.lists.sums": "text that arrives: a name may have a CR, written as an escape",
        "resolver.testing.contract.peers": "a server of the tests, which says what it likes",
        "resolver.testing.transcript": "what is written as an escape",
        "resolver.warc.group": "lines of a file of ours, as its format has them",
        "resolver.warc.framing": "text that arrives: it is read again as it came",
        "resolver.warc.records": "text that arrives: how a record ends and the next one begins",
        "resolver.terminal": "a CR at the end of what was shown is carried over to the next text",
    },
    shape.catches_what_it_means: {
        "resolver.loops.on_asyncio": "what a thread raises is raised where it is waited for",
        "resolver.disk.group_commit": "what goes wrong with a file is raised where that is waited for",
        "resolver.batch.running": "whatever ends a batch is raised where its results are waited for",
        "resolver.portal.thread": "whatever ends an operation is raised in the thread that waits for it",
        "resolver.bulk.store": "whatever a file system of fsspec's raises, it cannot be used",
    },
    schemes.only_the_tables_name_schemes: {
        **{
            f"resolver.window.{module}": "what browsers speak with us"
            for module in ("content", "entrance", "listening", "running", "serve")
        },
        "resolver.cli.handlers": "what browsers have dropped, for the desktop",
        "resolver.policy.hosts": "who keeps a client most often keeps one of http",
        "resolver.adapters.guard.sockets": "the same",
        "resolver.adapters.guard.streams": "the same",
        "resolver.adapters.guard.requests": "a client of http and https",
        "resolver.adapters.fsspec.record": "what fsspec calls a file",
        "resolver.tree.robots": "oddities of http, whose rules these are",
        "resolver.warc.recorder": "where the format says what it is",
        "resolver.ledger.database": "how SQLite is told in what way to open its file",
        "resolver.lists.metalink": "what RFC 5854 calls a file, and the namespace before it",
    },
    shape.takes_no_keywords_unseen: {
        "protocols.values": "fields of whatever class it is",
        **{
            f"resolver.adapters.fsspec.{module}": "a method of fsspec's, which hands on what it does not know"
            for module in ("filesystem", "listings", "walks")
        },
    },
    allowed.reaches_nothing_by_name: {
        "resolver.cli.interrupts": "only this hook of Python's hears of a KeyboardInterrupt that is dropped",
    },
    doors.only_the_disk_opens_files: {
        "resolver.cli.streams": "standard streams, LIST, password and trace files of the command line",
        "resolver.cli.console": "the terminal that a person sits at, opened anew",
        "resolver.cli.writing": "the pipe that standard output or -O is, opened anew",
        "resolver.cli.devices": "a device or a pipe that -O names",
        "resolver.adapters.fsspec.filesystem": "directories that fsspec's get copies into",
        "resolver.news_server": "the system's setting of a news server",
        "resolver.window.listening": "the system's table of connections",
        **{
            f"resolver.testing.contract.{module}": "a test, which looks at files that were saved"
            for module in ("endings", "given", "refusals", "running", "setting")
        },
    },
}
