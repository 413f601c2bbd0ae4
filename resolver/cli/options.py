"""The options of the command as a table: names, values, purposes, and the commands of each.

The parser, the help pages, completions and the man page use this table. A name has only one meaning in all
commands. Each row must have a long name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from resolver.cli.values import (
    checksum,
    count,
    depth,
    entry,
    frequency,
    listening_address,
    listening_port,
    moment,
    number,
    page_size,
    path,
    port,
    proxy,
    rate,
    referrer,
    regex,
    scheduler,
    seconds,
    size,
)

if TYPE_CHECKING:
    from protocols.location import Origin
    from resolver.files.commit import Sync
    from resolver.policy.settings import Name as PolicyName
    from resolver.transfer.saving import Exists
    from resolver.transfer.verification import Checksum

#: Commands, as rows refer to them.
GET = "get"
BODY = "get cat"
LISTED = "get cat ls"
FETCH = "get cat ls info"
FETCHED = f"{FETCH} mcp open serve"
BOUNDED = f"{FETCHED} bulk"
OF_ARCHIVES = f"{FETCH} open serve"
PLAN = f"{FETCH} explain open"
ASKED = f"{PLAN} bulk"
SERVED = f"{ASKED} mcp serve"
READ = f"{PLAN} parse"
TEXT = f"{READ} extract"
LISTS = f"{TEXT} bulk"
TABLES = f"{TEXT} schemes config ledger warc bulk"
CONFIGURED = f"{TABLES} mcp serve"
ALL = f"{TABLES} mcp serve help"
QUIET = f"{READ} ledger warc serve bulk"
TRIED = f"{FETCH} bulk"
SLICED = f"{GET} bulk"
LEFT = f"{FETCH} ledger"
KEPT = "get ledger"
SAVED = f"{GET} warc"


class Option(NamedTuple):
    """An option of the command.

    Attributes:
        flags: all names.
        takes: the metavariable, or None for a switch.
        purpose: a phrase for the help page.
        verbs: commands that use the option; others accept it without effect, except bulk and mcp.
        dest: the attribute, if not the long name.
        many: may be repeated.
        kind: parses the value.
        choices: valid values; the first is the default unless `unsaid`.
        default: the value without the option.
        unsaid: None is distinct from each choice.
        twice: the option that a repeated switch sets.
    """

    flags: tuple[str, ...]
    takes: str | None
    purpose: str
    verbs: str = PLAN
    dest: str | None = None
    many: bool = False
    kind: Callable[[str], object] = str
    choices: tuple[str, ...] | None = None
    default: object = None
    unsaid: bool = False
    twice: str | None = None

    @property
    def name(self) -> str:
        """Return the attribute of `CommandOptions` for this option."""
        return self.dest or self.long.removeprefix("--").replace("-", "_")

    @property
    def long(self) -> str:
        """Return the long name."""
        return next(flag for flag in self.flags if flag.startswith("--"))

    @property
    def unset(self) -> object:
        """Return the value without the option."""
        if self.takes is None:
            return False
        if self.many:
            return []
        return self.default if self.choices is None or self.unsaid else self.choices[0]


POLICIES = ("default", "cautious", "untrusted")
PROGRESS = ("auto", "bar", "dot", "json", "none")
SORT = ("name", "size", "date")
MAILBOXES = ("mbox", "maildir")
LOCAL = "local"
SYNC = ("group", "always", "never")
TLS = ("never", "try", "require")
EXISTS = ("fail", "resume", "skip", "newer", "replace", "rename")

Group = Literal["options", "output", "limits", "proof", "safety", "access", "schemes"]

OPTIONS: dict[Group, tuple[Option, ...]] = {
    "options": (
        Option(("-h", "--help"), None, "what there is; behind a verb, what it has", ALL),
        Option(("-V", "--version"), None, "the version", ALL),
    ),
    "output": (
        Option(("-O", "-o", "--output"), "FILE", "save there (DIR/: inside); - is stdout", SAVED, kind=path),
        Option(("-d", "--directory"), "DIR", "save below DIR, created if need be", SAVED, kind=path),
        Option(("--host-directories",), None, "save as host/path/name", SAVED),
        Option(("--cut-dirs",), "N", "save as path/name, less its first N directories", SAVED, kind=number),
        Option(("-i", "--input"), "LIST", "URLs, digests, Metalink; - is stdin", LISTS, "lists", True, path),
        Option(("--out",), "DIR", "below it bodies, outcomes, ledgers; or a URL (s3://)", "bulk", kind=path),
        Option(("--parquet",), None, "outcomes as Parquet, unless there are others", "bulk"),
        Option(("--jsonl",), None, "outcomes as JSON, one a line", "bulk"),
        Option(("-r", "--recursive"), None, "all that is below each URL, too", GET),
        Option(("--depth",), "N", "with -r: so many directories down, the URL's is 1", GET, kind=depth),
        Option(("--accept",), "GLOB", "with -r: files of such names alone", GET, many=True),
        Option(("--reject",), "GLOB", "with -r: no files of such names", GET, many=True),
        Option(("--accept-regex",), "RE", "with -r: files in whose URL RE is found", GET, kind=regex),
        Option(("--ignore-robots",), None, "with -r: also what robots.txt forbids", GET),
        Option(("--delete",), None, "with -r: remove here what the source has no more", GET),
        Option(("--yes",), None, "with --delete: nobody is asked", GET),
        Option(("--dry-run",), None, "say what would be done, and do nothing of it", SLICED),
        Option(("--format",), "F", "with -r: a group as mailbox", GET, choices=MAILBOXES, unsaid=True),
        Option(("--failed",), "FILE", "list there what is left, for another run to take", LEFT, kind=path),
        Option(("--warc",), "FILE", "keep all that comes there, and what was said (WARC)", TRIED, kind=path),
        Option(("--warc-size",), "BYTES", "from there on another file of the archive", FETCH, kind=size),
        Option(("--warc-dedup",), "CDX", "refer to what its archives have", FETCH, None, True, path),
        Option(("--warc-cookies",), None, "cookies that servers set stay in the archive", FETCH),
        Option(("--meta",), None, "write how it came to NAME.meta.json beside it", SAVED),
        Option(("--exists",), "HOW", "a file that is there", SAVED, choices=EXISTS),
        Option(("--sync",), "HOW", "when files get to the disk", GET, choices=SYNC),
        Option(("-l", "--long"), None, "kind, size, date, types and number of each", "ls"),
        Option(("--raw",), None, "octets as the server sent them, nothing undone", f"{BODY} explain warc"),
        Option(("--sort",), "KEY", "order: none is the server's", "ls", choices=SORT, unsaid=True),
        Option(("--from-warc",), "FILE", "fetch from that archive alone", OF_ARCHIVES, None, True, path),
        Option(("--at",), "TIME", "what was there by then: 2026-11, …", f"{OF_ARCHIVES} warc", kind=moment),
        Option(("--under",), "URL", "records of that URL, and of what is below it", "warc"),
        Option(("--follow",), "N", "what entry N of the listing leads to", LISTED, kind=entry),
        Option(("--show-error-body",), None, "what a server says to a 4xx or 5xx, on standard error", "cat"),
        Option(("--json",), None, "one JSON object a line", TABLES),
        Option(("-q", "--quiet"), None, "no messages and warnings, errors alone", QUIET, twice="silent"),
        Option(("-qq", "--silent"), None, "no errors either, the exit status alone", QUIET),
        Option(("--progress",), "HOW", "how far transfers are", TRIED, choices=PROGRESS),
        Option(("-v", "--verbose"), None, "show the dialogue", f"{FETCH} open"),
        Option(("--trace",), "FILE", "write the dialogue there, secrets as ****", f"{FETCH} open", kind=path),
        Option(("--trace-html",), "FILE", "draw it there, as a page", f"{FETCH} open", kind=path),
        Option(("--html",), None, "the plan drawn, as a page", "explain"),
    ),
    "limits": (
        Option(("-j", "--jobs"), "N", "retrievals at once (4)", GET, kind=count, default=4),
        Option(("--per-host",), "N", "of them with one host (2; http 6; ftp 4 of many)", SLICED, kind=count),
        Option(("--host-rate",), "N", "of them begun a second with one host", SLICED, kind=frequency),
        Option(("--scheduler",), "ADDRESS", "of Dask; local:N: here", "bulk", kind=scheduler, default=LOCAL),
        Option(("--segments",), "N", "connections at once for one object (1)", GET, kind=count, default=1),
        Option(("--max-size",), "BYTES", "largest body", BOUNDED, kind=size),
        Option(("--connect-timeout",), "S", "seconds to connect (30)", BOUNDED, kind=seconds),
        Option(("--idle-timeout",), "S", "seconds without an octet (60)", BOUNDED, kind=seconds),
        Option(("-t", "--tries"), "N", "tries without progress (5, one URL 1)", TRIED, kind=count, default=5),
        Option(("--retry-delay",), "S", "before a second try (1); doubles", TRIED, kind=seconds, default=1.0),
        Option(("--retry-all",), None, "try again also what is likely to be the same", TRIED),
        Option(("--min-rate",), "BYTES", "octets a second, below which to give up", BOUNDED, kind=size),
        Option(("--rate",), "BYTES", "octets a second of all transfers together", FETCHED, kind=rate),
        Option(("--max-time",), "S", "seconds for all of one URL (600 if untrusted)", BOUNDED, kind=seconds),
        Option(("--limit",), "NAME=VALUE", "line, lines, entries, hops, body, …", BOUNDED, many=True),
    ),
    "proof": (
        Option(("--ledger",), "FILE", "what became of each; another run goes on there", KEPT, kind=path),
        Option(("--again",), "KIND", "put back an error's class, an exit status, all", "ledger"),
        Option(("--checksum",), "ALG:HEX", "the digest a file must have, or auto", BODY, kind=checksum),
        Option(("--mirror",), "URL", "another place of the same object", GET, "mirrors", True),
    ),
    "safety": (
        Option(("--strict",), None, "what RFC 1738 would not write is an error", f"{READ} mcp serve bulk"),
        Option(("--policy",), "NAME", "how much is refused", f"{ASKED} serve", choices=POLICIES),
        Option(("--allow-port",), "PORT", "S04: a port no URL should name", SERVED, many=True, kind=port),
        Option(("--allow-address",), "CIDR", "S08: addresses that lead inside", SERVED, many=True),
        Option(("--allow-name",), "HOST", "S07: a name that looks like another", SERVED, many=True),
        Option(("--allow-redirect",), "SCHEME", "S10: where a redirect may lead", SERVED, many=True),
        Option(("--allow-forward",), "HOST", "S11: who may get the credentials too", SERVED, many=True),
        Option(("--allow-password",), None, "S06: a password in a URL", SERVED),
        Option(("--allow-form",), None, "S05: a URL that submits a form", SERVED),
        Option(("--allow-special",), None, "S12: files that are not regular", SERVED),
        Option(("--allow-raw",), None, "S15: control characters on a terminal", TEXT),
        Option(("--allow-server-name",), None, "S14: a file name that the server chose", GET),
        Option(("--trusted-proxy",), "URL", "S09: a proxy that judges addresses by itself", SERVED),
        Option(("--file-root",), "DIR", "S12: file URLs must lead below DIR", SERVED),
        Option(("--origin",), "WHO", "who chose the URL", ASKED, choices=("user", "chosen", "derived")),
        Option(("--referrer",), "URL", "the URL that led to it", ASKED, kind=referrer),
    ),
    "access": (
        Option(("-4", "--ipv4"), None, "IPv4 only", BOUNDED, "only_ipv4"),
        Option(("-6", "--ipv6"), None, "IPv6 only", BOUNDED, "only_ipv6"),
        Option(("--user",), "NAME", "log in as NAME at the places of this command line", FETCH),
        Option(("--password-file",), "FILE", "its first line is the password; - is stdin", FETCH, kind=path),
        Option(("--netrc",), None, "logins from $NETRC or ~/.netrc", TRIED),
        Option(("--netrc-file",), "FILE", "logins from FILE", TRIED, kind=path),
        Option(("--tls",), "HOW", "where it is optional", ASKED, choices=TLS, unsaid=True),
        Option(("-H", "--header"), "NAME:VALUE", "a header of http requests", ASKED, "headers", True),
        Option(("--user-agent",), "TEXT", "who we say we are (http)", SERVED),
        Option(("--proxy",), "URL", "go through this proxy; none goes direct", SERVED, kind=proxy),
        Option(("--cacert",), "FILE", "trust the certificates in FILE", BOUNDED, kind=path),
        Option(("--cert",), "FILE", "our certificate and key, or CERT,KEY", f"{FETCH} open", kind=path),
        Option(("--cookies",), "FILE", "keep cookies there, as curl and wget do", FETCH, kind=path),
        Option(("--gateway",), "SCHEME=URL", "resolve SCHEME through URL", f"{SERVED} schemes", many=True),
        Option(("--port",), "N", "serve there; 0 is a free one", "serve", kind=listening_port, default=0),
        Option(("--listen",), "ADDRESS", "serve others there, untrusted", "serve", kind=listening_address),
        Option(("--listen-cert",), "FILE", "by TLS: certificate and key, or CERT,KEY", "serve", kind=path),
        Option(("--insecure",), None, "with --listen: without TLS", "serve"),
        Option(("--open",), None, "show it in a browser", "serve"),
        Option(("--register",), None, "have the desktop open gopher, ftp, news here; no more", "serve"),
        Option(("--unregister",), None, "undo that", "serve"),
        Option(("--page-size",), "N", "rows of a listing on one page", "serve", kind=page_size, default=500),
        Option(("--config",), "FILE", "the configuration, or none", CONFIGURED, kind=path),
    ),
    "schemes": (
        Option(("--search",), "TEXT", "what to search for (gopher, wais)"),
        Option(("--view",), "TYPE", "the Gopher+ view to ask for (gopher)"),
        Option(("--type",), "CODE", "the transfer type a, i or d (ftp)"),
        Option(("--mlsd",), None, "list with facts, unasked whether there are any (ftp)", ASKED),
        Option(("--ftp-email",), "ADDRESS", "what anonymous gives as its password (ftp)", ASKED),
        Option(("--news-server",), "HOST[:PORT]", "where to ask for news: URLs", SERVED),
        Option(("--for",), "S", "seconds of a session (telnet)", "cat explain", "during", kind=seconds),
        Option(("--until",), "REGEX", "a session up to where that comes (telnet)", "cat explain"),
        Option(("--send",), "TEXT", "a line to type when --until has come", "cat explain", many=True),
        Option(("--plain",), None, "text alone, for a dumb terminal (telnet)", "open"),
        Option(("--entries",), "N", "newest N of a group, N hits of a search; 0 is all", ASKED, kind=size),
    ),
}  # fmt: skip


def rows() -> Iterator[Option]:
    """Yield all options, in table order."""
    for group in OPTIONS.values():
        yield from group


# `Command` has these methods; without them, each start is 1.5 ms faster
@dataclass(init=False, repr=False, eq=False)
class CommandOptions:
    """The values of all options, one attribute per row of the table."""

    # options
    help: bool
    version: bool
    # output
    output: str | None
    directory: str | None
    host_directories: bool
    cut_dirs: int | None
    lists: list[str]
    out: str | None
    parquet: bool
    jsonl: bool
    recursive: bool
    depth: int | None
    accept: list[str]
    reject: list[str]
    accept_regex: str | None
    ignore_robots: bool
    delete: bool
    yes: bool
    dry_run: bool
    format: Literal["mbox", "maildir"] | None
    failed: str | None
    warc: str | None
    warc_size: int | None
    warc_dedup: list[str]
    warc_cookies: bool
    meta: bool
    exists: Exists
    sync: Sync
    long: bool
    raw: bool
    sort: Literal["name", "size", "date"] | None
    from_warc: list[str]
    at: str | None
    under: str | None
    follow: int | None
    show_error_body: bool
    json: bool
    quiet: bool
    silent: bool
    progress: Literal["auto", "bar", "dot", "json", "none"]
    verbose: bool
    trace: str | None
    trace_html: str | None
    html: bool
    # limits
    jobs: int
    per_host: int | None
    host_rate: float | None
    scheduler: str
    segments: int
    max_size: int | None
    connect_timeout: float | None
    idle_timeout: float | None
    tries: int
    retry_delay: float
    retry_all: bool
    min_rate: int | None
    rate: int | None
    max_time: float | None
    limit: list[str]
    # proof
    ledger: str | None
    again: str | None
    checksum: Checksum | None
    mirrors: list[str]
    # safety
    strict: bool
    policy: PolicyName
    allow_port: list[int]
    allow_address: list[str]
    allow_name: list[str]
    allow_redirect: list[str]
    allow_forward: list[str]
    allow_password: bool
    allow_form: bool
    allow_special: bool
    allow_raw: bool
    allow_server_name: bool
    trusted_proxy: str | None
    file_root: str | None
    origin: Origin
    referrer: str | None
    # access
    only_ipv4: bool
    only_ipv6: bool
    user: str | None
    password_file: str | None
    netrc: bool
    netrc_file: str | None
    tls: Literal["never", "try", "require"] | None
    headers: list[str]
    user_agent: str | None
    proxy: str | None
    cacert: str | None
    cert: str | None
    cookies: str | None
    gateway: list[str]
    port: int
    listen: str | None
    listen_cert: str | None
    insecure: bool
    open: bool
    register: bool
    unregister: bool
    page_size: int
    config: str | None
    # schemes
    search: str | None
    view: str | None
    type: str | None
    mlsd: bool
    ftp_email: str | None
    news_server: str | None
    during: float | None
    until: str | None
    send: list[str]
    plain: bool
    entries: int | None
