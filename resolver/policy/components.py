"""Rules on URL components: bytes (S02), forms (S03, S05), ports (S04, S13) and host names (S07).

The rule on bytes prevents CRLF injection. For each component, `resolver.policy.schemes` lists the bytes that
would end a command or a field. The listed bytes are forbidden in the component.

The scheme of a plug-in may have components without a rule. A component without a rule must not contain a line
end, neither as written nor after percent-decoding.

The URL is checked before any DNS lookup, and the error message contains the position in the URL. The module
`protocols.wire` checks the bytes again when a command is written. The later check guarantees the protection,
and the earlier check gives a better error message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from protocols.authority import comparable_host
from protocols.location import Action, Url
from protocols.syntax import find_position
from resolver.policy.schemes import LINE_END, STRICTEST, ComponentRule, PortKind
from resolver.policy.settings import Policy
from resolver.policy.subject import Decision, Subject, refusal
from resolver.url import registry

_NONE: frozenset[int] = frozenset()


def judge_octets(subject: Subject) -> Iterable[Decision]:
    """Apply S02, and report only the first position of each kind, because there may be thousands."""
    url, rules = subject.url, subject.rules
    reported: set[str] = set()
    decisions: list[Decision] = []
    words = url.words()
    for component, name, octets, encoded in words:
        rule = rules.components.get(component, STRICTEST)
        if octets is None:
            if "type" not in reported:
                reported.add("type")
                decisions.append(Decision("S02", "refuse", f"{name} must be bytes, a string or a number"))
            continue
        if encoded and rule is STRICTEST and b"%" in octets:
            from urllib.parse import unquote_to_bytes  # lazy import: only plug-ins have such components

            octets = unquote_to_bytes(octets)  # the code of a plug-in may decode a component without a rule
        if octets.translate(None, rule.harmless):
            decision = _judge_content(url, rule, name, octets, reported)
            if decision is not None:
                reported.add(decision.action)
                decisions.append(decision)
        if rule.max_length is not None and len(octets) > rule.max_length and "length" not in reported:
            length = len(octets) - 2 * octets.count(b"%") if encoded else len(octets)
            if length > rule.max_length:
                reported.add("length")
                detail = f"{name} has {length} bytes, and servers accept at most {rule.max_length}"
                decisions.append(Decision("S02", "refuse", detail, position=position_in(url, name, _NONE)))
    if rules.line is not None:
        components, max_length = rules.line
        parts = [part for name, _, part, _ in words if name in components and part is not None]
        line = b"\t".join(parts).partition(b"\r\n")[0]
        if (length := len(line)) > max_length:
            detail = f"the request has {length} bytes, and servers accept at most {max_length}"
            position = position_in(url, components[0], _NONE)
            decisions.append(Decision("S02", "refuse", detail, position=position))
    if rules.fields is not None:
        decisions += _judge_mail_headers(url, rules.fields)
    return decisions


def _judge_content(
    url: Url, rule: ComponentRule, name: str, octets: bytes, reported: set[str]
) -> Decision | None:
    present = frozenset(octets)
    if bad := present & rule.refused:
        action: Action = "refuse"
        reason = "could end a command or one of its arguments"
    else:
        bad, action = present & rule.warned, "warn"
        reason = "is a control character or a blank, unusual in names"
    return None if action in reported else _decide(url, action, name, octets, bad, reason)


def _decide(url: Url, action: Action, name: str, octets: bytes, bad: frozenset[int], reason: str) -> Decision:
    octet = next(octet for octet in octets if octet in bad)
    position = position_in(url, name, bad)
    where = name if position is None else f"{name}, at position {position} of the URL,"
    return Decision("S02", action, f"byte {octet:02X} in {where} {reason}", position=position)


def position_in(url: Url, name: str, octets: frozenset[int]) -> int | None:
    """Return the index in the URL text of the first byte of a component that is in `octets`."""
    place = url.place(name)
    return None if place is None else find_position(url.text, place, octets)


def _judge_mail_headers(url: Url, component: str) -> Iterator[Decision]:
    """Report the first mail header whose name or value contains a line end (header injection).

    Only the body of the mail may have several lines (RFC 6068 5).
    """
    headers: tuple[tuple[bytes, bytes], ...] = getattr(url, component)
    for index, (name, value) in enumerate(headers):
        shown = b"" if name.lower() == b"body" else value
        for where, octets in ((f"{component}[{index}].name", name), (f"{component}[{index}].value", shown)):
            if bad := LINE_END.intersection(octets):
                yield _decide(url, "refuse", where, octets, bad, "would end a header field of the mail")
                return


# Look-alike host names (S07, homograph attack): rules on labels that begin with `xn--`.
#
# Host names are displayed as written, so labels are not decoded for display. The package `idna` implements
# UTS 46. `idna` and `unicodedata` are imported only if a name has an `xn--` label.

#: Letters that look like Latin letters in common typefaces (compare UTS 39, confusables). The letters are
#: written as code point numbers, because a reviewer could not distinguish them from Latin letters. For
#: example, U+0430 and U+03B1 look like a small a, U+043E and U+03BF like a small o.
_LOOKALIKES = {
    "CYRILLIC": frozenset(
        "\u0430\u0433\u0435\u043e\u043f\u0440\u0441\u0443\u0445\u044c\u0455\u0456"
        "\u0458\u0461\u0475\u04af\u04bb\u04bd\u04cf\u0501\u050d\u051b\u051d"
    ),
    "GREEK": frozenset(
        "\u03b1\u03b2\u03b3\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9\u03f2\u03f3"
    ),
}
_KANA = {
    "HIRAGANA": "KANA",
    "KATAKANA": "KANA",
    "KATAKANA-HIRAGANA": "KANA",
    "CJK": "HAN",
    "IDEOGRAPHIC": "HAN",
}
_NO_SCRIPT = frozenset({"MODIFIER", "COMBINING"})
#: The combinations of scripts that are legitimate within one label.
_MIXES = (frozenset({"HAN", "KANA", "LATIN"}), frozenset({"HAN", "HANGUL"}))


def judge_name(subject: Subject) -> Iterable[Decision]:
    """Apply S07: report the first label of each kind of deceptive `xn--` label.

    A percent-encoded host is reported too, because another URL parser may find a different host.
    """
    host = "" if subject.endpoint is None else subject.endpoint.host
    if subject.policy.allow_name and comparable_host(host) in subject.policy.allow_name:
        return ()
    decisions = list(_judge_spelling(subject)) if subject.policy.public_only else []
    lowered = host.lower()
    reported: set[str] = set()
    for label in lowered.split(".") if "xn--" in lowered else ():
        objection = find_objection(label) if label.startswith("xn--") else None
        if objection is not None and objection not in reported:
            reported.add(objection)
            detail = f"{label!r} in the host {host!r} {objection}"
            start = subject.find_start("host")
            decisions.append(Decision("S07", "warn", detail, f"--allow-name {host}", start))
    return decisions


def judge_allowed_host(subject: Subject) -> Iterator[Decision]:
    """Apply S22: refuse a host that is not in the list of allowed hosts, if there is a list.

    The user's own news server is not checked, because it is not part of the URL.
    """
    allowed, endpoint = subject.policy.allowed_hosts, subject.endpoint
    if allowed is None or endpoint is None or endpoint.is_own or comparable_host(endpoint.host) in allowed:
        return
    detail = f"host {endpoint.host!r} is not in the list of allowed hosts"
    flag = f"--allowed-hosts {endpoint.host}"
    yield Decision("S22", "refuse", detail, flag, subject.find_start("host"))


def _judge_spelling(subject: Subject) -> Iterator[Decision]:
    """Report a percent-encoded host, because a filter with another URL parser sees a different host."""
    place = subject.url.place("host")
    written = "" if place is None else subject.url.text[place.start : place.end]
    if not written and subject.url.scheme not in registry.SCHEMES:
        from protocols import other  # lazy import: few URLs have an unknown scheme

        written = other.written_host(subject.url)
    if "%" in written:
        detail = f"the host is percent-encoded, {written!r}, and other parsers may read another host"
        flag = None if subject.endpoint is None else f"--allow-name {subject.endpoint.host}"
        yield Decision("S07", "refuse", detail, flag, subject.find_start("host"))


def find_objection(label: str) -> str | None:
    """Return the reason why an `xn--` label is deceptive or invalid, or None.

    Control characters and mixed scripts are checked first, then UTS 46.
    """
    text = _decode(label)
    if text is None:
        return "cannot be decoded"
    if any(unicodedata.category(character)[0] == "C" for character in text):
        return "has invisible characters"
    if not _is_valid(label, text):
        return "cannot be decoded"
    scripts = {script for script in map(_find_script, text) if script is not None}
    if len(scripts) > 1 and not any(scripts <= mix for mix in _MIXES):
        return f"mixes scripts ({', '.join(sorted(scripts)).title()})"
    return _find_disguise(text, scripts)


def _decode(label: str) -> str | None:
    """Decode a label with the Punycode algorithm (RFC 3492), without any other check."""
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return None


def _is_valid(label: str, text: str) -> bool:
    """Return whether the label is the IDNA 2008 encoding of the text, and UTS 46 does not change the text."""
    import idna

    try:
        return idna.ulabel(label) == text and idna.uts46_remap(text, transitional=False) == text
    except (idna.IDNAError, UnicodeError, ValueError, IndexError):
        return False


def _find_script(character: str) -> str | None:
    """Return the script of a letter, such as LATIN, or None for a character without a script."""
    if unicodedata.category(character)[0] != "L":
        return None
    word = unicodedata.name(character, "UNKNOWN").split()[0]
    return None if word in _NO_SCRIPT else _KANA.get(word, word)


def _find_disguise(text: str, scripts: set[str]) -> str | None:
    for script, lookalikes in _LOOKALIKES.items():
        if scripts == {script} and all(_find_script(c) is None or c in lookalikes for c in text):
            return f"has only {script.title()} letters that look like Latin letters"
    return None


# Ports of a URL (S04), and the port of FTP's data connection (S13).
#
# A server of another protocol interprets a request as commands of its own protocol (cross-protocol attack,
# RFC 1738 section 6). A gopher request is text from the URL, so the attack works even without CR LF.
# Therefore the rules are strictest for schemes that send text from the URL. Telnet does not send text from
# the URL, so its rules are the mildest.

#: The ports that the WHATWG Fetch standard blocks ("bad port"), as of 2026.
# fmt: off
FETCH = frozenset({
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})
#: Ports of services with line-based protocols: databases, caches, build tools and cluster tools. Untrusted
#: gopher URLs attack these services (SSRF).
SERVICE = frozenset({
    873, 1433, 1521, 2181, 2375, 3306, 4369, 5432, 5672, 5984, 6379, 8009, 9000, 9042, 9100, 9200, 10050,
    11211, 15672, 27017,
})
# fmt: on

_REASON: dict[PortKind, str] = {
    "own": "",
    "fetch": "belongs to another protocol",
    "service": "belongs to a service that reads lines as commands",
    "low": "is reserved for other services",
    "other": "is not the port of this scheme",
}


def judge_port(subject: Subject) -> Iterable[Decision]:
    """Apply S04 (ports)."""
    if subject.endpoint is None or subject.endpoint.port in subject.policy.allow_port:
        return ()
    port, default_port = subject.endpoint.port, subject.endpoint.default_port
    kind = classify_port(port, default_port)
    action = subject.rules.ports[kind]
    if action == "allow":
        return ()
    detail = f"port {port} {_REASON[kind]} ({subject.url.scheme} has {default_port})"
    return (Decision("S04", action, detail, f"--allow-port {port}", subject.find_start("port")),)


def classify_port(port: int, default_port: int) -> PortKind:
    """Return the column for a port in the table of rule S04: the blocked ports for an impossible port."""
    if port in FETCH or not 0 < port <= 65_535:
        return "own" if port == default_port != 0 else "fetch"
    if port == default_port:
        return "own"
    if port in SERVICE:
        return "service"
    return "low" if port < 1024 else "other"


def check_data_port(port: int, policy: Policy) -> None:
    """Apply S13: raise `Refused` for a port below 1024 in a server's reply to EPSV or PASV.

    The port lists of S04 do not apply to a data connection, because the client only reads from it. The server
    chooses the port at random. The data connection uses the IP address of the control connection (FTP
    bounce).
    """
    if port < 1024 and port not in policy.allow_port:
        raise refusal(
            "S13",
            f"the server's data port {port} is reserved for other services",
            flag=f"--allow-port {port}",
        )


def check_tunnel_port(port: int, policy: Policy) -> None:
    """Apply S04 to a tunnel: under `untrusted`, raise `Refused` for a port in `SERVICE`.

    An http URL cannot send a command to these services, but the bytes in a tunnel can contain any command.
    """
    if policy.name == "untrusted" and port in SERVICE and port not in policy.allow_port:
        raise refusal("S04", f"port {port} {_REASON['service']}", flag=f"--allow-port {port}")


# Filled-in forms of Gopher+ (S03, S05). No other URL sends several lines or changes data on a server.
#
# RFC 1738 3.4.9 puts a filled-in Gopher+ form, with its line ends, into the URL. A form is allowed only at a
# gopher port. The form must be a single block of lines after the name of a Gopher+ view. The block must end
# with a dot, and no bytes may follow the dot. The author of an untrusted URL can choose every line of the
# form. Therefore the user must also confirm the submission.

_END_BYTES = frozenset(b"\0\t\n\r")
_FORM = (  # the pattern of a filled-in Gopher+ form; `re` compiles it on first use
    rb"\+ [^\x00-\x1f\x7f]* \t 1 \r\n"
    rb"\+-1 \r\n"
    rb"(?: (?!\.\r\n) [^\x00\r\n]* \r\n )*"
    rb"\. \r\n"
)


def judge_form(subject: Subject) -> Iterator[Decision]:
    """Apply S03 to a Gopher+ string with bytes that end a line or a field, then S05 to a form.

    A URL without a Gopher+ string always passes these rules.
    """
    form = subject.rules.form
    gopherplus: object = None if form is None else getattr(subject.url, form)
    if not isinstance(gopherplus, bytes) or _END_BYTES.isdisjoint(gopherplus):
        return
    if re.fullmatch(_FORM, gopherplus, re.VERBOSE):
        yield from _judge_form_port(subject)
        yield from _judge_submission(subject)
    else:
        yield _refuse_bytes(subject, gopherplus)


def _refuse_bytes(subject: Subject, gopherplus: bytes) -> Decision:
    octet = next(octet for octet in gopherplus if octet in _END_BYTES)
    position = position_in(subject.url, "gopherplus", _END_BYTES)
    where = "" if position is None else f", at position {position} of the URL,"
    detail = f"byte {octet:02X} in gopherplus{where} is not part of a filled-in form (RFC 1738 3.4.9)"
    return Decision("S03", "refuse", detail, position=position)


def _judge_form_port(subject: Subject) -> Iterator[Decision]:
    """Apply S03 to the port: a form is allowed only at a gopher port.

    At another port, the lines of the form could be commands to a mail server (cross-protocol attack).
    """
    endpoint = subject.endpoint
    if (
        endpoint is None
        or endpoint.port == endpoint.default_port
        or endpoint.port in subject.policy.allow_port
    ):
        return
    detail = f"a form may only be sent to port {endpoint.default_port}, not to {endpoint.port}"
    yield Decision("S03", "refuse", detail, f"--allow-port {endpoint.port}", subject.find_start("port"))


def _judge_submission(subject: Subject) -> Iterator[Decision]:
    """Apply S05 (submission of forms)."""
    if subject.policy.allow_form:
        return
    action: Action = "warn" if subject.origin == "user" else "refuse"
    detail = "this URL submits a form, which may change remote state"
    yield Decision("S05", action, detail, "--allow-form", subject.find_start("gopherplus"))
