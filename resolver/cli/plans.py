"""The plan of a request (`explain`), with the options, the configuration and the environment variables."""

from __future__ import annotations

from contextlib import suppress

from protocols.errors import InvalidUrl, NotConfigured
from protocols.location import Url
from resolver.cli.arguments import Command
from resolver.cli.config import make_host_settings
from resolver.cli.session_settings import make_options, make_policy
from resolver.cli.targets import CommandTarget
from resolver.policy.environment import find_setting, needs_server, parse_server, read_proxies
from resolver.transfer.plan import Plan, explain


def plan_target(target: CommandTarget, command: Command) -> Plan:
    """Plan the retrieval of a target without network access. Raises `NotConfigured`."""
    hosts = make_host_settings(command.configuration) if command.configuration.hosts else None
    setting, policy = find_setting(command.news_server), make_policy(command)
    url: str | Url = target.url
    with suppress(InvalidUrl):  # the plan reports the error
        url = target.parse(command)
    plan = explain(
        url,
        policy=policy,
        origin=target.origin,
        referrer=target.referrer,
        gateways=command.gateways,
        news_server=None if setting is None else setting.text,
        strict=command.strict,
        options=make_options(command, policy, raw=True, listen=True),
        environment=read_proxies(),
        proxy=command.proxy,
        hosts=hosts,
    )
    if setting is None and plan.error is None and not isinstance(url, str) and needs_server(url):
        try:
            parse_server(setting, url.scheme)
        except NotConfigured as error:
            return plan._replace(error=error)
    return plan
