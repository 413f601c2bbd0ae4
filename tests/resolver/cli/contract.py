"""The contract of the command as tables: options, JSON members, exit statuses and listings.

A URL names its server in braces, see `places`.
"""

from __future__ import annotations

from typing import NamedTuple

#: Option names that are undefined, or reserved for a later version. The command must not accept them as
#: another option.
NOT_THERE = (*("--allow-all", "--insecure", "--jso", "--Json", "---json", "-"),)

#: A document of each scheme that has documents, and the output of `cat` for it.
DOCUMENTS = {
    "{ftp}/pub/a.txt": b"line one\nline two\n\nlast line\n",
    "{gopher}/00/about": b"A text of two lines.\r\nThe second one.\r\n",
    "{http}/about.txt": b"A text of two lines.\nThe second one.\n",
    "{prospero}/AFTP/pub/hello.txt": b"hello prospero\n",
    "{file}/about.txt": b"of this machine\n",
    "mailto:joe@h.example?subject=hi": b"To: joe@h.example\r\nSubject: hi\r\n\r\n",
}

#: Groups of options that do not change a document of any scheme.
WISHES = (
    [
        "--max-size",
        "1M",
        "--limit",
        "line=64k",
        "--limit",
        "entries=10",
        "--limit",
        "ratio=2",
        "--limit",
        "head=50",
    ],
    [
        "--connect-timeout",
        "9",
        "--idle-timeout",
        "9.5",
        "--max-time",
        "60",
        "-t",
        "2",
        "--retry-delay",
        "0.01",
    ],
    ["--min-rate", "0", "-j", "3", "--mlsd", "--entries", "3", "-4"],
    ["-H", "X-Test: yes", "--user-agent", "somebody", "--tls", "try", "--user", "nobody"],
    ["--ftp-email", "me@h.example", "--news-server", "h.example", "--policy", "default", "--origin", "user"],
    ["--referrer", "http://h.example/", "--gateway", "x-foo=http://h.example/?", "--allow-port", "25"],
    ["--allow-address", "10.0.0.0/8", "--allow-name", "h.example", "--allow-redirect", "ftp"],
    ["--allow-forward", "h.example", "--allow-password", "--allow-form", "--allow-special", "--allow-raw"],
    ["--allow-server-name", "--exists", "rename", "--checksum", "auto", "--file-root", "/"],
    ["--proxy", "none", "--trusted-proxy", "socks5h://h.example"],
)

ABOUT = "A text of two lines.\nThe second one.\n"

#: Arguments: text of the trace that shows the request, and standard output.
ANSWERS = {
    ("ls", "--search", "a b", "{gopher}/77/find"): (r"C: 7/find\ta b\r\n", "Result for a b\n"),
    ("ls", "--search", "ferry", "{wais}/demo"): ("ferry", "Quay notes\nMenu of the café\n"),
    ("ls", "--entries", "1", "{wais}/demo?ferry"): ("ferry", "Quay notes\n"),
    ("cat", "--view", "Text/plain Es_ES", "{gopher}/00/story"): (
        r"C: 0/story\t+Text/plain Es_ES\r\n",
        "Un cuento corto en espanol.\r\n",
    ),
    ("cat", "--type", "a", "{ftp}/etc/motd"): (r"C: TYPE A\r\n", "message of the day\n"),
    ("cat", "--type", "I", "{ftp}/etc/motd"): (r"C: TYPE I\r\n", "message of the day\n"),
    ("cat", "--type", "d", "{ftp}/etc"): ("NLST", "motd\n"),
    ("ls", "--mlsd", "{ftp}/etc/"): (r"C: MLSD\r\n", "motd\n"),
    ("ls", "-l", "{wais}/demo?ferry"): (
        "ferry",
        "document           121  -                     TEXT    1  Quay notes\n"
        "document            66  -                     TEXT    2  Menu of the café\n",
    ),
    ("ls", "-l", "{gopher}/11/sub"): (
        r"C: 1/sub\r\n",
        "document             -  -                     0       1  About\n"
        "directory            -  -                     1       2  A folder in it/\n",
    ),
    ("cat", "--ftp-email", "me@h.example", "{ftp}/etc/motd"): (
        r"C: USER anonymous\r\n",
        "message of the day\n",
    ),
    ("ls", "--entries", "1", "{nntp}/comp.misc"): ("C: ", "1236 Grüße\n"),
    ("ls", "--news-server", "{news_server}", "--entries", "1", "news:comp.misc"): (
        r"C: GROUP comp.misc\r\n",
        "1236 Grüße\n",
    ),
    ("cat", "-H", "X-Test: yes ", "--user-agent", "me/1", "{http}/about.txt"): (
        r"\r\nX-Test: yes\r\n",
        ABOUT,
    ),
    ("cat", "--user-agent", "me/1", "{http}/about.txt"): (r"\r\nUser-Agent: me/1\r\n", ABOUT),
    ("cat", "--user", "user", "--password-file", "password", "{http}/private"): (
        "Authorization",
        "A secret.\n",
    ),
    ("cat", "--gateway", "X-Foo={http}/about.txt?u=", "x-foo:a%20b"): (
        "C: GET /about.txt?u=x-foo%3Aa%2520b HTTP/1.1",
        ABOUT,
    ),
    ("cat", "--origin", "derived", "--referrer", "{file}/", "{file}/about.txt"): ("U: ", "of this machine\n"),
}

