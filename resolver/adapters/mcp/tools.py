"""What each tool does, without a word of the protocol that it is asked by.

A tool gets its arguments as JSON has them, and gives an `ToolAnswer`. Whoever may call it has no say in the
policy: it is that of the `ToolGrant`, and every URL counts as one of a stranger's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

import resolver
from resolver.adapters.mcp.pages import NoSuchPage, ResultPage, ResultStore, StoredResult
from resolver.adapters.mcp.safe import Record, cut, safe_text

#: Characters on a page of text, unless the agent asks for others; and at most.
LENGTH, MOST_LENGTH = 20_000, 100_000
#: Entries on a page, likewise.
WIDTH, MOST_WIDTH = 100, 1_000
#: Entries of one listing that are read at all, and characters of them; a name longer than that is cut off.
ENTRIES, ENTRY_CHARACTERS, NAME = 10_000, 8_388_608, 1_000
#: Octets of one object, unless the operator says otherwise.
BODY = 8_388_608


def bounded(limits: resolver.Limits) -> resolver.Limits:
    """These limits, with one for a body where they have none."""
    return limits if limits.body_everywhere else replace(limits, body=BODY, body_everywhere=True)


def _limits() -> resolver.Limits:
    return bounded(resolver.Limits())


def _environment() -> Mapping[str, str]:
    return dict(os.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolGrant:
    """What the operator lets agents do: the `untrusted` policy with its overrides, and the way out.

    Raises `ValueError` for a milder policy.
    """

    policy: resolver.Policy = field(default_factory=resolver.Policy.untrusted)
    limits: resolver.Limits = field(default_factory=_limits)
    options: resolver.Options = field(default_factory=resolver.Options)
    gateways: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=_environment, repr=False)
    proxy: str | None = field(default=None, repr=False)
    cafile: str | None = None
    family: Literal["4", "6"] | None = None
    news_server: str | None = None
    rate: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", resolver.Policy.of(self.policy))
        if self.policy.name != "untrusted":
            raise ValueError(f"agents get the policy untrusted, with overrides, and not {self.policy.name}")

    def session(self) -> resolver.Resolver:
        """What retrieves for agents: without anybody's logins."""
        return resolver.Resolver(
            policy=self.policy,
            limits=self.limits,
            options=self.options,
            gateways=self.gateways,
            environment=self.environment,
            proxy=self.proxy,
            cafile=self.cafile,
            family=self.family,
            news_server=self.news_server,
            rate=self.rate,
            strict=self.strict,
        )


class BadToolArguments(Exception):
    """A tool cannot be called like that."""


class ToolAnswer(NamedTuple):
    """`record` says what it is; `content` is one page of the thing itself, None where the record is all."""

    record: Record
    content: str | bytes | None = None
    failed: bool = False


Tool: TypeAlias = "Callable[[Arguments], Awaitable[ToolAnswer]]"


class Arguments:
    """What a tool was called with. Each method raises `BadToolArguments`."""

    def __init__(self, values: Mapping[str, object], known: frozenset[str]) -> None:
        self._values = values
        unknown = sorted(set(values) - known)
        if unknown:
            raise BadToolArguments(f"there is no argument {unknown[0][:100]!r}")

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise BadToolArguments(f"{name} is a text")

    def count(self, name: str, default: int, most: int) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return value
        raise BadToolArguments(f"{name} is a number from 1 to {most}")

    @property
    def url(self) -> str:
        url = self.text("url")
        if url is None:
            raise BadToolArguments("a url is needed")
        return url

    @property
    def cursor(self) -> str | None:
        """Where a further page is asked for. Exactly one of `url` and `cursor` is needed."""
        cursor = self.text("cursor")
        if (cursor is None) == (self.text("url") is None):
            raise BadToolArguments("either a url or a cursor is needed, and not both")
        return cursor

    @property
    def length(self) -> int:
        return self.count("characters", LENGTH, MOST_LENGTH)

    @property
    def width(self) -> int:
        return self.count("entries", WIDTH, MOST_WIDTH)


