"""The tables of the commands with examples, the policy rules, and the exit statuses.

The help pages, the shell completions and the man page are generated from these tables.
"""

from __future__ import annotations

#: Exit statuses that are not defined by an error class.
USAGE = 2
MISSING_EXTRA = 13
INTERRUPTED = 130
READER_GONE = 141
TERMINATED = 143
STATUS_BY_SIGNAL = {2: INTERRUPTED, 15: TERMINATED}  # SIGINT and SIGTERM; POSIX fixes their numbers

#: The shells that `resolve completion` supports.
SHELLS = ("bash", "zsh", "fish")


class CommandVerb:
    """A command of `resolve`.

    Attributes:
        name: the name of the command, as typed.
        arguments: the arguments of the command, for the usage line.
        purpose: a phrase for the help page.
        example: a command line with an example host, which the user replaces by a real host.
        perform: `module:function` that runs the command; the module is in `resolver.cli`.
        online: whether the command retrieves URLs.
    """

    def __init__(
        self, name: str, arguments: str, purpose: str, example: str, perform: str, online: bool = False
    ) -> None:
        self.name, self.arguments, self.purpose, self.example = name, arguments, purpose, example
        self.perform, self.online = perform, online


VERBS = (
    CommandVerb(
        "get",
        "URL...",
        "download each URL to a file",
        "resolve get -d music --exists resume ftp://ftp.example/pub/a.tar.gz http://www.example/b.ogg",
        "retrieval_run:perform",
        online=True,
    ),
    CommandVerb(
        "cat",
        "URL...",
        "print the content of each URL",
        "resolve cat gopher://gopher.example/0/about",
        "retrieval_run:perform",
        online=True,
    ),
    CommandVerb(
        "ls",
        "URL...",
        "list a directory, menu, newsgroup or search result",
        "resolve ls -l ftp://ftp.example/pub/",
        "retrieval_run:perform",
        online=True,
    ),
    CommandVerb(
        "info",
        "URL...",
        "show kind, size, date and media type without downloading",
        "resolve info --json http://www.example/a.iso",
        "retrieval_run:perform",
        online=True,
    ),
    CommandVerb(
        "explain",
        "URL...",
        "show the planned exchange and the policy verdict; sends nothing",
        "resolve explain 'ftp://me@ftp.example/%2Fetc/motd;type=a'",
        "inspection:explain",
    ),
    CommandVerb(
        "open",
        "URL",
        "open a telnet session or a Gopher+ form in the terminal, any other URL in the browser",
        "resolve open telnet://guest@bbs.example/",
        "retrieval_run:perform",
        online=True,
    ),
    CommandVerb(
        "parse",
        "URL...",
        "print the components and findings of a URL, or the parse error",
        "resolve parse --json 'wais://wais.example/db?words'",
        "inspection:show_components",
    ),
    CommandVerb(
        "extract",
        "[FILE]...",
        "extract URLs from text, including line-wrapped ones",
        "resolve extract letter.txt",
        "inspection:extract_urls",
    ),
    CommandVerb(
        "schemes",
        "",
        "list all schemes and their default ports",
        "resolve schemes --json",
        "inspection:show_schemes",
    ),
    CommandVerb(
        "mcp",
        "",
        "run an MCP server for AI agents on standard input and output, or HTTP",
        "resolve mcp --allow-address 192.0.2.0/24 --max-size 1M",
        "mcp:perform",
        online=True,
    ),
    CommandVerb(
        "serve",
        "",
        "browse any supported scheme in a local web browser",
        "resolve serve --open",
        "serve:perform",
        online=True,
    ),
    CommandVerb(
        "proxy",
        "",
        "apply the safety policy to other programs, as an HTTP and SOCKS5 proxy",
        "resolve proxy --port 8118",
        "proxy:perform",
        online=True,
    ),
    CommandVerb(
        "config",
        "[URL]",
        "show the effective settings and their sources, optionally for one URL",
        "resolve config --config none",
        "show_config:show",
    ),
    CommandVerb(
        "ledger",
        "[FILE]",
        "report completed, failed and pending downloads of a ledger",
        "resolve ledger run.db --failed",
        "ledger:show",
    ),
    CommandVerb(
        "warc",
        "ls|check|extract FILE...",
        "list, verify or extract WARC archives",
        "resolve warc check crawl.warc.gz",
        "warc:perform",
    ),
    CommandVerb(
        "bulk",
        "LIST...",
        "download URL lists on a Dask cluster, with cluster-wide limits per host",
        "resolve bulk urls.txt --scheduler local:4 --out crawl --host-rate 2",
        "bulk:perform",
        online=True,
    ),
    CommandVerb(
        "man",
        "",
        "print the man page in roff format",
        "resolve man",
        "manual:show_page",
    ),
    CommandVerb(
        "completion",
        "bash|zsh|fish",
        "print the completion script of a shell",
        "resolve completion bash",
        "manual:show_completion",
    ),
    CommandVerb(
        "help",
        "[WORD]",
        "explain a command, an option, a policy rule (S04) or an exit status",
        "resolve help S04",
        "help:show",
    ),
)


