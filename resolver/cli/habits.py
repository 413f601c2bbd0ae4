"""Options and commands of other clients, with the equivalent option or command of `resolve`.

An unknown option is an error before anything is sent. For an option of curl, wget, aria2, lftp or
another client, the error message names the equivalent option of `resolve`. If `resolve` does not have an
equivalent option, the message gives the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BODY = "resolve only reads: it sends no request body"
_CERTIFICATE = (
    "certificates are always verified; --cacert FILE adds an authority, "
    "--pin sha256:HEX accepts one certificate"
)
_PROXY = "use --proxy URL, such as socks5h://HOST:PORT or http://USER:PASSWORD@HOST:PORT"

_OPTIONS_BY_ADVICE: Mapping[str, str] = {
    _BODY: "--data --data-ascii --data-binary --data-raw --data-urlencode --form -F --post-data --post-file"
    " --body-data --body-file --upload-file -T",
    _CERTIFICATE: "-k --no-check-certificate --check-certificate --ssl-no-revoke",
    "use --exists resume; partial files of resolve are resumed without it": "-C --continue-at --continue",
    "use --exists resume, or --cookies FILE for a file of cookies": "-c",
    "use --cookies FILE, which is read and written": "-b --cookie --cookie-jar --load-cookies"
    " --save-cookies --keep-session-cookies",
    "pages are saved unchanged and without their images": "-p --page-requisites --convert-links"
    " --adjust-extension -E",
    "use -d DIR": "-P --directory-prefix --output-dir --dir --create-dirs",
    "use resolve info -v URL, or --trace FILE": "-D --dump-header --include --server-response -S",
    "use --user NAME and --password-file FILE": "-u --http-user --http-passwd --http-password --ftp-user"
    " --ftp-password --password --ask-password",
    "resolve sends GET, and HEAD with resolve info URL": "-X --request --method",
    "connections go only to addresses that the policy checked": "--resolve --connect-to --interface"
    " --bind-address --unix-socket --dns-servers",
    _PROXY: "--proxy-user -U --socks4 --socks5 --socks5-hostname --all-proxy --http-proxy --https-proxy",
    "use --rate BYTES": "--limit-rate --max-download-limit --max-overall-download-limit --bwlimit",
    "the extra http2 adds HTTP/2, which the server chooses; else HTTP/1.1 is used": "--http1.0 --http1.1"
    " --http2 --http3",
    "redirects are followed, at most 10; --limit hops=N changes the limit": "-L --location --location-trusted"
    " --max-redirs --max-redirect",
    "an HTTP error always fails, with exit status 8": "-f --fail --fail-with-body",
    "use -q, or -qq to suppress errors too": "-s --no-verbose -nv",
    "use --user-agent TEXT; with -r, --accept GLOB selects files": "-A",
    "use resolve info -v URL, which shows the header fields": "-I --head",
    "use resolve info URL": "--spider",
    "no Referer header is sent (S17); -H 'Referer: URL' adds one": "--referer",
    "use -H 'Referer: URL', or --ignore-robots": "-e --execute",
    "responses are always decoded; --raw keeps them as sent": "--compressed --compression",
    "use --tries N": "--retry --max-tries -n",
    "use --retry-all": "--retry-all-errors --retry-connrefused",
    "use --max-time S": "--retry-max-time -m",
    "use --connect-timeout S, --idle-timeout S or --max-time S": "--timeout --read-timeout --dns-timeout",
    "several URLs are fetched concurrently; -j N changes the number": "-Z --parallel --parallel-max"
    " --max-concurrent-downloads --transfers",
    "use --segments N": "--split --max-connection-per-server --min-split-size --use-pget-n",
    "use -O FILE": "--output-document",
    "use --allow-server-name (S14)": "-J --remote-header-name --content-disposition --trust-server-names",
    "URLs are saved under their own names by default": "--remote-name --remote-name-all",
    "use -i LIST": "--input-file --metalink-file -M",
    "use --exists skip": "-nc --no-clobber --ignore-existing",
    "use --exists newer": "-N --timestamping --only-newer -z --time-cond --conditional-get --update",
    "use --exists rename": "--auto-file-renaming",
    "use --exists replace": "--allow-overwrite",
    "use --depth N": "--level",
    "with -r, --accept GLOB selects files": "--include-glob",
    "with -r, --reject GLOB skips files": "--exclude --exclude-glob --exclude-directories",
    "with -r, --reject GLOB skips files; files keep the server's modification time": "-R --remote-time",
    "links to other hosts are not followed": "--span-hosts --domains",
    "characters of a URL are literal; --glob enables patterns": "-g --globoff --no-glob",
    "write the query into the URL": "-G --get",
    "only URLs below the start are fetched": "-np --no-parent",
    "use --host-rate N, the starts per second": "-w --wait --random-wait --waitretry",
    "use --max-size BYTES, which limits each file": "--max-filesize",
    "use --limit quota=BYTES": "-Q --quota",
    "use --min-rate BYTES": "-y -Y --speed-limit --speed-time --lowest-speed-limit",
    "use --cacert FILE": "--capath --ca-certificate --ca-directory",
    "use --pin sha256:HEX, with the digest of the certificate": "--pinnedpubkey",
    "use --cert FILE, or --cert CERT,KEY": "--key --private-key --certificate",
    "use the variable no_proxy": "--noproxy --no-proxy",
    "use --tls require": "--ssl --ssl-reqd --ftp-ssl",
    "data connections are always passive": "--ftp-port --no-passive-ftp",
    "use -4": "--inet4-only",
    "use -6": "--inet6-only",
    "use resolve ls URL": "--list-only",
    "ranges are chosen automatically, to resume and for --segments": "--range --start-pos",
    "use --json, which prints all facts": "--write-out",
    "use --progress bar": "-# --progress-bar --show-progress",
    "use -v, or --trace FILE": "--debug --trace-ascii",
    "use 2> FILE of the shell, or --trace FILE": "-a --append-output --output-file --stderr --log --log-file",
    "use & of the shell": "--background",
    "use --failed FILE or --ledger FILE": "--save-session",
    "use --host-directories, or --cut-dirs N": "--force-directories",
    "no directory of the host is created by default": "-nH --no-host-directories",
    "without -r, no directories are created by default": "-nd --no-directories",
    "runs have no control interface; --ledger FILE records the state": "--enable-rpc",
    "use --format mbox, or save_tree from Python": "--mbox",
}
_COMMANDS_BY_ADVICE: Mapping[str, str] = {
    "use resolve get URL": "fetch download dl copy copyurl curl wget wget2 aria2c",
    "use resolve get -r URL": "mirror crawl sync",
    "use resolve info URL": "head stat size",
    "use resolve ls URL; -r of get saves a tree": "list dir nlist tree",
    "use resolve get URL...; --segments N uses several connections": "pget mget reget",
    _BODY: "put post upload delete rm",
    "use resolve open URL": "connect login",
    "use resolve cat URL": "print show more",
    "use resolve help": "options usage",
}


def _invert(words_by_advice: Mapping[str, str]) -> Mapping[str, str]:
    return {word: advice for advice, words in words_by_advice.items() for word in words.split()}


ADVICE_BY_OPTION = _invert(_OPTIONS_BY_ADVICE)
ADVICE_BY_COMMAND = _invert(_COMMANDS_BY_ADVICE)

#: Matches the start of data for curl's `-d`: a form field (`a=1`), JSON, or a file to read the data from
#: (`@FILE`).
_DATA = re.compile(r"[^/=]*=|[{\[@]")


def looks_like_data(directory: str) -> bool:
    """Return whether the value of `-d` looks like request data, which curl would send."""
    return _DATA.match(directory) is not None