HOST = frozenset({"user", "password", "host", "port", "default_port"})

#: Members that `parse --json` prints for a scheme, in addition to COMMON.
COMPONENTS = {
    "ftp://h.example/": {*HOST, "cwds", "name", "typecode"},
    "ftps://h.example/": {*HOST, "cwds", "name", "typecode"},
    "http://h.example/": {*HOST, "path", "search"},
    "https://h.example/": {*HOST, "path", "search"},
    "gopher://h.example/": {*HOST, "gophertype", "selector", "search", "gopherplus"},
    "gophers://h.example/": {*HOST, "gophertype", "selector", "search", "gopherplus"},
    "mailto:joe@h.example": {"addr_spec", "headers"},
    "news:*": {*HOST, "group", "message_id"},
    "snews:a@h.example": {*HOST, "group", "message_id"},
    "nntp://h.example/a.b": {*HOST, "group", "article"},
    "nntps://h.example/a.b": {*HOST, "group", "article"},
    "telnet://h.example/": {*HOST},
    "telnets://h.example/": {*HOST},
    "wais://h.example/db": {*HOST, "database", "search", "wtype", "wpath"},
    "file:///etc": {"user", "password", "host", "segments"},
    "prospero://h.example/a": {*HOST, "hsoname", "fields"},
    "x-foo:bar": {"status", "schemepart"},
}
COMMON = {"url", "scheme", "fragment", "findings"}

FAILURE = ("url", "error", "exit")
ENTRY = ("name", "url", "kind", "size", "modified", "title", "raw", "extra", "origin", "referrer")
KINDS = frozenset(
    "document directory article group search service address link info error unknown".split()  # noqa: SIM905
)
PLAN = ("url", "scheme", "verdict", "findings", "proxy", "steps")
STEP = {
    "connect": {"action", "host", "port", "tls", "transport"},
    "send": {"action", "octets"},
    "receive": {"action", "what"},
    "open": {"action", "path"},
    "note": {"action", "text"},
}
OUTCOME = (
    *("url", "final_url", "scheme", "status", "exit", "error", "path", "bytes", "resumed_from", "media_type"),
    *(
        "modified",
        "digest",
        "verified",
        "attempts",
        "elapsed",
        "peer",
        "proxy",
        "findings",
        "mirror",
        "action",
    ),
)
PROOFS = frozenset({"length", "digest", "final-reply", "close-notify", "terminator"})
#: Members of the JSON records of `bulk` and `ledger`. LEDGER_FAILURE is a kind of failure, LEFT an unfinished
#: request.
BULK = ("requests", "hosts", "slices", "done", "skipped", "failed", "refused", "bytes", "seconds", "exit")
BULK_PLAN = ("requests", "hosts", "slices", "bound", "bound_by", "each", "expected", "largest", "histogram")
BULK_PROGRESS = ("event", "requests", "hosts", "ended", "counts", "bytes", "under_way", "threads")