class PolicyRule:
    """A rule of the policy in one sentence, and the options that override it."""

    def __init__(self, name: str, sentence: str, options: tuple[str, ...] = ()) -> None:
        self.name, self.sentence, self.options = name, sentence, options


RULES = (
    PolicyRule(
        "S01",
        "strict parsing: the policy and the connection use the same parsed URL; malformed or ambiguous "
        "URLs are rejected, never repaired",
    ),
    PolicyRule(
        "S02",
        "no command injection: rejects CR, LF, NUL and other bytes that would end a protocol command or "
        "one of its arguments, after decoding",
    ),
    PolicyRule(
        "S03",
        "multi-line requests: allows CR LF only in Gopher+ form answers (RFC 1738 3.4.9) sent to port 70 "
        "or an allowed port",
        ("--allow-port",),
    ),
    PolicyRule(
        "S04",
        "blocked ports: rejects, or in some schemes warns about, ports of other protocols and ports "
        "below 1024 other than the scheme's default",
        ("--allow-port PORT",),
    ),
    PolicyRule(
        "S05",
        "no side effects: reading never changes remote state; URLs that submit a form cause a warning, "
        "and are rejected unless the user typed them",
        ("--allow-form",),
    ),
    PolicyRule(
        "S06",
        "passwords in URLs: warns about or rejects passwords in URLs, user names in schemes without "
        "login, and passwords sent without TLS",
        ("--allow-password",),
    ),
    PolicyRule(
        "S07",
        "look-alike host names: warns about or rejects host names that imitate other names (homographs)",
        ("--allow-name HOST",),
    ),
    PolicyRule(
        "S08",
        "address ranges (SSRF): classifies each address as public, private, link-local, loopback or "
        "never allowed, and rejects addresses that the policy does not allow",
        ("--allow-address CIDR",),
    ),
    PolicyRule(
        "S09",
        "DNS pinning: resolves a name once, checks every address, and connects only to a checked "
        "address; the proxy's own address is not checked, and policy untrusted requires --trusted-proxy",
        ("--proxy none", "no_proxy", "--trusted-proxy URL"),
    ),
    PolicyRule(
        "S10",
        "redirects and links: limits the schemes and hosts to which redirects and links may lead without "
        "user confirmation; at most 10 redirects",
        ("--allow-redirect SCHEME",),
    ),
    PolicyRule(
        "S11",
        "credential scope: sends credentials only to the scheme, host and port of the login",
        ("--allow-forward HOST",),
    ),
    PolicyRule(
        "S12",
        "local files: file URLs may only name regular files and directories on this machine, below "
        "--file-root if set",
        ("--allow-special",),
    ),
    PolicyRule(
        "S13",
        "FTP data connections: the data connection goes to the server's own address, on port 1024 or higher",
        ("--allow-port",),
    ),
    PolicyRule(
        "S14",
        "file names: derives file names from the requested URL, sanitizes them, numbers duplicates "
        "(name.2), and does not overwrite by default",
        ("-O", "--host-directories", "--exists", "--allow-server-name"),
    ),
    PolicyRule(
        "S15",
        "terminal output: escapes control and invisible characters on terminals, and always on standard "
        "error",
        ("--allow-raw",),
    ),
    PolicyRule(
        "S16",
        "resource limits: limits size, line length, entries, redirects and decompression ratio of all "
        "data from a server; policy untrusted also limits time",
        ("--limit NAME=VALUE",),
    ),
    PolicyRule("S17", "privacy: sends no personal data and never displays passwords", ("--ftp-email",)),
    PolicyRule(
        "S18", "no execution: never starts a shell or a program, or a session that the user did not request"
    ),
    PolicyRule(
        "S19",
        "gateways: uses a gateway for schemes without a handler only if the user configured one",
        ("--gateway SCHEME=URL",),
    ),
    PolicyRule(
        "S20",
        "links from servers: URLs from server data are built component by component, and parsed again",
    ),
    PolicyRule(
        "S21",
        "integrity: a file must match the digest of the request; metadata of the retrieval can be stored "
        "next to the file",
        ("--checksum", "--meta"),
    ),
    PolicyRule(
        "S22",
        "allowed hosts: if a list of hosts is set, refuses every other host, also in redirects and links",
        ("--allowed-hosts HOST",),
    ),
)

#: The meaning of each exit status. Meanings never change between versions.
STATUSES = {
    0: "all URLs are complete and verified",
    1: "several URLs failed with different exit statuses",
    2: "usage or configuration error",
    3: "a local file cannot be written or read",
    4: "network error",
    5: "TLS error: no trusted connection",
    6: "a login is required, or was rejected",
    7: "the peer violated its protocol",
    8: "the server answered with an error",
    9: "refused by the policy; nothing was sent to the refused destination",
    10: "integrity error: truncated, changed, or checksum mismatch",
    11: "timed out",
    12: "not a URL",
    13: "the scheme is not supported, or an extra is missing",
    14: "size limit exceeded",
    15: "a redirect was refused, or there were too many redirects",
    130: "interrupted; partial files are kept and can be resumed",
    141: "the reader of standard output closed the pipe",
    143: "terminated; partial files are kept and can be resumed",
}
