"""Published flaws of other clients since January 2023, and the tests that show that this client has none.

`python -m tests.cves.table` writes docs/explanation/cves.md. The identifiers come from curl's list of flaws,
the CVE list, the advisories of GitHub, OSV, and the changelogs of the projects.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs/explanation/cves.md"


class Flaw(NamedTuple):
    """A published flaw of another client.

    `shown` is a test below tests/, or the key of a reason why no test is possible.
    """

    name: str
    project: str
    words: str
    shown: str


#: Why a flaw is impossible here.
REASONS = {
    "memory": "memory error of C: Python has none",
    "ssh": "no SSH",
    "hsts": "no HSTS",
    "quic": "no HTTP/3",
    "websocket": "no WebSocket",
    "negotiate": "no Negotiate, Kerberos or SASL",
    "ocsp": "no OCSP",
    "smb": "no SMB",
    "ldap": "no LDAP",
    "handle": "no handle with settings that a transfer changes",
    "tls": "fault of another TLS library",
    "verify": "no setting turns verification off",
    "names": "OpenSSL compares names; no comparison of our own",
    "referer": "no Referer is sent",
    "browser": "does not run in a browser",
    "multipart": "no multipart messages",
    "pickle": "cookie files are text",
    "protocols": "no option disables protocols for a transfer",
    "zip": "no ZIP archives",
    "version": "callers cannot set the HTTP version of a request",
    "body": "a fetch has no request body",
    "otp": "no one-time passwords",
    "bittorrent": "no BitTorrent",
    "sni": "the host of the URL is verified, and callers cannot set another name",
}

#: The date up to which the list of a project is complete.
COMPLETE = {
    "curl": "September 2026 (release 8.22.0)",
    "wget": "September 2026",
    "wget2": "January 2026",
    "aria2": "August 2026",
    "lftp": "October 2026",
    "requests": "October 2026 (release 2.34.2)",
    "urllib3": "October 2026 (release 2.8.0)",
    "aiohttp": "August 2026 (release 3.14.3)",
    "httpx": "October 2026 (release 0.28.1)",
    "h11": "October 2026 (release 0.16.0)",
}

_HTTP1 = "protocols/http/test_http1.py::"
_COOKIES = "protocols/http/test_cookies.py::"
_CODINGS = "protocols/http/test_codings.py::"
_TUNNELS = "resolver/network/test_tunnels.py::"
_CASES = "cves/test_cases.py::"
_NETRC = "resolver/cli/test_secrets.py::test_netrc_entry_applies_to_its_host"
_FORWARD = "resolver/adapters/test_httpx_transport.py::test_redirect_to_another_host_drops_secret_headers"
_COOKIE_HEADER = "resolver/transfer/test_http.py::test_credentials_are_not_sent_to_another_port"
_FTP_KEY = "protocols/ftp/test_control.py::test_login_key_"
_KEYS = "resolver/network/test_pool.py::test_pool_does_not_share_connections_between_keys"
_PUSH = "protocols/http/test_http2.py::test_response_malformed_raises"
_CHUNKS = f"{_HTTP1}test_take_chunks_malformed_raises"
_MALFORMED = f"{_CASES}test_malformed_framing_field_raises"
_FRAMING = f"{_HTTP1}test_read_head_with_invalid_transfer_coding_raises"
_BOMB = f"{_CODINGS}test_decoding_bomb_is_refused_in_bounded_memory"
_CHAIN = f"{_CODINGS}test_choose_unsupported_codings_raise"
_PROXY_DIGEST = f"{_CASES}test_digest_login_of_a_proxy_is_not_sent_to_the_next"
_PROXY_ORIGIN = f"{_TUNNELS}test_proxied_redirect_drops_credentials_of_origin"
_PROXY_LOGIN = f"{_TUNNELS}test_proxy_credentials_are_sent_only_to_a_proxy_that_asks"
_HOSTS = f"{_COOKIES}test_jar_header_by_host_and_scheme"

FLAWS = [
    Flaw(
        "CVE-2026-94266",
        "curl",
        "the URL that a transfer reports contained a password that no URL had",
        "resolver/cli/test_echoes.py::test_http_outputs_mask_repeated_secrets",
    ),
    Flaw(
        "CVE-2026-92392", "curl", "a reset stream during an HTTP/2 upload led to a use after free", "memory"
    ),
    Flaw("CVE-2026-19931", "curl", "a Negotiate connection of one user was reused for another", "negotiate"),
    Flaw(
        "CVE-2026-18924", "curl", "HTTP/2 server push with shared connections led to a use after free", _PUSH
    ),
    Flaw("CVE-2026-82209", "curl", "a public suffix could set a cookie for all its subdomains", _HOSTS),
    Flaw("CVE-2026-82208", "curl", "a cache of wolfSSL overrode the callback of the caller", "tls"),
    Flaw(
        "CVE-2026-80256",
        "curl",
        "a backslash in the URL led wcurl to another directory",
        "resolver/cli/test_lists.py::test_extract_writes_only_below_directory",
    ),
    Flaw("CVE-2026-80255", "curl", "a tab hid the Secure attribute of a cookie", _HOSTS),
    Flaw("CVE-2026-80231", "curl", "a connection with another store of authorities was reused", "handle"),
    Flaw(
        "CVE-2026-80230",
        "curl",
        "a server without a certificate passed the check of the pinned key",
        f"{_CASES}test_server_without_certificate_does_not_match_a_pin",
    ),
    Flaw("CVE-2026-80229", "curl", "the context of an OpenSSL provider was used after free", "memory"),
    Flaw("CVE-2026-13608", "curl", "an incomplete SASL handshake of LDAP counted as success", "ldap"),
    Flaw("CVE-2026-12064", "curl", "a default protocol skipped the check of the SSH host", "ssh"),
    Flaw(
        "CVE-2026-11856",
        "curl",
        "Digest state was sent to another origin",
        f"{_CASES}test_digest_login_is_not_sent_to_another_origin",
    ),
    Flaw("CVE-2026-11586", "curl", "unanswered WebSocket pings filled memory", "websocket"),
    Flaw(
        "CVE-2026-11564",
        "curl",
        "the system's authorities stayed trusted after the caller chose others",
        "handle",
    ),
    Flaw("CVE-2026-11352", "curl", "empty datagrams caused a busy loop", "quic"),
    Flaw("CVE-2026-10536", "curl", "a tree of stream dependencies was used after free", "memory"),
    Flaw("CVE-2026-9547", "curl", "the SSH host was not validated", "ssh"),
    Flaw("CVE-2026-9546", "curl", "a cleared Referer was sent again", "referer"),
    Flaw("CVE-2026-9545", "curl", "early data of HTTP/3 was exposed", "quic"),
    Flaw("CVE-2026-9080", "curl", "pausing in a callback led to a use after free", "memory"),
    Flaw("CVE-2026-9079", "curl", "a cleared proxy password was still sent", "handle"),
    Flaw(
        "CVE-2026-8932",
        "curl",
        "a connection with another client certificate was reused",
        "resolver/policy/test_hosts.py::test_host_certificate_is_sent_only_to_its_host",
    ),
    Flaw(
        "CVE-2026-8927",
        "curl",
        "Digest state of one proxy was sent to the proxy of the next transfer",
        _PROXY_DIGEST,
    ),
    Flaw("CVE-2026-8926", "curl", "netrc gave the password of another user than the URL names", _NETRC),
    Flaw("CVE-2026-8925", "curl", "SASL freed memory twice", "memory"),
    Flaw("CVE-2026-8924", "curl", "a trailing dot let a cookie apply to a public suffix", _HOSTS),
    Flaw("CVE-2026-8458", "curl", "a connection was reused for another service name", "negotiate"),
    Flaw(
        "CVE-2026-8286",
        "curl",
        "a STARTTLS connection with other TLS settings was reused",
        f"{_FTP_KEY}includes_options",
    ),
    Flaw("CVE-2026-7168", "curl", "Digest state of one proxy was sent to another proxy", _PROXY_DIGEST),
    Flaw("CVE-2026-7009", "curl", "OCSP stapling was not enforced", "ocsp"),
    Flaw(
        "CVE-2026-6429",
        "curl",
        "the netrc password followed a redirect over a proxy connection",
        _PROXY_ORIGIN,
    ),
    Flaw(
        "CVE-2026-6276",
        "curl",
        "cookies for a custom Host header were sent to another host",
        "protocols/http/test_request.py::test_compose_refuses_reserved_headers",
    ),
    Flaw(
        "CVE-2026-6253",
        "curl",
        "a redirect through another proxy sent it the first proxy's password",
        _PROXY_DIGEST,
    ),
    Flaw("CVE-2026-5773", "curl", "an SMB connection was reused wrongly", "smb"),
    Flaw("CVE-2026-5545", "curl", "a Negotiate connection was reused wrongly", "negotiate"),
    Flaw(
        "CVE-2026-4873",
        "curl",
        "a clear-text connection was reused although TLS was required",
        f"{_FTP_KEY}includes_options",
    ),
    Flaw("CVE-2026-3805", "curl", "a reused SMB connection led to a use after free", "smb"),
    Flaw("CVE-2026-3784", "curl", "a proxy connection with other credentials was reused", _KEYS),
    Flaw("CVE-2026-3783", "curl", "a bearer token followed a redirect to a host in netrc", _FORWARD),
    Flaw("CVE-2026-1965", "curl", "a Negotiate connection was reused for another user", "negotiate"),
    Flaw("CVE-2025-15224", "curl", "libssh used a key without its passphrase", "ssh"),
    Flaw("CVE-2025-15079", "curl", "libssh accepted hosts of the global known_hosts file", "ssh"),
    Flaw("CVE-2025-14819", "curl", "a cached certificate store accepted partial chains", "handle"),
    Flaw("CVE-2025-14524", "curl", "a bearer token followed a redirect to another protocol", _FORWARD),
    Flaw("CVE-2025-14017", "curl", "TLS options of one LDAPS thread changed others", "ldap"),
    Flaw("CVE-2025-13034", "curl", "a pinned key was not checked over QUIC", "quic"),
    Flaw("CVE-2025-10966", "curl", "wolfSSH did not verify the SFTP host", "ssh"),
    Flaw("CVE-2025-10148", "curl", "the WebSocket mask was predictable", "websocket"),
    Flaw(
        "CVE-2025-9086",
        "curl",
        "a clear-text site could replace a Secure cookie; a path was read out of bounds",
        f"{_COOKIES}test_jar_http_response_does_not_replace_secure_cookie",
    ),
    Flaw("CVE-2025-5399", "curl", "a WebSocket frame caused an endless loop", "websocket"),
    Flaw("CVE-2025-5025", "curl", "a pinned key was not checked over QUIC", "quic"),
    Flaw("CVE-2025-4947", "curl", "the certificate of an IP address was not checked over QUIC", "quic"),
    Flaw("CVE-2025-0725", "curl", "an integer overflow of old zlib wrote out of bounds", "memory"),
    Flaw("CVE-2025-0665", "curl", "a file descriptor was closed twice", "memory"),
    Flaw("CVE-2025-0167", "curl", "the default entry of netrc gave a password to a redirect's host", _NETRC),
    Flaw(
        "CVE-2024-11053", "curl", "the netrc password of the first host was sent to a redirect's host", _NETRC
    ),
    Flaw("CVE-2024-9681", "curl", "a subdomain changed the HSTS entry of its parent", "hsts"),
    Flaw("CVE-2024-8096", "curl", "OCSP stapling errors were ignored", "ocsp"),
    Flaw("CVE-2024-7264", "curl", "a date of ASN.1 was read out of bounds", "memory"),
    Flaw("CVE-2024-6874", "curl", "a punycode name was read out of bounds", "memory"),
    Flaw("CVE-2024-6197", "curl", "a stack buffer was freed", "memory"),
    Flaw("CVE-2024-2466", "curl", "mbedTLS did not check the certificate of an IP address", "tls"),
    Flaw("CVE-2024-2398", "curl", "headers of HTTP/2 pushes leaked memory", _PUSH),
    Flaw("CVE-2024-2379", "curl", "an unknown cipher disabled verification over QUIC", "quic"),
    Flaw("CVE-2024-2004", "curl", "a protocol stayed enabled when all were disabled", "protocols"),
    Flaw("CVE-2024-0853", "curl", "a resumed TLS session skipped the OCSP check", "ocsp"),
    Flaw("CVE-2023-46219", "curl", "a long file name emptied the HSTS file", "hsts"),
    Flaw("CVE-2023-46218", "curl", "a cookie domain in mixed case passed as no public suffix", _HOSTS),
    Flaw("CVE-2023-38546", "curl", "a copied handle read cookies from a file named none", "handle"),
    Flaw(
        "CVE-2023-38545",
        "curl",
        "a long host name overflowed the SOCKS5 buffer",
        f"{_TUNNELS}test_socks5_targets_are_looked_up_and_checked_locally",
    ),
    Flaw(
        "CVE-2023-38039",
        "curl",
        "endless response headers filled memory",
        f"{_HTTP1}test_read_head_total_size_is_limited",
    ),
    Flaw("CVE-2023-28322", "curl", "a POST after a PUT sent the wrong data", "handle"),
    Flaw("CVE-2023-28321", "curl", "a wildcard matched a part of an international name", "names"),
    Flaw("CVE-2023-28320", "curl", "a signal handler raced with the name lookup", "memory"),
    Flaw("CVE-2023-28319", "curl", "the SSH fingerprint was used after free", "memory"),
    Flaw("CVE-2023-27538", "curl", "an SSH connection with other settings was reused", "ssh"),
    Flaw("CVE-2023-27537", "curl", "shared HSTS data was freed twice", "memory"),
    Flaw("CVE-2023-27536", "curl", "a connection with another GSS delegation was reused", "negotiate"),
    Flaw(
        "CVE-2023-27535",
        "curl",
        "an FTP connection with other credentials or settings was reused",
        f"{_FTP_KEY}differs_by_host_scheme_and_credentials",
    ),
    Flaw("CVE-2023-27534", "curl", "a tilde in an SFTP path led to another directory", "ssh"),
    Flaw(
        "CVE-2023-27533",
        "curl",
        "user data could contain TELNET commands",
        "protocols/telnet/test_terminal.py::test_encode_keys_escapes_iac_and_cr",
    ),
    Flaw("CVE-2023-23916", "curl", "many Content-Encoding headers evaded the limit of codings", _CHAIN),
    Flaw("CVE-2023-23915", "curl", "parallel transfers lost HSTS entries", "hsts"),
    Flaw("CVE-2023-23914", "curl", "later transfers of a command ignored HSTS", "hsts"),
    Flaw("CVE-2026-58472", "wget", "a long HTML attribute overflowed a buffer", "memory"),
    Flaw("CVE-2026-58471", "wget", "a file name in another character set overflowed a buffer", "memory"),
    Flaw(
        "CVE-2026-58470",
        "wget",
        "large numbers in Content-Range overflowed",
        "protocols/http/test_request.py::test_check_part_refuses_other_range",
    ),
    Flaw("CVE-2026-58469", "wget", "a blank Metalink URL was read before its buffer", "memory"),
    Flaw("CVE-2026-16599", "wget", "the server set how often S/KEY computed a digest", "otp"),
    Flaw(
        "CVE-2026-15146",
        "wget",
        "the address of a PASV reply was connected to",
        "protocols/ftp/test_reply.py::test_parse_passive_takes_only_the_port",
    ),
    Flaw(
        "CVE-2024-38428",
        "wget",
        "a semicolon in the user name moved text into the host name",
        f"{_CASES}test_semicolon_of_a_user_name_does_not_end_it",
    ),
    Flaw(
        "CVE-2024-10524",
        "wget",
        "a shorthand URL was sent to another host or scheme",
        f"{_CASES}test_url_without_slashes_is_invalid",
    ),
    Flaw("CVE-2025-69195", "wget2", "a URL overflowed the buffer of a file name", "memory"),
    Flaw(
        "CVE-2025-69194",
        "wget2",
        "a Metalink file name led out of the directory",
        "resolver/trees/test_lists.py::test_parts_of_unsafe_name_is_bad",
    ),
    Flaw("CVE-2026-71832", "aria2", "a torrent caused a division by zero", "bittorrent"),
    Flaw(
        "CVE-2026-8367",
        "aria2",
        "a certificate for another purpose than a server was accepted",
        f"{_CASES}test_certificate_for_another_purpose_is_not_trusted",
    ),
    Flaw("CVE-2026-25645", "requests", "a ZIP member was extracted to a predictable temporary file", "zip"),
    Flaw("CVE-2024-47081", "requests", "a crafted URL got the netrc password of another host", _NETRC),
    Flaw(
        "CVE-2024-35195",
        "requests",
        "a connection without verification was reused with verification",
        "verify",
    ),
    Flaw(
        "CVE-2023-32681",
        "requests",
        "the proxy password was sent to an HTTPS origin after a redirect",
        _PROXY_LOGIN,
    ),
    Flaw("CVE-2026-97689", "urllib3", "the line of a chunk size was buffered without limit", _CHUNKS),
    Flaw(
        "CVE-2026-97688",
        "urllib3",
        "a chunked deflate response caused an endless loop",
        f"{_CODINGS}test_decoding_gives_small_pieces_for_every_split",
    ),
    Flaw(
        "CVE-2026-97687",
        "urllib3",
        "TLS settings for an HTTPS proxy were ignored",
        f"{_TUNNELS}test_https_proxy_of_unknown_authority_is_not_trusted",
    ),
    Flaw("CVE-2026-44432", "urllib3", "draining a response decoded all of it", _BOMB),
    Flaw("CVE-2026-44431", "urllib3", "redirects through a proxy kept secret headers", _PROXY_ORIGIN),
    Flaw(
        "CVE-2026-21441",
        "urllib3",
        "the body of a redirect was decoded without limit",
        f"{_CASES}test_body_of_a_redirect_is_not_decoded",
    ),
    Flaw("CVE-2025-66471", "urllib3", "a small read decoded a whole compressed body", _BOMB),
    Flaw("CVE-2025-66418", "urllib3", "the number of content codings had no limit", _CHAIN),
    Flaw("CVE-2025-50182", "urllib3", "redirects were not controlled in a browser", "browser"),
    Flaw(
        "CVE-2025-50181",
        "urllib3",
        "redirects were followed although they were disabled",
        "resolver/transfer/test_http.py::test_redirects_over_limit_are_refused",
    ),
    Flaw("CVE-2024-37891", "urllib3", "Proxy-Authorization of the caller followed a redirect", _FORWARD),
    Flaw("CVE-2023-45803", "urllib3", "the body of a POST was sent again after a 303 redirect", "body"),
    Flaw("CVE-2023-43804", "urllib3", "a Cookie header of the caller followed a redirect", _COOKIE_HEADER),
    Flaw("CVE-2018-25091", "urllib3", "Authorization in another case followed a redirect", _FORWARD),
    Flaw(
        "PYSEC-2026-4399",
        "aiohttp",
        "many empty gzip members took quadratic time",
        f"{_CODINGS}test_decoding_of_many_empty_members_raises",
    ),
    Flaw(
        "PYSEC-2026-4392",
        "aiohttp",
        "the number of cookies had no limit",
        f"{_COOKIES}test_jar_size_is_limited",
    ),
    Flaw("PYSEC-2026-4389", "aiohttp", "small pieces of a WebSocket frame filled memory", "websocket"),
    Flaw("CVE-2026-111063", "aiohttp", "a Secure cookie was sent without TLS", _HOSTS),
    Flaw("CVE-2026-69244", "aiohttp", "a malformed response was read out of bounds", "memory"),
    Flaw(
        "CVE-2026-59881",
        "aiohttp",
        "compressed WebSocket frames were accepted although compression was off",
        "websocket",
    ),
    Flaw(
        "CVE-2026-54279",
        "aiohttp",
        "a stored cookie lost its restriction to one host",
        f"{_COOKIES}test_parse_line_of_cookie_roundtrips",
    ),
    Flaw(
        "CVE-2026-54277",
        "aiohttp",
        "long lines evaded the limit of the parser",
        f"{_HTTP1}test_read_head_line_limits",
    ),
    Flaw(
        "CVE-2026-54276",
        "aiohttp",
        "the Digest login was sent to the host of a redirect",
        f"{_CASES}test_digest_login_is_not_sent_to_another_origin",
    ),
    Flaw(
        "CVE-2026-54275", "aiohttp", "the TLS name of a request did not apply to a reused connection", "sni"
    ),
    Flaw("CVE-2026-54274", "aiohttp", "incomplete WebSocket frames filled memory", "websocket"),
    Flaw("CVE-2026-50269", "aiohttp", "multipart headers could add request headers", "multipart"),
    Flaw(
        "CVE-2026-47265",
        "aiohttp",
        "cookies of a request followed a redirect",
        "resolver/adapters/test_httpx_transport.py::test_redirect_drops_cookies_of_client",
    ),
    Flaw("CVE-2026-34993", "aiohttp", "a cookie file could run code", "pickle"),
    Flaw(
        "CVE-2026-34520",
        "aiohttp",
        "NUL and control characters in response headers were accepted",
        f"{_CASES}test_control_character_in_a_response_field_raises",
    ),
    Flaw("CVE-2026-34518", "aiohttp", "Cookie and Proxy-Authorization followed a redirect", _COOKIE_HEADER),
    Flaw("CVE-2026-34516", "aiohttp", "multipart headers of a response filled memory", "multipart"),
    Flaw("CVE-2026-34514", "aiohttp", "a content type of multipart could add headers", "multipart"),
    Flaw(
        "CVE-2026-34513",
        "aiohttp",
        "the cache of name lookups had no limit",
        "resolver/network/test_lookup.py::test_lookup_cache_evicts_oldest_answer",
    ),
    Flaw("CVE-2026-22815", "aiohttp", "headers and trailers had no limit", _CHUNKS),
    Flaw(
        "CVE-2025-69229",
        "aiohttp",
        "many small chunks blocked the event loop",
        "protocols/http/test_dialogue.py::test_small_chunks_are_joined",
    ),
    Flaw("CVE-2025-69224", "aiohttp", "letters that are not ASCII counted as a transfer coding", _MALFORMED),
    Flaw("CVE-2025-69223", "aiohttp", "a compressed message expanded without limit", _BOMB),
    Flaw(
        "CVE-2025-53643", "aiohttp", "trailers were not parsed, so that messages could be smuggled", _CHUNKS
    ),
    Flaw("CVE-2024-52304", "aiohttp", "a line end in a chunk extension allowed smuggling", _CHUNKS),
    Flaw("CVE-2024-23829", "aiohttp", "characters that end a message were accepted inside of it", _MALFORMED),
    Flaw(
        "CVE-2023-49082",
        "aiohttp",
        "a method could contain a header",
        f"{_CASES}test_method_with_other_characters_is_refused",
    ),
    Flaw("CVE-2023-49081", "aiohttp", "an HTTP version could contain a header", "version"),
    Flaw("CVE-2023-47641", "aiohttp", "a message with both length and chunks was accepted", _FRAMING),
    Flaw("CVE-2023-47627", "aiohttp", "malformed headers were accepted", _MALFORMED),
    Flaw("CVE-2025-43859", "h11", "the bytes after a chunk were not checked", _CHUNKS),
]


def page() -> str:
    """Return the text of docs/explanation/cves.md."""
    tested = sum("::" in flaw.shown for flaw in FLAWS)
    text = (
        "These flaws of other clients were published since January 2023. Flaws of servers are left out. For "
        f"{tested} of the {len(FLAWS)} flaws a test shows that `resolve` does not have them. The others are "
        "impossible here, for the given reason. No flaw of lftp, httpx or httpcore was found. The table has "
        "the date up to which the list of a project is complete. Some later flaws are missing."
    )
    lines = [
        "<!-- Generated by `python -m tests.cves.table`. -->",
        "",
        "# Flaws of other clients",
        "",
        *_wrapped(text),
        "",
        "| project | flaws | complete up to |",
        "|---|---|---|",
    ]
    for project, date in COMPLETE.items():
        count = sum(flaw.project == project for flaw in FLAWS)
        lines.append(f"| {project} | {count} | {date} |")
    for project in dict.fromkeys(flaw.project for flaw in FLAWS):
        lines += ["", f"## {project}", ""]
        for flaw in FLAWS:
            if flaw.project == project:
                lines += _wrapped(f"- {flaw.name}: {flaw.words}. {_shown(flaw.shown)}", "  ")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _shown(shown: str) -> str:
    return f"Test: `tests/{shown}`" if "::" in shown else f"n/a: {REASONS[shown]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
