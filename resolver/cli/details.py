"""The details of commands, options and exit statuses: for `resolve help`, the man page and reference pages.

Each has 1 to 5 sentences: effect, limits, interplay. Literals are in backquotes, as in Markdown; `plain`
removes these. A normal run does not load this module.
"""

from __future__ import annotations

from collections.abc import Mapping


def plain(text: str) -> str:
    """Return a text without the backquotes of literals."""
    return text.replace("`", "")


#: By the name of the command.
OF_COMMANDS: Mapping[str, str] = {
    "get": (
        "The file gets its name from the URL, or from `-O FILE`, and has the server's modification time. It "
        "appears under this name only when it is complete and verified; until then the data is in "
        "`NAME.part`, from which the next run resumes. An existing file is an error unless `--exists` says "
        "otherwise. With `-r` everything below the URL is saved; without it a directory is not saved, "
        "except as lines to `-O FILE`. Without a command name, `get` runs."
    ),
    "cat": (
        "A directory, menu, group or search result is printed as one name per line. A `mailto` URL is "
        "printed as a draft of the mail, a `telnet` URL as its address. On a terminal, control characters "
        "are escaped; a body that is not text is refused there (S15). Each body is written as it arrives, "
        "so after a failure the output is incomplete and the exit status is not 0. The text of a `telnet` "
        "session is printed with `--until` or `--for`."
    ),
    "ls": (
        "One name is printed per line, in the server's order and as soon as it arrives. `-l` adds columns, "
        "`--sort` sorts, and `--json` prints one object per entry, which `-i` of another command reads. "
        "`--follow N` lists the target of entry N. A URL that has no listing, such as a document, is an "
        "error (status 8)."
    ),
    "info": (
        "Each fact is one line, `name: value`, with `-` for an unknown value. The facts come from a request "
        "without a body, such as HEAD of http or SIZE and MDTM of ftp. `-v` adds the header fields, the "
        "redirects and the address of the server."
    ),
    "explain": (
        "The plan lists connections, sent bytes and expected replies, and comes from the code that performs "
        "the request. Nothing is sent, no name is resolved, and secrets appear as `****`. If the policy "
        "refuses the URL, the plan has no steps, and the exit status is that of `get`. `--html` draws the "
        "plan as a page."
    ),
    "open": (
        "A `telnet` URL is a session in the terminal, where `^]` opens a prompt with `close`, `status`, "
        "`send` and `help`. A Gopher+ form is asked question by question, and sent once, after a "
        "confirmation. Any other URL is shown in the browser by the running web UI, or by one that serves "
        "until it is interrupted. The command takes one URL."
    ),
    "parse": (
        "Each component is one line; `--json` prints all components of the scheme, absent ones as null. The "
        "text is read leniently: deviations from RFC 1738 are findings, and with `--strict` errors. An "
        "invalid URL ends with status 12, with its position marked. Nothing is sent, and the policy is not "
        "applied."
    ),
    "extract": (
        "The input is a file, or standard input without an argument. URLs are found in angle brackets, "
        "`<URL:...>` or `<ftp://...>`, also if they are broken over lines (RFC 1738, appendix). Other text "
        "is ignored. `--json` adds the other readings of an ambiguous line break. Nothing is sent."
    ),
    "schemes": (
        "The columns are name, default port, origin and meaning. The origin is `built-in`, `plug-in`, "
        "`gateway` (configured with `--gateway`) or `reserved` (named by RFC 1738, without a handler). A "
        "scheme whose extra is missing is listed with the extra."
    ),
    "mcp": (
        "The tools are `fetch`, `list`, `info`, `explain` and `check`, all read-only, for one client until "
        "it closes standard input. The policy is always `untrusted`; only `--allow-...` and `--file-root` "
        "of this command line or of the configuration override its rules. An object has at most 8 MiB "
        "unless `--max-size` is given. Logins, cookies and certificates of the user are not used. The "
        "command needs the extra `mcp`."
    ),
    "serve": (
        "The command prints an address that admits one browser, once, and serves on loopback until it is "
        "interrupted. Each page shows the policy verdict before a request, and the protocol exchange after "
        "it. If a server of the user is already running and no setting is given, its address is printed "
        "instead. `--listen` serves other machines. The command needs the extra `web`."
    ),
    "config": (
        "Each line is a setting in the syntax of the configuration file, with its source: command line, "
        "line of the file, environment or default. With a URL, the settings for its host are printed, with "
        "the proxy that would be used. Passwords appear as `****`."
    ),
    "ledger": (
        "The file is one that `get --ledger FILE` writes; it may be read during the run. The report has "
        "counts, bytes, rate, and failures by error class. `--failed` prints the remaining URLs for `-i`, "
        "and `--again KIND` requests failed or completed URLs again in the next run."
    ),
    "warc": (
        "`ls` prints one line per record: date, type, status or kind, length and URL. `check` verifies "
        "lengths, digests and references, and exits with status 10 if a record is unusable. `extract FILE "
        "[URL]...` saves archived objects, with the options of `get`. Archives of other programs are read "
        "too (WARC 1.0 and 1.1, compressed or not)."
    ),
    "bulk": (
        "The lists have the formats of `-i`, and `--out` names the directory or URL of the results. One "
        "worker at a time requests a host, so `--per-host` and `--host-rate` hold for the whole cluster. "
        "After an interruption, the same command resumes. `--dry-run` estimates the duration without "
        "fetching. Options that one cluster cannot respect are errors; the command needs the extra `bulk`."
    ),
    "man": (
        "The page has the commands, options, exit statuses and rules of this help, in the man(7) macros. "
        "Where pipx or uv installed the command, the output can be saved as `resolve.1` in a directory "
        "`man1` of the manual path."
    ),
    "completion": (
        "The script completes commands, options, option values and help topics. Example for bash: `eval "
        '"$(resolve completion bash)"`. For zsh it is saved as `_resolve` in a directory of `fpath`, for '
        "fish as `~/.config/fish/completions/resolve.fish`."
    ),
    "help": (
        "Without a topic, all commands and options are listed. A topic is a command, an option with or "
        "without its hyphens, a rule such as `S04`, or an exit status. For any other text, all entries that "
        "contain it are printed; for an option of curl or wget the equivalent is named."
    ),
}

