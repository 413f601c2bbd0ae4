"""The table of command-line options: names, values, purposes, and the commands that use each option.

The parser, the help pages, the shell completions and the man page use this table. An option has the same
meaning in all commands. Each option must have a long name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    pin,
    port,
    proxy,
    rate,
    referrer,
    regex,
    scheduler,
    seconds,
    separator,
    size,
)

if TYPE_CHECKING:
    from protocols.location import Origin
    from resolver.files.commit import Sync
    from resolver.policy.settings import Name as PolicyName
    from resolver.transfer.saving import Exists
    from resolver.transfer.verification import Checksum

#: Groups of commands, for the field `verbs` of the options.
GET = "get"
BODY = "get cat"
LISTINGS = "get cat ls"
FETCH = "get cat ls info"
ONLINE = f"{FETCH} mcp open serve"
ONLINE_BULK = f"{ONLINE} bulk"
ARCHIVES = f"{FETCH} open serve"
PLAN = f"{FETCH} explain open"
PLANS = f"{PLAN} bulk"
REQUESTS = f"{PLANS} mcp serve"
NETWORK = f"{REQUESTS} proxy"
URLS = f"{PLAN} parse"
TEXTS = f"{URLS} extract"
RECORDS = f"{TEXTS} schemes config ledger warc bulk"
ALL = f"{RECORDS} mcp serve proxy man completion help"
QUIET = f"{URLS} ledger warc serve proxy bulk"
FETCH_BULK = f"{FETCH} bulk"
GET_BULK = f"{GET} bulk"
FILES = f"{GET} warc"


class Option(NamedTuple):
    """An option of the command.

    Attributes:
        flags: the short and long names, with their hyphens.
        metavar: the metavariable of the value, or None for a switch (an option without a value).
        purpose: a phrase for the help page.
        verbs: the commands that use the option. `bulk`, `mcp` and `proxy` reject other options; the others
            ignore them.
        dest: the name of the attribute, if it differs from the long name.
        many: whether the option may be repeated.
        parse: the parser of the value.
        choices: the valid values; the first is the default unless `is_optional` is true.
        default: the value if the option is not set.
        is_optional: whether the value is None if the option is not set, although the option has choices.
        twice: the name of the option that a repeated switch sets.
    """

    flags: tuple[str, ...]
    metavar: str | None
    purpose: str
    verbs: str = PLAN
    dest: str | None = None
    many: bool = False
    parse: Callable[[str], object] = str
    choices: tuple[str, ...] | None = None
    default: object = None
    is_optional: bool = False
    twice: str | None = None

    @property
    def name(self) -> str:
        """Return the name of the attribute of `CommandOptions` for this option."""
        return self.dest or self.long.removeprefix("--").replace("-", "_")

    @property
    def long(self) -> str:
        """Return the long name of the option, with its hyphens."""
        return next(flag for flag in self.flags if flag.startswith("--"))

    @property
    def unset(self) -> object:
        """Return the value of the option if the user does not set the option."""
        if self.metavar is None:
            return False
        if self.many:
            return []
        return self.default if self.choices is None or self.is_optional else self.choices[0]

    def get_unset(self, verb: str) -> object:
        """Return the value of the option for `verb` if the user does not set the option."""
        return PROXY_POLICY if (self.name, verb) == ("policy", "proxy") else self.unset


POLICIES = ("default", "cautious", "untrusted")
#: The default policy of `proxy`, because its clients are not trusted.
PROXY_POLICY = "untrusted"
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
        Option(("-h", "--help"), None, "show the help of the program or of the command", ALL),
        Option(("-V", "--version"), None, "show the version", ALL),
    ),
    "output": (
        Option(("-O", "-o", "--output"), "FILE", "write to FILE, or inside DIR/; - is standard output",
               FILES, parse=path),
        Option(("-d", "--directory"), "DIR", "save below DIR, and create it if necessary", FILES, parse=path),
        Option(("--host-directories",), None, "save as host/path/name", FILES),
        Option(("--cut-dirs",), "N", "save as path/name without the first N directories",
               FILES, parse=number),
        Option(("-i", "--input"), "LIST", "read URLs, checksums or a Metalink from LIST (-: standard input)",
               f"{TEXTS} bulk", "lists", True, path),
        Option(("-0", "--null"), None, "read lists whose items end with NUL instead of a line end",
               f"{FETCH} explain parse"),
        Option(("--out",), "DIR", "write bodies, outcomes, ledgers below DIR or a URL (s3://)",
               "bulk", parse=path),
        Option(("--parquet",), None, "write outcomes as Parquet (default)", "bulk"),
        Option(("--jsonl",), None, "write outcomes as JSON, one object per line", "bulk"),
        Option(("-r", "--recursive"), None, "download everything below each URL", GET),
        Option(("--depth",), "N", "with -r: descend at most N levels; the URL is level 1", GET, parse=depth),
        Option(("--glob",), None, "save the files that match the URL's pattern", GET),
        Option(("--accept",), "GLOB", "with -r: save only files with a matching name", GET, many=True),
        Option(("--reject",), "GLOB", "with -r: skip files with a matching name", GET, many=True),
        Option(("--accept-regex",), "RE", "with -r: save only files with RE in the URL", GET, parse=regex),
        Option(("--ignore-robots",), None, "with -r: ignore robots.txt", GET),
        Option(("--delete",), None, "with -r: delete local files that the source no longer has", GET),
        Option(("--yes",), None, "answer yes to the questions of --delete and -d", GET),
        Option(("--dry-run",), None, "print the actions without performing them", GET_BULK),
        Option(("--format",), "F", "with -r: save a newsgroup as a mailbox",
               GET, choices=MAILBOXES, is_optional=True),
        Option(("--failed",), "FILE", "write failed and pending URLs to FILE, for another run",
               f"{FETCH} ledger", parse=path),
        Option(("--warc",), "FILE", "record requests and responses in FILE (WARC)", FETCH_BULK, parse=path),
        Option(("--warc-size",), "BYTES", "start another archive file after BYTES", FETCH, parse=size),
        Option(("--warc-dedup",), "CDX", "deduplicate against the archives in the index CDX",
               FETCH, None, True, path),
        Option(("--warc-cookies",), None, "keep cookies of servers in the archive", FETCH),
        Option(("--meta",), None, "write metadata of the retrieval to NAME.meta.json", FILES),
        Option(("--exists",), "HOW", "choose the action for an existing file", FILES, choices=EXISTS),
        Option(("--sync",), "HOW", "choose when files are flushed to disk", GET, choices=SYNC),
        Option(("-l", "--long"), None, "show kind, size, date, types and number of each entry", "ls"),
        Option(("--raw",), None, "keep bytes as the server sent them, without decoding",
               f"{BODY} explain warc"),
        Option(("--sort",), "KEY", "sort the entries (default: server's order)",
               "ls", choices=SORT, is_optional=True),
        Option(("--from-warc",), "FILE", "read from archive FILE instead of the network",
               ARCHIVES, None, True, path),
        Option(("--at",), "TIME", "use the archive's state at TIME, such as 2026-11",
               f"{ARCHIVES} warc", parse=moment),
        Option(("--under",), "URL", "list only records of URL, and of URLs below it", "warc"),
        Option(("--follow",), "N", "process the target of entry N of the listing", LISTINGS, parse=entry),
        Option(("--separator",), "TEXT", "write TEXT between the bodies of several URLs",
               BODY, parse=separator),
        Option(("--show-error-body",), None, "print the body of a 4xx or 5xx reply to standard error", "cat"),
        Option(("--json",), None, "print one JSON object per line", f"{RECORDS} proxy"),
        Option(("-q", "--quiet"), None, "suppress messages and warnings, except errors",
               QUIET, twice="silent"),
        Option(("-qq", "--silent"), None, "suppress all messages, including errors", QUIET),
        Option(("--progress",), "HOW", "choose the progress display", FETCH_BULK, choices=PROGRESS),
        Option(("-v", "--verbose"), None, "show the protocol exchange", f"{FETCH} open"),
        Option(("--trace",), "FILE", "write the exchange to FILE, with secrets as ****",
               f"{FETCH} open", parse=path),
        Option(("--trace-html",), "FILE", "draw the exchange as an HTML page in FILE",
               f"{FETCH} open", parse=path),
        Option(("--html",), None, "draw the plan as an HTML page", "explain"),
    ),
    "limits": (
        Option(("-j", "--jobs"), "N", "run at most N retrievals concurrently (default 4)",
               GET, parse=count, default=4),
        Option(("--per-host",), "N", "run at most N retrievals per host (default 2; http 6; ftp up to 4)",
               GET_BULK, parse=count),
        Option(("--host-rate",), "N", "start at most N retrievals per second per host",
               GET_BULK, parse=frequency),
        Option(("--scheduler",), "ADDRESS", "use this Dask scheduler, or N local workers (local:N)",
               "bulk", parse=scheduler, default=LOCAL),
        Option(("--segments",), "N", "use up to N connections for a file (default 1)",
               GET, parse=count, default=1),
        Option(("--max-size",), "BYTES", "limit the size of a body", ONLINE_BULK, parse=size),
        Option(("--connect-timeout",), "S", "limit connecting to S seconds (default 30)",
               f"{ONLINE_BULK} proxy", parse=seconds),
        Option(("--idle-timeout",), "S", "limit waiting for data to S seconds (default 60)",
               ONLINE_BULK, parse=seconds),
        Option(("-t", "--tries"), "N", "stop after N attempts without new data (default 5; 1 for one URL)",
               FETCH_BULK, parse=count, default=5),
        Option(("--retry-delay",), "S", "wait S seconds before the first retry (default 1), then double S",
               FETCH_BULK, parse=seconds, default=1.0),
        Option(("--retry-all",), None, "retry errors that are probably permanent, too", FETCH_BULK),
        Option(("--min-rate",), "BYTES", "fail if a transfer is slower than BYTES per second",
               ONLINE_BULK, parse=size),
        Option(("--rate",), "BYTES", "limit all transfers together to BYTES per second", ONLINE, parse=rate),
        Option(("--max-time",), "S", "limit each URL to S seconds (default 600 if untrusted)",
               ONLINE_BULK, parse=seconds),
        Option(("--limit",), "NAME=VALUE", "set a limit: line, lines, entries, hops, body, …",
               ONLINE_BULK, many=True),
    ),
    "proof": (
        Option(("--ledger",), "FILE", "record outcomes in FILE; later runs resume from it",
               "get ledger", parse=path),
        Option(("--again",), "KIND", "requeue failures by error class, exit status, or all", "ledger"),
        Option(("--checksum",), "ALG:HEX", "require this digest, or the server's digest file (auto)",
               BODY, parse=checksum),
        Option(("--mirror",), "URL", "add a mirror of the same file", GET, "mirrors", True),
    ),
    "safety": (
        Option(("--strict",), None, "reject URLs that deviate from RFC 1738", f"{URLS} mcp serve bulk"),
        Option(("--policy",), "NAME", "choose the safety policy", f"{PLANS} serve proxy", choices=POLICIES),
        Option(("--allow-port",), "PORT", "S04: permit a blocked port", NETWORK, many=True, parse=port),
        Option(("--allow-address",), "CIDR", "S08: permit addresses that are not public", NETWORK, many=True),
        Option(("--allow-name",), "HOST", "S07: permit a look-alike host name (homograph)",
               NETWORK, many=True),
        Option(("--allow-redirect",), "SCHEME", "S10: permit redirects to SCHEME", REQUESTS, many=True),
        Option(("--allow-forward",), "HOST", "S11: send the credentials to HOST, too", REQUESTS, many=True),
        Option(("--allowed-hosts",), "HOST", "S22: refuse every host except HOST", NETWORK, many=True),
        Option(("--allow-password",), None, "S06: permit a password in a URL", REQUESTS),
        Option(("--allow-form",), None, "S05: permit a URL that submits a form", REQUESTS),
        Option(("--allow-special",), None, "S12: permit files that are not regular", REQUESTS),
        Option(("--allow-raw",), None, "S15: permit control characters on a terminal", TEXTS),
        Option(("--allow-server-name",), None, "S14: permit file names that the server chose", GET),
        Option(("--trusted-proxy",), "URL", "S09: trust a proxy to check addresses", REQUESTS),
        Option(("--file-root",), "DIR", "S12: restrict file URLs to files below DIR", REQUESTS),
        Option(("--origin",), "WHO", "set the origin of the URLs for the policy",
               PLANS, choices=("user", "chosen", "derived")),
        Option(("--referrer",), "URL", "declare the URL that led to these URLs", PLANS, parse=referrer),
    ),
    "access": (
        Option(("-4", "--ipv4"), None, "use IPv4 only", f"{ONLINE_BULK} proxy", "only_ipv4"),
        Option(("-6", "--ipv6"), None, "use IPv6 only", f"{ONLINE_BULK} proxy", "only_ipv6"),
        Option(("--user",), "NAME", "log in as NAME to the hosts of the command line", FETCH),
        Option(("--password-file",), "FILE", "read the password from the first line; - is stdin",
               FETCH, parse=path),
        Option(("--netrc",), None, "read logins from $NETRC or ~/.netrc", FETCH_BULK),
        Option(("--netrc-file",), "FILE", "read logins from FILE", FETCH_BULK, parse=path),
        Option(("--tls",), "HOW", "choose TLS where it is optional", PLANS, choices=TLS, is_optional=True),
        Option(("-H", "--header"), "NAME:VALUE", "add a header to http requests", PLANS, "headers", True),
        Option(("--user-agent",), "TEXT", "set the User-Agent header (http)", REQUESTS),
        Option(("--proxy",), "URL", "connect through this proxy (none: directly)", REQUESTS, parse=proxy),
        Option(("--cacert",), "FILE", "trust the certificates in FILE", ONLINE_BULK, parse=path),
        Option(("--cert",), "FILE", "use the client certificate and key in FILE (or CERT,KEY)",
               f"{FETCH} open", parse=path),
        Option(("--pin",), "sha256:HEX", "accept only the server certificate with this digest",
               f"{FETCH} open", parse=pin),
        Option(("--cookies",), "FILE", "load and save cookies in FILE, as curl and wget do",
               FETCH, parse=path),
        Option(("--gateway",), "SCHEME=URL", "resolve URLs of SCHEME through the gateway URL",
               f"{REQUESTS} schemes", many=True),
        Option(("--port",), "N", "listen on port N (default 0: any free port)",
               "serve proxy mcp", parse=listening_port, default=0),
        Option(("--listen",), "ADDRESS", "listen on ADDRESS, with policy untrusted",
               "serve proxy mcp", parse=listening_address),
        Option(("--listen-cert",), "FILE", "serve over TLS with certificate and key in FILE (or CERT,KEY)",
               "serve", parse=path),
        Option(("--insecure",), None, "with --listen: serve without TLS", "serve"),
        Option(("--open",), None, "open the pages in a browser", "serve"),
        Option(("--register",), None, "register as the desktop's handler of gopher, ftp, news; then exit",
               "serve"),
        Option(("--unregister",), None, "undo --register, then exit", "serve"),
        Option(("--page-size",), "N", "show N rows of a listing per page (default 500)",
               "serve", parse=page_size, default=500),
        Option(("--config",), "FILE", "use FILE as the configuration file (none: no file)",
               f"{RECORDS} mcp serve proxy", parse=path),
    ),
    "schemes": (
        Option(("--search",), "TEXT", "search for TEXT (gopher, wais)"),
        Option(("--view",), "TYPE", "request the Gopher+ view TYPE (gopher)"),
        Option(("--type",), "CODE", "set the transfer type a, i or d (ftp)"),
        Option(("--mlsd",), None, "list with MLSD, without checking for support (ftp)", PLANS),
        Option(("--nlst",), None, "list names only, with NLST (ftp)", f"{GET} ls"),
        Option(("--ftp-email",), "ADDRESS", "send ADDRESS as the anonymous password (ftp)", PLANS),
        Option(("--news-server",), "HOST[:PORT]", "use this server for news: URLs", REQUESTS),
        Option(("--for",), "S", "record a session for S seconds (telnet)",
               "cat explain", "during", parse=seconds),
        Option(("--until",), "REGEX", "record a session until REGEX matches (telnet)", "cat explain"),
        Option(("--send",), "TEXT", "type TEXT when --until matches (telnet)", "cat explain", many=True),
        Option(("--plain",), None, "show text only, for a dumb terminal (telnet)", "open"),
        Option(("--attachments",), "DIR", "save the attachments of an article below DIR (news)",
               GET, parse=path),
        Option(("--parts",), None, "with --attachments: join files from several articles", GET),
        Option(("--entries",), "N", "request the newest N articles, or N search hits (0: all)",
               PLANS, parse=size),
    ),
}  # fmt: skip


def rows() -> Iterator[Option]:
    for group in OPTIONS.values():
        yield from group


class CommandOptions:
    """The values of all options, with one attribute for each row of the table."""

    # options
    help: bool
    version: bool
    # output
    output: str | None
    directory: str | None
    host_directories: bool
    cut_dirs: int | None
    lists: list[str]
    null: bool
    out: str | None
    parquet: bool
    jsonl: bool
    recursive: bool
    depth: int | None
    glob: bool
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
    separator: str | None
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
    allowed_hosts: list[str]
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
    pin: str | None
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
    nlst: bool
    ftp_email: str | None
    news_server: str | None
    during: float | None
    until: str | None
    send: list[str]
    plain: bool
    attachments: str | None
    parts: bool
    entries: int | None
