"""The command line, read into one frozen `Command`.

A URL always has a colon and a verb never has, so the first word that is no option may be either, and is
refused if it can be neither; no verb means `get`. Values are checked here: what leaves this file can be
acted on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from resolver.cli.config import Configuration
from resolver.cli.options import FETCH, LOCAL, Found, Option, rows
from resolver.cli.values import UsageError, nearest, pair
from resolver.cli.vocabulary import VERBS as TABLE

if TYPE_CHECKING:
    from protocols.contract import Origin
    from resolver.transfer.saving import Exists


VERBS = frozenset(verb.name for verb in TABLE)
ONLINE = frozenset(verb.name for verb in TABLE if verb.online)


class Command(NamedTuple):
    """One command line. `urls` are as typed; `lists` are files with more of them. What `found` says of
    policy and limits, `permissions` and `bounds` read: parsing has no use for it. `configuration` is where
    the rest of it comes from."""

    verb: str
    urls: tuple[str, ...]
    lists: tuple[str, ...]
    output: str | None
    directory: str | None
    exists: Exists
    jobs: int
    json: bool
    quiet: bool
    silent: bool
    verbose: bool
    trace: str | None
    strict: bool
    origin: Origin
    referrer: str | None
    gateways: dict[str, str]
    cafile: str | None
    family: Literal["4", "6"] | None
    url_options: tuple[tuple[str, str], ...]
    found: Found
    configuration: Configuration
    #: The archive of which all files are wanted.
    extracts: str | None

    @property
    def walks(self) -> bool:
        """Is what it names the tops of trees, each file of which is saved by itself?"""
        return self.verb == "get" and self.found.recursive and self.found.format is None


def read(argv: list[str]) -> Command | None:
    """The command, or None when `--version` was answered. Raises `UsageError`."""
    if argv[:1] == ["help"]:  # its words may be names of options
        return _help(tuple(argv[1:]))
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
    heard = _read_plain(argv[:end]) or _read_options(argv[:end])
    words, found = (*heard[0], *argv[end + 1 :]), heard[1]
    if hasattr(found, "version"):
        return None
    if hasattr(found, "help"):
        return _help(tuple(word for word in words[:1] if word in VERBS))
    verb = _verb(words)
    if verb is None:
        return _command("get", words, found, _completed(found, "get"))
    if words[:2] == ("warc", "extract"):
        return _extraction(words[2:], found)
    return _command(verb, words[1:], found, _completed(found, verb))


def _extraction(words: tuple[str, ...], found: Found) -> Command:
    """`warc extract FILE URL...` is `get` out of that archive, with all that goes with it."""
    if not words or hasattr(found, "from_warc"):
        raise UsageError("warc extract takes one archive, and behind it URLs of what is wanted, if not all")
    found.from_warc = [words[0]]
    completed = _completed(found, "get")
    if len(words) > 1 or found.lists:
        return _command("get", words[1:], found, completed)
    if found.recursive:
        raise UsageError("-r is for what is below a URL, and warc extract FILE is of all")
    return _command("get", (), found, completed, extracts=words[0])


def _help(words: tuple[str, ...]) -> Command:
    """Whatever else stands there, and in the configuration: it may be what a person needs help with."""
    found = Found(config="none")
    return _command("help", words, found, _completed(found, "help"))


def _completed(found: Found, verb: str) -> Configuration:
    """Give each option that nobody gave what the configuration says, else what it is without; those that
    may be repeated are joined. What means nothing to the verb is no default of it. Raises `UsageError`."""
    from resolver.cli.config import load

    configuration = load(getattr(found, "config", None))
    sources, before = {}, dict(vars(found))
    for row in rows():
        name = row.name
        said = configuration.settings.get(name) if verb in (*row.verbs.split(), "config") else None
        given = hasattr(found, name)
        sources[name] = _source(row, None if said is None else said.source, given=given)
        default: Any = row.unset if said is None else said.value
        if not given:
            setattr(found, name, default)
        elif row.many:
            setattr(found, name, [*default, *getattr(found, name)])
    return configuration._replace(sources=sources, given=before)


def _source(row: Option, of_file: str | None, *, given: bool) -> str:
    if of_file is None or (given and not row.many):
        return "the command line" if given else "default"
    return f"{of_file}, and the command line" if given else of_file


def _verb(words: tuple[str, ...]) -> str | None:
    """The first word if it is a verb, None if it is a URL. Raises `UsageError` for what can be neither: most
    often it is a verb mistyped or a URL without its scheme, and neither is guessed."""
    if not words or ":" in words[0] or words[0].startswith("-"):
        return None
    if words[0] in VERBS:
        return words[0]
    from resolver.cli.hints import proposal  # few command lines need it

    url = proposal(words[0])
    meant = nearest(words[0].lower(), VERBS) if url is None else f"; did you mean {url} ?"
    raise UsageError(f"{words[0]!r} is no verb, and a URL has a colon: nothing was fetched{meant}")


def _read_plain(argv: list[str]) -> tuple[list[str], Found] | None:
    """The words and the switches; None where there is an option that takes a value, or none of the table.
    What asks for nothing special should not wait for argparse, which takes longer than a plan."""
    switches = {flag: row for row in rows() if row.takes is None for flag in row.flags}
    words, found = [], Found()
    for argument in argv:
        if argument in switches:
            switches[argument].turn_on(found)
        elif argument.startswith("-") and argument != "-":
            return None
        else:
            words.append(argument)
    return words, found


def _read_options(argv: list[str]) -> tuple[list[str], Found]:
    """The words and the options. Raises `UsageError`."""
    from resolver.cli.grammar import BadCommandLine, parse

    try:
        return parse(argv)
    except BadCommandLine as error:
        raise UsageError(f"{error} (resolve --help shows what there is)") from error


def _command(
    verb: str,
    urls: tuple[str, ...],
    found: Found,
    configuration: Configuration,
    extracts: str | None = None,
) -> Command:
    _place_output(found)
    found.quiet = found.quiet or found.silent
    _check_words(verb, urls, found, configuration)
    if verb == "bulk":  # a list, and not what is in it
        found.lists, urls = [*urls, *found.lists], ()

        check(found, configuration)
    if extracts is None:
        _check_urls(verb, urls, found)
    _check_output(verb, urls, found, configuration)
    _check_trees(found, configuration)
    if found.only_ipv4 and found.only_ipv6:
        raise UsageError("-4 and -6 exclude one another")
    silent = found.silent or _records_to_stderr(verb, found)
    return Command(
        verb=verb,
        urls=urls,
        lists=tuple(found.lists),
        output=found.output,
        directory=found.directory,
        exists=found.exists,
        jobs=found.jobs,
        json=found.json,
        quiet=found.quiet or silent,
        silent=silent,
        verbose=found.verbose,
        trace=found.trace,
        strict=found.strict,
        origin=cast("Origin", found.origin),
        referrer=found.referrer,
        gateways=_gateways(found.gateway),
        cafile=found.cacert,
        family="4" if found.only_ipv4 else "6" if found.only_ipv6 else None,
        url_options=tuple(
            (name, value)
            for name, value in (("search", found.search), ("view", found.view), ("type", found.type))
            if value is not None
        ),
        found=found,
        configuration=configuration,
        extracts=extracts,
    )


#: Names of standard output: opened anew, a file that it was sent to would be written from its beginning.
_STANDARD_OUTPUT = frozenset({"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})


def _place_output(found: Found) -> None:
    """`-O` of a directory is one for files, of standard output it is `-`."""
    if found.output in _STANDARD_OUTPUT:
        found.output = "-"
    elif found.output is not None and found.output.endswith("/"):
        found.directory = os.path.join(found.directory or "", found.output)
        found.output = None


def _records_to_stderr(verb: str, found: Found) -> bool:
    """Is standard error for records, which say all that a message would?"""
    return bool(found.json) and (verb == "cat" or (verb == "get" and found.output == "-"))


#: What `warc` does, as its first word.
_OF_ARCHIVES = (("ls",), ("check",))


def _check_listening(found: Found, configuration: Configuration) -> None:
    """Who serves others than this machine's has them reach nothing of it, and says how they are kept safe."""
    if found.listen is None and (found.insecure or found.listen_cert is not None):
        raise UsageError("--insecure and --listen-cert say how others are served: they take --listen")
    if found.insecure and found.listen_cert is not None:
        raise UsageError("--insecure is without TLS, and --listen-cert is for it: leave one of them out")
    if not listens_to_others(found):
        return
    if found.listen_cert is None and not found.insecure:
        needed = "--listen-cert FILE serves by TLS, and --insecure says that this is known"
        raise UsageError(
            f"whoever is on the way to {found.listen} would read the pages, and change them: {needed}"
        )
    if configuration.given.get("policy", "untrusted") != "untrusted":
        raise UsageError("--listen serves others: it has the policy untrusted")
    if found.file_root is not None:
        raise UsageError("--listen serves others: they get no files of this machine")
    found.policy = "untrusted"


