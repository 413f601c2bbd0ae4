"""The details of commands, options and exit statuses, for `resolve help`, the man page and reference pages.

Each text has 1 to 5 sentences about the effect, the limits, and the interaction with other options. Literals
are in backquotes, as in Markdown; `plain` removes the backquotes. A normal run does not load this module.
"""

from __future__ import annotations

from collections.abc import Mapping


def plain(text: str) -> str:
    """Return a text without the backquotes of literals."""
    return text.replace("`", "")


#: The details of each command, by the name of the command.
OF_COMMANDS: Mapping[str, str] = {
    "get": (
        "The file gets its name from the URL, or from `-O FILE`, and its modification time from the server. "
        "Until the file is complete and verified, the data is in the partial file `NAME.part`, which the "
        "next run resumes. An existing file is an error, unless `--exists` selects another action. `-r` "
        "saves everything below the URL of a directory. Without `-r`, the URL of a directory is an error, "
        "but `-O FILE` saves the listing as text."
    ),
    "cat": (
        "For a directory, menu, newsgroup or search result, the command prints one name per line. A "
        "`mailto` URL is printed as a draft of the mail. For a `telnet` URL, the command prints the "
        "address, or with `--until` or `--for` the text of a scripted session. On a terminal, control "
        "characters are escaped, and binary bodies are refused (S15). Each body is written as it arrives, "
        "so after a failure the output is incomplete and the exit status is not 0."
    ),
    "ls": (
        "The command prints one name per line, in the order of the server, as soon as each entry arrives. "
        "`-l` adds columns, `--sort` sorts, and `--json` prints one object per entry. Another command can "
        "read these objects with `-i`. `--follow N` lists the target of entry N. A URL that has no listing, "
        "such as a document, is an error (status 8)."
    ),
    "info": (
        "The command prints one line per property of the resource: `name: value`. An unknown value is "
        "printed as `-`. The properties come from a request without a body, such as HEAD (http) or SIZE and "
        "MDTM (ftp). `-v` adds the header fields, the redirects and the address of the server."
    ),
    "explain": (
        "The plan lists the connections, the bytes to send and the expected replies. The code that performs "
        "requests also computes the plan. Nothing is sent, no DNS lookup is made, and secrets appear as "
        "`****`. If the policy refuses the URL, the plan has no steps, and the exit status is the same as "
        "with `get`. `--html` draws the plan as an HTML page."
    ),
    "open": (
        "A `telnet` URL opens an interactive session in the terminal. In the session, `^]` opens a prompt "
        "with the commands `close`, `status`, `send` and `help`. For a Gopher+ form, the command asks each "
        "question of the form, and sends the answers after a confirmation. Any other URL is opened in the "
        "browser, in the web UI. If no web UI is running, the command starts a web UI, which runs until "
        "Ctrl-C."
    ),
    "parse": (
        "The command prints one component per line. `--json` prints all components of the scheme, with null "
        "for absent components. Deviations from RFC 1738 are reported as findings, or with `--strict` as "
        "errors. For an invalid URL, the message marks the position, and the exit status is 12. The command "
        "sends nothing, and does not apply the policy."
    ),
    "extract": (
        "The command finds URLs in angle brackets in FILE or standard input: `<URL:...>` or `<ftp://...>`. "
        "A line break may split a URL (RFC 1738, appendix). Other text is ignored. If a line break is "
        "ambiguous, `--json` adds the alternative URLs. Nothing is sent."
    ),
    "schemes": (
        "The columns are name, default port, origin and meaning. The origin is `built-in`, `plug-in`, "
        "`gateway` (configured with `--gateway`) or `reserved` (named by RFC 1738, without a handler). If "
        "an extra for the scheme is missing, the line of the scheme names the extra."
    ),
    "mcp": (
        "The MCP server has the read-only tools `fetch`, `list`, `info`, `explain` and `check`; it serves "
        "one client until the client closes standard input. With `--listen`, the server uses HTTP "
        "(Streamable HTTP) on loopback until Ctrl-C, and prints its URL and the header field with the bearer "
        "token. The policy is always `untrusted`; only `--allow-...` and `--file-root`, as options or in the "
        "configuration, override its rules. An object has at most 8 MiB unless `--max-size` sets another "
        "limit, and logins, cookies and certificates of the user are not used. The command needs the extra "
        "`mcp`, and the extra `web` for HTTP."
    ),
    "serve": (
        "The command serves the web UI on loopback until Ctrl-C, and prints a login URL that works once, "
        "for one browser. Before a request, the page shows the verdict of the policy; after the request, "
        "the page shows the protocol exchange. If the user's web UI is already running, the command without "
        "options prints the address of that web UI and exits. With `--listen`, other machines can connect. "
        "The command needs the extra `web`."
    ),
    "proxy": (
        "The command prints the URL of the proxy, and listens on loopback until Ctrl-C. Other programs use "
        "the proxy with CONNECT, absolute http URLs, or SOCKS5 without a login. "
        "The default policy is `untrusted`; `--policy`, `--allow-address`, `--allow-name` and "
        "`--allow-port` change the policy. A refused request gets status 403 with the name of the rule, or "
        "SOCKS5 reply 2. The command prints each decision as one line on standard error, or as a JSON "
        "object with `--json`."
    ),
    "config": (
        "The command prints each setting in the syntax of the configuration file, with the source of its "
        "value. The source is the command line, a line of the file, an environment variable or the default. "
        "With a URL, the command prints the settings for the host of the URL, and the proxy that would be "
        "used. Passwords appear as `****`."
    ),
    "ledger": (
        "FILE is the ledger of `get --ledger FILE`; the command can also read the ledger during the run. The "
        "report has counts, bytes, transfer rate, and failures by error class. `--failed` prints the "
        "remaining URLs in the format of `-i`. `--again KIND` marks failed or completed URLs. The next run "
        "requests the marked URLs again."
    ),
    "warc": (
        "`ls` prints one line per record: date, type, status or kind, length and URL. `check` verifies "
        "lengths, digests and references. If a record is unusable, `check` exits with status 10. `extract "
        "FILE [URL]...` saves archived objects, with the options of `get`. The command also reads archives "
        "of other programs: WARC 1.0 and 1.1, compressed or uncompressed."
    ),
    "bulk": (
        "The lists have the formats of `-i`, and `--out` names the directory or URL of the results. Only "
        "one worker at a time sends requests to a host, so `--per-host` and `--host-rate` limit the "
        "complete cluster. After an interruption, the same command resumes. An option that does not work on "
        "a cluster is an error. The command needs the extra `bulk`."
    ),
    "man": (
        "The command prints the manual page in man(7) macros: commands, options, exit statuses and rules. "
        "If pipx or uv installed `resolve`, save the output as `man1/resolve.1` below a directory of the "
        "manual path (MANPATH)."
    ),
    "completion": (
        "The script completes commands, options, option values and help topics. Example for bash: `eval "
        '"$(resolve completion bash)"`. For zsh, save the script as `_resolve` in a directory of `fpath`; '
        "for fish, as `~/.config/fish/completions/resolve.fish`."
    ),
    "help": (
        "Without a topic, all commands and options are listed. A topic is a command, an option (with or "
        "without hyphens), a rule such as `S04`, or an exit status. For search terms, the command prints "
        "the help entries that contain all terms. For an option of curl or wget, the command names the "
        "equivalent option of `resolve`."
    ),
}

