"""The command-line parser, which returns a `Command`.

The first argument that is not an option must be a URL or the name of a command. Any other first argument is
an error. A URL always contains a colon, and the name of a command never contains a colon. The default command
is `get`. This module checks all values, so a `Command` is always valid.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from resolver.cli.config import Configuration, load
from resolver.cli.grammar import parse
from resolver.cli.options import LOCAL, PROXY_POLICY, CommandOptions, Option, rows
from resolver.cli.own_files import WRITTEN_OPTIONS, OwnFiles
from resolver.cli.values import UsageError, pair, suggest_nearest
from resolver.cli.vocabulary import SHELLS, VERBS
from resolver.policy.schemes import check_gateway

VERB_NAMES = frozenset(verb.name for verb in VERBS)
ONLINE_NAMES = frozenset(verb.name for verb in VERBS if verb.online)


class Command(CommandOptions):
    """A parsed command line: its arguments, and the values of all options.

    Only this module changes the attributes.

    Attributes:
        urls: the URLs or other arguments after the command, as typed.
        extracts: the path of the archive to extract completely (`warc extract` without URLs).
        gateways: gateway URLs by scheme.
    """

    gateways: dict[str, str]

    def __init__(self, verb: str, urls: list[str], options: dict[str, Any], extracts: str | None) -> None:
        values, self.configuration = _apply_defaults(options, verb)
        vars(self).update(values)
        self.verb, self.urls, self.extracts = verb, tuple(urls), extracts

    @property
    def is_quiet(self) -> bool:
        """Return whether messages other than errors are suppressed."""
        return self.quiet or self.is_silent

    @property
    def is_silent(self) -> bool:
        """Return whether error messages about a URL are suppressed, or are in JSON on standard error."""
        return self.silent or self._has_records_on_stderr

    @property
    def _has_records_on_stderr(self) -> bool:
        return self.json and (self.verb == "cat" or (self.verb == "get" and self.output == "-"))

    @property
    def family(self) -> Literal["4", "6"] | None:
        """Return the only IP version to use, or None if both may be used."""
        return "4" if self.only_ipv4 else "6" if self.only_ipv6 else None

    @property
    def url_options(self) -> list[tuple[str, str]]:
        """Return the options that change the URL, by name: `search`, `view` and `type`."""
        values = (("search", self.search), ("view", self.view), ("type", self.type))
        return [(name, value) for name, value in values if value is not None]

    @cached_property
    def own_files(self) -> OwnFiles:
        """Return the files that the options of this run name."""
        return OwnFiles(self)

    @property
    def has_trees(self) -> bool:
        """Return whether the URLs are roots of trees (`-r`, `--glob`), with each file saved separately."""
        return self.verb == "get" and (self.recursive or self.glob) and self.format is None


def read(argv: list[str]) -> Command | None:
    """Parse the command line.

    Returns:
        The parsed command line, or None for `--version`.

    Raises:
        UsageError: the command line is not valid.
    """
    if argv[:1] == ["help"]:  # an argument of `help` may be the name of an option
        return _make_help(argv[1:])
    if argv[:1] == ["ledger"]:  # by default, `ledger --failed` writes to standard output
        argv = ["--failed=-" if argument == "--failed" else argument for argument in argv]
    if argv[:1] == ["bulk"]:  # `bulk --warc` has no FILE, because its archives are written below --out
        argv = ["--warc=-" if argument == "--warc" else argument for argument in argv]
    end = argv.index("--") if "--" in argv else len(argv)
    for argument in argv:
        if "\0" in argument:
            raise UsageError(f"argument {argument!r}: must not contain NUL")
    words, options = parse(argv[:end])
    words += argv[end + 1 :]
    if "version" in options:
        return None
    if "help" in options:
        return _make_help([word for word in words[:1] if word in VERB_NAMES])
    verb = _find_verb(words)
    if verb is None:
        return _make_command("get", words, options)
    if words[:2] == ["warc", "extract"]:
        return _make_extraction(words[2:], options)
    if verb in ("man", "completion"):  # these commands must work with an invalid configuration file
        options = {**options, "config": "none"}
    return _make_command(verb, words[1:], options)


def _make_extraction(words: list[str], options: dict[str, Any]) -> Command:
    """Convert `warc extract FILE URL...` to `get` with `--from-warc FILE`, with the options of `get`."""
    if not words or "from_warc" in options:
        raise UsageError("warc extract: expected ARCHIVE [URL]..., without --from-warc")
    archive, *urls = words
    extracts = None if urls or "lists" in options else archive
    return _make_command("get", urls, {**options, "from_warc": [archive]}, extracts)


def _make_help(words: list[str]) -> Command:
    """Return the help command. The configuration file is not read, because it may be invalid."""
    return _make_command("help", words, {"config": "none"})


def _apply_defaults(options: dict[str, Any], verb: str) -> tuple[dict[str, Any], Configuration]:
    """Return the values of all options, and the configuration with the source of each value.

    If an option is not on the command line, its value is the configured value, or else the default. For a
    repeatable option, values of the command line are appended to the configured values. If the command does
    not use an option, the configured value of the option is ignored. Raises `UsageError`.
    """
    configuration = load(options.get("config"))
    values, sources = {}, {}
    for row in rows():
        name = row.name
        setting = configuration.settings.get(name) if verb in (*row.verbs.split(), "config") else None
        sources[name] = _source(row, None if setting is None else setting.source, is_typed=name in options)
        default: Any = row.unset if setting is None else setting.value
        values[name] = [*default, *options.get(name, ())] if row.many else options.get(name, default)
    return values, configuration._replace(sources=sources, options=options)


def _source(row: Option, file_source: str | None, *, is_typed: bool) -> str:
    if file_source is None or (is_typed and not row.many):
        return "the command line" if is_typed else "default"
    return f"{file_source}, and the command line" if is_typed else file_source


def _find_verb(words: list[str]) -> str | None:
    """Return the first argument if it is the name of a command.

    The result is `None` if it is a URL.

    Raises `UsageError` for any other argument, such as a mistyped command or a URL without its scheme. The
    message suggests a correction, but the correction is never applied.
    """
    if not words or ":" in words[0] or words[0].startswith("-"):
        return None
    if words[0] in VERB_NAMES:
        return words[0]
    from resolver.cli.habits import ADVICE_BY_COMMAND
    from resolver.cli.hints import suggest_url  # lazy import: few command lines need it

    url, word = suggest_url(words[0]), words[0].lower()
    if url is not None:
        suggestion = f"; did you mean {url} ?"
    else:
        advice = ADVICE_BY_COMMAND.get(word)
        suggestion = suggest_nearest(word, VERB_NAMES) if advice is None else f"; {advice}"
    raise UsageError(
        f"{words[0]!r} is neither a command nor a URL (no colon): nothing was fetched{suggestion}"
    )


def _make_command(
    verb: str, urls: list[str], options: dict[str, Any], extracts: str | None = None
) -> Command:
    command = Command(verb, urls, options, extracts)
    if extracts is not None and command.recursive:
        raise UsageError("-r needs a URL: warc extract FILE without URLs extracts all")
    _place_output(command)
    command.quiet = command.quiet or command.silent
    command.gateways = _parse_gateways(command.gateway)
    if verb == "config":  # shows the settings of all commands, in any combination
        if len(urls) > 1:
            raise UsageError("config: expected at most one URL")
        return command
    _check_words(command)
    if verb == "bulk":  # the arguments of `bulk` are names of lists, not URLs
        command.lists, command.urls = [*urls, *command.lists], ()
        _check_bulk(command)
    elif verb == "get" and "-" in urls:
        command.lists = [*command.lists, *(url for url in urls if url == "-")]
        command.urls = tuple(url for url in urls if url != "-")
    _check_urls(command)
    _check_output(command)
    _check_attachments(command)
    _check_trees(command)
    for option, other, names in _EXCLUSIVE:
        if getattr(command, option) and getattr(command, other):
            raise UsageError(f"{names} cannot be combined")
    return command


#: Pairs of options that cannot be combined, and their names in the message.
_EXCLUSIVE = (
    ("only_ipv4", "only_ipv6", "-4 and -6"),
    ("html", "json", "--html and --json"),
    ("ledger", "format", "--ledger and --format"),
    ("ledger", "dry_run", "--ledger and --dry-run"),
    ("failed", "dry_run", "--failed and --dry-run"),
    ("mlsd", "nlst", "--mlsd and --nlst"),
    ("register", "unregister", "--register and --unregister"),
)

#: Paths that mean standard output. These paths are never opened. If standard output is redirected to a file,
#: a new open call would overwrite the file from its start.
_STANDARD_OUTPUT = frozenset({"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})


def _place_output(command: Command) -> None:
    """Convert `-O DIR/` to `-d DIR`, and a path of standard output in `-O` to `-`."""
    if command.output in _STANDARD_OUTPUT:
        command.output = "-"
    elif command.output is not None and command.output.endswith("/"):
        command.directory = os.path.join(command.directory or "", command.output)
        command.output = None


_WARC_SUBCOMMANDS = (("ls",), ("check",))


def _check_listening(command: Command) -> None:
    """Check the options of a server that listens on a non-loopback address.

    A server for other machines requires the policy `untrusted`, and cannot serve local files.
    """
    if command.listen is None and (command.insecure or command.listen_cert is not None):
        raise UsageError("--insecure and --listen-cert need --listen")
    if command.insecure and command.listen_cert is not None:
        raise UsageError("--insecure and --listen-cert cannot be combined")
    if not listens_to_others(command):
        return
    if command.listen_cert is None and not command.insecure:
        advice = "use --listen-cert FILE for TLS, or accept this with --insecure"
        raise UsageError(f"--listen {command.listen}: pages would be sent unencrypted ({advice})")
    if command.configuration.options.get("policy", "untrusted") != "untrusted":
        raise UsageError("--listen with a non-loopback address requires --policy untrusted")
    if command.file_root is not None:
        raise UsageError("--listen with a non-loopback address cannot be combined with --file-root")
    command.policy = "untrusted"


def _check_proxy(command: Command) -> None:
    """Check the options of `proxy`; the default policy is `untrusted`."""
    _reject_options(command, {})
    policy = command.configuration.options.get("policy", PROXY_POLICY)
    if listens_to_others(command) and policy != "untrusted":
        raise UsageError("--listen with a non-loopback address requires --policy untrusted")
    command.policy = policy


def _check_mcp(command: Command) -> None:
    """Check the options of `mcp`, which listens only on loopback: the token is sent unencrypted."""
    sources = command.configuration.sources
    if sources["listen"] != "the command line":  # `mcp` ignores a configured address, which is for `serve`
        command.listen = None
        if sources["port"] == "the command line":
            raise UsageError("mcp: --port needs --listen")
    if listens_to_others(command):
        raise UsageError("mcp: --listen needs a loopback address, such as 127.0.0.1")
    # Some options without an effect contain a secret, which an agent could send to any host.
    if command.configuration.options.get("policy", "untrusted") != "untrusted":
        raise UsageError("mcp does not take --policy: its policy is untrusted, and --allow-… overrides rules")
    _reject_options(command, {})


#: The senders of the URLs of each server command, and the check of its options.
_SENDERS = {
    "serve": ("browsers", _check_listening),
    "proxy": ("other programs", _check_proxy),
    "mcp": ("agents", _check_mcp),
}


def listens_to_others(command: Command) -> bool:
    """Return whether the address to listen on is not a loopback address."""
    from ipaddress import ip_address  # lazy import: few command lines are for `serve`

    return command.listen is not None and not ip_address(command.listen).is_loopback


def _typed_rows(command: Command) -> list[Option]:
    return [row for row in rows() if row.name in command.configuration.options]


def _reject_options(command: Command, reason_by_option: Mapping[str, str]) -> None:
    """Reject options that have no effect in the command, because the user may rely on them."""
    for row in _typed_rows(command):
        if command.verb not in row.verbs.split() and (row.name, command.verb) != ("policy", "mcp"):
            reason = f": {reason_by_option[row.name]}" if row.name in reason_by_option else ""
            raise UsageError(f"{command.verb} does not take {row.long}{reason}")


#: Options of outbound connections, which cannot be combined with `--from-warc`.
_OUTBOUND_OPTIONS = frozenset(
    {
        *("warc", "proxy", "cert", "cacert", "pin", "tls", "only_ipv4", "only_ipv6", "user", "password_file"),
        *("netrc", "netrc_file", "cookies", "mirrors", "segments", "rate", "tries"),
        *("retry_delay", "retry_all", "register"),
    }
)


def _check_archives(command: Command) -> None:
    """Reject options of outbound connections if the command reads archives. Raises `UsageError`."""
    if command.at is not None and not command.from_warc:
        raise UsageError("--at needs --from-warc")
    for row in _typed_rows(command) if command.from_warc else ():
        if row.name in _OUTBOUND_OPTIONS:
            raise UsageError(f"{row.long} cannot be combined with --from-warc, which sends nothing")


def _check_words(command: Command) -> None:
    verb, urls = command.verb, command.urls
    if verb == "schemes" and urls:
        raise UsageError("schemes does not take a URL: it lists all schemes")
    if verb == "man" and urls:
        raise UsageError("man does not take an argument")
    if verb == "completion" and (len(urls) != 1 or urls[0] not in SHELLS):
        raise UsageError(f"completion: expected one of {', '.join(SHELLS)}")
    if verb == "ledger" and (command.lists or len(urls) > 1 or not (urls or command.ledger)):
        raise UsageError("ledger: expected one file, as written by get --ledger FILE")
    if verb == "open" and (command.lists or len(urls) > 1):
        raise UsageError("open: expected one URL")
    if verb == "open" and (command.during is not None or command.until is not None or command.send):
        raise UsageError("open does not take --for, --until or --send (cat records sessions)")
    if verb == "warc" and (command.lists or urls[:1] not in _WARC_SUBCOMMANDS or len(urls) < 2):
        raise UsageError("warc: expected ls, check or extract, then files")
    if command.under is not None and urls[:1] != ("ls",):
        raise UsageError("--under needs warc ls")
    _check_archives(command)
    # Users of curl expect that --insecure disables the verification of certificates.
    if command.insecure and verb != "serve":
        raise UsageError("--insecure is only for serve: certificates are always verified")
    if verb in _SENDERS:
        sender, check = _SENDERS[verb]
        if urls or command.lists:
            raise UsageError(f"{verb} does not take a URL: {sender} send them")
        check(command)


def _check_urls(command: Command) -> None:
    verbs = ("extract", "schemes", "mcp", "serve", "proxy", "ledger", "man", "help")
    if command.configuration.options.get("null") and not command.lists:
        raise UsageError("--null needs a list (-i LIST, or - for standard input)")
    if not command.urls and not command.lists and command.extracts is None and command.verb not in verbs:
        if "://" in command.configuration.options.get("output", ""):  # curl has `-O URL`, without a name
            raise UsageError("missing URL: -O needs a name; without -O, the URL gives the name")
        if command.configuration.options.get("mirrors"):  # wget has `--mirror URL`
            raise UsageError("missing URL: --mirror names another location of the URL; -r saves a tree")
        raise UsageError("missing URL (see resolve --help)")


def _check_written_files(command: Command) -> None:
    """Check that two options do not write the same file, and that `-` is the file of `-O` only.

    Devices such as /dev/null may be repeated. `ledger --failed` writes to standard output without a file, and
    `bulk --warc` has no file.
    """
    names = {os.path.abspath(path): "FILE" for path in command.urls if command.verb == "ledger"}
    for name in ("output", *WRITTEN_OPTIONS):
        path: str | None = getattr(command, name)
        option = f"--{name.replace('_', '-')}"
        if path == "-" and name != "output" and command.verb not in ("ledger", "bulk"):
            raise UsageError(f"{option} -: expected a file name (for a file named -, use ./-)")
        if path is None or path == "-" or path.startswith("/dev/"):
            continue
        directory = command.directory if name == "output" else None
        path = os.path.abspath(os.path.join(directory or "", path))
        if (other := names.setdefault(path, option)) != option:
            raise UsageError(f"{other} and {option} name the same file")


def _check_output(command: Command) -> None:
    """Check the output options. `-O FILE` and `-d` are for `get`, and for `explain` to describe `get`."""
    verb, options = command.verb, command.configuration.options
    to_file = command.output is not None and command.output != "-"
    to_directory = command.directory is not None and not options.keys().isdisjoint(("directory", "output"))
    for name in ("warc_size", "warc_dedup", "warc_cookies") if command.warc is None else ():
        if options.get(name):
            raise UsageError(f"--{name.replace('_', '-')} needs --warc")
    if verb not in ("get", "explain") and (to_file or to_directory):
        raise UsageError(f"-O FILE and -d DIR are for get: {verb} writes to standard output")
    if verb == "get" and options.get("separator") and command.output != "-":
        raise UsageError("--separator is for bodies on standard output: it needs cat, or -O -")
    _check_written_files(command)
    if command.ledger is not None and (verb not in ("get", "ledger") or command.output == "-"):
        raise UsageError("--ledger records files: it is for get, without -O -")
    if to_file and len(command.urls) + len(command.lists) > 1:
        raise UsageError("-O FILE: expected one URL (for several use -d DIR)")
    if options.get("mirrors") and (command.lists or command.has_trees or len(command.urls) > 1):
        raise UsageError("--mirror: expected one URL (the option names another location of one file)")
    if to_file and (command.host_directories or command.cut_dirs is not None):
        raise UsageError("--host-directories and --cut-dirs cannot be combined with -O FILE")


#: Options of `get` that are valid only for a single file, with a name from its URL.
_ONE_FILE_OPTIONS = frozenset(
    {
        *("output", "directory", "recursive", "ledger", "dry_run"),
        *("meta", "checksum", "mirrors", "host_directories", "cut_dirs"),
    }
)


def _check_attachments(command: Command) -> None:
    if command.attachments is None:
        if command.configuration.options.get("parts") and command.verb == "get":
            raise UsageError("--parts needs --attachments")
        return
    if command.verb != "get":
        raise UsageError("--attachments is only for get")
    for row in _typed_rows(command):
        if row.name in _ONE_FILE_OPTIONS:
            raise UsageError(f"--attachments cannot be combined with {row.long}")
    if command.exists in ("resume", "newer"):
        raise UsageError(f"--attachments cannot be combined with --exists {command.exists}")


def _check_trees(command: Command) -> None:
    """Check that tree options have `-r`; without `-r`, a configured value is ignored."""
    if command.configuration.options.get("recursive") and command.verb in ("cat", "ls", "info"):
        raise UsageError(f"-r is for get: {command.verb} does not read the directories below a URL")
    if command.recursive and command.output is not None and command.format is None:
        raise UsageError("-r saves several files: cannot write them to -O FILE (use -d DIR)")
    if command.format is not None and command.configuration.options.get("format") and not command.recursive:
        raise UsageError("--format needs -r: it saves all articles of a group")
    if command.format is not None:
        if command.dry_run or command.delete:
            raise UsageError("--format cannot be combined with --dry-run or --delete")
        command.entries = 0 if command.entries is None else command.entries
    if command.dry_run and command.output == "-":
        raise UsageError("--dry-run cannot be combined with -O -")
    for name in ("recursive", "delete", "output", "format", "follow") if command.glob else ():
        if command.configuration.options.get(name):
            raise UsageError(f"--glob and --{name} cannot be combined")
    for name in ("depth", "accept", "reject", "accept_regex", "delete"):
        if command.configuration.options.get(name) and not command.recursive:
            raise UsageError(f"--{name.replace('_', '-')} needs -r")


def _parse_gateways(texts: list[str]) -> dict[str, str]:
    if not texts:
        return {}
    try:
        return dict(check_gateway(*pair(text, "--gateway")) for text in texts)
    except ValueError as error:
        raise UsageError(f"--gateway {error}") from error


# The command line of `bulk`. Options for one process or one URL are rejected, because a cluster cannot apply
# them.

#: The number of slices (groups of requests) that a worker process runs concurrently. Each slice blocks one
#: thread until an event loop has performed the requests.
THREADS = 16

#: The reason why an option of other commands is not valid for `bulk`, by option name.
_REASON_BY_OPTION = {
    "cookies": "a cookie file cannot be shared by several machines",
    "user": "it is for hosts of the command line (for hosts of a list use --netrc)",
    "password_file": "it is for hosts of the command line (for hosts of a list use --netrc)",
    "rate": "it limits one process (to limit all use --host-rate)",
    "jobs": "concurrency depends on --per-host and the number of workers",
    "output": "use --out DIR",
    "directory": "use --out DIR",
    "ledger": "each run writes ledgers below --out",
    "exists": "the ledgers below --out record complete files",
    "failed": "the outcomes below --out include failures",
}


def _check_bulk(command: Command) -> None:
    if not command.lists:
        raise UsageError("bulk: expected lists of URLs (files, - for standard input, or URLs)")
    _reject_options(command, _REASON_BY_OPTION)
    if any(text.startswith("quota=") for text in command.limit):
        raise UsageError("bulk does not take --limit quota: it limits one process")
    # The configured value of `warc` is ignored, because the value is a file path for other commands.
    command.warc = command.configuration.options.get("warc")
    if command.warc not in (None, "-"):
        raise UsageError("bulk --warc: expected no FILE (each worker writes an archive below --out)")
    if command.parquet and command.jsonl:
        raise UsageError("--parquet and --jsonl cannot be combined")
    if command.out is None and not command.dry_run:
        raise UsageError("bulk needs --out (a directory or a URL), or --dry-run")


def is_local(scheduler: str) -> bool:
    return scheduler.partition(":")[0] == LOCAL


def is_encrypted(scheduler: str) -> bool:
    """Return whether the connection to the scheduler is safe from eavesdropping: local, or with TLS."""
    return is_local(scheduler) or scheduler.startswith("tls://")