LEDGER = frozenset(
    [
        "ledger",
        "objects",
        "done",
        "skipped",
        "failed",
        "refused",
        "left",
        "bytes",
        "brought",
        "attempts",
        "runs",
        "elapsed",
        "rate",
        "failures",
    ]
)
LEDGER_FAILURE = frozenset({"error", "exit", "objects"})
LEFT = frozenset(["url", "origin", "referrer", "error", "exit", "message", "attempts"])
RECORD = frozenset(
    [
        *("archive", "offset", "date", "type", "kind", "media_type", "length", "url", "id"),
        *("block_digest", "payload_digest", "truncated", "refers_to", "concurrent_to"),
    ]
)
RECORD_FINDING = frozenset(["archive", "offset", "finding", "fault", "message"])
SCHEME = ("scheme", "default_port", "names", "origin")


class End(NamedTuple):
    """The expected end of a retrieval: `cat` or `get` of the URL with these options.

    `code` is the class of the error, `rule` the rule that refused the URL.
    """

    status: int
    url: str
    code: str
    rule: str | None = None
    options: tuple[str, ...] = ()
    verb: str = "cat"


ENDS = (
    End(2, "news:comp.misc", "NotConfigured"),
    End(2, "{http}/about.txt", "NotConfigured", options=("-H", "Host: elsewhere")),
    End(2, "{http}/about.txt", "NotConfigured", options=("--search", "words")),
    End(2, "{http}/about.txt", "NotConfigured", options=("--tls", "require")),
    End(3, "{http}/about.txt", "LocalError", options=("-O", "no/such/folder"), verb="get"),
    End(3, "{http}/about.txt", "LocalError", options=("-O", "."), verb="get"),
    End(4, "{closed}/", "Unreachable"),
    End(4, "{leaves}/", "Disconnected"),
    End(4, "{http}/", "Unreachable", options=("-6",)),
    End(5, "{https}/about.txt", "TlsError"),
    End(5, "{tls_garbage}/", "TlsError"),
    End(6, "{login}/", "LoginRequired"),
    End(6, "{forbidden}/", "AccessDenied"),
    End(6, "{ftp_never}/a", "AccessDenied"),
    End(6, "{members}/private.secret/1", "LoginRequired"),
    End(6, "{wrong_password}/private.secret/1", "AccessDenied"),
    End(7, "{garbage}/", "ProtocolError"),
    End(7, "{nowhere}/", "ProtocolError"),
    End(7, "{no_url}/", "ProtocolError"),
    End(7, "{http}/about.txt", "LimitExceeded", options=("--limit", "line=10")),
    End(8, "{http}/nothing/here", "NotFound"),
    End(8, "{gopher_gone}/0x", "NotFound"),
    End(8, "{ftp}/pub/nothing", "NotFound"),
    End(8, "{nntp}/no.such.group/1", "NotFound"),
    End(8, "{ftp_later}/a", "TryLater"),
    End(8, "{nntp_later}/a.b/1", "TryLater"),
    End(8, "file:///nothing/here", "NotFound"),
    End(9, "http://127.0.0.1:25/", "Refused", "S04"),
    End(9, "ftp://h.example/a%0D%0ADELE", "Refused", "S02"),
    End(9, "{http}/about.txt", "Refused", "S08", ("--policy", "untrusted")),
    End(9, "file://h.example/a", "Refused", "S12"),
    End(9, "{http}/%2F", "Refused", "S14", verb="get"),
    End(10, "{short}/", "Truncated"),
    End(10, "{http}/about.txt", "ChecksumMismatch", options=("--checksum", "md5:" + "0" * 32)),
    End(11, "{ftp_mute}/a", "TimedOut", options=("--idle-timeout", "0.1")),
    End(12, "http://a b/", "InvalidUrl", "S01"),
    End(12, "no-colon", "InvalidUrl", "S01"),
    End(12, "{ftp}/pub/;type=i", "InvalidUrl", "S01"),
    End(12, "http://h.example?x", "InvalidUrl", "S01", ("--strict",)),
    End(13, "x-foo:bar", "UnsupportedScheme", "S19"),
    End(13, "mid:a@h.example", "UnsupportedScheme", "S19"),
    End(14, "{http}/about.txt", "LimitExceeded", options=("--max-size", "3")),
    End(14, "{http}/bomb", "LimitExceeded"),
    End(14, "{http}/twice", "LimitExceeded"),
    End(15, "{to_file}/", "Refused", "S10"),
    End(15, "{to_mail}/", "Refused", "S04"),
    End(15, "{unknown}/", "UnsupportedScheme", "S19"),
    End(15, "{http}/moved/round", "Refused", "S10"),
    End(15, "{http}/moved", "Refused", "S10", ("--limit", "hops=0")),
    End(15, "telnet://h.example/", "Refused", "S10", verb="get"),
    End(15, "gopher://h.example/8guest", "Refused", "S10", verb="get"),
    End(15, "gopher://h.example/hURL:http://h.example/", "Refused", "S10", verb="get"),
)