#: The details of each option, by the long name of the option.
OF_OPTIONS: Mapping[str, str] = {
    # options
    "--help": (
        "`resolve COMMAND --help` lists the options of the command. Other options on the command line are "
        "ignored."
    ),
    "--version": "Other arguments must be valid, but have no effect. No request is sent.",
    # output
    "--output": (
        "FILE is used unchanged as the name of the file; with `-d DIR`, the file is saved below DIR. If "
        "FILE ends in `/`, FILE is the directory of the file, and `-` is standard output (stdout). If FILE "
        "is a device or a pipe, the data is written directly to FILE. A directory or menu is saved as a text "
        "listing. The option accepts only one URL, and refuses a name with the suffix of a partial file, "
        "such as `.part` (S14)."
    ),
    "--directory": (
        "Missing directories are created. If the download fails, the new directories are removed. The file "
        "names come from the URLs. The default is the current directory. At a terminal, a directory name "
        "such as `a=1` needs a confirmation or `--yes`, because `-d a=1` of curl sends data."
    ),
    "--host-directories": (
        "For example, `ftp://h.example/pub/a.txt` is saved as `h.example/pub/a.txt`. Missing directories "
        "are created. `--cut-dirs N` removes the first N directories of the path. The option cannot be "
        "combined with `-O FILE`."
    ),
    "--cut-dirs": (
        "With 1, `ftp://h.example/pub/a/b.txt` is saved as `a/b.txt`; with 0, as `pub/a/b.txt`. N is 0 to "
        "1,000. Default: only the name of the file. The option cannot be combined with `-O FILE`."
    ),
    "--input": (
        "LIST is a file, a URL of a list, or `-` for standard input; the option may be repeated. For `get`, "
        "the argument `-` is short for `-i -`. A line is a URL, or a JSON object with a member `url`; empty "
        "lines, and lines that start with `#`, are skipped. Checksum lists (SHA256SUMS) and Metalink 4 "
        "files are recognized, and each downloaded file must match its digest. The URLs of a downloaded "
        "list have the origin `derived` (see `--origin`)."
    ),
    "--null": (
        "A NUL byte ends each item of a list, as with `xargs -0`, so an item may contain line ends. An item "
        "is a URL, a JSON object, or a digest with a file name, as with `-i`. The option applies to all "
        "lists: `resolve get --null -`."
    ),
    "--out": (
        "The results are in the subdirectories `bodies/`, `outcomes/`, `ledger/` and, with `--warc`, "
        "`warc/`. All workers must be able to write to DIR. Use a shared directory, or a URL of fsspec such "
        "as `s3://bucket/crawl`. The option is required for `bulk`, except with `--dry-run`."
    ),
    "--parquet": (
        "The command writes one Parquet file per partition of the run, with one row per URL. The option "
        "cannot be combined with `--jsonl`."
    ),
    "--jsonl": (
        "The command writes one file per partition of the run, with one JSON object per line for each URL. "
        "The option cannot be combined with `--parquet`."
    ),
    "--recursive": (
        "Only URLs below the start URL are requested: same scheme, host and port, and a path that begins "
        "with the path of the start URL. The tree is saved in a directory with the name of the last path "
        "segment of the start URL. If the path is empty, the directory gets the name of the host. The "
        "option works for directories of ftp and prospero, index pages of http, gopher menus, local "
        "directories and newsgroups."
    ),
    "--depth": (
        "With 1, only the files of the start directory are saved. N is 1 to 64, and the default is 64. "
        "Deeper directories are never read."
    ),
    "--glob": (
        "The last segment of the URL is a glob pattern with `*`, `?` and `[...]`; `%2A`, `%3F` and `%5B` "
        "are the literal characters. The command lists the directory, and saves the matching files in `-d "
        "DIR`. If no file matches, the exit status is 8. In an http URL, `?` begins a query, so the pattern "
        "can contain only `*` and `[...]`. Quote the URL: `resolve --glob 'ftp://h.example/pub/*.txt'`."
    ),
    "--accept": (
        "The pattern may contain `*`, `?` and `[...]`, and must match the file name without directories. If "
        "the option is repeated, a file must match at least one pattern. The pattern does not apply to "
        "directories: every directory is read. Quote the pattern: `--accept '*.iso'`."
    ),
    "--reject": (
        "The pattern has the same syntax as the pattern of `--accept`. A file that matches the patterns of "
        "`--accept` and `--reject` is excluded. The pattern does not apply to directories: every directory "
        "is read. `--delete` keeps local files that match the pattern."
    ),
    "--accept-regex": (
        "RE is a Python regular expression, and may match any part of the complete URL. With `--accept`, a "
        "file must match RE and the pattern of `--accept`. RE does not apply to directories: every "
        "directory is read."
    ),
    "--ignore-robots": (
        "Without the option, `/robots.txt` (RFC 9309) of each http server is requested first, and "
        "disallowed URLs are skipped. Other schemes have no robots.txt."
    ),
    "--delete": (
        "The command lists the files to delete, and deletes them after a confirmation at the terminal. "
        "`--yes` confirms in advance. If the listing of a directory is incomplete, no files of that "
        "directory are deleted. The command never deletes symbolic links, names that start with a dot, "
        "partial files, and files that `--accept` or `--reject` excludes."
    ),
    "--yes": (
        "Without a terminal, `--delete` needs this option. `--delete` also needs this option for http index "
        "pages, because an index page may hide files. The option also confirms a directory name of `-d` "
        "that looks like data, such as `-d a=1`."
    ),
    "--dry-run": (
        "`get` prints the name of each file. It requests no body and writes no file, but may send requests "
        "for listings, dates and names. `bulk` prints the estimated duration and the slowest host. The "
        "option cannot be combined with `--ledger`, `--failed`, `--format` or `-O -`."
    ),
    "--format": (
        "`mbox` appends the articles to one file; `maildir` stores one file per article. Each article is "
        "saved completely or not at all, and another run requests only the missing articles. The option "
        "needs `-r`, and cannot be combined with `--ledger`, `--delete` or `--dry-run`."
    ),
    "--failed": (
        "The file lists the failures and the URLs that were not started, in the format of `-i`. FILE may be "
        "the input list of the same run; it stays unchanged if one of its lines cannot be read. If all URLs "
        "succeeded, the file is empty. Only the owner can read the file. For `ledger`, the default is "
        "standard output."
    ),
    "--warc": (
        "A FILE that ends in `.warc.gz` is compressed; a FILE that ends in `.warc` is not. New records are "
        "appended to an existing archive. Passwords and cookies appear as `****`. With `bulk`, omit FILE: "
        "each worker writes a separate archive below the directory of `--out`."
    ),
    "--warc-size": (
        "The default is 1,000,000,000 bytes; `k`, `M` and `G` are powers of 1024. The next files have the "
        "names `NAME-00001.warc.gz`, `NAME-00002.warc.gz`, and so on. All records of one retrieval are in "
        "the same file."
    ),
    "--warc-dedup": (
        "CDX is an index of archives in the same directory, in CDXJ format or in the CDX format of wget; the "
        "option may be repeated. If one of the archives already contains the same content, only a reference "
        "(WARC revisit record) is stored. Before that, the digest of the earlier record is computed again. "
        "If the digest differs, the complete object is stored. The option needs `--warc`."
    ),
    "--warc-cookies": (
        "Without the option, the values of Set-Cookie fields appear as `****` in the archive. The option "
        "needs `--warc`."
    ),
    "--meta": (
        "The JSON file has the URLs, addresses, time, size, digests, header fields and checks of the "
        "retrieval. If the saved file is replaced or removed, the JSON file is also replaced or removed. "
        "Secrets appear as `****`."
    ),
    "--exists": (
        "`fail` reports an error before anything is sent. `resume` appends the missing bytes to the file, "
        "`skip` keeps the file, and `replace` overwrites the file after the download is complete. `newer` "
        "downloads the object if its modification time is later, or if the time is equal and the size "
        "differs. `rename` saves under an unused name such as `data.2.tar.gz`. A file that is kept must have "
        "the digest of `--checksum ALG:HEX`."
    ),
    "--sync": (
        "`group` flushes the data of a file to the disk (fsync) before the file gets its final name. One "
        "flush covers all files that are completed at the same time. `always` also flushes the name "
        "before the file is reported. With `never`, the operating system decides when to flush. After a "
        "power failure, files may then be empty or truncated."
    ),
    "--long": (
        "The columns are kind, size, date, media types and number. For ftp, the fourth column has the "
        "permissions. `~` marks a rounded size, or a time with an unknown time zone. If the terminal has "
        "less than 80 columns, the columns are narrower."
    ),
    "--raw": (
        "The command does not parse menus and listings, and does not decode line ends, message framing and "
        "content codings. `ls` ignores the option."
    ),
    "--sort": (
        "`name` sorts by code points. `size` prints the largest entry first, and `date` the newest entry "
        "first. Entries with an unknown value are last. Nothing is printed until all entries have arrived: "
        "at most 100,000 entries (`--limit entries=N`). Each entry keeps its number in the server's order."
    ),
    "--from-warc": (
        "The command does not open network connections, make DNS lookups, or read local files of `file:` "
        "URLs. The policy applies as usual. The option may be repeated, and cannot be combined with network "
        "options, such as `--proxy` or `--tries`. A URL that is not in the archives is an error (status 8)."
    ),
    "--at": (
        "For each URL, the command uses the latest capture at or before TIME. TIME is in UTC, such as "
        "`2026-11-24T10:00:00Z` or `20261124`. TIME may be shortened: `2026-11` means the end of November "
        "2026. The option needs `--from-warc`, except for `warc extract`."
    ),
    "--under": (
        "The command lists only the records of URLs that `get -r URL` would request. The option is for "
        "`warc ls` only."
    ),
    "--follow": (
        "N is the number of the entry in the output of `ls -l`. The command first requests the listing, and "
        "then the target of the entry. The target has the origin `chosen` (S10, S20). An entry without a "
        "URL is an error (status 8)."
    ),
    "--separator": (
        "TEXT may contain the escape sequences of C: `\\n`, `\\0`, `\\t`, `\\r`, `\\xHH`, `\\NNN` (octal), "
        "`\\\\`. TEXT is written between the bodies, even if a URL fails. Therefore the output of N URLs "
        "always has N parts. The part of a failed URL is empty or incomplete. "
        "With `get`, the option needs `-O -`."
    ),
    "--show-error-body": (
        "The command prints at most 64 KiB of a text body, with escaped control characters. It does not "
        "print a binary body. The exit status is still that of the error. The option is for http and https."
    ),
    "--json": (
        'The reference page "The contract" lists the members of the objects. A member never changes its '
        "meaning. With `cat` and `get -O -`, the objects are printed to standard error, and replace the "
        "error messages."
    ),
    "--quiet": (
        "The option also suppresses warnings, summaries and progress. `-q -q` has the same effect as `-qq`."
    ),
    "--silent": "`-q -q` has the same effect. Usage errors of the command line are still printed.",
    "--progress": (
        "`auto` draws bars on a terminal if a run takes longer than 0.4 s. It draws no bars with `-q`, or if "
        "bodies are printed on the terminal. `bar` draws bars even with `-q`. `dot` prints lines for a log, "
        "and `json` prints one JSON object per line, both to standard error."
    ),
    "--verbose": (
        "The lines are printed to standard error. They start with `C:` for sent data, `S:` for received "
        "data, and `*:` for events. Bodies are not printed. Secrets appear as `****`."
    ),
    "--trace": (
        "The file has the complete protocol exchange in the format of `-v`, including bodies. An existing "
        "file is overwritten."
    ),
    "--trace-html": (
        "The page shows a sequence diagram next to the plan of `explain`. The page needs no other files. The "
        "page is written at the end of the run. The option needs the extra `web`."
    ),
    "--html": (
        "The page is printed to standard output, or to `-O FILE`. The option cannot be combined with "
        "`--json`. The option needs the extra `web`."
    ),
    # limits
    "--jobs": (
        "N is 1 to 1,000. The retrievals are distributed over the hosts (round-robin), and `--per-host` "
        "limits the retrievals from one host. A host that sends no data for 5 s does not count against N "
        "while other hosts wait."
    ),
    "--per-host": (
        "N is 1 to 1,000. The option replaces the default limits of all schemes. By default, an ftp host "
        "gets 4 concurrent retrievals if at least 16 more URLs wait. If a host reports an overload (421, "
        "429, 503), its limit is halved, and then raised gradually. The connections of `--segments` count "
        "against the limit."
    ),
    "--host-rate": (
        "N may be a decimal number: `0.5` starts one retrieval every 2 s. By default, the rate is not "
        "limited. The command always respects the `Retry-After` header of a server."
    ),
    "--scheduler": (
        "`local:N` starts N worker processes on this machine; `local`, the default, starts one per "
        "processor. `HOST:PORT` and `tls://HOST:PORT` are addresses of a running Dask scheduler. Logins are "
        "sent to workers only with `local` and `tls://`."
    ),
    "--segments": (
        "N is 1 to 1,000. A segment has at least 1 MiB, or 32 MiB for ftp. The server must support range "
        "requests (http) or REST (ftp), and must identify the version of the object, for example with an "
        "ETag. Otherwise the command uses one connection. The connections count against the limit of "
        "`--per-host`."
    ),
    "--max-size": (
        "`k`, `M` and `G` are powers of 1024: `--max-size 10M`. If a body is longer, the command fails with "
        "status 14. If the server announces the size, the command fails before the download. By default, "
        "files and output have no limit; the option is short for `--limit body=BYTES`."
    ),
    "--connect-timeout": (
        "S is a number of seconds, or a duration such as `500ms`, `2m` or `1h30m`. The limit also applies "
        "to the DNS lookup. After S seconds, the command fails with status 11. The option is short for "
        "`--limit connect=S`."
    ),
    "--idle-timeout": (
        "S is a number of seconds, or a duration such as `90s` or `2m`. The limit also applies to the wait "
        "for the first byte. After S seconds without data, the attempt fails with status 11. The received "
        "data is stored for a retry. The option is short for `--limit idle=S`."
    ),
    "--tries": (
        "N is 1 to 1,000, and limits the consecutive attempts without new data. If the command has several "
        "URLs, the default is 5 attempts per URL. For a single URL, the default is one attempt. If data has "
        "arrived, `get` makes up to 5 attempts. Errors that are probably permanent, such as a refused port, "
        "are not retried (see `--retry-all`)."
    ),
    "--retry-delay": (
        "S is a number of seconds, or a duration such as `500ms` or `2m`. The delay doubles with each "
        "attempt, up to 60 s. Each delay is reduced by up to 25 % at random (exponential backoff with "
        "jitter). If the server announces a delay, such as in `Retry-After`, the announced delay is used."
    ),
    "--retry-all": (
        "The option also retries errors that are probably permanent, such as a refused port or an unknown "
        "host name. Without the option, such an error is retried only if the host has responded earlier. "
        "Error responses of the server, such as 404, are never retried."
    ),
    "--min-rate": (
        "The rate is the average over some seconds in which the client waits for data. If a transfer is "
        "slower, it fails with status 11. `k`, `M` and `G` are powers of 1024. By default, only "
        "`--idle-timeout` applies."
    ),
    "--rate": (
        "`k`, `M` and `G` are powers of 1024: `--rate 500k`. All transfers share the rate (bandwidth) "
        "equally. The limit does not apply to local files and to prospero (UDP). By default, the rate is not "
        "limited."
    ),
    "--max-time": (
        "S is a number of seconds, or a duration such as `90s` or `1h30m`. The time includes all attempts "
        "and redirects of the URL. After S seconds, the URL fails with status 11. The default is 600 s "
        "with policy `untrusted`; other policies do not limit the time. The option is short "
        "for `--limit total=S`."
    ),
    "--limit": (
        "These limits are numbers, with an optional suffix `k`, `M` or `G` (defaults in parentheses): "
        "`line` (65,536 bytes), `lines` of a head (1,000), `entries` (100,000), `hops` or redirects (10), "
        "`body` (no limit for files and output), `ratio` of decompression (100). These limits are times in "
        "seconds, or with a suffix `ms`, `s`, `m`, `h` or `d`: `connect` (30 s), `head` (until the body "
        "starts), `idle` (60 s), `total`. `quota` limits the total size of all bodies of the run. At this "
        "limit, the run stops with status 14, and complete files are kept. The option may be repeated: "
        "`--limit hops=3 --limit entries=1M`."
    ),
    # proof
    "--ledger": (
        "FILE is an SQLite database that is created if necessary. Another run with the same ledger skips "
        "each URL whose file is complete and still exists, and requests all other URLs. The ledger contains "
        "no passwords, and has mode 600. `resolve ledger FILE` prints a report. The option cannot be "
        "combined with `-O -`, `--format` or `--dry-run`."
    ),
    "--again": (
        "KIND is an error class such as `NotFound`, or an exit status such as `11`. `all` selects all "
        "failures, and `0` selects the completed URLs. `ledger` itself sends no request. The next `get "
        "--ledger FILE` with the same list requests the selected URLs."
    ),
    "--checksum": (
        "ALG is md5, sha1, sha224, sha256, sha384 or sha512. With `get`, `auto` takes the digest from "
        "header fields, or from `NAME.sha256`, `.sha512`, `.md5`, `SHA256SUMS` or `md5sums.txt` in the same "
        "directory of the server. Without a digest, a warning is printed. After a mismatch, `get` downloads "
        "the file once more. After a second mismatch, the exit status is 10, and no file is saved."
    ),
    "--mirror": (
        "URL is another location of the same file, in any scheme; the option may be repeated. If one "
        "location fails, the download continues from the next mirror. Another mirror resumes the partial "
        "file only if the size is known and a digest was given. With `--segments`, all mirrors are used at "
        "the same time."
    ),
    # safety
    "--strict": (
        "Without the option, common deviations, such as `~` or `|` in a path, are accepted with a finding. "
        "With or without the option, the parser never repairs a URL. If a URL is invalid, the exit status "
        "is 12."
    ),
    "--policy": (
        "`default` is for URLs that the user typed: suspicious URLs cause warnings. `cautious` refuses "
        "suspicious URLs. `untrusted` is for URLs of other people, and prevents SSRF. It also permits only "
        "public addresses, and limits the time of a URL to 600 s. It refuses local files without "
        "`--file-root`, and a proxy without `--trusted-proxy`."
    ),
    "--allow-port": (
        "PORT is 1 to 65,535; the option may be repeated. The option permits PORT in a URL (S04). A Gopher+ "
        "form may also be sent to PORT (S03). An FTP data connection may use PORT even if PORT is below "
        "1024 (S13)."
    ),
    "--allow-address": (
        "CIDR is an address or a range such as `10.0.0.0/8`; the option may be repeated. With policy "
        "`untrusted`, the option permits addresses that are not public. With the other policies, the option "
        "permits links and redirects to a more internal network, such as from a public to a private "
        "address."
    ),
    "--allow-name": (
        "HOST is the name as written in the URL, such as `xn--pple-43d.example`; the option may be "
        "repeated. If HOST is percent-encoded in the URL, the option also permits this encoding."
    ),
    "--allow-redirect": (
        "Examples are a redirect from http to ftp (SCHEME is `ftp`), and from https to http (SCHEME is "
        "`http`). The client never follows file, mailto and telnet URLs automatically. The option may "
        "be repeated."
    ),
    "--allow-forward": (
        "Credentials and header fields of the user are also sent to HOST, on any port. Without the option, "
        "after a redirect to another host, only harmless header fields are sent, such as Accept. The option "
        "may be repeated."
    ),
    "--allowed-hosts": (
        "HOST is a name or an address as written in the URL; the option may be repeated. Every other host "
        "is refused, also in redirects, links and gateway URLs. A subdomain of HOST is another host. The "
        "other rules of the policy still apply to HOST."
    ),
    "--allow-password": (
        "The option suppresses two warnings (S06): about a password in the URL, and about a password "
        "without TLS. With policy `cautious`, it permits such URLs. User information in a scheme without a "
        "login, such as http, still causes a warning. The option also permits sending a password before the "
        "server requests it. `--password-file` keeps passwords out of URLs."
    ),
    "--allow-form": (
        "A URL with the answers of a Gopher+ form submits the form. Without the option, a typed URL with "
        "answers causes a warning. A URL of any other origin is refused. Rule S03 still requires a gopher "
        "port."
    ),
    "--allow-special": (
        "Special files are devices, pipes and sockets. Reading a special file may block or have side "
        "effects. The option applies to `file:` URLs only."
    ),
    "--allow-raw": (
        "Without the option, control characters, escape sequences and invisible characters are printed as "
        "escapes such as `\\x1b`. The option applies to standard output; standard error is always escaped."
    ),
    "--allow-server-name": (
        "The name comes from the Content-Disposition header (http), and is sanitized like any other name. "
        "The client requests the header before the download. If the server suggests no name, the name comes "
        "from the URL."
    ),
    "--trusted-proxy": (
        "Policy `untrusted` refuses every other proxy, because a proxy makes its own DNS lookups. URL must "
        "be the proxy of `--proxy` or of an environment variable. The proxy itself must refuse internal "
        "addresses. The option does not select a proxy."
    ),
    "--file-root": (
        "Symbolic links that lead out of DIR are refused. Policy `untrusted` permits local files only with "
        "this option. The option does not limit where downloads are saved."
    ),
    "--origin": (
        "`user` means that the user typed the URLs. `chosen` means that a menu or a program offered the "
        "URLs. `derived` means that the URLs come from retrieved data, such as a downloaded page. For "
        "`chosen` and `derived`, the rules S05, S08, S10, S12, S18 and S20 are stricter. An entry of a list "
        "may have its own `origin`."
    ),
    "--referrer": (
        "URL is the page or menu that contained the links. The rules S08, S10, S12 and S20 compare each "
        "link with this page. No Referer header is sent. For a digest list, URL is the location of the "
        "listed files."
    ),
    # access
    "--ipv4": "IPv6 addresses are ignored. The option cannot be combined with `-6`.",
    "--ipv6": "IPv4 addresses are ignored. The option cannot be combined with `-4`.",
    "--user": (
        "The password comes from `--password-file`, the configuration, a netrc file or a prompt at the "
        "terminal. A user name in the URL takes precedence over NAME. The login is not sent to other hosts, "
        "such as the target of a redirect (S11)."
    ),
    "--password-file": (
        "Only the first line is read, at most 4,096 bytes. The password is for the user name of `--user` or "
        "of the URL. The password is sent only to hosts that the command line names. A password on the "
        "command line itself would be visible to other users."
    ),
    "--netrc": (
        "The file must belong to the user, and other users must not have read permission. A `machine` entry "
        "applies to its host. A `default` entry applies to ftp only. A host section of the configuration "
        "takes precedence."
    ),
    "--netrc-file": "The option implies `--netrc`. A missing file is an error.",
    "--tls": (
        "The option applies to ftp (AUTH TLS), news and nntp (STARTTLS) and telnet (START_TLS). If the "
        "server does not offer TLS, `try` continues without TLS, and `require` fails; `require` also fails "
        "for schemes without TLS, such as http. `never` is the default. The explicit option `--tls never` "
        "also permits a news password without TLS. Schemes such as https always use TLS."
    ),
    "--header": (
        "The option may be repeated. VALUE is sent unchanged, and must not contain line ends. After a "
        "redirect to another host, only harmless header fields are sent, such as Accept (S11). Other "
        "schemes ignore the option. Example: `-H 'Accept: text/plain'`."
    ),
    "--user-agent": "The default is `url-resolver`, without a version. Only http and https send TEXT.",
    "--proxy": (
        "URL is `http://`, `https://`, `socks5://` or `socks5h://`, with `USER:PASSWORD@` if needed; the "
        "default port is 1080. The option takes precedence over the proxy environment variables, but "
        "`no_proxy` still applies. All schemes over TCP use the proxy. Prospero uses UDP, so a prospero URL "
        "is refused if a proxy is set (S09). With policy `untrusted`, `--trusted-proxy` is required."
    ),
    "--cacert": (
        "FILE has certificates of certificate authorities in PEM format. The client trusts these "
        "certificates in addition to the certificate authorities of the system. No option ignores an "
        "invalid certificate (see `--pin`)."
    ),
    "--cert": (
        "FILE is in PEM format. The certificate is sent only to the hosts of the given URLs. It is never "
        "sent to the target of a redirect. If the key is encrypted, the command asks for the password at the "
        "terminal."
    ),
    "--pin": (
        "HEX is the SHA-256 fingerprint of the certificate, with or without colons, as printed by `openssl "
        "x509 -fingerprint -sha256`. Only the fingerprint is compared: the name, the dates and the "
        "authority of the certificate are not checked, so it may be self-signed. The option applies to the "
        "hosts of the given URLs, and never to the target of a redirect. In the configuration, the key "
        "`pin` in the section of a host sets the fingerprint for this host. The error message for an "
        "untrusted certificate contains its fingerprint: ask the operator of the server to confirm it."
    ),
    "--cookies": (
        "FILE has the Netscape format of curl and wget, and is created if necessary. Session cookies are "
        "stored, too. Only the owner can read FILE. A cookie is sent only to the hosts for "
        "which it was set."
    ),
    "--gateway": (
        "The percent-encoded URL, without user and fragment, is appended to the URL of the gateway. "
        "Example: `z39.50r=http://gateway.example/?`. The option is for schemes without a handler (S19). "
        "The policy also checks the URL of the gateway. The option may be repeated."
    ),
    "--port": "N is 0 to 65,535. The printed address contains the port.",
    "--listen": (
        "ADDRESS is a numeric address of this machine. All users of the web UI share the history and the "
        "saved files. Local files are not served. An address that is not loopback needs `--listen-cert` or "
        "`--insecure`. `mcp` accepts only a loopback address, and does not read the address "
        "from the configuration."
    ),
    "--listen-cert": (
        "FILE has the certificate and its key in PEM format; CERT,KEY names two files. The option needs "
        "`--listen`, and cannot be combined with `--insecure`."
    ),
    "--insecure": (
        "With the option, everyone on the network path can read and change the pages of the web UI. The "
        "option does not disable the verification of certificates of servers."
    ),
    "--open": (
        "The browser opens a private file that redirects to the web UI. The login URL is not in the command "
        "line of the browser, which other users can read. If no browser is found, the command prints the "
        "address."
    ),
    "--register": (
        "The option makes `resolve` the URL handler of the desktop, also for nntp, wais and prospero. It "
        "writes `resolve-url.desktop` below `$XDG_DATA_HOME`, and runs `xdg-mime` if `xdg-mime` is "
        "installed. The desktop then opens these URLs with `resolve open -- URL`."
    ),
    "--unregister": (
        "The URL handlers that the desktop had before `--register` are restored. The option cannot be "
        "combined with `--register`."
    ),
    "--page-size": ("N is 1 to 10,000. The option applies to directories, menus, groups and search results."),
    "--config": (
        "With `none`, no configuration file is read. The default is `config.toml` in "
        "`$XDG_CONFIG_HOME/resolve` or `~/.config/resolve`; a missing default file is not an error. The "
        "file must belong to the user, and other users must not have write permission."
    ),
    # schemes
    "--search": (
        "TEXT becomes a part of the URL, as the search terms of a gopher search (item type 7) or of a wais "
        "database. For other schemes the option is an error (status 2). Example: `resolve ls --search ferry "
        "wais://wais.example/db`."
    ),
    "--view": (
        "TYPE is a media type from the attributes of the item, such as `text/plain` or `Text/plain En_US`. "
        "TYPE becomes part of the URL. For other schemes the option is an error (status 2)."
    ),
    "--type": (
        "`a` requests a text with converted line ends, `i` requests bytes, and `d` requests a listing of "
        "names. The option sets `;type=CODE` in the URL. For other schemes the option is an error (status "
        "2)."
    ),
    "--mlsd": (
        "MLSD (RFC 3659) lists the kind, size and date of each entry. If the server refuses MLSD, `ls` uses "
        "LIST, and `cat` uses NLST. Without the option, `ls` uses MLSD if the server advertises MLSD, and "
        "otherwise LIST."
    ),
    "--nlst": (
        "NLST (RFC 959) returns only names, without kinds, sizes and dates. `cat` and `get` always use NLST "
        "for a directory, as RFC 1738 says. Use the option if the server's LIST has an unknown format."
    ),
    "--ftp-email": (
        "ADDRESS consists of printable ASCII characters and has an `@`. The default is `anonymous@`, "
        "without personal data (S17). ADDRESS is sent if the server requests a password for the user "
        "`anonymous`."
    ),
    "--news-server": (
        "The server is used for `news:` URLs without a host. The default is `$NNTPSERVER`, then the first "
        "word of `/etc/news/server`. Without any of these settings, the status is 2."
    ),
    "--for": (
        "S is a number of seconds, or a duration such as `2m`. The telnet session ends after this time, and "
        "its text is printed. With `--until`, S is a timeout: the session ends at the last match, or fails "
        "after S seconds."
    ),
    "--until": (
        "REGEX must match the prompts in the received text. Each `--send` waits for one match. After the "
        "last `--send`, one more match ends the session. A REGEX that is not plain text needs the extra "
        "`telnet`. `--for` limits the duration of the session."
    ),
    "--send": (
        "The client types TEXT and a line end. Without `--until`, the client types TEXT after the service "
        "sent some text. The option may be repeated and needs `--until` or `--for`. TEXT is not printed, "
        "but the service may echo TEXT."
    ),
    "--plain": (
        "The client removes cursor movement, colors and other escape sequences. It announces the terminal "
        "type `dumb` to the service, instead of `xterm`."
    ),
    "--attachments": (
        "Attachments are yEnc files, and MIME parts that have a file name or are not text. The attachments "
        "are saved instead of the article. The file name is the name in the article, without directories "
        "(S14). `--exists` may be `fail`, `skip`, `replace` or `rename`. A damaged attachment is an error "
        "and is not saved; the option cannot be combined with `-O`, `-d`, `-r`, `--ledger`, `--dry-run`, "
        "`--meta`, `--checksum` or `--mirror`."
    ),
    "--parts": (
        "The command finds the other parts of a yEnc file in the overview (OVER) of nearby articles. These "
        "articles have the same author, and the same subject except for the counter, such as `(3/7)`. The "
        "URL may name any of the parts. A `news:` URL needs a server that sends Xref. Without this option, "
        "an article with only one part of a file is an error."
    ),
    "--entries": (
        "By default, the client requests the newest 10,000 articles of a newsgroup, or 40 results of a wais "
        "search. With 0, it requests all articles, or 1,000 results. Other schemes ignore the option."
    ),
}