#: By the long name of the option.
OF_OPTIONS: Mapping[str, str] = {
    # options
    "--help": "After a command, its options are listed; other options of the line are ignored.",
    "--version": "Other arguments are parsed, and nothing is fetched.",
    # output
    "--output": (
        "The name is used as it is, below the directory of `-d` if both are given. A name that ends in `/` "
        "is a directory for the file, and `-` is standard output. A device or a pipe is written to "
        "directly. A directory or menu is saved as lines. FILE is for one URL; names that end like a "
        "partial file (`.part`) are refused (S14)."
    ),
    "--directory": (
        "Missing directories are created, and removed again if the download fails. Names of files are still "
        "made from the URLs. Default: the current directory. At a terminal, the command asks before it "
        "creates a directory with a name such as `a=1`, because curl's `-d` sends data; `--yes` answers."
    ),
    "--host-directories": (
        "For example, `ftp://h.example/pub/a.txt` is saved as `h.example/pub/a.txt`. The directories are "
        "created. `--cut-dirs` shortens the path. The option cannot be combined with `-O FILE`."
    ),
    "--cut-dirs": (
        "With 1, `ftp://h.example/pub/a/b.txt` is saved as `a/b.txt`; with 0, as `pub/a/b.txt`. N is 0 to "
        "1,000. Default: only the name of the file. The option cannot be combined with `-O FILE`."
    ),
    "--input": (
        "LIST is a file, `-`, or a URL that is fetched first; the option may be repeated, and for `get` the "
        "argument `-` is short for `-i -`. A line is a URL "
        "or a JSON object with a member `url`; empty lines and lines that start with `#` are skipped. "
        "Digest lists (SHA256SUMS) and Metalink 4 files are recognized, and each of their files must have "
        "the digest of the list. URLs of a fetched list have the origin `derived` (see `--origin`)."
    ),
    "--null": (
        "The items are as with lines: URLs, JSON objects, or digests with names, and comments are skipped. "
        "Only NUL ends an item, so line ends belong to it, as with `xargs -0`. It applies to all lists: "
        "`resolve get --null -`."
    ),
    "--out": (
        "Below it are `bodies/`, `outcomes/`, `ledger/` and with `--warc` `warc/`. All workers must reach "
        "it: a shared directory, or a URL of fsspec such as `s3://bucket/crawl`. `bulk` needs it, except "
        "with `--dry-run`."
    ),
    "--parquet": (
        "There is one file per partition of the run, with one row per URL. It cannot be combined with "
        "`--jsonl`."
    ),
    "--jsonl": (
        "There is one file per partition of the run, with one line per URL. It cannot be combined with "
        "`--parquet`."
    ),
    "--recursive": (
        "Only URLs below the start are requested: the same scheme, host and port, and a path that begins "
        "with the start's. The tree is saved in a directory that is named after the last part of the URL or "
        "its host. Directories of ftp and prospero, index pages of http, gopher menus, local directories "
        "and newsgroups are trees."
    ),
    "--depth": (
        "With 1, only the files of the first directory are saved. N is 1 to 64, which is also the default: "
        "deeper directories are never entered."
    ),
    "--glob": (
        "The last part of the URL is a pattern with `*`, `?` and `[...]`; `%2A`, `%3F` and `%5B` are these "
        "characters themselves. The matching files of that directory are saved in `-d DIR`; without a match "
        "the status is 8. In an http URL `?` begins a query, so a pattern has only `*` and `[...]`. Quote "
        "the URL: `resolve --glob 'ftp://h.example/pub/*.txt'`."
    ),
    "--accept": (
        "The pattern has `*`, `?` and `[...]`, and is compared with the name without directories. A file "
        "needs to match one of several `--accept`. Directories are entered regardless. Quote the pattern: "
        "`--accept '*.iso'`."
    ),
    "--reject": (
        "The pattern is that of `--accept`, and has precedence over it. Directories are entered regardless. "
        "`--delete` keeps local files that match."
    ),
    "--accept-regex": (
        "RE is a Python regular expression that is searched for in the complete URL. It is combined with "
        "`--accept`: both must match. Directories are entered regardless."
    ),
    "--ignore-robots": (
        "Without it, `/robots.txt` (RFC 9309) of each http server is requested first, and disallowed URLs "
        "are skipped. Other schemes have no such file."
    ),
    "--delete": (
        "The files are listed, and removed after a confirmation at the terminal; `--yes` confirms in "
        "advance. Only directories with a complete listing are cleaned. Links, names that start with a dot, "
        "partial files, and files that `--accept` or `--reject` excludes are kept."
    ),
    "--yes": (
        "Without it and without a terminal, `--delete` is an error. It is also required before files that "
        "an http index page does not list are removed, because such a page may hide files. With `-d`, it "
        "confirms a directory whose name looks like data (`-d a=1`)."
    ),
    "--dry-run": (
        "`get` prints the name of each file; it requests no body and writes nothing, but listings, dates "
        "and names may be requested. `bulk` prints the estimated duration and the slowest host. It cannot "
        "be combined with `--ledger`, `--format` or `-O -`."
    ),
    "--format": (
        "`mbox` appends the articles to one file, `maildir` stores one file per article. Each article is "
        "complete or absent, and another run requests the missing articles only. It needs `-r` and cannot "
        "be combined with `--ledger`, `--delete` or `--dry-run`."
    ),
    "--failed": (
        "The file has the URLs that failed or were not started, in the format of `-i`; it may be the list "
        "of the same run. It is empty if all URLs succeeded, and only its owner can read it. For `ledger`, "
        "the default is standard output."
    ),
    "--warc": (
        "A name in `.warc.gz` is compressed, a name in `.warc` is not. An archive of an earlier run is "
        "appended to. Passwords and cookies appear as `****`. For `bulk` FILE is omitted: each worker "
        "writes an archive below `--out`. It needs the extra `warc`."
    ),
    "--warc-size": (
        "The default is 1,000,000,000 bytes; `k`, `M` and `G` are powers of 1024. Further files are named "
        "`NAME-00001.warc.gz` and so on. One capture is never split."
    ),
    "--warc-dedup": (
        "CDX is an index (CDXJ, or CDX of wget) next to its archives; the option may be repeated. A record "
        "is used after it was opened and its payload was hashed again; otherwise the object is recorded in "
        "full. It needs `--warc`."
    ),
    "--warc-cookies": (
        "Without it, the values of Set-Cookie fields appear as `****` in the archive. It needs `--warc`."
    ),
    "--meta": (
        "The JSON object has URLs, addresses, time, size, digests, header fields and checks. It belongs to "
        "the file next to it: it is replaced and removed together with the file. Secrets appear as `****`."
    ),
    "--exists": (
        "`fail` reports an error before anything is sent. `resume` continues the file, `skip` keeps it, and "
        "`replace` overwrites it when the new file is complete. `newer` fetches an object that is later, or "
        "of the same time with another size. `rename` saves under a free name such as `data.2.tar.gz`."
    ),
    "--sync": (
        "`group` writes data to the disk before a file gets its name, together for files that end together. "
        "`always` also writes the name before the file is reported. `never` leaves this to the system: "
        "after a power failure, files may be empty or truncated."
    ),
    "--long": (
        "The columns are kind, size, date, types and number; ftp shows permissions in place of types. `~` "
        "marks a rounded size or a time without a known time zone. On a terminal of less than 80 columns, "
        "the columns are shorter."
    ),
    "--raw": (
        "Menus, listings, line ends, message framing and content codings stay as they are. `ls` is not "
        "affected."
    ),
    "--sort": (
        "`name` sorts by characters, `size` largest first, `date` newest first; unknown values are last. "
        "All entries are read before the first line is printed, at most 100,000 (`--limit entries=N`). "
        "Entries keep their numbers."
    ),
    "--from-warc": (
        "No packet is sent, no name resolved and no local file of a `file:` URL read. The policy applies as "
        "usual. The option may be repeated, and cannot be combined with options of the network, such as "
        "`--proxy` or `--tries`. A URL that is not in the archives is status 8."
    ),
    "--at": (
        "The latest capture at or before TIME is used. TIME is in UTC, such as `2026-11-24T10:00:00Z` or "
        "`20261124`; missing parts mean the end of the period. It needs `--from-warc`, except for `warc "
        "extract`."
    ),
    "--under": "The records of a tree are those that `get -r URL` would request. It is for `warc ls` only.",
    "--follow": (
        "N is the number that `ls -l` prints, from 1. The listing is requested first, then the target, "
        "which has the origin `chosen` (S10, S20). An entry without a URL is an error (status 8)."
    ),
    "--separator": (
        "The escapes are those of C: `\\n`, `\\0`, `\\t`, `\\r`, `\\xHH`, `\\NNN` (octal), `\\\\`. TEXT is "
        "written before each URL but the first, also if a URL fails. So N URLs have N parts, and the part of "
        "a failed URL is empty or incomplete. `get` takes it with `-O -`."
    ),
    "--show-error-body": (
        "At most 64 KiB of text are printed, with control characters escaped; other bodies are not. The "
        "exit status is still that of the error. It is for http and https."
    ),
    "--json": (
        "The members are listed in the contract and never change their meaning. `cat` and `get -O -` print "
        "the objects to standard error, where they replace the error messages."
    ),
    "--quiet": "Warnings, summaries and progress are suppressed as well. A second `-q` is `-qq`.",
    "--silent": (
        "It also applies if `-q` is given twice. Errors of the command line itself are still printed."
    ),
    "--progress": (
        "`auto` draws bars on a terminal, for runs that take longer than 0.4 s, unless bodies are printed "
        "on it or `-q` is given. `bar` draws them with `-q`, too. `dot` prints lines for a log, and `json` "
        "one object per line; both go to standard error."
    ),
    "--verbose": (
        "Lines to standard error start with `C:` for sent data, `S:` for received data and `*:` for events. "
        "Bodies are not shown. Secrets appear as `****`."
    ),
    "--trace": (
        "The file has the complete exchange in the format of `-v`, bodies included. The file is overwritten."
    ),
    "--trace-html": (
        "The page is a sequence diagram next to the plan of `explain`, without references to other files. "
        "It is written at the end of the run. It needs the extra `web`."
    ),
    "--html": (
        "The page is printed to standard output, or to `-O FILE`. It cannot be combined with `--json`. It "
        "needs the extra `web`."
    ),
    # limits
    "--jobs": (
        "N is 1 to 1,000. Hosts take turns, and each host has at most `--per-host` of the retrievals. A "
        "host without data for 5 s does not count against N while others wait."
    ),
    "--per-host": (
        "N is 1 to 1,000 and replaces the defaults of all schemes. An ftp host gets 4 if at least 16 more "
        "URLs wait. An overloaded host (421, 429, 503) gets half as many, and then gradually more. It also "
        "limits the connections of `--segments`."
    ),
    "--host-rate": (
        "N is a decimal number: `0.5` starts one retrieval every 2 s. Default: no limit. The `Retry-After` "
        "of a server is respected in any case."
    ),
    "--scheduler": (
        "`local:N` starts N processes on this machine, and `local`, the default, one per processor. "
        "`HOST:PORT` and `tls://HOST:PORT` name a running scheduler. Logins are sent to workers only with "
        "`local` and `tls://`."
    ),
    "--segments": (
        "N is 1 to 1,000. A segment has at least 1 MiB, for ftp 32 MiB. http needs range requests, ftp "
        "REST, and the server must identify the state of the object; otherwise one connection is used. A "
        "host gets at most `--per-host` of the connections."
    ),
    "--max-size": (
        "`k`, `M` and `G` are powers of 1024: `--max-size 10M`. A longer body ends with status 14, "
        "immediately if the size is announced. By default files and output have no limit. It is short for "
        "`--limit body=BYTES`."
    ),
    "--connect-timeout": (
        "S is a number of seconds, or a duration such as `500ms`, `2m` or `1h30m`. The DNS lookup is limited "
        "to the same time. If it passes, the status is 11. It is short for `--limit connect=S`."
    ),
    "--idle-timeout": (
        "S is a number of seconds, or a duration such as `90s` or `2m`, and also limits the wait for the "
        "first byte. If it passes, the status is 11, and the received data is kept for a retry. It is short "
        "for `--limit idle=S`."
    ),
    "--tries": (
        "N is 1 to 1,000 and counts tries in a row without new data. By default a single URL is tried once, "
        "and `get` has 5 tries after its first data. Each of several URLs has 5. Errors that are probably "
        "permanent, such as a refused port, are not retried (see `--retry-all`)."
    ),
    "--retry-delay": (
        "S is a number of seconds, or a duration such as `500ms` or `2m`. The time doubles with each try, up "
        "to 60 s, and is shortened by up to a quarter at random. A time that the server names has precedence."
    ),
    "--retry-all": (
        "Examples are a refused port and an unknown name. Without it, such an error ends the retrieval "
        "after one try, unless the host answered before. Errors of the server, such as 404, are never "
        "retried."
    ),
    "--min-rate": (
        "The rate is averaged over some seconds of waiting for data. `k`, `M` and `G` are powers of 1024. "
        "Default: no limit, only `--idle-timeout`. If it is not reached, the status is 11."
    ),
    "--rate": (
        "`k`, `M` and `G` are powers of 1024: `--rate 500k`. The transfers share it equally. Local files "
        "and prospero (UDP) are not limited. Default: no limit."
    ),
    "--max-time": (
        "S is a number of seconds, or a duration such as `90s` or `1h30m`. The time includes all tries and "
        "redirects of the URL; if it passes, the status is 11. Default: no limit, and 600 s with policy "
        "`untrusted`. It is short for `--limit total=S`."
    ),
    "--limit": (
        "Counts are `line` (65,536 bytes), `lines` (1,000 per head), `entries` (100,000), `hops` (10 "
        "redirects), `body` (unlimited for files and output) and `ratio` (100, decompression); `k`, `M` or "
        "`G` may follow. Times are `connect` (30), `head` (until the body), `idle` (60) and `total`; `ms`, "
        "`m`, `h` or `d` may follow. `quota` counts the bytes of all bodies of the run, which stops with "
        "status 14 before it exceeds them; complete files stay. The option may be repeated: `--limit "
        "hops=3 --limit entries=1M`."
    ),
    # proof
    "--ledger": (
        "FILE is an SQLite database that is created if necessary. Another run with the same ledger skips "
        "URLs whose file is complete and exists, and requests the others again. It contains no passwords, "
        "and has mode 600. `resolve ledger FILE` reports it. It cannot be combined with `-O -`, `--format` "
        "or `--dry-run`."
    ),
    "--again": (
        "KIND is a class such as `NotFound`, an exit status such as `11` (0 means completed URLs), or `all` "
        "for all failures. Nothing is requested: the next `get --ledger FILE` with the same list does this."
    ),
    "--checksum": (
        "ALG is md5, sha1, sha224, sha256, sha384 or sha512. `auto` takes the digest from header fields, or "
        "from `NAME.sha256`, `.sha512`, `.md5`, `SHA256SUMS` or `md5sums.txt` next to the file; without "
        "one, a warning is printed. After a mismatch `get` fetches the file once more; then the status is "
        "10 and no file is kept. `cat` does not verify `auto`."
    ),
    "--mirror": (
        "URL names another location of the same file, in any scheme; the option may be repeated. If one "
        "location fails, the next one continues. Inside the file it continues only if the size is known and "
        "a digest was given. `--segments` uses all locations at the same time."
    ),
    # safety
    "--strict": (
        "Without it, common deviations, such as `~` or `|` in a path, are accepted with a finding. Nothing "
        "is guessed or repaired in either case. An error is status 12."
    ),
    "--policy": (
        "`default` is for URLs that the user typed: doubtful URLs cause warnings. `cautious` refuses them. "
        "`untrusted` is for URLs of others: also only public addresses, no local files without "
        "`--file-root`, no proxy except `--trusted-proxy`, and 600 s per URL. `mcp` always has `untrusted`."
    ),
    "--allow-port": (
        "PORT is 1 to 65,535; the option may be repeated. It also permits the port for a form (S03), and "
        "below 1024 for an FTP data connection (S13)."
    ),
    "--allow-address": (
        "CIDR is a range such as `10.0.0.0/8` or an address; the option may be repeated. It matters for "
        "`untrusted`, and for links and redirects that lead to a more internal network."
    ),
    "--allow-name": (
        "HOST is the name as in the URL, such as `xn--pple-43d.example`; the option may be repeated. It "
        "also permits a host that is percent-encoded in the URL."
    ),
    "--allow-redirect": (
        "An example is a redirect from http to ftp, or from https to http. URLs of file, mailto and telnet "
        "are never followed automatically. The option may be repeated."
    ),
    "--allow-forward": (
        "Credentials and header fields of the user go to HOST as well, on any port. Without it, a redirect "
        "to another host gets only harmless fields, such as Accept. The option may be repeated."
    ),
    "--allow-password": (
        "It suppresses the warning about a password in the URL and about a password without TLS, and "
        "permits both with policy `cautious`. The scheme must have a login in its URLs, such as ftp; http "
        "has none. It also permits a password before the server requests it. `--password-file` keeps "
        "passwords out of URLs."
    ),
    "--allow-form": (
        "Such a URL has the answers of a Gopher+ form. Without it, a typed URL causes a warning, and any "
        "other URL is refused. S03 still requires a gopher port."
    ),
    "--allow-special": (
        "Devices, pipes and sockets are examples; reading them may wait, or have effects. It applies to "
        "`file:` URLs only."
    ),
    "--allow-raw": (
        "Without it, control characters, escape sequences and invisible characters are shown as `\\x1b`. It "
        "applies to standard output. Standard error is always escaped."
    ),
    "--allow-server-name": (
        "The name is that of Content-Disposition (http), made safe as any other name. The server is asked "
        "for it before the download. Without a suggestion, the name comes from the URL."
    ),
    "--trusted-proxy": (
        "Policy `untrusted` refuses every other proxy, because a proxy resolves names itself. URL must be "
        "that of the proxy in use (`--proxy` or a variable), and the proxy must refuse internal addresses. "
        "It does not select a proxy."
    ),
    "--file-root": (
        "Symbolic links that lead out of DIR are refused. Policy `untrusted` permits local files only with "
        "it. It does not limit where files are saved."
    ),
    "--origin": (
        "`user` means that the user typed the URLs, `chosen` that a menu or a program offered them, and "
        "`derived` that they were found in retrieved data. The policy is stricter for the latter two: S05, "
        "S08, S10, S12, S18, S20. A list may have an `origin` per URL."
    ),
    "--referrer": (
        "The policy compares the URLs with it: S08, S10, S12 and S20 check a link by its start. It is not "
        "sent. For a digest list, it is the location of the files."
    ),
    # access
    "--ipv4": "Addresses of the other version are ignored. It cannot be combined with `-6`.",
    "--ipv6": "Addresses of the other version are ignored. It cannot be combined with `-4`.",
    "--user": (
        "The password comes from `--password-file`, the configuration, a netrc file or a prompt at the "
        "terminal. A user name in the URL has precedence. Other hosts, such as those of a redirect, do not "
        "get it (S11)."
    ),
    "--password-file": (
        "Only the first line is read, of at most 4,096 bytes. It is for the name of `--user` or of the URL, "
        "at hosts of the command line. A password on the command line itself would be visible to other "
        "users."
    ),
    "--netrc": (
        "The file must belong to the user and must not be readable by others. An entry applies to its host; "
        "`default` applies to ftp only. A section of the configuration has precedence."
    ),
    "--netrc-file": "It implies `--netrc`. A missing file is an error.",
    "--tls": (
        "It applies to ftp (AUTH TLS), news and nntp (STARTTLS) and telnet (START_TLS). `try` continues "
        "without TLS if the server has none; `require` fails, also for schemes that have no TLS, such as "
        "http. `never`, the default, given explicitly also permits a news password without TLS. Schemes "
        "such as https always use TLS."
    ),
    "--header": (
        "The option may be repeated; a value without line ends is sent as given. Only harmless fields, such "
        "as Accept, go to another host after a redirect (S11). Other schemes ignore it. Example: `-H "
        "'Accept: text/plain'`."
    ),
    "--user-agent": "The default is `url-resolver`, without a version. Other schemes do not send it.",
    "--proxy": (
        "URL is `http://`, `https://`, `socks5://` or `socks5h://`, with `USER:PASSWORD@` if needed; the "
        "default port is 1080. It has precedence over the proxy variables; `no_proxy` still applies. All "
        "TCP schemes use it. Policy `untrusted` needs `--trusted-proxy`; prospero (UDP) is refused (S09)."
    ),
    "--cacert": (
        "FILE has certificates in PEM format, which are trusted in addition to those of the system. "
        "Certificates are always verified: no option disables this."
    ),
    "--cert": (
        "FILE is in PEM format. Only hosts that the user named get the certificate, never a host of a "
        "redirect. An encrypted key is unlocked with a password from the terminal."
    ),
    "--pin": (
        "HEX is the SHA-256 digest of the certificate, as `openssl x509 -fingerprint -sha256` prints it, "
        "with or without colons. The certificate is compared with this digest; its name, its dates and its "
        "authority are not checked. The pin applies to hosts that the user named, never to a host of a "
        "redirect. `pin` in a host's section of the configuration is the same for one host. A message about "
        "an untrusted certificate contains its digest: compare it with the digest that the server's operator "
        "confirms."
    ),
    "--cookies": (
        "FILE is in Netscape format, and is created if necessary. Session cookies are stored too. Only its "
        "owner can read it. Cookies go to the hosts that set them."
    ),
    "--gateway": (
        "The percent-encoded URL, without user and fragment, is appended to the URL of the gateway, for "
        "example `z39.50r=http://gateway.example/?`. It is for schemes without a handler (S19). The policy "
        "checks the gateway's URL too. The option may be repeated."
    ),
    "--port": "N is 0 to 65,535. The printed address contains the port.",
    "--listen": (
        "ADDRESS is a numeric address of this machine. All users share history and saved files, and local "
        "files are not served. An address that is not loopback needs `--listen-cert` or `--insecure`."
    ),
    "--listen-cert": (
        "FILE is in PEM format, or CERT,KEY names two files. It needs `--listen`, and cannot be combined "
        "with `--insecure`."
    ),
    "--insecure": (
        "Everyone on the network path can then read and change the pages. It does not affect certificates "
        "of servers, which are always verified."
    ),
    "--open": (
        "The browser gets a private file that redirects, because all users can read command lines. Without "
        "a browser, the address is printed."
    ),
    "--register": (
        "It also registers nntp, wais and prospero, writes `resolve-url.desktop` below `$XDG_DATA_HOME`, "
        "and uses `xdg-mime` if it is installed. The desktop then runs `resolve open -- URL`."
    ),
    "--unregister": (
        "The handlers that were registered before are restored. It cannot be combined with `--register`."
    ),
    "--page-size": "N is 1 to 10,000. It affects directories, menus, groups and search results.",
    "--config": (
        "`none` reads no file. The default is `config.toml` in `$XDG_CONFIG_HOME/resolve` or "
        "`~/.config/resolve`, which may be missing. The file must belong to the user, and others must not "
        "be able to write to it."
    ),
    # schemes
    "--search": (
        "The text becomes part of the URL: the search terms of a gopher item of type 7, or of a wais "
        "database. For other schemes it is an error (status 2). Example: `resolve ls --search ferry "
        "wais://wais.example/db`."
    ),
    "--view": (
        "TYPE is a media type that the item's attributes list, such as `text/plain` or `Text/plain En_US`. "
        "It becomes part of the URL. For other schemes it is an error (status 2)."
    ),
    "--type": (
        "`a` is text with converted line ends, `i` is bytes, and `d` is a listing of names. It becomes "
        "`;type=` of the URL. For other schemes it is an error (status 2)."
    ),
    "--mlsd": (
        "MLSD (RFC 3659) lists kind, size and date of each entry. If the server refuses it, `ls` uses LIST, "
        "and `cat` NLST. Without the option, `ls` uses MLSD if the server announces it, and else LIST."
    ),
    "--nlst": (
        "The reply lacks kinds, sizes and dates. It is the form of RFC 1738, which `cat` and `get` use for "
        "a directory. It helps if LIST of the server has an unknown format."
    ),
    "--ftp-email": (
        "ADDRESS has graphic ASCII characters with an `@`. The default is `anonymous@`, without personal "
        "data (S17). It is sent if the server requests a password of the user `anonymous`."
    ),
    "--news-server": (
        "It is for `news:` URLs without a server. The default is `$NNTPSERVER`, then the first word of "
        "`/etc/news/server`. Without a setting, the status is 2."
    ),
    "--for": (
        "S is a number of seconds, or a duration such as `2m`. The session is opened, its text printed, and "
        "then closed. With "
        "`--until` it is the longest wait of the whole session."
    ),
    "--until": (
        "REGEX is compared with the bytes of the session, which ends after the match; each `--send` needs "
        "one more match. Anything but plain text needs the extra `telnet`. `--for` limits the wait."
    ),
    "--send": (
        "TEXT gets a line end; without `--until` it is typed after the service sent text. The option may be "
        "repeated and needs `--until` or `--for`. TEXT is never shown, but an echo of the service is."
    ),
    "--plain": (
        "Cursor movement, colors and other escape sequences are dropped. The terminal type `dumb` is "
        "announced to the service instead of `xterm`."
    ),
    "--entries": (
        "By default, the newest 10,000 articles of a group or 40 hits of a wais search are requested. 0 "
        "requests all articles, or 1,000 hits. Other schemes ignore it."
    ),
}

