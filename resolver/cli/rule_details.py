"""The details of the policy rules, for `resolve help S08`, the man page and the reference pages.

Literals are in backquotes, as in Markdown. A normal run does not load this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class RuleDetails(NamedTuple):
    """The details of a rule.

    Attributes:
        threat: the attack or mistake that the rule prevents.
        check: the checked values, and the time of the check.
        override: the effect of the options that override the rule.
        example: a command and its output; `…` stands for the lines that repeat the URL and mark a position.
    """

    threat: str
    check: str
    override: str
    example: str


#: The details of each rule, by its name. The examples use the bundled test servers of a checkout.
OF_RULES: Mapping[str, RuleDetails] = {
    "S01": RuleDetails(
        "Two parsers read one URL differently (parser differential): a filter sees one host, and the client "
        "connects to another.",
        "A URL is parsed once; the policy, the request and the connection use the result. A URL that is "
        "malformed, or that parsers read differently, is an error with its position.",
        "No option overrides the rule. `--strict` also rejects deviations that are not ambiguous.",
        "resolve cat http://0x7f.1/\n"
        "resolve: http://0x7f.1/: not a URL: bad-host: numeric host that is not four decimal groups "
        "of 0 to 255, at position 7: '0x7f.1/'\n…",
    ),
    "S02": RuleDetails(
        "An escaped line end in a URL becomes a second command for the server (CRLF injection), such as DELE "
        "of ftp.",
        "Each component is decoded, and checked for the bytes that end a command or an argument of its "
        "scheme. Very long components are refused too. The check precedes any DNS lookup, and is repeated "
        "when a command is written.",
        "No option overrides the rule.",
        "resolve cat 'ftp://h.example/a%0D%0ADELE%20b'\n"
        "resolve: ftp://h.example/a%0D%0ADELE%20b: S02: byte 0D in name, at position 17 of the URL, "
        "could end a command or one of its arguments\n…",
    ),
    "S03": RuleDetails(
        "The answers of a Gopher+ form need several lines in one request. A mail server could read these "
        "lines as commands.",
        "Line ends are accepted only in a complete form: one block that ends with a period, with no bytes "
        "after the block. The port must be the port of the scheme.",
        "`--allow-port PORT` permits another port. The form of the block cannot be overridden.",
        "resolve cat 'gopher://h.example/0poll%09%09+%091%0D%0A+-1%0D%0Aname%0D%0A.%0D%0Aquit'\n"
        "resolve: gopher://h.example/0poll%09%09+%091%0D%0A+-1%0D%0Aname%0D%0A.%0D%0Aquit: S03: byte "
        "09 in gopherplus, at position 31 of the URL, is not part of a filled-in form (RFC 1738 "
        "3.4.9)\n…",
    ),
    "S04": RuleDetails(
        "A server of another protocol reads the request as commands (cross-protocol attack). For example, a "
        "gopher URL addresses a mail server.",
        "The port is compared with the port of the scheme, with the list of blocked ports of the Fetch "
        "standard, and with ports of databases and similar services. http refuses the ports of the Fetch "
        "list, and warns about ports below 1024. telnet warns about all of these. Other schemes refuse all "
        "of these, and warn about any other port except their own.",
        "`--allow-port PORT` permits one port, for all schemes.",
        "resolve cat gopher://h.example:25/0x\n"
        "resolve: gopher://h.example:25/0x: S04: port 25 belongs to another protocol (gopher has 70); "
        "--allow-port 25 would allow it\n…",
    ),
    "S05": RuleDetails(
        "A user only reads a link, but the link submits a form and changes the state of a server.",
        "All requests only read, such as GET and RETR. A Gopher+ URL with the answers of a form causes a "
        "warning if the user typed it, and is refused with any other origin.",
        "`--allow-form` permits such URLs.",
        "resolve cat --origin derived "
        "'gopher://h.example/0poll%09%09+%091%0D%0A+-1%0D%0Aname%0D%0A.%0D%0A'\n"
        "resolve: gopher://h.example/0poll%09%09+%091%0D%0A+-1%0D%0Aname%0D%0A.%0D%0A: S05: this URL "
        "submits a form, which may change remote state; --allow-form would allow it\n…",
    ),
    "S06": RuleDetails(
        "A password in a URL is stored in histories and logs. Without TLS, everyone on the network path can "
        "read the password.",
        "Each of these causes a warning: a password in a URL, a password that is sent without TLS to another "
        "machine, and a user name in a scheme without a login. `cautious` and `untrusted` refuse all three.",
        "`--allow-password` permits both kinds of password. `--user` with `--password-file` keeps the "
        "password out of the URL.",
        "resolve cat --policy cautious http://me:secret@h.example/\n"
        "resolve: http://me:****@h.example/: S06: the URL contains a password, which may be stored "
        "with the URL; --allow-password would allow it\n…",
    ),
    "S07": RuleDetails(
        "A host name with foreign letters looks like a known name (homograph attack).",
        "Labels that start with `xn--` are decoded. A label that mixes scripts, has only letters that "
        "look like Latin letters, or is invalid causes a warning. `untrusted` also refuses a "
        "percent-encoded host.",
        "`--allow-name HOST` permits one name.",
        "resolve cat --policy cautious http://xn--pple-43d.example/\n"
        "resolve: http://xn--pple-43d.example/: S07: 'xn--pple-43d' in the host "
        "'xn--pple-43d.example' mixes scripts (Cyrillic, Latin); --allow-name xn--pple-43d.example "
        "would allow it\n…",
    ),
    "S08": RuleDetails(
        "A URL of another party makes this machine request an internal server (server-side request forgery).",
        "Each address is public, private, link-local, loopback or never allowed; an IPv4 address inside IPv6 "
        "is classified as the IPv4 address. `untrusted` allows public addresses only. Under the other "
        "policies, a link must not lead to a more internal address than its start, and a typed link-local "
        "address causes a warning.",
        "`--allow-address CIDR` permits an address or a range.",
        "resolve cat --policy untrusted http://169.254.169.254/latest/\n"
        "resolve: http://169.254.169.254/latest/: S08: 169.254.169.254 is link-local, and the policy "
        "allows only public addresses; --allow-address 169.254.169.254 would allow it",
    ),
    "S09": RuleDetails(
        "A name resolves to a public address for the check, and to an internal one for the connection "
        "(DNS rebinding).",
        "A name is resolved once, all its addresses are checked, and the connection goes to a checked "
        "address. A proxy makes its own DNS lookup, which cannot be checked here: `untrusted` refuses the "
        "proxy. A scheme over UDP is refused with any proxy.",
        "`--proxy none`, or the host in the environment variable `no_proxy`, selects a direct connection. "
        "`--trusted-proxy URL` states that the proxy checks addresses.",
        "resolve cat --policy untrusted --proxy http://proxy.example:3128 http://h.example/\n"
        "resolve: http://h.example/: S09: --proxy is set, and addresses that a proxy resolves cannot "
        "be checked here (Policy(trusted_proxy=URL) names a proxy that checks them); --trusted-proxy "
        "URL would allow it",
    ),
    "S10": RuleDetails(
        "A redirect or a link leads to another protocol, or from TLS to clear text, without the user's "
        "knowledge.",
        "A redirect may keep its scheme, or change between http and https; a redirect from TLS to clear text "
        "causes a warning. URLs of file, mailto and telnet are never followed automatically. Redirect loops, "
        "and more than 10 redirects in a row, are refused. The exit status is 15.",
        "`--allow-redirect SCHEME` permits redirects to a scheme, and `--limit hops=N` permits N redirects.",
        "resolve cat --origin derived --referrer http://h.example/ ftp://ftp.example/\n"
        "resolve: ftp://ftp.example/: S10: a link from http to ftp is not followed automatically; "
        "--allow-redirect ftp would allow it",
    ),
    "S11": RuleDetails(
        "After a redirect, another host receives a password, a cookie or a certificate (credential leak).",
        "Credentials are bound to scheme, host and port. After a redirect to another host, the request has "
        "only harmless header fields, such as Accept. The request is not refused, but sent without the "
        "credentials.",
        "`--allow-forward HOST` sends credentials and header fields also to HOST.",
        "",
    ),
    "S12": RuleDetails(
        "A link in a web page reads a local file, or a URL reads a device that blocks or has effects.",
        "The host of a file URL must be empty or this machine. Only a local file may link to a local file. "
        "Devices, pipes and sockets are refused. Files outside `--file-root` are refused, also if a symbolic "
        "link leads to the file (path traversal). `untrusted` needs `--file-root`.",
        "`--allow-special` permits files that are not regular. With `--file-root DIR`, `untrusted` permits "
        "local files.",
        "resolve cat file://other.example/etc/motd\n"
        "resolve: file://other.example/etc/motd: S12: 'other.example' is another machine; file URLs "
        "name local files\n…",
    ),
    "S13": RuleDetails(
        "An FTP server names an internal host or port for the data connection, and the client connects to it "
        "(SSRF by PASV, CVE-2020-8284).",
        "The data connection always goes to the address of the control connection: an address in the reply "
        "to PASV is ignored. The data port must be 1024 or higher, which is checked during the transfer. The "
        "message is `S13: the server's data port 25 is reserved for other services; --allow-port 25 would "
        "allow it`.",
        "`--allow-port PORT` permits one port below 1024.",
        "",
    ),
    "S14": RuleDetails(
        "A server or a URL chooses a file name that overwrites a file or leaves the directory (path "
        "traversal).",
        "The name comes from the last segment of the requested URL, or from a list. Separators, control "
        "characters and reserved names are replaced. Existing files are not overwritten, and two files of a "
        "run never share a name. "
        "With `--attachments`, the file name is the last path component of the name in the article.",
        "`-O FILE` names the file, and `--host-directories` adds directories. `--exists` chooses the "
        "action for existing files, and `--allow-server-name` accepts the name of "
        "Content-Disposition.",
        "resolve get ftp://h.example/a/%2E%2E\n"
        "resolve: ftp://h.example/a/%2E%2E: S14: the last part of the URL cannot be a file name; -O "
        "FILE would allow it",
    ),
    "S15": RuleDetails(
        "Escape sequences in a text change the title, the keys or the clipboard of the terminal, or hide "
        "text (terminal escape injection).",
        "Output to a terminal is escaped: control and invisible characters appear as `\\x1b`. Standard error "
        "is escaped in every case. A body that is not text is refused on a terminal. The message is "
        "`image/png is not text: cannot show it on a terminal (save it with -O)`.",
        "`--allow-raw` writes to a terminal without escapes.",
        "",
    ),
    "S16": RuleDetails(
        "A server sends data without end, or a few bytes that decompress to gigabytes (decompression bomb).",
        "Lines, headers, entries, redirects, decompression and waiting times have limits; bodies in memory "
        "have a size limit too. `untrusted` also limits the time of a URL to 600 s.",
        "`--limit NAME=VALUE` sets one limit; `--max-size`, `--max-time` and others are short forms of "
        "`--limit`.",
        "resolve cat --max-size 10 http://127.0.0.1:8920/about.txt\n"
        "resolve: http://127.0.0.1:8920/about.txt: 37 bytes are announced, the limit is 10 "
        "(--max-size)",
    ),
    "S17": RuleDetails(
        "A client reveals data about the user: user names, mail addresses, the referring page, or passwords "
        "in messages.",
        "Anonymous ftp sends `anonymous@`, http sends no Referer, and telnet sends no user name. Passwords "
        "appear as `****` in messages, traces, plans and archives. In a CGI program, the proxy variables are "
        "ignored (httpoxy).",
        "`--ftp-email ADDRESS` sends an address to ftp servers. Nothing makes a password visible.",
        "resolve parse http://me:sec%ret@h.example/\n"
        "resolve: http://****@h.example/: not a URL: bad-escape: % without two hex digits, at "
        "position 13\n…",
    ),
    "S18": RuleDetails(
        "A URL starts a program, or opens an interactive session with a server.",
        "No URL is passed to a shell. A telnet session opens only with `resolve open`, or with `cat --until` "
        "and `cat --for`. A link to a telnet session causes a warning. A host that starts with a hyphen is "
        "refused (argument injection).",
        "No option overrides the rule.",
        "resolve cat telnet://-x.example/\n"
        "resolve: telnet://-x.example/: S18: a host that starts with a hyphen could be read as an "
        "option\n…",
    ),
    "S19": RuleDetails(
        "URLs of an unknown scheme are sent to a server that the user did not choose.",
        "A scheme without a handler is refused (status 13), unless a gateway is configured for it. "
        "The URL of the gateway passes all rules.",
        "`--gateway SCHEME=URL` configures a gateway.",
        "resolve cat nfs://h.example/export\n"
        "resolve: nfs://h.example/export: S19: scheme 'nfs' is reserved for Network File System file "
        "names (RFC 1738 section 4) and has no handler (configure a gateway to use it); --gateway "
        "nfs=URL would allow it",
    ),
    "S20": RuleDetails(
        "A menu offers a URL that the user would not type, or data of a server is inserted into a URL and "
        "changes its meaning.",
        "URLs from server data are built component by component and parsed again. A gopher menu may "
        "only offer URLs of retrievable schemes and telnet.",
        "No option overrides the rule.",
        "resolve cat --origin chosen --referrer gopher://g.example/ mailto:joe@h.example\n"
        "resolve: mailto:joe@h.example: S20: a gopher menu must not link to mailto URLs",
    ),
    "S21": RuleDetails(
        "A file is replaced or damaged on the server or on the way, without notice.",
        "The digest of the file must equal the digest of `--checksum`, of a list or of a Metalink; after a "
        "second mismatch the status is 10 and no file is saved. `--meta` records URLs, time and digests.",
        "The options `--checksum` and `--meta` apply the rule; no option disables it.",
        "resolve get --checksum md5:00000000000000000000000000000000 http://127.0.0.1:8920/about.txt\n"
        "resolve: http://127.0.0.1:8920/about.txt: the md5 digest is "
        "14b357dc23ee00648b27d53925794a63, not 00000000000000000000000000000000",
    ),
    "S22": RuleDetails(
        "An agent or a service sends confidential data to a host of an attacker, as a part of a URL.",
        "If `--allowed-hosts` is set, the host of each URL, redirect and link must be in the list. Names are "
        "compared without case and without a final dot; subdomains are other hosts. A file URL has no host.",
        "`--allowed-hosts HOST` adds a host to the list.",
        "resolve cat --allowed-hosts docs.example http://h.example/\n"
        "resolve: http://h.example/: S22: host 'h.example' is not in the list of allowed hosts; "
        "--allowed-hosts h.example would allow it",
    ),
}