#: The advice for each exit status.
OF_STATUSES: Mapping[int, str] = {
    0: "Each URL is complete. In the `--json` output, `verified` lists the checks of each file.",
    1: (
        "The command prints one message per failed URL. `--json` prints the exit status of each URL. "
        "`--failed FILE` saves the failed URLs."
    ),
    2: (
        "The message names the option, or the line of the configuration file. The command did not send a "
        "request with the invalid setting."
    ),
    3: (
        "Check the permissions and the free space. By default, an existing file is not changed. `--exists` "
        "selects another action."
    ),
    4: (
        "Check the name, the port and the network. `--tries N` retries after temporary network errors. "
        "`--retry-all` retries after all network errors."
    ),
    5: (
        "Check the clock of this machine and the host name. `--cacert FILE` adds a private certificate "
        "authority."
    ),
    6: "Log in with `--user NAME` and `--password-file FILE`, a netrc file or the configuration.",
    7: (
        "The server deviates from its protocol, or exceeds a limit. `-v` shows the protocol exchange, and "
        "`--limit` changes a limit."
    ),
    8: (
        "The resource is missing (404 of http, 550 of ftp), or the server is busy. The message contains the "
        "reply of the server."
    ),
    9: (
        "The message names the rule and the option that would permit the URL. `resolve help S08` explains a "
        "rule."
    ),
    10: ("`get` does not save a file under the final name. Run the same command again, or check the digest."),
    11: (
        "The next run resumes the partial file. `--connect-timeout`, `--idle-timeout` and `--max-time` set "
        "the limits."
    ),
    12: "The message marks the position, and often suggests the correct URL. Quote URLs in the shell.",
    13: "`resolve schemes` lists schemes and missing extras. `--gateway SCHEME=URL` sets a gateway.",
    14: "`--max-size BYTES`, `--limit ratio=N` and `--limit quota=BYTES` set the limits.",
    15: "`--allow-redirect SCHEME` permits a scheme, and `--limit hops=N` permits N redirects.",
    130: "Ctrl-C interrupted the run. The same command resumes.",
    141: (
        "The reader of the output closed the pipe. For example, `head` exits after some lines. No message "
        "is printed."
    ),
    143: "SIGTERM ended the run. The same command resumes.",
}
