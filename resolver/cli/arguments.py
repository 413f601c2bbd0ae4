"""The command line, read into one `Command`.

A URL always has a colon and a verb never has, so the first word that is no option may be either, and is
refused if it can be neither; no verb means `get`. Values are checked here: what leaves this file can be
acted on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal

from resolver.cli.config import Configuration, load
from resolver.cli.grammar import parse
from resolver.cli.options import FETCH, LOCAL, CommandOptions, Option, rows
from resolver.cli.values import UsageError, pair, suggest_nearest
from resolver.cli.vocabulary import VERBS as TABLE
from resolver.policy.schemes import check_gateway

VERBS = frozenset(verb.name for verb in TABLE)
ONLINE = frozenset(verb.name for verb in TABLE if verb.online)


@dataclass(kw_only=True)
class Command(CommandOptions):
    """One command line: the words and the values of all options. Only this file changes one."""

    verb: str
    #: As typed.
    urls: tuple[str, ...]
    #: The source of the values that the command line does not have.
    configuration: Configuration
    #: The archive of which all files are wanted.
    extracts: str | None = None
    #: The URL in front of each scheme that has a gateway.
    gateways: dict[str, str] = field(default_factory=dict)

    @property
    def is_quiet(self) -> bool:
        """Return whether messages that are not errors are left out."""
        return self.quiet or self.is_silent

    @property
    def is_silent(self) -> bool:
        """Return whether errors of a URL are left out, also because its record on standard error has them."""
        return self.silent or self._has_records_on_stderr

    @property
    def _has_records_on_stderr(self) -> bool:
        return self.json and (self.verb == "cat" or (self.verb == "get" and self.output == "-"))

    @property
    def family(self) -> Literal["4", "6"] | None:
        """The one IP version to use."""
        return "4" if self.only_ipv4 else "6" if self.only_ipv6 else None

    @property
    def url_options(self) -> tuple[tuple[str, str], ...]:
        """The options that are put into the URL, by their names there."""
        named = (("search", self.search), ("view", self.view), ("type", self.type))
        return tuple((name, value) for name, value in named if value is not None)

    @property
    def walks(self) -> bool:
        """Return whether the URLs are the tops of trees, each file of which is saved by itself."""
        return self.verb == "get" and self.recursive and self.format is None


def read(argv: list[str]) -> Command | None:
    """The command, or None when `--version` was answered. Raises `UsageError`."""
    if argv[:1] == ["help"]:  # its words may be names of options
        return _help(argv[1:])
    if argv[:1] == ["ledger"]:  # whose list is for standard output unless it is sent elsewhere
        argv = ["--failed=-" if argument == "--failed" else argument for argument in argv]
    if argv[:1] == ["bulk"]:  # whose archives are where all else is
        argv = ["--warc=-" if argument == "--warc" else argument for argument in argv]
    end = argv.index("--") if "--" in argv else len(argv)
    for argument in argv:
        if "\0" in argument:
            raise UsageError(f"{argument!r}: an argument holds no NUL")
    for argument in argv[:end]:
        if argument.startswith("-") and argument.endswith("--"):  # argparse would lose this value
            raise UsageError(f"{argument!r}: -- is no value of an option")
    words, given = parse(argv[:end])
    words += argv[end + 1 :]
    if "version" in given:
        return None
    if "help" in given:
        return _help([word for word in words[:1] if word in VERBS])
    verb = _verb(words)
    if verb is None:
        return _command("get", words, given)
    if words[:2] == ["warc", "extract"]:
        return _extraction(words[2:], given)
    return _command(verb, words[1:], given)


def _extraction(words: list[str], given: dict[str, Any]) -> Command:
    """`warc extract FILE URL...` is `get` out of that archive, with all that goes with it."""
    if not words or "from_warc" in given:
        raise UsageError("warc extract takes one archive, and behind it URLs of what is wanted, if not all")
    archive, *urls = words
    extracts = None if urls or "lists" in given else archive
    return _command("get", urls, {**given, "from_warc": [archive]}, extracts)


def _help(words: list[str]) -> Command:
    """Whatever else stands there, and in the configuration: it may be what a person needs help with."""
    return _command("help", words, {"config": "none"})


def _apply_defaults(given: dict[str, Any], verb: str) -> tuple[dict[str, Any], Configuration]:
    """Give each option that nobody gave what the configuration says, else what it is without; those that
    may be repeated are joined. What means nothing to the verb is no default of it. Raises `UsageError`."""
    configuration = load(given.get("config"))
    values, sources = {}, {}
    for row in rows():
        name = row.name
        said = configuration.settings.get(name) if verb in (*row.verbs.split(), "config") else None
        sources[name] = _source(row, None if said is None else said.source, given=name in given)
        default: Any = row.unset if said is None else said.value
        values[name] = [*default, *given.get(name, ())] if row.many else given.get(name, default)
    return values, configuration._replace(sources=sources, given=given)


def _source(row: Option, of_file: str | None, *, given: bool) -> str:
    if of_file is None or (given and not row.many):
        return "the command line" if given else "default"
    return f"{of_file}, and the command line" if given else of_file


def _verb(words: list[str]) -> str | None:
    """The first word if it is a verb, None if it is a URL. Raises `UsageError` for what can be neither: most
    often it is a verb mistyped or a URL without its scheme, and neither is guessed."""
    if not words or ":" in words[0] or words[0].startswith("-"):
        return None
    if words[0] in VERBS:
        return words[0]
    from resolver.cli.hints import proposal  # few command lines need it

    url = proposal(words[0])
    meant = suggest_nearest(words[0].lower(), VERBS) if url is None else f"; did you mean {url} ?"
    raise UsageError(f"{words[0]!r} is no verb, and a URL has a colon: nothing was fetched{meant}")


def _command(verb: str, urls: list[str], given: dict[str, Any], extracts: str | None = None) -> Command:
    values, configuration = _apply_defaults(given, verb)
    command = Command(**values, verb=verb, urls=tuple(urls), configuration=configuration, extracts=extracts)
    if extracts is not None and command.recursive:
        raise UsageError("-r is for what is below a URL, and warc extract FILE is of all")
    _place_output(command)
    command.quiet = command.quiet or command.silent
    _check_words(command)
    if verb == "bulk":  # a list, and not what is in it
        command.lists, command.urls = [*urls, *command.lists], ()
        _check_bulk(command)
    _check_urls(command)
    _check_output(command)
    _check_trees(command)
    if command.only_ipv4 and command.only_ipv6:
        raise UsageError("-4 and -6 exclude one another")
    command.gateways = _gateways(command.gateway)
    return command


#: Names of standard output: opened anew, a file that it was sent to would be written from its beginning.
_STANDARD_OUTPUT = frozenset({"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})


def _place_output(command: Command) -> None:
    """`-O` of a directory is one for files, of standard output it is `-`."""
    if command.output in _STANDARD_OUTPUT:
        command.output = "-"
    elif command.output is not None and command.output.endswith("/"):
        command.directory = os.path.join(command.directory or "", command.output)
        command.output = None


#: What `warc` does, as its first word.
_OF_ARCHIVES = (("ls",), ("check",))


def _check_listening(command: Command) -> None:
    """Who serves others than this machine's has them reach nothing of it, and says how they are kept safe."""
    if command.listen is None and (command.insecure or command.listen_cert is not None):
        raise UsageError("--insecure and --listen-cert say how others are served: they take --listen")
    if command.insecure and command.listen_cert is not None:
        raise UsageError("--insecure is without TLS, and --listen-cert is for it: leave one of them out")
    if not listens_to_others(command):
        return
    if command.listen_cert is None and not command.insecure:
        needed = "--listen-cert FILE serves by TLS, and --insecure says that this is known"
        raise UsageError(
            f"whoever is on the way to {command.listen} would read the pages, and change them: {needed}"
        )
    if command.configuration.given.get("policy", "untrusted") != "untrusted":
        raise UsageError("--listen serves others: it has the policy untrusted")
    if command.file_root is not None:
        raise UsageError("--listen serves others: they get no files of this machine")
    command.policy = "untrusted"


