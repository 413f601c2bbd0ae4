"""Ports that a URL may name (S04), and the one a server may name for FTP's second connection (S13).

A port of another protocol makes its server read our request as commands (RFC 1738 section 6): that
needs no CR LF where the request itself is text of the URL's choosing, as in gopher. So the schemes
that send such text are judged most strictly, and telnet, which sends none, least.
"""

from __future__ import annotations

from collections.abc import Iterator

from resolver.policy.schemes import PortKind
from resolver.policy.settings import Policy
from resolver.policy.subject import Subject
from resolver.policy.verdict import Decision

#: The ports that the WHATWG Fetch standard blocks ("bad port"), as of 2026.
# fmt: off
FETCH = frozenset({
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})
#: Line-driven services that strangers' gopher URLs aim at: databases, caches, build and cluster tools.
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


def judge_port(subject: Subject) -> Iterator[Decision]:
    """S04."""
    if subject.endpoint is None or subject.endpoint.port in subject.policy.allow_port:
        return
    port, scheme = subject.endpoint.port, subject.url.scheme
    kind = kind_of(port, subject.endpoint.default_port)
    action = subject.rules.ports[kind]
    if action != "allow":
        yield Decision(
            rule="S04",
            action=action,
            detail=f"port {port} {_REASON[kind]} ({scheme} has {subject.endpoint.default_port})",
            flag=f"--allow-port {port}",
            position=subject.start_of("port"),
        )


def kind_of(port: int, default_port: int) -> PortKind:
    """Which column of the rule's table a port is in. One that cannot be (0, 65536) is a bad one."""
    if port in FETCH or not 0 < port <= 65_535:
        return "own" if port == default_port != 0 else "fetch"
    if port == default_port:
        return "own"
    if port in SERVICE:
        return "service"
    return "low" if port < 1024 else "other"


def check_data_port(port: int, policy: Policy) -> None:
    """S13: raise `Refused` for a port below 1024 in a server's answer to EPSV or PASV.

    The lists of S04 do not apply: servers pick these ports at random, the address is the server's
    own, and we only read.
    """
    if port < 1024 and port not in policy.allow_port:
        raise Decision(
            rule="S13",
            action="refuse",
            detail=f"the server offers its data on port {port}, which is reserved for other services",
            flag=f"--allow-port {port}",
        ).refusal()
