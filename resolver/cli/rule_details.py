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
        example: a command and its output. `…` replaces the lines that repeat the URL and mark a position.
    """

    threat: str
    check: str
    override: str
    example: str


#: The details of each rule, by its name. The examples use the bundled test servers of a checkout.
OF_RULES: Mapping[str, RuleDetails] = {
    "S01": RuleDetails(
        "Two parsers read the same URL differently (parser differential): a filter checks one host, and the "
        "client connects to another host.",
        "A URL is parsed only once: the policy, the request and the connection use the same parsed URL. An "
        "invalid URL is an error, and so is a URL that parsers read differently. The message marks the "
        "position.",
        "No option overrides the rule. `--strict` also rejects deviations that are not ambiguous.",
        "resolve cat http://0x7f.1/\n"
        "resolve: http://0x7f.1/: not a URL: bad-host: numeric host that is not four decimal groups "
        "of 0 to 255, at position 7: '0x7f.1/'\n…",
    ),
    "S02": RuleDetails(
        "An escaped line end in a URL becomes a second command for the server (CRLF injection), such as DELE "
        "of ftp.",
        "Each component is decoded, and must not contain bytes that end a command or an argument of the "
        "protocol. Very long components are refused too. The first check is before any DNS lookup; a second "
        "check is done when a command is written.",
        "No option overrides the rule.",
        "resolve cat 'ftp://h.example/a%0D%0ADELE%20b'\n"
        "resolve: ftp://h.example/a%0D%0ADELE%20b: S02: byte 0D in name, at position 17 of the URL, "
        "could end a command or one of its arguments\n…",
    ),
    "S03": RuleDetails(
        "The answers of a Gopher+ form need several lines in one request. A mail server could read these "
        "lines as commands.",
        "Line ends are accepted only in a complete form. A complete form is one block that ends with a "
        "period, without further bytes. The port must be the default port of the scheme.",
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
        "standard, and with ports of databases and similar services. For http, ports of the Fetch list are "
        "refused, and ports below 1024 cause a warning. For telnet, all of these ports cause a warning. For "
        "other schemes, all of these ports are refused, and any other port except the default port causes a "
        "warning.",
        "`--allow-port PORT` permits one port, for all schemes.",
        "resolve cat gopher://h.example:25/0x\n"
        "resolve: gopher://h.example:25/0x: S04: port 25 belongs to another protocol (gopher has 70); "
        "--allow-port 25 would allow it\n…",
    ),
    "S05": RuleDetails(
        "A user only reads a link, but the link submits a form and changes the state of a server.",
        "The client sends only requests that read, such as GET and RETR. If the user typed a Gopher+ URL "
        "with the answers of a form, the URL causes a warning. With any other origin, such a URL is refused.",
        "`--allow-form` permits such URLs.",
        "resolve cat --origin derived "
        "'gopher://h.example/0poll%09%09+%091%0D%0A+-1%0D%0Aname%0D%0A.%0D%0A'\n"
        "resolve: gopher://h.example/0poll%09%09+%091%0D%0A+-1%0D%0Aname%0D%0A.%0D%0A: S05: this URL "
        "submits a form, which may change remote state; --allow-form would allow it\n…",
    ),
    "S06": RuleDetails(
        "A password in a URL is stored in histories and logs. Without TLS, everyone on the network path can "
        "read the password.",
        "A password in a URL causes a warning. A password that is sent without TLS to another machine, and a "
        "user name in a scheme without a login, cause a warning too. The policies `cautious` and `untrusted` "
        "refuse such URLs.",
        "`--allow-password` permits both kinds of password. `--user` with `--password-file` keeps the "
        "password out of the URL.",
        "resolve cat --policy cautious http://me:secret@h.example/\n"
        "resolve: http://me:****@h.example/: S06: the URL contains a password, which may be stored "
        "with the URL; --allow-password would allow it\n…",
    ),
    "S07": RuleDetails(
        "A host name with foreign letters looks like a known name (homograph attack).",
        "Labels of the host that start with `xn--` (Punycode) are decoded. A label causes a warning if it "
        "mixes scripts, if all its letters look like Latin letters, or if it is invalid. `untrusted` also "
        "refuses a percent-encoded host.",
        "`--allow-name HOST` permits one name.",
        "resolve cat --policy cautious http://xn--pple-43d.example/\n"
        "resolve: http://xn--pple-43d.example/: S07: 'xn--pple-43d' in the host "
        "'xn--pple-43d.example' mixes scripts (Cyrillic, Latin); --allow-name xn--pple-43d.example "
        "would allow it\n…",
    ),
    "S08": RuleDetails(
        "A URL of another party makes this machine request an internal server (server-side request forgery).",
        "Each address is classified as public, private, link-local, loopback or never allowed. An IPv4 "
        "address inside an IPv6 address is classified as the IPv4 address. `untrusted` allows only public "
        "addresses. Under the other policies, a link must not lead to a more internal address than the "
        "address of its page. A typed link-local address causes a warning.",
        "`--allow-address CIDR` permits an address or a range.",
        "resolve cat --policy untrusted http://169.254.169.254/latest/\n"
        "resolve: http://169.254.169.254/latest/: S08: 169.254.169.254 is link-local, and the policy "
        "allows only public addresses; --allow-address 169.254.169.254 would allow it",
    ),
    "S09": RuleDetails(
        "The DNS lookup for the check returns a public address, and the DNS lookup for the connection "
        "returns an internal address (DNS rebinding).",
        "A name is resolved once, all its addresses are checked, and the connection goes to a checked "
        "address. A proxy makes its own DNS lookup, and the client cannot check the result. Therefore "
        "`untrusted` refuses the proxy. If a proxy is set, a scheme over UDP is refused.",
        "`--proxy none`, or the host in the environment variable `no_proxy`, selects a direct connection. "
        "`--trusted-proxy URL` states that the proxy checks addresses.",
        "resolve cat --policy untrusted --proxy http://proxy.example:3128 http://h.example/\n"
        "resolve: http://h.example/: S09: --proxy is set, and addresses that a proxy resolves cannot "
        "be checked here (Policy(trusted_proxy=URL) names a proxy that checks them); --trusted-proxy "
        "URL would allow it",
    ),
    "S10": RuleDetails(
        "Without the user's knowledge, a redirect or a link leads to another protocol, or to a connection "
        "without TLS.",
        "A redirect may lead to the same scheme, or from http to https and back. A redirect from TLS to "
        "clear text causes a warning. The client never follows file, mailto and telnet URLs automatically. "
        "Redirect loops, and more than 10 redirects in a row, are refused. The exit status is 15.",
        "`--allow-redirect SCHEME` permits redirects to a scheme, and `--limit hops=N` permits N redirects.",
        "resolve cat --origin derived --referrer http://h.example/ ftp://ftp.example/\n"
        "resolve: ftp://ftp.example/: S10: a link from http to ftp is not followed automatically; "
        "--allow-redirect ftp would allow it",
    ),
    "S11": RuleDetails(
        "After a redirect, another host receives a password, a cookie or a certificate (credential leak).",
        "Credentials are bound to scheme, host and port. After a redirect to another host, the request has "
        "only harmless header fields, such as Accept. The client sends this request without the credentials.",
        "With `--allow-forward HOST`, the client also sends credentials and header fields to HOST.",
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
        "An FTP server sends the address of an internal host for the data connection, and the client "
        "connects to this host (SSRF by PASV, CVE-2020-8284).",
        "The data connection always goes to the address of the control connection; the client ignores the "
        "address in the reply to PASV. The client checks that the data port is 1024 or higher. The message "
        "is `S13: the server's data port 25 is reserved for other services`.",
        "`--allow-port PORT` permits one port below 1024.",
        "",
    ),
    "S14": RuleDetails(
        "The file name of a server or of a URL overwrites an existing file, or is a path to another "
        "directory (path traversal).",
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
        "In output to a terminal, control characters and invisible characters appear as escapes such as "
        "`\\x1b`. Standard error is always escaped. A body that is not text is refused on a terminal. The "
        "message is `image/png is not text: cannot show it on a terminal (save it with -O)`.",
        "`--allow-raw` writes to a terminal without escapes.",
        "",
    ),
    "S16": RuleDetails(
        "A server sends data without end, or a few bytes that decompress to gigabytes (decompression bomb).",
        "Lines, headers, entries, redirects, decompression and waiting times have limits. Bodies in memory "
        "also have a size limit. `untrusted` also limits the time of a URL to 600 s.",
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
        "No URL is passed to a shell. Only `resolve open`, `cat --until` and `cat --for` open a telnet "
        "session. A link to a telnet session causes a warning. A host that starts with a hyphen is refused "
        "(argument injection).",
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
        "A menu offers a URL that the user would not type. Or data of a server becomes a part of a URL, and "
        "changes the meaning of the URL.",
        "A URL from server data is built component by component, and then parsed again. A gopher menu may "
        "only offer telnet URLs, and URLs of schemes that can be retrieved.",
        "No option overrides the rule.",
        "resolve cat --origin chosen --referrer gopher://g.example/ mailto:joe@h.example\n"
        "resolve: mailto:joe@h.example: S20: a gopher menu must not link to mailto URLs",
    ),
    "S21": RuleDetails(
        "A file is replaced or damaged on the server or on the network path, and the user does not notice.",
        "The digest of the file must equal the digest of `--checksum`, of a list or of a Metalink. After a "
        "second mismatch, the exit status is 10, and no file is saved. `--meta` records URLs, time and "
        "digests.",
        "No option overrides the rule. `--checksum` and `--meta` enable its checks.",
        "resolve get --checksum md5:00000000000000000000000000000000 http://127.0.0.1:8920/about.txt\n"
        "resolve: http://127.0.0.1:8920/about.txt: the md5 digest is "
        "14b357dc23ee00648b27d53925794a63, not 00000000000000000000000000000000",
    ),
    "S22": RuleDetails(
        "An agent or a service sends confidential data to a host of an attacker, as a part of a URL.",
        "If `--allowed-hosts` is set, the host of each URL, redirect and link must be in the list. The "
        "comparison ignores case and a final dot. A subdomain is another host. A file URL has no host.",
        "`--allowed-hosts HOST` adds a host to the list.",
        "resolve cat --allowed-hosts docs.example http://h.example/\n"
        "resolve: http://h.example/: S22: host 'h.example' is not in the list of allowed hosts; "
        "--allowed-hosts h.example would allow it\n…",
    ),
}