class Tools:
    """The tools of one conversation, over one session."""

    def __init__(self, grant: ToolGrant, session: resolver.Resolver) -> None:
        self._grant = grant
        self._session = session
        self._shelf = ResultStore()
        self._tools: Mapping[str, tuple[Tool, str]] = {
            "fetch": (self._fetch, "url cursor characters entries"),
            "list": (self._list, "url cursor characters entries"),
            "info": (self._info, "url"),
            "explain": (self._explain, "url"),
            "check": (self._check, "url"),
        }

    async def call(self, name: str, values: Mapping[str, object]) -> ToolAnswer:
        """What the tool gives, also where it fails. Raises `KeyError` for a tool that there is not."""
        tool, known = self._tools[name]
        try:
            return await tool(Arguments(values, frozenset(known.split())))
        except (BadToolArguments, NoSuchPage) as error:
            return _misused(str(error))
        except resolver.ResolveError as error:
            return _failed(error)

    async def _fetch(self, arguments: Arguments) -> ToolAnswer:
        cursor = arguments.cursor
        if cursor is not None:
            return _given(self._shelf.at(cursor, arguments.length, arguments.width))
        length, width = arguments.length, arguments.width
        response = await self._session.fetch(arguments.url)
        return _given(self._shelf.first(_held(response), length, width))

    async def _list(self, arguments: Arguments) -> ToolAnswer:
        cursor = arguments.cursor
        if cursor is not None:
            return _given(self._shelf.at(cursor, arguments.length, arguments.width))
        length, width = arguments.length, arguments.width
        return _given(self._shelf.first(await self._listing(arguments.url), length, width))

    async def _listing(self, url: str) -> StoredResult:
        found: list[dict[str, object]] = []
        characters = 0
        whole = True
        async with self._session.entries(url) as entries:
            async for entry in entries:
                if len(found) >= ENTRIES or characters > ENTRY_CHARACTERS:
                    whole = False
                    break
                found.append(_entry(entry))
                characters += len(str(found[-1]))
        record = Record({"url": resolver.parse(url).shown, "complete": whole})
        return StoredResult(record, tuple(found), characters)

    async def _info(self, arguments: Arguments) -> ToolAnswer:
        return ToolAnswer(_entry(await self._session.info(arguments.url)))

    async def _explain(self, arguments: Arguments) -> ToolAnswer:
        grant = self._grant
        plan = resolver.explain(
            arguments.url,
            policy=grant.policy,
            gateways=grant.gateways,
            news_server=grant.news_server,
            strict=grant.strict,
            options=grant.options,
            environment=grant.environment,
            proxy=grant.proxy,
        )
        steps = [_with_line_ends(step) for step in plan.steps]
        return ToolAnswer(Record({**plan.as_json(), "steps": steps}))

    async def _check(self, arguments: Arguments) -> ToolAnswer:
        grant = self._grant
        verdict = resolver.check(
            arguments.url,
            policy=grant.policy,
            gateways=grant.gateways,
            environment=grant.environment,
            proxy=grant.proxy,
        )
        findings = [finding.as_json() for finding in verdict.findings]
        return ToolAnswer(Record({"action": verdict.action, "findings": findings}))


def _with_line_ends(step: Mapping[str, object]) -> dict[str, object]:
    """What is sent has its CR: who reads a plan wants to know."""
    octets = step.get("octets")
    return {**step, "octets": octets.replace("\r", "\\x0d")} if isinstance(octets, str) else dict(step)


def _given(page: ResultPage) -> ToolAnswer:
    """A page as an answer: entries are data, and stand in the record."""
    if isinstance(page.content, tuple):
        return ToolAnswer(page.held.record.with_page({**page.facts, "entries": list(page.content)}))
    return ToolAnswer(page.held.record.with_page(page.facts), page.content)


def _held(response: resolver.Response) -> StoredResult:
    record = Record(
        {
            "url": response.url,
            "requested_url": response.requested_url,
            "kind": str(response.kind),
            "media_type": response.media_type,
            "charset": response.charset,
            "size": len(response.content),
            "modified": None if response.modified is None else response.modified.isoformat(),
            "title": response.title,
            "target": response.target,
            "verified": response.verified,
            "findings": [finding.as_json() for finding in response.findings],
            "chain": response.chain,
        }
    )
    if response.entries is not None:
        entries = tuple(_entry(entry) for entry in response.entries)
        return StoredResult(
            record.with_page({"form": "entries"}), entries, sum(len(str(each)) for each in entries)
        )
    text = _text(response)
    if text is None:
        return StoredResult(record.with_page({"form": "binary"}), response.content, len(response.content))
    return StoredResult(record.with_page({"form": "text"}), text, 4 * len(text))


def _text(response: resolver.Response) -> str | None:
    """Safe to show; None for what is no text. What has no type is text if it reads like it."""
    text = response.text
    if text is None and response.media_type is None and b"\0" not in response.content:
        try:
            text = response.content.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return None if text is None else safe_text(text)


def _entry(entry: resolver.Entry) -> Record:
    """Where it leads and what is said of it; of very long names, the beginning."""
    whole = entry.as_json()
    record: dict[str, object] = {
        name: whole[name] for name in ("name", "url", "kind", "size", "modified", "title")
    }
    extra = {name: value for name, value in (entry.extra or {}).items() if value is not None}
    if extra and len(json.dumps(extra)) <= NAME:
        record["extra"] = extra
    for name in ("name", "title"):
        value = record[name]
        if isinstance(value, str):
            record[name] = cut(value, NAME)
    return Record(record)


def _misused(message: str) -> ToolAnswer:
    error = {"code": "BadArguments", "message": message}
    return ToolAnswer(Record({"url": None, "error": error, "exit": 2}), failed=True)


def _failed(error: resolver.ResolveError) -> ToolAnswer:
    """As the command has it with --json: the class, the words, the rule, and the exit status."""
    code = next(each.__name__ for each in type(error).__mro__ if each.__name__ in resolver.__all__)
    reason: dict[str, object] = {"code": code, "message": error.message}
    rule = "S01" if isinstance(error, resolver.InvalidUrl) else getattr(error, "rule", None)
    if rule is not None:
        reason["rule"] = rule
    record = {"url": error.url, "error": reason, "exit": error.exit_code, "retryable": error.retryable}
    return ToolAnswer(Record(record), failed=True)
