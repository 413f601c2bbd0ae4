"""`open` of an item with a form: the questions, the person's consent (S05), and the reply to standard output.

What is sent is sent once: a form that was submitted may have changed something, whatever came of the reply.
"""

from __future__ import annotations

from protocols.contract import Finding, HostUrl, Referrer, Url
from protocols.errors import NotFound, ProtocolError
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.asking import agree, answers_to
from resolver.cli.output import Output, StandardOutput
from resolver.cli.targets import CommandTarget
from resolver.policy import judge
from resolver.retrieval.form import PutForm, asks_for_form, form_at, may_have_form
from resolver.retrieval.session import Resolver


async def form_of(session: Resolver, url: HostUrl, target: CommandTarget) -> PutForm | None:
    """None where the item has none, and its URL does not say that it has."""
    if not may_have_form(url):
        return None
    try:
        return await form_at(session, url, origin=target.origin, referrer=target.referrer)
    except (NotFound, ProtocolError):  # most servers know nothing of forms
        if asks_for_form(url):
            raise
        return None


async def fill_in(
    put: PutForm, session: Resolver, url: HostUrl, target: CommandTarget, command: Command
) -> tuple[Finding, ...]:
    """What was odd about the reply. Raises `Refused` where it may not be sent, before anything is asked."""
    _check(put.specimen(), session, target)
    for finding in () if command.quiet else put.findings:
        streams.complain(f"{url.shown}: {finding.rule}: {finding.detail}")
    answers = await answers_to(put.form)
    try:
        filled = put.filled(answers)
    except ValueError as error:
        raise ProtocolError(f"the form cannot be filled in: {error}") from error
    await agree(f"{url.host} port {url.effective_port}", answers)
    with StandardOutput() as outlet:
        output = Output(hashed=False, checksum=None, raw=session.policy.allow_raw, outlet=outlet)
        async with session.stream(filled, origin=target.origin, referrer=target.referrer) as reply:
            await output.take(reply)
            return reply.findings


def _check(url: Url, session: Resolver, target: CommandTarget) -> None:
    referrer = None if target.referrer is None else Referrer(*target.referrer)
    error = judge(url, session.policy, origin=target.origin, referrer=referrer).error(url)
    if error is not None:
        raise error