def listens_to_others(found: Found) -> bool:
    """Is it for more than this machine?"""
    from ipaddress import ip_address  # few command lines serve

    return found.listen is not None and not ip_address(found.listen).is_loopback


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


def _check_archives(found: Found, configuration: Configuration) -> None:
    """What comes from archives comes from nowhere else."""
    if found.at is not None and not found.from_warc:
        raise UsageError("--at chooses what was in an archive by then: it takes --from-warc")
    for row in rows() if found.from_warc else ():
        if row.name in _WAY_OUT and configuration.given.get(row.name) not in (None, False, []):
            raise UsageError(f"--from-warc sends nothing and keeps nothing: {row.long} says nothing there")


def _check_words(verb: str, urls: tuple[str, ...], found: Found, configuration: Configuration) -> None:
    if verb == "schemes" and urls:
        raise UsageError("schemes takes no URL: it lists every scheme")
    if verb == "config" and len(urls) > 1:
        raise UsageError("config takes one URL, for what holds there, or none")
    if verb == "ledger" and (found.lists or len(urls) > 1 or not (urls or found.ledger)):
        raise UsageError("ledger takes one file: that which get --ledger FILE has written")
    if verb == "open" and (found.lists or len(urls) > 1):
        raise UsageError("open takes one URL: a person sits at one")
    if verb == "open" and (found.during is not None or found.until is not None or found.send):
        raise UsageError("--for, --until and --send are for nobody at a terminal: cat takes them")
    if verb == "warc" and (found.lists or urls[:1] not in _OF_ARCHIVES or len(urls) < 2):
        raise UsageError("warc takes what to do (ls, check, extract) and the files to do it with")
    if found.under is not None and urls[:1] != ("ls",):
        raise UsageError("--under chooses records of warc ls")
    _check_archives(found, configuration)
    if found.insecure and verb != "serve":  # elsewhere people know it for another thing
        raise UsageError("--insecure says how others are served: certificates are always looked at")
    if verb == "serve":
        _check_listening(found, configuration)
    if verb == "mcp" and (urls or found.lists):
        raise UsageError("mcp takes no URL: agents have them")
    if found.register and found.unregister:
        raise UsageError("--unregister undoes --register: leave one of them out")
    if verb == "serve" and (urls or found.lists):
        raise UsageError("serve takes no URL: browsers have them")