#: Names in the text output of `ls`.
LISTINGS = {
    "{ftp}/pub/": ["a.bin", "a.txt", "bare-cr.txt", "crlf.txt", "empty", "empty.bin", "large.bin", "names"],
    "{gopher}/1/with%20space": [],
    "{gopher_menu}/1": ["A[31m text", "prose"],
    "{nntp}/comp.misc": ["1230 Test", "1234 Test", "1235 Bare LF", "1236 Grüße"],
    "{news}/": ["comp.misc", "alt.c++", "alt.empty", "alt.files", "private.secret"],
    "{wais}/demo?ferry": ["Quay notes", "Menu of the café"],
    "{file}/": ["about.txt", "l\\x0d\\x0aies", "\x1b[31m"],
}

#: URLs without a body, and the output of `cat` for each.
SHOWN = {
    "gopher://h.example/hURL:http://www.example/a": b"http://www.example/a\n",
    "gopher://h.example/8guest": b"telnet://guest@h.example:70/\n",
    "telnet://guest@h.example/": b"telnet://guest@h.example/\n",
    "mailto:joe@h.example?subject=hi%20there": b"To: joe@h.example\r\nSubject: hi there\r\n\r\n",
}

#: Arguments, and all lines of standard error; the values in braces are filled in.
MESSAGES = {
    ("cat", "http://h.example/a b"): [
        "resolve: http://h.example/a b: not a URL: bad-char: character not allowed in URLs, at position 18:"
        " ' b'",
        "  http://h.example/a b",
        "                    ^",
        "  a space must be escaped as %20: did you mean http://h.example/a%20b ?",
    ],
    ("cat", "http://u:p@ss@h.example/"): [
        "resolve: http://****@h.example/: not a URL: ambiguous-authority: host that parsers disagree about, "
        "at position 13",
        "  http://****@h.example/",
        "             ^",
    ],
    ("cat", "gopher://h.example:25/0a"): [
        "resolve: gopher://h.example:25/0a: S04: port 25 belongs to another protocol (gopher has 70); "
        "--allow-port 25 would allow it",
        "  gopher://h.example:25/0a",
        "                     ^",
    ],
    ("cat", ""): ["resolve: '': not a URL: empty: text, at position 0"],
    ("cat", "{to_mail}/"): [
        "resolve: {to_mail}/: at http://127.0.0.1:25/: S04: port 25 belongs to another protocol "
        "(http has 80); --allow-port 25 would allow it",
        "  http://127.0.0.1:25/",
        "                   ^",
    ],
    ("cat", "{login}/"): [
        "resolve: {login}/: the server answers 401 Who are you "
        "(log in with --user NAME and --password-file FILE)"
    ],
    ("cat", "--max-size", "3", "{http}/about.txt"): [
        "resolve: {http}/about.txt: 37 bytes are announced, the limit is 3 (--max-size)"
    ],
    ("cat", "{https}/about.txt"): [
        "resolve: {https}/about.txt: the certificate of 127.0.0.1 is not trusted: "
        "unable to get local issuer certificate (--cacert FILE, or --pin {pin} "
        "if the operator of the server confirms this digest)"
    ],
    ("cat", "--checksum", "auto", "{http}/about.txt"): [
        "resolve: {http}/about.txt: save:no-checksum: checksum auto needs a file: "
        "standard output was not verified"
    ],
    ("cat", "--gateway", "x-foo=http://127.0.0.1:25/?", "x-foo:bar"): [
        "resolve: x-foo:bar: S04: the gateway's URL: port 25 belongs to another protocol (http has 80); "
        "--allow-port 25 would allow it"
    ],
    ("ls", "{http}/about.txt"): [
        "resolve: {http}/about.txt: this is a document and not a listing; cat shows it"
    ],
    ("get", "-d", "/etc/passwd/x", "{http}/about.txt"): [
        "resolve: {http}/about.txt: cannot write '/etc/passwd/x/about.txt': not a directory "
        "(part of the path is not a directory)"
    ],
    ("cat", "x-foo:bar"): [
        "resolve: x-foo:bar: S19: scheme 'x-foo' is unknown and has no handler; "
        "--gateway x-foo=URL would allow it"
    ],
    ("-t", "1", "cat", "{nntp_escape}/a.b/1"): [
        "resolve: {nntp_escape}/a.b/1: warning (S04): port {nntp_escape_port} is not the port of this scheme "
        "(nntp has 119)",
        "resolve: {nntp_escape}/a.b/1: the greeting: the server is not available now: the server said "
        "'400 \\x1b]0;owned\\x07 \\x9b'",
    ],
    ("cat", "-i", "no\x1b[31m such\nlist"): [
        "resolve: cannot read the list 'no\\x1b[31m such\\nlist': No such file or directory"
    ],
    ("cat", "http://h.example/\nresolve: all is well"): [
        "resolve: http://h.example/\\x0aresolve: all is well: not a URL: bad-char: character not allowed "
        "in URLs, at position 17: '\\nresolve: all is well'",
        "  http://h.example/?resolve: all is well",
        "                   ^",
    ],
}  # fmt: skip