def listens_to_others(command: Command) -> bool:
    """Is it for more than this machine?"""
    from ipaddress import ip_address  # few command lines serve

    return command.listen is not None and not ip_address(command.listen).is_loopback


#: What is for the way out, of which there is none.
_WAY_OUT = (
    *("warc", "proxy", "cert", "cacert", "tls", "only_ipv4", "only_ipv6", "user", "password_file", "netrc"),
    *(
        "netrc_file",
        "cookies",
        "mirrors",
        "segments",
        "rate",
        "tries",
        "retry_delay",
        "retry_all",
        "register",
    ),
)


def _check_archives(command: Command) -> None:
    """What comes from archives comes from nowhere else."""
    if command.at is not None and not command.from_warc:
        raise UsageError("--at chooses what was in an archive by then: it takes --from-warc")
    for row in rows() if command.from_warc else ():
        if row.name in _WAY_OUT and command.configuration.given.get(row.name) not in (None, False, []):
            raise UsageError(f"--from-warc sends nothing and keeps nothing: {row.long} says nothing there")


def _check_words(command: Command) -> None:
    verb, urls = command.verb, command.urls
    if verb == "schemes" and urls:
        raise UsageError("schemes takes no URL: it lists every scheme")
    if verb == "config" and len(urls) > 1:
        raise UsageError("config takes one URL, for what holds there, or none")
    if verb == "ledger" and (command.lists or len(urls) > 1 or not (urls or command.ledger)):
        raise UsageError("ledger takes one file: that which get --ledger FILE has written")
    if verb == "open" and (command.lists or len(urls) > 1):
        raise UsageError("open takes one URL: a person sits at one")
    if verb == "open" and (command.during is not None or command.until is not None or command.send):
        raise UsageError("--for, --until and --send are for nobody at a terminal: cat takes them")
    if verb == "warc" and (command.lists or urls[:1] not in _OF_ARCHIVES or len(urls) < 2):
        raise UsageError("warc takes what to do (ls, check, extract) and the files to do it with")
    if command.under is not None and urls[:1] != ("ls",):
        raise UsageError("--under chooses records of warc ls")
    _check_archives(command)
    if command.insecure and verb != "serve":  # elsewhere people know it for another thing
        raise UsageError("--insecure says how others are served: certificates are always looked at")
    if verb == "serve":
        _check_listening(command)
    if verb == "mcp" and (urls or command.lists):
        raise UsageError("mcp takes no URL: agents have them")
    if command.register and command.unregister:
        raise UsageError("--unregister undoes --register: leave one of them out")
    if verb == "serve" and (urls or command.lists):
        raise UsageError("serve takes no URL: browsers have them")