#: By the exit status: the usual reaction.
OF_STATUSES: Mapping[int, str] = {
    0: "Each URL is complete. The members `verified` of `--json` name the checks of each file.",
    1: "Each URL has its own message, and its status in `--json`. `--failed FILE` collects the URLs.",
    2: "The message names the option, or the line of the configuration. Nothing was sent with it.",
    3: "Check the permissions and the free space. An existing file is kept unless `--exists` says otherwise.",
    4: "Check the name, the port and the network. `--tries N` retries, with `--retry-all` any error.",
    5: "Check the clock and the host name. `--cacert FILE` trusts a private authority.",
    6: "Log in with `--user NAME` and `--password-file FILE`, a netrc file or the configuration.",
    7: "The server deviates from its protocol, or exceeds a limit. See `-v` and `--limit`.",
    8: "The resource is missing, or the server is busy. The message has the reply of the server.",
    9: "The message names the rule and the option that would allow it. `resolve help S08` explains a rule.",
    10: "`get` leaves no file under the name. Run the same command again, or check the digest.",
    11: "The partial file is kept. `--connect-timeout`, `--idle-timeout` and `--max-time` set the limits.",
    12: "The message marks the position, and often suggests the correct URL. Quote URLs in the shell.",
    13: "`resolve schemes` lists schemes and missing extras. `--gateway SCHEME=URL` sets a gateway.",
    14: "`--max-size BYTES`, `--limit ratio=N` and `--limit quota=BYTES` set the limits.",
    15: "`--allow-redirect SCHEME` permits a scheme, and `--limit hops=N` more redirects.",
    130: "A run after Ctrl-C has this status. The same command resumes.",
    141: "For example, `head` reads some lines only. No message is printed.",
    143: "A run after SIGTERM has this status. The same command resumes.",
}