#: Command lines with a password in each place where a password can occur, by mistake or by permission.
#: SECRET_LIST is standard input.
SECRETS = (
    ("info", "--json", "http://u:s3cret@127.0.0.1:25/"),
    ("cat", "-v", "ftp://u:s3cret@127.0.0.1:25/"),
    ("explain", "ftp://u:s3cret@h.example/"),
    ("explain", "-H", "Authorization: Bearer s3cret", "http://h.example/"),
    ("cat", "-v", "-H", "Authorization: Bearer s3cret", "-H", "Cookie: s3cret", "{http}/about.txt"),
    ("get", "--json", "-O", "x", "--mirror", "http://u:s3cret@h x/", "{http}/about.txt"),
    ("get", "--json", "-O", "x", "--mirror", "http://u:s3cret@127.0.0.1:25/", "-t", "2", "{http}/no/such"),
    ("info", "--json", "--referrer", "http://u:s3cret@h.example/", "{http}/about.txt"),
    ("info", "--json", "-i", "-"),
    ("schemes", "--gateway", "x-foo=http://u:s3cret@h.example/?"),
    ("cat", "--gateway", "http://u:s3cret@h.example/?", "x-foo:a"),
    ("cat", "--gateway", "x-foo=http://u:s3cret@h a/?", "x-foo:a"),
    ("cat", "-H", "Authorization Bearer s3cret", "{http}/about.txt"),
    ("cat", "--miror=http://u:s3cret@h.example/", "{http}/about.txt"),
    ("cat", "--max-size", "http://u:s3cret@h.example/", "{http}/about.txt"),
    ("cat", "--news-server", "u:s3cret@h.example", "news:a.b"),
    ("cat", "http://u:s3cret@h.example:99999/"),
    ("cat", "http://u:s3cret@h@h.example/"),
    ("cat", "--proxy", "http://u:s3cret@h:99999", "{http}/about.txt"),
    ("explain", "--proxy", "socks5://u:s3cret@h.example", "http://h.example/"),
    ("cat", "--trusted-proxy", "http://u:s3cret@h?x", "{http}/about.txt"),
    ("cat", "ftp://u:s3cret%zz@h.example/"),
    ("parse", "--json", "http://u:s3cret@h.example/ "),
)
SECRET_LIST = b"""{"url": "http://u:s3cret@h.example/ "}
http://u:s3cret@h.example/ x
{"url": "http://u:s3cret@h.example/", "origin": "x"}
{"url": "file:///", "referrer": ["http://u:s3cret@h.example/", "127.0.0.1"]}
"""