def _check_urls(command: Command) -> None:
    if (
        not command.urls
        and not command.lists
        and command.extracts is None
        and command.verb not in ("extract", "schemes", "mcp", "serve", "config", "ledger", "help")
    ):
        raise UsageError("a URL is needed (resolve --help shows what there is)")


def _check_output(command: Command) -> None:
    """What no file is made of is not to be looked for in one: `explain` is, for it says what `get` does."""
    verb = command.verb
    to_file = command.output is not None and command.output != "-"
    if command.configuration.given.get("warc_dedup") and command.warc is None:
        raise UsageError("--warc-dedup says what an archive need not have: it takes --warc")
    if verb in FETCH.split() and command.warc_cookies and command.warc is None:
        raise UsageError("--warc-cookies says what stays in an archive: it takes --warc")
    if verb not in ("get", "explain") and (to_file or command.directory is not None):
        raise UsageError(f"-O FILE and -d DIR are for get; what {verb} gives is on standard output")
    if command.html and command.json:
        raise UsageError("--html makes one page, and --json lines of objects: leave one of them out")
    if command.ledger is not None and (verb not in ("get", "ledger") or command.output == "-"):
        raise UsageError("--ledger keeps account of files: it is for get, and not with -O -")
    if command.ledger is not None and command.format is not None:
        raise UsageError("--ledger keeps account of files, and a mailbox is one that grows: leave it out")
    if command.ledger is not None and command.dry_run:
        raise UsageError("--ledger keeps account of what is done, and --dry-run does nothing")
    if to_file and len(command.urls) + len(command.lists) > 1:
        raise UsageError("-O FILE takes one URL; -d DIR is for several")
    if to_file and (command.host_directories or command.cut_dirs is not None):
        raise UsageError("--host-directories and --cut-dirs name files by their URLs, and -O FILE gives one")


