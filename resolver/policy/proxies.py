"""The proxy of a URL, from `--proxy` or the environment, and the permission to use the proxy (S09).

- `--proxy` applies to every URL. Without `--proxy`, the rules of curl apply. For a URL of scheme S, the
  client checks the variables `S_proxy`, `S_PROXY`, `all_proxy` and `ALL_PROXY`. The first variable with a
  value is used.
- `HTTP_PROXY` is not used, because a CGI server sets this variable from the request header `Proxy` (httpoxy).
- In a process that looks like a CGI program, all proxy variables are ignored (S17).
- A proxy variable that has a value but is not used causes a warning.
- `no_proxy`, or else `NO_PROXY`, lists hosts, domains, addresses and address ranges for direct connections.

The caller passes the environment as an argument. No function in this module reads the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from protocols.authority import comparable_host
from protocols.errors import NotConfigured
from resolver.policy.proxy import NO_PROXY, OPTION, Proxy, parse_proxy
from resolver.policy.settings import Policy
from resolver.policy.subject import Decision, Endpoint, Subject
from resolver.url import registry
from resolver.url.parsing import find_zone

#: The key for the proxy of a single host in the mapping of variables. The proxy of a host overrides
#: `--proxy`, all variables and `no_proxy`.
HOST_PROXY = "the proxy of this host"

_DIRECT = "set --proxy none or no_proxy to connect directly"
_UNTRUSTED = (
    "{name} is set, and addresses that a proxy resolves cannot be checked here "
    "(Policy(trusted_proxy=URL) names a proxy that checks them)"
)
_CGI_VARIABLES = ("REQUEST_METHOD", "GATEWAY_INTERFACE")
_IGNORED = "HTTP_PROXY"
_ENTRY = r"(?P<name>\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]{1,5}))?"


def proxy_variables(environment: Mapping[str, str], proxy: str | None = None) -> dict[str, str]:
    """Return the proxy variables of an environment, and the variables that mark a CGI program.

    `proxy` is the value of `--proxy`, which overrides the variables. If `proxy` is `none`, the result is
    empty.
    """
    if proxy == NO_PROXY:
        return {}
    variables = {
        name: value
        for name, value in environment.items()
        if value and (name.lower().endswith("_proxy") or name in _CGI_VARIABLES)
    }
    return variables if proxy is None else {**variables, OPTION: proxy}


def variables_at(variables: Mapping[str, str], proxy: str | None) -> Mapping[str, str]:
    """Return the proxy settings for a host.

    `proxy` is the proxy of the host, or `none` for a direct connection. The value None means that the host
    has no setting for a proxy.
    """
    if proxy is None:
        return variables
    return {} if proxy == NO_PROXY else {HOST_PROXY: proxy}


def proxy_for(scheme: str, endpoint: Endpoint | None, variables: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for a URL of this scheme.

    The result is `None` for a direct connection.

    Raises:
        NotConfigured: the setting is not the URL of a proxy.
    """
    if not variables or endpoint is None:
        return None
    name = variable_for(scheme, variables)
    if name is None or _explain_unread(name, variables) is not None or is_exempt(endpoint, variables):
        return None
    return parse_proxy(variables[name], name)


def judge_proxy(subject: Subject) -> Iterator[Decision]:
    """Apply S09 (proxies) to a URL if a proxy is configured, regardless of the URL's origin."""
    endpoint, variables, scheme = subject.endpoint, subject.variables, subject.url.scheme
    row = registry.find(scheme)
    name = None if endpoint is None or row is None else variable_for(scheme, variables)
    if endpoint is None or row is None or name is None or is_exempt(endpoint, variables):
        return
    unread = _explain_unread(name, variables)
    if unread is not None:
        yield Decision(
            "S09",
            "warn",
            f"{name} is set {unread}; connecting directly (list the host in no_proxy to silence this)",
        )
    elif find_zone(subject.url) is not None:
        yield Decision("S09", "refuse", f"{name} is set, and a proxy cannot use a zone ({_DIRECT})")
    elif row.transport == "udp":
        yield Decision("S09", "refuse", f"{name} is set, and a proxy cannot carry UDP ({_DIRECT})")
    elif subject.policy.public_only and not _is_trusted(variables[name], name, subject.policy):
        yield Decision("S09", "refuse", _UNTRUSTED.format(name=name), flag="--trusted-proxy URL")
    else:
        yield from _report_entries(variables)


def _is_trusted(value: str, name: str, policy: Policy) -> bool:
    trusted = policy.trusted_proxy
    try:
        return trusted is not None and parse_proxy(value, name).is_at(parse_proxy(trusted, "trusted_proxy"))
    except NotConfigured:
        return False


def variable_for(scheme: str, variables: Mapping[str, str]) -> str | None:
    """Return the name of the proxy setting for a scheme, even if the setting is ignored."""
    if not variables:
        return None
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
    for name in (HOST_PROXY, OPTION, *names, "all_proxy", "ALL_PROXY"):
        if variables.get(name) and name != _IGNORED:
            return name
    is_cgi = any(name in variables for name in _CGI_VARIABLES)
    return _IGNORED if _IGNORED in names and variables.get(_IGNORED) and not is_cgi else None


def _explain_unread(name: str, variables: Mapping[str, str]) -> str | None:
    """Return the reason why a proxy variable is ignored, or None if the variable is used."""
    if name == _IGNORED:
        return "but not used, because a CGI server creates it from a client header"
    if name != OPTION and any(variable in variables for variable in _CGI_VARIABLES):
        return "but not used, because this looks like a CGI program (S17)"
    return None


def is_exempt(endpoint: Endpoint, variables: Mapping[str, str]) -> bool:
    """Return whether `no_proxy` lists the endpoint, so that the client connects directly."""
    return any(_exempts(entry, endpoint) for entry in _entries(variables))


def _entries(variables: Mapping[str, str]) -> list[str]:
    exempt = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    return [entry for entry in re.split(r"[,\s]+", exempt) if entry]


def _report_entries(variables: Mapping[str, str]) -> Iterator[Decision]:
    """Report the first entry of `no_proxy` that is probably a mistake: it cannot match any host."""
    for entry in _entries(variables):
        if ("*" in entry and entry != "*") or ("/" in entry and not _is_network(entry)):
            shown = re.sub(r"//.*@", "//****@", entry)
            detail = f"the entry {shown!r} of no_proxy matches no host (write a domain as .example.org)"
            yield Decision("S09", "warn", detail)
            return


def _is_network(entry: str) -> bool:
    from ipaddress import ip_network  # lazy import: few machines have a list of addresses without a proxy

    try:
        ip_network(entry, strict=False)
    except ValueError:
        return False
    return True


def _exempts(entry: str, endpoint: Endpoint) -> bool:
    if entry == "*":
        return True
    match = re.fullmatch(_ENTRY, entry)
    name, port = (entry, None) if match is None else (match["name"], match["port"])
    if port is not None and int(port) != endpoint.port:
        return False
    host, name = comparable_host(endpoint.host), name.lower()
    if ":" in host or host.rpartition(".")[2].isdecimal():
        return _contains(name.removeprefix("[").removesuffix("]"), host)
    name = name.removeprefix(".").removesuffix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _contains(network: str, address: str) -> bool:
    """Return whether the address is in the network. A host name, which is not resolved here, is not."""
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False
