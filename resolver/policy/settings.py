"""The safety policy: named policies, overrides of single rules, and settings of single hosts.

A `Policy` is immutable. Each override is a field, and each field affects one rule. No field disables all
rules. All values are checked when the policy is created, so a misspelled override raises an error and does
not weaken the policy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from protocols.authority import comparable_host
from protocols.errors import NotConfigured
from protocols.options import Limits
from resolver.policy.proxy import parse_proxy
from resolver.policy.schemes import find_rules

T = TypeVar("T")
Name: TypeAlias = Literal["default", "cautious", "untrusted"]

_NONE: frozenset[str] = frozenset()
#: The time limits of policy `untrusted` in seconds: for the response head, and for the complete retrieval.
#: The limits stop a server that sends very slowly (slow-loris).
_HEAD, _TOTAL = 60.0, 600.0
# Patterns for the values of overrides: a scheme, a host, and a mail address. `re` compiles each pattern
# lazily, when the first policy with a value of this kind is created.
_SCHEME = r"[a-z][a-z0-9+.-]*"
_HOST = r"[a-z0-9._:-]+"
_ADDRESS = r"[!-?A-~]*@[!-~]*"  # an at sign is required, because ftp servers reject an address without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The permissions of the safety policy.

    Each field has the name of a command-line option: `allow_port` is `--allow-port`. `name` is the named
    policy to which the overrides are added. Sets may be passed as any iterable and are stored as frozensets.
    Three fields are not overrides: `file_root` restricts local files, `ftp_email` is the mail address for
    ftp servers, and `allowed_hosts` restricts the hosts (S22). If `allowed_hosts` is set, all other hosts are
    refused. `trusted_proxy` is the URL of a proxy that itself checks IP addresses (SSRF). Policy `untrusted`
    allows only this proxy (S09).

    Raises:
        ValueError: a value is invalid.

    Examples:
        >>> policy = resolver.Policy(allow_port={8025})
        >>> resolver.check("http://h.example:8025/", policy=policy).action
        'allow'
        >>> resolver.check("file:///etc/passwd", policy=resolver.Policy.untrusted()).action
        'refuse'
    """

    name: Name = "default"
    allow_port: AbstractSet[int] = frozenset()
    allow_address: AbstractSet[str] = _NONE
    allow_name: AbstractSet[str] = _NONE
    allow_redirect: AbstractSet[str] = _NONE
    allow_forward: AbstractSet[str] = _NONE
    allow_password: bool = False
    allow_form: bool = False
    allow_special: bool = False
    allow_raw: bool = False
    allow_server_name: bool = False
    file_root: str | None = None
    ftp_email: str | None = None
    trusted_proxy: str | None = None
    allowed_hosts: AbstractSet[str] | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        for member in fields(self):  # a configuration file could give the text "no", which is true
            if member.default is False and not isinstance(value := getattr(self, member.name), bool):
                raise ValueError(f"{member.name} must be True or False, got {value!r}")
        _set(self, "allow_port", _normalize_set("allow_port", self.allow_port, _check_port))
        _set(self, "allow_address", _normalize_set("allow_address", self.allow_address, _normalize_network))
        _set(self, "allow_name", _normalize_set("allow_name", self.allow_name, _normalize_host))
        _set(self, "allow_redirect", _normalize_set("allow_redirect", self.allow_redirect, _normalize_scheme))
        _set(self, "allow_forward", _normalize_set("allow_forward", self.allow_forward, _normalize_host))
        if self.allowed_hosts is not None:
            _set(self, "allowed_hosts", _normalize_set("allowed_hosts", self.allowed_hosts, _normalize_host))
        if self.file_root is not None:
            _set(self, "file_root", _normalize_root(self.file_root))
        if self.ftp_email is not None and not re.fullmatch(_ADDRESS, self.ftp_email):
            raise ValueError(f"ftp_email: {self.ftp_email!r} is not a mail address in graphic ASCII")
        if self.trusted_proxy is not None:
            _check_proxy(self.trusted_proxy)

    @classmethod
    def default(cls) -> Policy:
        """Return the policy for users: dangerous URLs are refused, and suspicious URLs cause a warning."""
        return cls()

    @classmethod
    def cautious(cls) -> Policy:
        """Return the policy that refuses every URL that would cause a warning."""
        return cls(name="cautious")

    @classmethod
    def untrusted(cls) -> Policy:
        """Return the policy for a service that fetches URLs of other people (protects against SSRF).

        The policy is as strict as `cautious`. The policy allows only public addresses, and only local files
        below `file_root`.
        """
        return cls(name="untrusted")

    @classmethod
    def named(cls, name: str) -> Policy:
        """Return the policy with a name.

        Raises:
            ValueError: the name is unknown.
        """
        _check_name(name)
        return cls(name=cast(Name, name))

    @classmethod
    def of(cls, given: Policy | str) -> Policy:
        """Return the policy itself, or the policy with a name.

        Every public function with a policy argument accepts a `Policy` or the name of a policy.

        Raises:
            TypeError: the value is neither a policy nor a string.
            ValueError: the name is unknown.

        Examples:
            >>> resolver.Policy.of("untrusted") == resolver.Policy.untrusted()
            True
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            return cls.named(given)
        names = ", ".join(get_args(Name))
        raise TypeError(f"policy must be a Policy or a name ({names}), got {type(given).__name__}")

    def bound(self, limits: Limits) -> Limits:
        """Return the limits of a retrieval under this policy.

        Policy `untrusted` sets the time limits for the response head and for the complete retrieval, unless
        the caller has set them. Without time limits, a slow server could block an unattended service forever
        (S16).
        """
        if not self.public_only:
            return limits
        return replace(
            limits,
            head=_HEAD if limits.head is None else limits.head,
            total=_TOTAL if limits.total is None else limits.total,
        )

    @property
    def refuses_warnings(self) -> bool:
        return self.name != "default"

    @property
    def public_only(self) -> bool:
        """Return whether the policy allows only public addresses, and only files below `file_root`."""
        return self.name == "untrusted"


def _check_name(name: str) -> None:
    if name not in get_args(Name):
        raise ValueError(f"unknown policy {name!r}; expected one of {', '.join(get_args(Name))}")


def _set(policy: Policy, field: str, value: object) -> None:
    object.__setattr__(policy, field, value)


def _check_text(field: str, text: object) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{field}: {text!r} is not a string")


def _normalize_set(field: str, values: Iterable[T], normal: Callable[[str, T], T]) -> frozenset[T]:
    if isinstance(values, (str, bytes)):
        text = values if isinstance(values, str) else values.decode("latin-1")
        raise ValueError(f"{field} must be a set of values, got the string {text!r}")
    return frozenset(normal(field, value) for value in values)


def _check_port(field: str, port: int) -> int:
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65_535:
        raise ValueError(f"{field}: {port!r} is not a port from 1 to 65535")
    return port


def _normalize_network(field: str, text: str) -> str:
    from ipaddress import ip_network  # lazy import: `explain` of a host name needs no addresses

    if isinstance(text, int | bytes):  # `ip_network` would read 10 as 0.0.0.10
        _check_text(field, text)
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise ValueError(f"{field}: {text!r} is neither an address nor a range such as 10.0.0.0/8") from None


def _normalize_host(field: str, text: str) -> str:
    _check_text(field, text)
    host = text.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    if not re.fullmatch(_HOST, host):
        raise ValueError(f"{field}: {text!r} is not a host name")
    return host


def _normalize_scheme(field: str, text: str) -> str:
    _check_text(field, text)
    scheme = text.lower()
    if not re.fullmatch(_SCHEME, scheme):
        raise ValueError(f"{field}: {text!r} is not a scheme")
    if not find_rules(scheme).followed:
        raise ValueError(f"{field}: {scheme} is never followed (S10)")
    return scheme


def _check_proxy(text: str) -> None:
    try:
        parse_proxy(text, "trusted_proxy")
    except NotConfigured as error:
        raise ValueError(f"trusted_proxy: {error.message}") from None


def _normalize_root(text: str) -> str:
    root = os.fspath(text)
    if not root or "\0" in root:
        raise ValueError(f"file_root: {text!r} is not a directory name")
    return os.path.abspath(root)


# Settings of a single host: limits, proxy, client certificate and mirrors.
#
# The user or the caller provides the settings of a host. For each request, the settings of its host apply.
# After a redirect, only the settings of the new host apply (S11). For each field, a value for `host:port`
# overrides a value for `host`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The settings of one host, all optional.

    Attributes:
        limits: the limits for this host, which replace the limits of the run.
        proxy: the URL of the proxy, or `none`. Other proxy settings are then ignored.
        certfile: the client certificate for this host.
        pin: the SHA-256 digest (`sha256:HEX`) of the server certificate. All other certificates are rejected.
            The name, the dates and the authority of the pinned certificate are not checked.
        mirrors: base URLs of complete mirrors of this host. The path of a URL is appended to a base URL.

    Examples:
        >>> hosts = {"127.0.0.1": resolver.Host(limits=resolver.Limits(body=36))}
        >>> await resolver.fetch("http://127.0.0.1:8920/about.txt", hosts=hosts)
        Traceback (most recent call last):
        protocols.errors.LimitExceeded: ...: 37 bytes are announced, the limit is 36
    """

    limits: Limits | None = None
    proxy: str | None = field(default=None, repr=False)
    certfile: str | None = None
    pin: str | None = None
    mirrors: tuple[str, ...] = field(default=(), repr=False)


