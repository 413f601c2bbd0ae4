"""The plan for a target of the command line: by its options, configuration and this machine's settings."""

from __future__ import annotations

from contextlib import suppress

from protocols.errors import InvalidUrl, NotConfigured
from protocols.location import Url
from resolver.cli.arguments import Command
from resolver.cli.bounds import options_of
from resolver.cli.permissions import policy_of
from resolver.cli.targets import CommandTarget
from resolver.environment import proxies_here
from resolver.news_server import find_setting, needs_server, server_of
from resolver.plan import Plan, explain


def plan_of(target: CommandTarget, command: Command) -> Plan:
    """Raises `NotConfigured`."""
    hosts = None
    if command.configuration.hosts:
        from resolver.cli.sections import hosts_of  # few have a section

        hosts = hosts_of(command.configuration)
    setting, policy = find_setting(command.found.news_server), policy_of(command.found)
    url: str | Url = target.url
    with suppress(InvalidUrl):  # which the plan says
        url = target.parsed(command)
    plan = explain(
        url,
        policy=policy,
        origin=target.origin,
        referrer=target.referrer,
        gateways=command.gateways,
        news_server=None if setting is None else setting.text,
        strict=command.strict,
        options=options_of(command.found, policy, raw=True, listen=True),
        environment=proxies_here(),
        proxy=command.found.proxy,
        hosts=hosts,
    )
    if setting is None and plan.error is None and not isinstance(url, str) and needs_server(url):
        try:
            server_of(setting, url.scheme)
        except NotConfigured as error:
            return plan._replace(error=error)
    return plan
