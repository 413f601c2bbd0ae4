"""The contract of the command line, checked against the bundled servers.

The tables are in `contract`. Signals and closed output pipes are tested in
`tests/faults/test_interruption.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from protocols.location import Origin
from protocols.text import Masked
from resolver import Connected, Finding, Finished, Kept, Progress, Received, Retrying, Sent, Started, Warned
from resolver.cli import trace as watcher
from resolver.cli.arguments import read
from resolver.cli.options import CommandOptions, Option, rows
from resolver.cli.targets import CommandTarget
from resolver.cli.trace import Watcher
from resolver.files.commit import Sync
from resolver.network.events import Listener, select_listener
from resolver.policy.settings import Name
from resolver.transfer.saving import Exists
from resolver.transfer.verification import Checksum
from tests.resolver.cli import contract
from tests.resolver.cli.command import Done, records, resolve
from tests.resolver.cli.contract import End

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def run(end: End, at: dict[str, str], *more: str) -> Done:
    return resolve(end.verb, *end.options, "-t", "1", *more, end.url.format_map(at))


# --- records


@pytest.mark.parametrize("url", contract.COMPONENTS)
def test_parse_json_members_match_contract(url: str) -> None:
    (record,) = resolve("parse", "--json", url).records
    assert set(record) == contract.COMMON | contract.COMPONENTS[url]
    assert (record["url"], record["fragment"], record["findings"]) == (url, None, [])


def test_json_maps_each_byte_to_one_character() -> None:
    (record,) = resolve("parse", "--json", "ftp://h.example/%00%FF%0A%C3%A9").records
    assert record["name"] == "\x00\xff\n\xc3\xa9"
    (plan,) = resolve("explain", "--json", "ftp://u:p@h.example/%FF%C3%A9").records
    message = [step["octets"] for step in plan["steps"] if step["action"] == "send"]
    assert message[-1] == "RETR \xff\xc3\xa9\r\n"
    assert "PASS ****\r\n" in message


def test_parse_json_members_of_invalid_url() -> None:
    done = resolve("parse", "--json", "http://u:secret@h.example/ ")
    (record,) = done.records
    assert (done.status, done.err) == (12, b"")
    assert tuple(record) == ("url", "error", "message", "position")
    assert (record["error"], record["position"]) == ("bad-char", 26)
    assert "secret" not in done.out.decode()


@pytest.mark.parametrize("url", [*contract.DOCUMENTS, *contract.LISTINGS, *contract.SHOWN])
def test_info_and_ls_json_members_match_contract(url: str, at: dict[str, str]) -> None:
    done = resolve("info", "-q", "--json", url.format_map(at))
    listed = resolve("ls", "-q", "--json", url.format_map(at))
    assert (done.status, done.err) == (0, b"")
    assert listed.status == (0 if url in contract.LISTINGS else 8)
    entries = listed.records
    if listed.status:
        assert tuple(entries.pop()) == contract.FAILURE
    for entry in (*done.records, *entries):
        assert tuple(entry) == contract.ENTRY
        assert entry["kind"] in contract.KINDS
        assert entry["modified"] is None or INSTANT.fullmatch(entry["modified"])
        assert isinstance(entry["name"], str)
        assert entry["raw"] is None or all(ord(character) < 256 for character in entry["raw"])
        assert entry["referrer"] is None or len(entry["referrer"]) == 2
    assert {entry["origin"] for entry in done.records} == {"user"}
    if url.startswith(("{ftp}", "{file}", "{nntp}")) and entries:
        child = entries[-1]  # both outputs have the same name
        (alone,) = resolve("info", "-q", "--json", child["url"]).records
        assert (alone["name"], alone["title"]) == (child["name"], child["title"])
    assert {entry["origin"] for entry in entries} <= {"derived"}


@pytest.mark.parametrize(
    ("url", "way"),
    [
        ("{nntp}/comp.misc", "{nntp}/comp.misc/"),
        ("{news}/comp.misc", "{nntp}/comp.misc/"),
        ("news:comp.misc", "news:"),
        ("{news}/", "{nntp}/"),
        ("news:*", "news:"),
    ],
)
def test_ls_children_keep_scheme_and_server_of_parent(url: str, way: str, at: dict[str, str]) -> None:
    done = resolve("ls", "-q", "--json", "--news-server", at["news_server"], url.format_map(at))
    urls = [entry["url"] for entry in done.records]
    assert len(urls) == (4 if "comp.misc" in url else 5)
    assert [child for child in urls if not child.startswith(way.format_map(at))] == []


def test_extract_json_members_match_contract() -> None:
    octets = b"<URL:ftp://h.example/a-\nb> <http://h.exa\n mple/>"
    done = resolve("extract", "--json", stdin=octets)
    assert done.records == [
        {"url": "ftp://h.example/a-b", "alternates": ["ftp://h.example/ab"]},
        {"url": "http://h.example/", "alternates": []},
    ]
    assert resolve("extract", "-i", "-", stdin=octets) == resolve("extract", stdin=octets)


def test_schemes_json_members_match_contract() -> None:
    listed = resolve("schemes", "--json", "--gateway", "x-foo=http://h.example/?").records
    assert {tuple(scheme) for scheme in listed} == {contract.SCHEME}
    assert {scheme["origin"] for scheme in listed} == {"built-in", "gateway", "reserved"}
    assert {scheme["scheme"]: scheme["default_port"] for scheme in listed}["gophers"] == 70


@pytest.mark.parametrize("url", [*contract.DOCUMENTS, *contract.LISTINGS, *contract.SHOWN])
def test_explain_json_members_match_contract(url: str, at: dict[str, str]) -> None:
    done = resolve("explain", "--json", url.format_map(at))
    (plan,) = done.records
    assert (done.status, done.err) == (0, b"")
    assert tuple(plan) == contract.PLAN
    assert plan["verdict"] in ("allow", "warn")
    for step in plan["steps"]:
        assert set(step) == contract.STEP[step["action"]]
    assert_findings(plan["findings"])


def assert_findings(findings: list[dict[str, Any]]) -> None:
    for finding in findings:
        assert tuple(finding) == ("rule", "action", "detail")
        assert finding["action"] in ("allow", "warn", "refuse")
        assert not finding["detail"].startswith(finding["rule"])


@pytest.mark.parametrize("url", contract.DOCUMENTS)
def test_get_json_members_match_contract(url: str, at: dict[str, str], folder: Path) -> None:
    target = url.format_map(at)
    done = resolve("get", "--json", "-O", "x", target)
    (saved,) = done.records
    assert (done.status, tuple(saved)) == (0, contract.OUTCOME)
    assert (saved["url"], saved["status"], saved["exit"], saved["error"]) == (target, "done", 0, None)
    assert (saved["path"], saved["bytes"]) == ("x", len(contract.DOCUMENTS[url]))
    assert saved["digest"] == f"sha256:{hashlib.sha256(contract.DOCUMENTS[url]).hexdigest()}"
    assert set(saved["verified"]) <= contract.PROOFS
    assert saved["modified"] is None or INSTANT.fullmatch(saved["modified"])
    assert_findings(saved["findings"])
    for argv in (["cat", "--json"], ["-O", "-", "--json"]):
        shown = resolve(*argv, target)
        assert (shown.status, shown.out) == (0, contract.DOCUMENTS[url])
        (record,) = records(shown.err)
        assert (tuple(record), record["path"], record["digest"]) == (contract.OUTCOME, None, saved["digest"])


# --- exit statuses


@pytest.mark.parametrize("end", contract.ENDS, ids=lambda end: f"{end.status}-{end.url}")
def test_failure_has_expected_status_and_error(end: End, at: dict[str, str], folder: Path) -> None:
    done = run(end, at, "--json")
    (outcome,) = done.records if end.verb == "get" else records(done.err)
    assert (done.status, outcome["exit"]) == (end.status, end.status), outcome
    assert tuple(outcome) == contract.OUTCOME
    refused = end.status in (9, 12, 13, 15)
    assert outcome["status"] == ("refused" if refused else "failed")
    assert (outcome["error"]["code"], outcome["error"].get("rule")) == (end.code, end.rule)
    assert_findings(outcome["findings"])
    if end.rule is not None:
        assert (end.rule, "refuse") in {(each["rule"], each["action"]) for each in outcome["findings"]}
    assert outcome["path"] is None
    assert os.listdir(folder) == []


def test_contract_covers_every_exit_status() -> None:
    assert {end.status for end in contract.ENDS} == set(range(2, 16))


@pytest.mark.parametrize("end", contract.ENDS[::3], ids=str)
def test_error_message_names_rule(end: End, at: dict[str, str], folder: Path) -> None:
    done = run(end, at)
    assert done.status == end.status
    assert done.messages.startswith("resolve: ")
    if end.rule not in (None, "S01"):
        assert str(end.rule) in done.messages


def test_quiet_prints_only_errors(at: dict[str, str], folder: Path) -> None:
    for end in contract.ENDS[::4]:
        aloud = run(end, at).messages.splitlines()
        quiet = run(end, at, "-q").messages.splitlines()
        warned = [line for line in aloud if "warning (" in line or "; retry in " in line]
        assert quiet == [line for line in aloud if line not in warned]
        assert quiet


@pytest.mark.parametrize("words", [["-qq"], ["-q", "-q"], ["--silent"], ["-q", "--quiet"], ["-qqj", "2"]])
def test_quiet_twice_prints_nothing(words: list[str], at: dict[str, str], folder: Path) -> None:
    for end in contract.ENDS[::4]:
        done = run(end, at, *words)
        assert (done.status, done.err) == (end.status, b"")
    for verb in ("get", "parse"):
        broken = resolve(verb, *words, "-i", "-", stdin=b'{"no": "url"}\n')
        assert (broken.status, broken.err) == (3, b"")


def test_warning_is_printed_once_per_url(at: dict[str, str], folder: Path) -> None:
    """Retries and other requests for the same URL do not repeat the warning."""
    closed = f"{at['closed'].replace('http:', 'ftp:')}/x"
    patience = ["-t", "4", "--retry-delay", "0.001", "--retry-all"]
    done = resolve("get", *patience, "--allow-server-name", closed, f"{closed}y", closed)
    warned = [line for line in done.messages.splitlines() if "warning (S04)" in line]
    assert sorted(line.split(": ")[1] for line in warned) == [closed, f"{closed}y"]
    assert done.messages.count("; retry in ") == 9
    assert resolve("get", "-q", *patience, closed).messages.count("\n") == 1


def make_watcher(*options: str) -> Watcher:
    command = read(["get", *options, "http://h.example/"])
    assert command is not None
    return Watcher(command)


def test_warning_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "_MAX_WARNINGS", 2)
    messages: list[str] = []
    monkeypatch.setattr(watcher, "complain", messages.append)
    teller = make_watcher()
    for number in (1, 2, 1, 3, 2, 3):
        teller.watch(Warned(Masked(f"x:{number}"), Finding("S04", "warn", "odd")))
    teller.watch(Warned(Masked("x:3"), Finding("S04", "warn", "odder")))
    assert [line[:3] for line in messages] == ["x:1", "x:2", "x:3", "x:3"]


def test_watcher_listens_only_to_displayed_events(folder: Path) -> None:
    text = {Warned, Retrying, Kept}
    shown: dict[str, object] = {}
    for name, *options in (("nothing",), ("dots", "--progress", "dot"), ("trace", "--trace", "trace")):
        teller = make_watcher("-q", *options)
        listener = teller.listener
        kinds = (*text, Progress, Started, Finished, Sent, Received, Connected)
        assert listener == teller.watch or isinstance(listener, Listener)
        shown[name] = {kind for kind in kinds if select_listener(listener, frozenset({kind})) is not None}
        teller.close()
    assert shown == {"nothing": text, "dots": text | {Progress, Started, Finished}, "trace": set(kinds)}


def test_watcher_forgets_partial_file_of_restarted_target() -> None:
    teller = make_watcher("-q")
    for name in ("a", "b"):
        teller.watch(Kept(Masked(f"http://h.example/{name}"), name, 1, True))
    teller.forget_partial(CommandTarget("http://h.example/a", "user", None))
    assert [path.path for path in teller.take_partials()] == ["b"]


def test_explain_predicts_refusal(at: dict[str, str]) -> None:
    for end in contract.ENDS:
        if end.status in (9, 12, 13) and end.rule != "S14":
            done = resolve("explain", "--json", *end.options, end.url.format_map(at))
            (plan,) = done.records
            assert (done.status, plan["verdict"], plan["steps"]) == (end.status, "refuse", [])
            assert end.rule in {finding["rule"] for finding in plan["findings"]}


def test_explain_reports_missing_settings(at: dict[str, str], folder: Path) -> None:
    """The message is the same as that of the retrieval, before anything is sent."""
    for end in contract.ENDS:
        if end.status == 2:
            done = resolve("explain", *end.options, end.url.format_map(at))
            assert (done.status, done.messages) == (2, run(end, at).messages), end


@pytest.mark.parametrize(
    ("urls", "status"),
    [
        (["{http}/about.txt", "{http}/nothing/here", "file:///nothing/here"], 8),
        (["{http}/about.txt", "{http}/nothing/here", "x-foo:bar"], 1),
        (["x-foo:bar", "x-foo:baz"], 13),
        (["a b", "{http}/about.txt"], 12),
    ],
)
def test_exit_status_of_several_urls(urls: list[str], status: int, at: dict[str, str]) -> None:
    assert resolve("cat", *(url.format_map(at) for url in urls)).status == status


# --- text output


@pytest.mark.parametrize("url", contract.LISTINGS)
def test_listing_is_same_in_ls_get_and_cat(url: str, at: dict[str, str], folder: Path) -> None:
    target = url.format_map(at)
    done = resolve("ls", "-q", target)
    names = done.out.decode().split("\n")
    assert (done.status, done.err, names.pop()) == (0, b"", "")
    assert [name for name in contract.LISTINGS[url] if name not in names] == []
    assert resolve("get", "-q", "-O", "listing", target).status == 0
    assert (folder / "listing").read_bytes() == done.out
    assert resolve("cat", "-q", target).out == done.out


@pytest.mark.parametrize("url", contract.SHOWN)
def test_cat_prints_link_of_url_without_body(url: str) -> None:
    done = resolve("cat", "-q", url)
    assert (done.status, done.out, done.err) == (0, contract.SHOWN[url], b"")


def test_cat_wais_database_prints_description(at: dict[str, str]) -> None:
    done = resolve("cat", "-q", f"{at['wais']}/demo")
    assert (done.status, done.out.lstrip()[:9]) == (0, b"(:source\n")


@pytest.mark.parametrize("argv", contract.MESSAGES, ids=lambda argv: repr(argv[-1]))
def test_error_messages_match_contract(argv: tuple[str, ...], at: dict[str, str]) -> None:
    done = resolve(*(word.format_map(at) for word in argv))
    assert done.messages.split("\n") == [line.format_map(at) for line in contract.MESSAGES[argv]] + [""]


@pytest.mark.parametrize("argv", contract.SECRETS, ids=" ".join)
def test_password_is_masked_in_all_outputs(argv: tuple[str, ...], at: dict[str, str], folder: Path) -> None:
    """S17 also holds for invalid command lines."""
    words = [word.format_map(at) for word in argv]
    done = resolve(*words, "--trace", "trace", "--retry-delay", "0.01", stdin=contract.SECRET_LIST)
    written = b"".join(file.read_bytes() for file in folder.iterdir())
    assert b"s3cret" not in done.out + done.err + written
    assert done.out + done.err


# Commands and options: the purpose of each, and the handling of files, names and lists.
#
# The tables are in `contract`.

ABOUT = contract.ABOUT.encode()


#: Names that `options` imports only for types.
_TYPES = {"Checksum": Checksum, "Exists": Exists, "Origin": Origin, "PolicyName": Name, "Sync": Sync}


def test_command_options_fields_match_table() -> None:
    assert [*CommandOptions.__annotations__] == [row.name for row in rows()]


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.name)
def test_command_options_field_has_type_of_row(row: Option) -> None:
    hint = get_type_hints(CommandOptions, localns=_TYPES)[row.name]
    if row.metavar is None:
        assert hint is bool
        return
    if row.many:
        assert get_origin(hint) is list
        (hint,) = get_args(hint)
    elif row.unset is None:
        assert type(None) in get_args(hint)
        hint = get_args(hint)[0]
    if row.choices is not None:
        assert set(get_args(hint)) == set(row.choices)
    else:
        kind = str if row.parse is str else get_type_hints(row.parse, localns=_TYPES)["return"]
        assert hint is kind


def test_undefined_option_is_usage_error(folder: Path) -> None:
    for name in contract.NOT_THERE:
        done = resolve("cat", name, "file:///etc/hostname")
        if name == "-":  # an argument that is not a URL, not an option
            assert done.status == 12
            continue
        assert (done.status, done.out) == (2, b""), name
        assert done.messages.startswith("resolve: ")
        assert name.partition("=")[0] in done.messages


@pytest.mark.parametrize("wish", contract.WISHES, ids=" ".join)
def test_options_without_effect_keep_documents(wish: list[str], at: dict[str, str]) -> None:
    done = resolve("cat", "-q", *wish, *(url.format_map(at) for url in contract.DOCUMENTS))
    assert (done.status, done.err) == (0, b"")
    assert done.out == b"".join(contract.DOCUMENTS.values())


@pytest.mark.parametrize("argv", contract.ANSWERS, ids=" ".join)
def test_option_changes_request_and_output(argv: tuple[str, ...], at: dict[str, str], folder: Path) -> None:
    (folder / "password").write_text("password\nand more\n")
    request, shown = contract.ANSWERS[argv]
    done = resolve("-q", "--trace", "trace", *(word.format_map(at) for word in argv))
    assert (done.status, done.err) == (0, b"")
    assert done.out.decode() == shown
    trace = (folder / "trace").read_text()
    assert request in trace
    assert "password" not in trace


def test_missing_command_defaults_to_get(at: dict[str, str], folder: Path) -> None:
    assert resolve("-q", f"{at['http']}/about.txt") == Done(0, b"", b"")
    assert (folder / "about.txt").read_bytes() == ABOUT


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (["-O", "x"], "x"),
        (["-o", "x"], "x"),
        (["-d", "new/deep"], "new/deep/about.txt"),
        (["-d", "new", "-O", "x"], "new/x"),
    ],
)
def test_get_output_options_set_path(options: list[str], path: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", *options, "--json", f"{at['http']}/about.txt")
    assert (done.status, done.records[0]["path"]) == (0, path)
    assert [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()] == [path]
    assert (folder / path).read_bytes() == ABOUT


def test_server_file_name_requires_allow_server_name(at: dict[str, str], folder: Path) -> None:
    url = f"{at['named']}/x"
    assert resolve("-q", url, "-d", "own").status == 0
    assert resolve("-q", "--allow-server-name", url, "-d", "theirs").status == 0
    for server_url in (f"{at['http']}/about.txt", f"{at['unnamed']}/y"):
        assert resolve("-q", "--allow-server-name", server_url, "-d", "theirs").status == 0
    assert resolve("-q", "--allow-server-name", url, "-O", "mine").status == 0
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert files == {"own/x", "theirs/_bashrc", "theirs/about.txt", "theirs/y", "mine"}
    done = resolve("--allow-server-name", f"{at['misnamed']}/x")
    assert (done.status, "S14" in done.messages) == (9, True)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("..%2F..%2Fx", "x"),
        ("%5Cx", "x"),
        (".bashrc", "_bashrc"),
        ("-rf", "_rf"),
        ("a:b%3F%22%0A%1B%E2%80%AE%FFc", "a_b______c"),
        ("nul.txt", "_nul.txt"),
        ("x.", "x_"),
        ("x%20", "x_"),
        ("x" * 250, "x" * 200),
        ("%C3%A9.txt", "é.txt"),
        ("..", None),
        ("%2F", None),
        ("", "index"),
        ("x/", "index"),
        ("?a=b/c", "index_a=b_c"),
    ],
)
def test_get_derives_safe_file_name_from_url(
    part: str, name: str | None, at: dict[str, str], folder: Path
) -> None:
    done = resolve("get", "-q", f"{at['named']}/{part}")
    assert (done.status, os.listdir(folder)) == ((9, []) if name is None else (0, [name]))


def test_get_to_standard_output_creates_no_file(at: dict[str, str], folder: Path) -> None:
    url = f"{at['http']}/about.txt"
    assert resolve("-O", "-", url, url) == Done(0, ABOUT * 2, b"")
    assert resolve("cat", "-O", "-", url).out == ABOUT
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("options", "status", "state", "contents", "name"),
    [
        ("fail", 3, "failed", b"mine", "about.txt"),
        ("skip", 0, "skipped", b"mine", "about.txt"),
        ("newer", 0, "skipped", b"mine", "about.txt"),  # the server's file is from 1994
        ("replace", 0, "done", ABOUT, "about.txt"),
        ("rename", 0, "done", ABOUT, "about.2.txt"),
        ("resume", 0, "done", ABOUT, "about.txt"),
    ],
)
def test_exists_option_handles_existing_file(
    options: str, status: int, state: str, contents: bytes, name: str, at: dict[str, str], folder: Path
) -> None:
    (folder / "about.txt").write_bytes(ABOUT[:9] if options == "resume" else b"mine")
    done = resolve("get", "-q", "--json", "--exists", options, f"{at['http']}/about.txt")
    (outcome,) = done.records
    assert (done.status, outcome["status"], outcome["exit"]) == (status, state, status)
    assert (folder / name).read_bytes() == contents
    assert sorted(os.listdir(folder)) == sorted({"about.txt", name})
    assert tuple(outcome) == contract.OUTCOME


@pytest.mark.parametrize(("options", "times"), [((), 1), (("--sync", "always"), 1), (("--sync", "never"), 0)])
def test_sync_option_controls_fsync(
    options: tuple[str, ...], times: int, at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert resolve("get", "-q", *options, f"{at['http']}/about.txt").status == 0
    assert len(synced) == times + (options == ("--sync", "always"))  # the directory is synced, too
    assert (folder / "about.txt").read_bytes() == ABOUT


def test_mirror_download_verifies_checksum(at: dict[str, str], folder: Path) -> None:
    digest = hashlib.sha256(ABOUT).hexdigest()
    checked = ["--checksum", f"SHA256:{digest.upper()}", "-t", "2", "--retry-delay", "0.01"]
    done = resolve(
        "--json", *checked, "--mirror", f"{at['http']}/about.txt", f"{at['closed']}/about.txt", "-q"
    )
    (outcome,) = done.records
    assert (done.status, outcome["final_url"]) == (0, f"{at['http']}/about.txt")
    assert (outcome["digest"], outcome["verified"]) == (f"sha256:{digest}", ["digest", "length"])
    assert outcome["mirror"] == f"{at['http']}/about.txt"


def test_get_message_names_mirror(at: dict[str, str], folder: Path) -> None:
    mirror = f"{at['http']}/about.txt"
    message = resolve("-t", "1", "--mirror", mirror, f"{at['closed']}/about.txt").messages
    last = message.splitlines()[-1]
    assert last.startswith(f"resolve: {at['closed']}/about.txt -> about.txt ({len(ABOUT)} ")
    assert last.endswith(f" {mirror})")
    done = resolve("--json", "--exists", "replace", "--mirror", f"{at['closed']}/about.txt", mirror)
    assert [record["mirror"] for record in done.records] == [None]


def test_input_list_accepts_urls_and_json_objects(at: dict[str, str], folder: Path) -> None:
    about = f"{at['http']}/about.txt"
    lines = ["# a comment", "", "  ", about, json.dumps({"url": about, "origin": "user", "more": 1})]
    octets = "\n".join(lines).encode()
    (folder / "list").write_bytes(octets + b"\r\n")
    for verb, count in (("cat", 2), ("get", 1), ("ls", 0), ("info", 2), ("parse", 2), ("explain", 2)):
        for name, stdin in (("-", octets), ("list", b"")):
            options = ["-O", "-"] if verb == "get" else []
            done = resolve(verb, *options, "-i", name, stdin=stdin)
            assert done.status == (0 if count else 8), (verb, done.messages)
            assert done.out.count(b"of two lines" if verb in ("cat", "get") else b"url: ") in (count, 2, 0)
    derived = json.dumps({"url": about, "origin": "derived"}).encode()
    assert resolve("cat", "-i", "-", stdin=derived).status == 9
    record = json.dumps({"url": about, "origin": "derived", "referrer": [at["http"], "127.0.0.1"]}).encode()
    assert resolve("cat", "-i", "-", stdin=record) == Done(0, ABOUT, b"")


def test_ls_json_output_is_valid_input_list(at: dict[str, str], folder: Path) -> None:
    listed = resolve("ls", "-q", "--json", f"{at['ftp']}/pub/", f"{at['gopher']}/").out
    assert json.loads(listed.splitlines()[0])["origin"] == "derived"
    done = resolve("explain", "--json", "-i", "-", stdin=listed)
    assert {plan["scheme"] for plan in done.records} >= {"ftp", "gopher"}
    assert len(done.records) == sum(json.loads(line)["url"] is not None for line in listed.splitlines())


@pytest.mark.parametrize(("words", "attempts"), [([], 1), (["--retry-all"], 3)])
def test_retry_all_retries_permanent_failures(
    words: list[str], attempts: int, at: dict[str, str], folder: Path
) -> None:
    patience = ["-t", "3", "--retry-delay", "0.001"]
    done = resolve("get", "--json", "-q", *patience, *words, f"{at['closed']}/x")
    assert (done.status, [record["attempts"] for record in done.records]) == (4, [attempts])