def _check_urls(verb: str, urls: tuple[str, ...], found: Found) -> None:
    if (
        not urls
        and not found.lists
        and verb not in ("extract", "schemes", "mcp", "serve", "config", "ledger", "help")
    ):
        raise UsageError("a URL is needed (resolve --help shows what there is)")


def _check_output(verb: str, urls: tuple[str, ...], found: Found, configuration: Configuration) -> None:
    """What no file is made of is not to be looked for in one: `explain` is, for it says what `get` does."""
    to_file = found.output is not None and found.output != "-"
    if configuration.given.get("warc_dedup") and found.warc is None:
        raise UsageError("--warc-dedup says what an archive need not have: it takes --warc")
    if verb in FETCH.split() and found.warc_cookies and found.warc is None:
        raise UsageError("--warc-cookies says what stays in an archive: it takes --warc")
    if verb not in ("get", "explain") and (to_file or found.directory is not None):
        raise UsageError(f"-O FILE and -d DIR are for get; what {verb} gives is on standard output")
    if found.html and found.json:
        raise UsageError("--html makes one page, and --json lines of objects: leave one of them out")
    if found.ledger is not None and (verb not in ("get", "ledger") or found.output == "-"):
        raise UsageError("--ledger keeps account of files: it is for get, and not with -O -")
    if found.ledger is not None and found.format is not None:
        raise UsageError("--ledger keeps account of files, and a mailbox is one that grows: leave it out")
    if found.ledger is not None and found.dry_run:
        raise UsageError("--ledger keeps account of what is done, and --dry-run does nothing")
    if to_file and len(urls) + len(found.lists) > 1:
        raise UsageError("-O FILE takes one URL; -d DIR is for several")
    if to_file and (found.host_directories or found.cut_dirs is not None):
        raise UsageError("--host-directories and --cut-dirs name files by their URLs, and -O FILE gives one")