def normal_pin(text: str) -> str:
    """Return a certificate digest in lower case, without the colons that OpenSSL prints.

    Raises:
        NotConfigured: the text is not `sha256:` and 64 hexadecimal digits.
    """
    algorithm, _, digits = text.partition(":")
    digits = digits.replace(":", "").lower()
    if algorithm.lower() == "sha256" and re.fullmatch("[0-9a-f]{64}", digits):
        return f"sha256:{digits}"
    reason = "expected sha256: and the 64 hexadecimal digits of the certificate's digest"
    if text.startswith("sha256//"):
        reason += "; sha256// is curl's digest of the public key alone"
    raise NotConfigured(f"certificate pin {text!r} is invalid: {reason}")


def format_names(host: str, port: int) -> tuple[str, str]:
    """Return `host:port` and `host` in their normal form. An IPv6 address is in brackets."""
    name = comparable_host(host)
    if ":" in name:
        name = f"[{_compress_address(name)}]"
    return f"{name}:{port}", name


def _compress_address(address: str) -> str:
    from ipaddress import ip_address

    try:
        return ip_address(address).compressed
    except ValueError:
        return address


#: The empty settings, for a host without configured settings.
NO_SETTINGS = Host()


class HostSettings:
    """The settings of single hosts, by `host` or `host:port`."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self._host_by_name = {normal_name(name): host for name, host in hosts.items()}

    def find_host(self, host: str, port: int) -> Host:
        """Return the settings for a host and port. Fields not set for `host:port` come from `host`."""
        exact, default = (self._host_by_name.get(name, NO_SETTINGS) for name in format_names(host, port))
        return Host(
            limits=exact.limits or default.limits,
            proxy=default.proxy if exact.proxy is None else exact.proxy,
            certfile=exact.certfile or default.certfile,
            pin=exact.pin or default.pin,
            mirrors=exact.mirrors or default.mirrors,
        )

    def with_limits(self, bound: Callable[[Limits], Limits]) -> HostSettings:
        """Return a copy of the settings with the limits of each host changed by the function `bound`."""
        return HostSettings(
            {
                name: host if host.limits is None else replace(host, limits=bound(host.limits))
                for name, host in self._host_by_name.items()
            }
        )


def normal_name(name: str) -> str:
    """Return a host name, perhaps with a port, in the normal form of `format_names`."""
    if not name.startswith("["):
        return name.lower()
    address, bracket, port = name[1:].partition("]")
    return f"[{_compress_address(address.lower())}{bracket}{port}"