def _check_trees(command: Command) -> None:
    """What says more of a tree is nothing without one; as a default of the configuration it may wait."""
    if command.recursive and command.output is not None and command.format is None:
        raise UsageError("-r makes many files, and -O FILE is one: -d DIR is for them")
    if command.format is not None and command.configuration.given.get("format") and not command.recursive:
        raise UsageError("--format is for all articles of a group: it takes -r")
    if command.format is not None:
        if command.dry_run or command.delete:
            raise UsageError("--format gathers articles: --dry-run and --delete are of files")
        command.entries = 0 if command.entries is None else command.entries
    if command.dry_run and command.output == "-":
        raise UsageError("--dry-run is of files, and -O - is none")
    for name in ("depth", "accept", "reject", "accept_regex"):
        if command.configuration.given.get(name) and not command.recursive:
            raise UsageError(f"--{name.replace('_', '-')} says which files of a tree: it takes -r")


def _gateways(texts: list[str]) -> dict[str, str]:
    if not texts:
        return {}
    try:
        return dict(check_gateway(*pair(text, "--gateway")) for text in texts)
    except ValueError as error:
        raise UsageError(f"--gateway {error}") from error


# bulk words: What a command line of `bulk` may say: what holds for one machine or one URL means nothing to
# many.

#: Slices that a process has at once: threads that wait for a loop.
THREADS = 16

#: Why a word that other verbs take means nothing over many machines.
_NOT_HERE = {
    "cookies": "one file of cookies is not for many machines",
    "user": "it is for places of the command line; --netrc is for those of a list",
    "password_file": "it is for places of the command line; --netrc is for those of a list",
    "rate": "it holds for one process, and here are many: --host-rate holds for all of them",
    "jobs": "--per-host says how many at once, and the workers are as many as they are",
    "output": "--out says where to",
    "directory": "--out says where to",
    "ledger": "each run keeps ledgers below --out",
    "exists": "what is whole is known by the ledgers below --out",
    "failed": "the outcomes below --out say what failed",
}


def _check_bulk(command: Command) -> None:
    """What means nothing to it is not passed over in silence: somebody may count on it. Raises
    `UsageError`."""
    if not command.lists:
        raise UsageError("bulk takes lists of URLs: files, - for standard input, or their URLs")
    for row in rows():
        if "bulk" not in row.verbs.split() and command.configuration.given.get(row.name) not in (
            None,
            False,
            [],
        ):
            why = f": {_NOT_HERE[row.name]}" if row.name in _NOT_HERE else ""
            raise UsageError(f"bulk does not take {row.long}{why}")
    command.warc = command.configuration.given.get("warc")  # a habit of other verbs is a file
    if command.warc not in (None, "-"):
        raise UsageError("bulk --warc takes no FILE: there is an archive of each worker, below --out")
    if command.parquet and command.jsonl:
        raise UsageError("--parquet and --jsonl exclude one another")
    if command.out is None and not command.dry_run:
        raise UsageError("bulk saves below --out, a directory or a URL; --dry-run says what it would do")


def is_local(scheduler: str) -> bool:
    return scheduler.partition(":")[0] == LOCAL


def is_encrypted(scheduler: str) -> bool:
    """Does nobody read what goes there? What stays on this machine is not to be read by others."""
    return is_local(scheduler) or scheduler.startswith("tls://")