def _check_trees(found: Found, configuration: Configuration) -> None:
    """What says more of a tree is nothing without one; as a default of the configuration it may wait."""
    if found.recursive and found.output is not None and found.format is None:
        raise UsageError("-r makes many files, and -O FILE is one: -d DIR is for them")
    if found.format is not None and configuration.given.get("format") and not found.recursive:
        raise UsageError("--format is for all articles of a group: it takes -r")
    if found.format is not None:
        if found.dry_run or found.delete:
            raise UsageError("--format gathers articles: --dry-run and --delete are of files")
        found.entries = 0 if found.entries is None else found.entries
    if found.dry_run and found.output == "-":
        raise UsageError("--dry-run is of files, and -O - is none")
    for name in ("depth", "accept", "reject", "accept_regex"):
        if configuration.given.get(name) and not found.recursive:
            raise UsageError(f"--{name.replace('_', '-')} says which files of a tree: it takes -r")


def _gateways(texts: list[str]) -> dict[str, str]:
    if not texts:
        return {}
    from resolver.policy.schemes import check_gateway  # few command lines have one

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


def check(found: Found, configuration: Configuration) -> None:
    """What means nothing to it is not passed over in silence: somebody may count on it. Raises
    `UsageError`."""
    if not found.lists:
        raise UsageError("bulk takes lists of URLs: files, - for standard input, or their URLs")
    for row in rows():
        if "bulk" not in row.verbs.split() and configuration.given.get(row.name) not in (None, False, []):
            why = f": {_NOT_HERE[row.name]}" if row.name in _NOT_HERE else ""
            raise UsageError(f"bulk does not take {row.long}{why}")
    found.warc = configuration.given.get("warc")  # a habit of other verbs is a file
    if found.warc not in (None, "-"):
        raise UsageError("bulk --warc takes no FILE: there is an archive of each worker, below --out")
    if found.parquet and found.jsonl:
        raise UsageError("--parquet and --jsonl exclude one another")
    if found.out is None and not found.dry_run:
        raise UsageError("bulk saves below --out, a directory or a URL; --dry-run says what it would do")


def is_local(scheduler: str) -> bool:
    return scheduler.partition(":")[0] == LOCAL


def is_encrypted(scheduler: str) -> bool:
    """Does nobody read what goes there? What stays on this machine is not to be read by others."""
    return is_local(scheduler) or scheduler.startswith("tls://")
