"""The configuration file: its settings, their precedence, and its errors with file and line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import keyring
import keyring.backend
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Credentials, Host, Limits, NotConfigured, parse
from resolver.cli.arguments import read
from resolver.cli.config import (
    Configuration,
    HostSection,
    default_path,
    get_mirrors,
    load,
    make_host_settings,
)
from resolver.cli.secrets import CommandSecrets
from resolver.cli.values import UsageError
from tests.fresh import run_alone
from tests.resolver.cli.command import resolve


@pytest.fixture
def config_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the user's configuration file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "config" / "resolve").mkdir(parents=True)
    return folder / "config" / "resolve" / "config.toml"


def write(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_config_file_sets_option_defaults(config_path: Path) -> None:
    write(
        config_path,
        'tries = 3\nmax_size = "2k"\nmin_rate = 10\nstrict = true\nallow_port = [70, 25]\nexists = "skip"\n',
    )
    command = read(["gopher://h.example/"])
    assert command is not None
    assert (command.tries, command.max_size, command.min_rate, command.allow_port) == (3, 2048, 10, [70, 25])
    assert (command.strict, command.exists) == (True, "skip")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--tries", "4"], (4, [70])),
        (["--tries", "5"], (5, [70])),  # the default value, too
        (["--allow-port", "25"], (3, [70, 25])),
        (["--config", "none"], (5, [])),
        (["--config=none", "--tries", "7"], (7, [])),
    ],
)
def test_command_line_overrides_file_and_lists_are_joined(
    config_path: Path, argv: list[str], expected: tuple[int, list[int]]
) -> None:
    write(config_path, "tries = 3\nallow_port = 70\n")
    command = read([*argv, "gopher://h.example/"])
    assert command is not None
    assert (command.tries, command.allow_port) == expected


def test_environment_overrides_config_file(config_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write(config_path, 'news_server = "news.example"\n')
    assert load(None).settings["news_server"].value == "news.example"
    monkeypatch.setenv("NNTPSERVER", "other.example")
    assert load(None).settings == {}
    done = resolve("config", "--json")
    settings = {record["name"]: (record["value"], record["source"]) for record in done.records}
    assert settings["news_server"] == ("other.example", "NNTPSERVER")
    monkeypatch.setenv("NNTPSERVER", "")
    settings = {
        record["name"]: (record["value"], record["source"]) for record in resolve("config", "--json").records
    }
    assert settings["news_server"] == ("news.example", f"{name}, line 1")


def test_environment_proxy_overrides_config_file(config_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(config_path, 'proxy = "http://proxy.example:3128"\n')
    assert load(None).settings["proxy"].value == "http://proxy.example:3128"
    assert b"proxy.example" in resolve("explain", "ftp://h.example/a").out
    assert b"proxy.example" not in resolve("explain", "--proxy", "none", "ftp://h.example/a").out
    monkeypatch.setenv("no_proxy", "x.example")
    assert "proxy" in load(None).settings
    monkeypatch.setenv("http_proxy", "http://other.example:3128")
    assert load(None).settings == {}
    assert b"proxy.example" not in resolve("explain", "ftp://h.example/a").out


def test_config_file_in_current_directory_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    monkeypatch.setenv("HOME", str(folder / "home"))
    for name in ("config.toml", "resolve/config.toml", ".config/resolve/config.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("tries = 3\n")
    assert load(None) == Configuration()
    assert default_path() == str(folder / "home/.config/resolve/config.toml")


def test_config_option_with_missing_file_is_usage_error(folder: Path) -> None:
    done = resolve("parse", "--config", "missing.toml", "gopher://h.example/")
    assert done.status == 2
    assert "missing.toml" in done.messages


WRONG = [
    ("tires = 3\n", 1, "did you mean tries?"),
    ("\n# a\nmaxsize = 3\n", 3, "did you mean max_size?"),
    ("output = 'x'\n", 1, "unknown key 'output'"),
    ("tries = 'many'\n", 1, "expected a number from 1 to 1000"),
    ("tries = 0\n", 1, "expected a number from 1 to 1000"),
    ("tries = true\n", 1, "expected a number or text"),
    ("tries = [1]\n", 1, "expected a number or text"),
    ("strict = 1\n", 1, "expected true or false"),
    ("user_agent = 7\n", 1, "expected a text"),
    ("exists = 'perhaps'\n", 1, "one of fail, resume"),
    ("allow_port = [70, 'x']\n", 1, "a number from 1 to 65535"),
    ("gateways = 1\n", 1, "a table"),
    ("proxy = 'gopher://h/'\n", 1, "proxy"),
    ("[gateway]\nz39 = 'http://g.example/'\n", 1, "did you mean gateways?"),
    ("tries = \n", 1, "not TOML"),
    ("tries = 3\ntries = 4\n", 2, "not TOML"),
    ("jobs = 2\nx = '\xff", 2, "not TOML"),
    ("['h.example']\nuser = 'a'\npasswort = 'b'\n", 3, "did you mean password?"),
    ("['h.example']\nuser = 7\n", 2, "expected a text"),
    ("['h.example']\npassword_command = 'pass show'\n", 2, "a list of texts"),
    ("['h.example']\nkeyring = 'yes'\n", 2, "true or false"),
    ("tries = 3\n['h.example']\npassword = 'a'\nkeyring = true\n", 4, "cannot be combined"),
    ("['a b']\nuser = 'a'\n", 1, "'a b'"),
    ("['h.example']\nuser = 'a'\nidle_timout = 3\n", 3, "did you mean idle_timeout?"),
    ("['h.example']\nmax_size = 'x'\n", 2, "max_size: "),
    ("['h.example']\nproxy = 'gopher://h'\n", 2, "proxy: "),
    ("['h.example']\ncert = 3\n", 2, "cert: expected a text"),
    ("['h.example']\nmirrors = ['http://m', 'here']\n", 2, "mirrors: not a URL"),
    ("['h.example']\nmirrors = ['http://m?x=']\n", 2, "mirrors: http://m?x= "),
    ("[[mirror]]\nprefix = 'http://h/'\nmirrors = ['http://m?x=']\n", 3, "mirrors: http://m?x= "),
    ("[[mirror]]\nprefix = 'http://h/'\nmirrors = 3\n", 3, "mirrors: expected a text"),
    ("[[mirror]]\nprefix = 'http://h/'\n", 2, "with its mirrors"),
    ("jobs = 3\n[[mirror]]\nmirrors = []\n", 2, "with its mirrors"),
    ("[[mirror]]\nprefix = 'h/'\nmirrors = []\n", 2, "prefix: not a URL"),
    ("[[mirror]]\nprefix = 'file:///h/'\nmirrors = []\n", 2, "must have a host"),
    ("[[mirror]]\nprefix='http://h'\nmirrors=[]\n[[mirror]]\nprefx='http://h'\n", 5, "did you mean prefix?"),
    ("[mirror]\nprefix = 'http://h/'\n", 1, "expected [[mirror]] tables"),
    ("mirror = ['http://h/']\n", 1, "expected [[mirror]] tables"),
    ("['h.example']\nallow_port = [25]\n", 2, "'allow_port'"),  # a host section cannot set the policy
    ("['h.example']\nlimits = 3\n", 2, "a table"),
    ("['h.example']\nlimits = {hops = 'x'}\n", 2, "hops: "),
    ("['h.example']\nuser = 'a'\n['h.example'.limits]\nhopps = 3\n", 4, "did you mean hops?"),
    ("[limits]\nhops = 3\nlines = 'x'\n", 3, "lines: "),
    ("[gateways]\nhttp = 'http://g.example/'\n", 2, "http URLs"),
    ("tries = 3\nallow_address = ['300.1.1.1']\n", 2, "allow_address: '300.1.1.1'"),
    ("headers = ['sekret']\n", 1, "headers: expected NAME:VALUE"),
    ('tries = 3\nnetrc_file = "a\\u0000b"\n', 2, "netrc_file: a path cannot contain NUL"),
    ("['h.example']\nmax_size = 1\n['H.Example']\npin = 'x'\n", 3, "two sections"),
    ("['[::1]']\nmax_size = 1\n['[0::1]']\nproxy = 'none'\n", 3, "two sections"),
]


@pytest.mark.parametrize(("text", "line", "reason"), WRONG)
def test_config_error_names_line_and_fetches_nothing(folder: Path, text: str, line: int, reason: str) -> None:
    name = write(folder / "c.toml", text)
    done = resolve("get", "--config", name, "file:///etc/hostname")
    assert done.status == 2
    assert done.messages.startswith(f"resolve: {name}, line {line}: ")
    assert reason in done.messages
    assert "sekret" not in done.messages
    assert [each.name for each in folder.iterdir()] == ["c.toml"]


def test_config_invalid_utf8_names_line(folder: Path) -> None:
    (folder / "c.toml").write_bytes(b"tries = 3\n# \xff\n")
    (folder / "c.toml").chmod(0o600)
    with pytest.raises(UsageError, match=r"c\.toml, line 2: .*UTF-8"):
        load(str(folder / "c.toml"))


@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 100_000, "{a=" * 100_000, f"0x{'f' * 5_000}"])
def test_config_value_of_excessive_length_or_depth_is_usage_error(folder: Path, value: str) -> None:
    name = write(folder / "c.toml", f"tries = {value}\n")
    with pytest.raises(UsageError, match=r"c\.toml"):
        load(name)


def test_config_with_byte_order_mark_loads(folder: Path) -> None:
    (folder / "c.toml").write_bytes("\ufefftries = 3\n".encode())
    (folder / "c.toml").chmod(0o600)
    assert load(str(folder / "c.toml")).settings["tries"].value == 3


@given(
    st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "ignore")))
)
def test_config_with_random_bytes_loads_or_is_usage_error(
    tmp_path_factory: pytest.TempPathFactory, octets: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(octets)
    path.chmod(0o600)
    try:
        outcome = load(str(path)).path or ""
    except UsageError as error:
        outcome = str(error)
    assert outcome.startswith(str(path))


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("tries = 3\n", 0o620, "others may write"),
        ("tries = 3\n", 0o602, "others may write"),
        ("['h.example']\npassword = 'a'\n", 0o640, "others may read"),
        ("['h.example']\npassword = 'a'\n", 0o604, "others may read"),
        ("tries = 3\n", 0o644, None),
        ("['h.example']\nuser = 'a'\n", 0o644, None),
        ("['h.example']\npassword = 'a'\n", 0o600, None),
    ],
)
def test_config_file_mode_is_checked(folder: Path, text: str, mode: int, reason: str | None) -> None:
    name = write(folder / "c.toml", text, mode)
    if reason is None:
        assert load(name).path == name
    else:
        with pytest.raises(UsageError, match=reason):
            load(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_config_file_of_another_user_is_refused(folder: Path) -> None:
    name = write(folder / "c.toml", "tries = 3\n")
    os.chown(name, 65534, 65534)
    with pytest.raises(UsageError, match="another user's"):
        load(name)


def test_config_file_overrides_policy(config_path: Path) -> None:
    assert resolve("explain", "gopher://127.0.0.1:25/").status == 9
    write(config_path, "allow_port = [25]\n")
    assert resolve("explain", "gopher://127.0.0.1:25/").status == 0
    write(config_path, 'policy = "cautious"\n')
    assert resolve("explain", "http://user:password@127.0.0.1/").status == 9


def test_config_gateways_and_limits_are_tables(config_path: Path) -> None:
    write(config_path, '[gateways]\nz39.50s = "http://g.example/"\n')
    assert resolve("schemes").status == 2
    write(config_path, '[gateways]\n"z39.50s" = "http://g.example/"\n[limits]\nhops = 2\n')
    assert b"z39.50s" in resolve("schemes").out
    command = read(["x:"])
    assert command is not None
    assert command.limit == ["hops=2"]


def test_config_shows_effective_settings_and_sources(config_path: Path) -> None:
    name = write(
        config_path,
        'tries = 3\nheaders = ["X-Token: sekret"]\n[gateways]\ncid = "http://g.example/"\n'
        '["h.example:21"]\nuser = "carl"\npassword = "hush"\n',
    )
    done = resolve("config", "-j", "2")
    lines = done.out.decode().splitlines()
    assert lines[0] == f"# {name}"
    assert f"tries = 3  # {name}, line 1" in lines
    assert "jobs = 2  # the command line" in lines
    assert "# max_size  # default" in lines
    assert f'headers = ["X-Token: ****"]  # {name}, line 2' in lines
    assert lines[-7:] == [
        "",
        "[gateways]",
        f'cid = "http://g.example/"  # {name}, line 3',
        "",
        '["h.example:21"]',
        f'user = "carl"  # {name}, line 5',
        f'password = "****"  # {name}, line 5',
    ]
    assert b"sekret" not in done.out
    assert b"hush" not in done.out
    assert resolve("config", "x:").status == 2


@pytest.mark.parametrize(
    "line",
    [
        *('directory = "/srv/mirror"', 'ledger = "run.db"', 'attachments = "files"', "insecure = true"),
        *('at = "2026"', 'under = "http://h/"'),
    ],
)
def test_config_shows_settings_of_other_commands(line: str, config_path: Path) -> None:
    name = write(config_path, f"{line}\n")
    shown = resolve("config")
    assert (shown.status, shown.err) == (0, b"")
    assert f"\n{line}  # {name}, line 1\n" in shown.out.decode()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('directory = "/srv"', ["warc", "ls", "x.warc"]),
        ('directory = "/srv"', ["warc", "check", "x.warc"]),
        ("parts = true", ["get", "http://h/"]),
        ("warc_cookies = true", ["cat", "http://h/"]),
    ],
)
def test_configured_value_without_its_use_is_ignored(line: str, words: list[str], config_path: Path) -> None:
    write(config_path, f"{line}\n")
    assert read(words) is not None


def test_config_output_is_valid_config_file(config_path: Path, folder: Path) -> None:
    write(
        config_path, 'tries = 3\nmax_size = "2k"\nuser_agent = "é"\nretry_delay = 0.5\n[limits]\nhops = 2\n'
    )
    again = write(folder / "again.toml", resolve("config").out.decode())
    assert load(again).settings.keys() > load(str(config_path)).settings.keys()
    for key, setting in load(str(config_path)).settings.items():
        assert load(again).settings[key].value == setting.value


SECTION = HostSection(user="carl", password="p ss", source="c.toml, line 4")


@pytest.mark.parametrize(
    ("url", "place", "user", "expected"),
    [
        ("ftp://h.example/", ("ftp", "h.example", 21), None, "carl"),
        ("ftp://H.Example/", ("ftp", "h.example", 21), None, "carl"),
        ("ftp://h.example/", ("ftp", "h.example", 21), "carl", "carl"),
        ("ftp://h.example/", ("ftp", "h.example", 21), "eve", None),
        ("ftp://h.example/", ("ftp", "h.example", 2121), None, None),  # not the port of the URL
        ("ftp://h.example/", ("http", "h.example", 80), None, None),
        ("ftp://h.example/", ("ftp", "x.h.example", 21), None, None),
        # https is protected: the login may be sent
        ("ftp://other.example/", ("https", "h.example", 443), None, "carl"),
        ("ftp://other.example/", ("https", "h.example", 8443), None, None),
        ("http://apart.example:8080/", ("http", "apart.example", 8080), None, "dora"),
        ("http://apart.example/", ("http", "apart.example", 80), None, None),
    ],
)
async def test_host_section_login_applies_to_its_host_only(
    url: str, place: tuple[str, str, int], user: str | None, expected: str | None
) -> None:
    apart = HostSection(user="dora", password="q")
    secrets = CommandSecrets(None, None, {"h.example": SECTION, "apart.example:8080": apart})
    secrets.admit(parse(url))
    credentials = await secrets.request(*place, None if user is None else user.encode())
    assert (None if credentials is None else credentials.user.decode()) == expected


async def test_command_line_login_overrides_host_section(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("given\n")
    for user, expected in (("carl", b"given"), ("eve", b"given")):
        secrets = CommandSecrets(user, str(tmp_path / "password"), {"h.example": SECTION})
        secrets.admit(parse("ftp://h.example/"))
        assert await secrets.request("ftp", "h.example", 21, None) == Credentials(user.encode(), expected)


def test_host_section_password_is_sent_and_masked(config_path: Path, at: dict[str, str]) -> None:
    assert resolve("cat", f"{at['http']}/private").status == 6
    for way in (
        'password = "password"',
        f"password_command = [{sys.executable!r}, '-c', 'print(\"password\"); print(2)']",
    ):
        write(config_path, f'["127.0.0.1"]\nuser = "user"\n{way}\n')
        done = resolve("cat", "-v", f"{at['http']}/private")
        assert done.status == 0, done.messages
        assert "dXNlcjpwYXNzd29yZA" not in done.messages
        assert "****" in done.messages


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["/no/such/program"], "No such file"),
        ([sys.executable, "-c", "import sys; sys.exit(3)"], "status 3"),
        ([sys.executable, "-c", ""], "returned no password"),
        ([sys.executable, "-c", "print('x' * 100_000)"], "returned no password"),
    ],
)
async def test_failing_password_command_is_not_configured(words: list[str], reason: str) -> None:
    section = HostSection(user="carl", command=tuple(words), source="c.toml, line 4")
    secrets = CommandSecrets(None, None, {"h.example": section})
    secrets.admit(parse("ftp://h.example/"))
    with pytest.raises(NotConfigured, match=r"c\.toml, line 4: ") as caught:
        await secrets.request("ftp", "h.example", 21, None)
    assert reason in caught.value.message


class InMemory(keyring.backend.KeyringBackend):
    """A keyring backend that holds one password."""

    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return "from the ring" if (service, username) == ("h.example", "carl") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


async def test_keyring_returns_password_or_not_configured() -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())  # type: ignore[no-untyped-call]
    try:
        for user, password in (("carl", b"from the ring"), ("dora", None)):
            section = HostSection(user=user, keyring=True, source="c.toml, line 4")
            secrets = CommandSecrets(None, None, {"h.example": section})
            secrets.admit(parse("ftp://h.example/"))
            if password is None:
                with pytest.raises(NotConfigured, match="keyring"):
                    await secrets.request("ftp", "h.example", 21, None)
            else:
                credentials = await secrets.request("ftp", "h.example", 21, None)
                assert credentials == Credentials(user.encode(), password)
    finally:
        keyring.set_keyring(before)


def test_config_import_does_not_load_policy() -> None:
    """`--help` and `parse` look for the file and check no URL against the policy."""
    program = "import sys, resolver.cli.config; print('resolver.policy.judgment' in sys.modules)"
    assert run_alone(program) == "False\n"


# Host sections of the configuration: their precedence, and the output of `config` for them.


ALL = """
idle_timeout = 20
connect_timeout = 9
[limits]
hops = 3
lines = 7
["h.example"]
idle_timeout = 7
max_size = "1k"
proxy = "http://me:sekret@proxy.example:3128"
cert = "ours.pem"
mirrors = "http://m.example/h"
limits = {lines = 5}
["h.example:81"]
proxy = "none"
limits = {hops = 1}
["i.example"]
user = "carl"
[[mirror]]
prefix = "http://H.example:80/pub"
mirrors = ["ftp://f.example/h", "http://me:sekret@m.example/x/"]
[[mirror]]
prefix = "http://h.example/pub/deep/"
mirrors = "http://n.example"
"""
PROXY = "http://me:sekret@proxy.example:3128"
OF_ALL = Limits(idle=7, connect=9, hops=3, lines=5, body=1024, body_everywhere=True)


@pytest.mark.parametrize(
    ("argv", "host", "at_port"),
    [
        (
            [],
            Host(limits=OF_ALL, proxy=PROXY, certfile="ours.pem", mirrors=("http://m.example/h",)),
            Host(
                limits=Limits(idle=7, connect=9, hops=1, lines=5, body=1024, body_everywhere=True),
                proxy="none",
            ),
        ),
        (
            [
                "--idle-timeout",
                "2",
                "--max-size",
                "9",
                "--limit",
                "lines=8",
                "--cert",
                "x",
                "--proxy",
                "none",
            ],
            Host(
                limits=Limits(idle=2, connect=9, hops=3, lines=8, body=9, body_everywhere=True),
                mirrors=("http://m.example/h",),
            ),
            Host(limits=Limits(idle=2, connect=9, hops=1, lines=8, body=9, body_everywhere=True)),
        ),
    ],
)
def test_precedence_is_command_line_host_section_file(
    config_path: Path, argv: list[str], host: Host, at_port: Host
) -> None:
    write(config_path, ALL)
    command = read(["cat", *argv, "http://h.example/"])
    assert command is not None
    assert make_host_settings(command.configuration) == {"h.example": host, "h.example:81": at_port}


def test_host_section_limits_its_host_only(config_path: Path, at: dict[str, str], folder: Path) -> None:
    place = at["http"].removeprefix("http://")
    write(config_path, f'["{place}"]\nmax_size = 3\n')
    assert resolve("cat", f"{at['http']}/about.txt").status == 14
    assert resolve("cat", "--max-size", "1k", f"{at['http']}/about.txt").status == 0
    assert resolve("cat", f"{at['file']}/about.txt").status == 0
    write(config_path, f'max_size = 3\n["{place}"]\nmax_size = "1k"\n')
    assert resolve("cat", f"{at['http']}/about.txt").status == 0
    assert resolve("cat", f"{at['file']}/about.txt").status == 14
    assert resolve("cat", "--config", "none", f"{at['file']}/about.txt").status == 0


def test_host_section_without_login_hides_no_login(
    config_path: Path, at: dict[str, str], folder: Path
) -> None:
    """A login of the host in another section or in the netrc file still applies."""
    place = at["http"].removeprefix("http://")
    write(config_path, f'["127.0.0.1"]\nuser = "user"\npassword = "password"\n["{place}"]\nmax_size = "1k"\n')
    assert resolve("cat", f"{at['http']}/private").status == 0
    write(config_path, f'["{place}"]\nmax_size = "1k"\n')
    write(folder / "netrc", "machine 127.0.0.1 login user password password\n")
    assert resolve("cat", f"{at['http']}/private").status == 6
    assert resolve("cat", "--netrc-file", "netrc", f"{at['http']}/private").status == 0


def test_explain_uses_proxy_of_host_section(config_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(config_path, ALL)
    monkeypatch.setenv("http_proxy", "http://env.example:3128")
    monkeypatch.setenv("no_proxy", "h.example")
    for url, proxy in (
        ("http://h.example/", b"connect  proxy.example port 3128"),
        ("http://h.example:81/", b"connect  h.example port 81"),
        ("http://other.example/", b"connect  env.example port 3128"),
    ):
        done = resolve("explain", url)
        assert proxy in done.out
        assert b"sekret" not in done.out


def config_values(*argv: str) -> dict[tuple[str | None, str], tuple[object, str]]:
    done = resolve("config", "--json", *argv)
    assert done.status == 0, done.messages
    assert b"sekret" not in done.out
    return {(each["table"], each["name"]): (each["value"], each["source"]) for each in done.records}


def test_config_with_url_shows_effective_settings_of_url(
    config_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write(config_path, ALL)
    values = config_values("http://h.example/", "--connect-timeout", "4")
    assert values[None, "connect_timeout"] == (4, "the command line")
    assert values[None, "idle_timeout"] == (7, f"{name}, line 8")
    assert values[None, "max_size"] == (1024, f"{name}, line 9")
    assert values[None, "proxy"] == ("http://****@proxy.example:3128", f"{name}, line 10")
    assert values[None, "mirrors"] == (["http://m.example/h"], f"{name}, line 12")
    below = config_values("http://h.example/pub/a/b")[None, "mirrors"]
    assert below == (["ftp://f.example/h/a/b", "http://****@m.example/x/a/b"], f"{name}, line 20")
    assert config_values("http://h.example/pub/deep/b")[None, "mirrors"] == (
        ["http://n.example/b"],
        f"{name}, line 23",
    )
    assert values["limits", "lines"] == ("5", f"{name}, line 13")
    assert values["limits", "hops"] == ("3", f"{name}, line 4")
    assert config_values("http://h.example:81/")[None, "proxy"] == ("none", f"{name}, line 15")
    assert config_values("http://h.example:81/")["limits", "hops"] == ("1", f"{name}, line 16")
    assert config_values("http://other.example/")[None, "idle_timeout"] == (20, f"{name}, line 2")
    monkeypatch.setenv("ftp_proxy", "http://me:sekret@env.example")
    assert config_values("ftp://other.example/")[None, "proxy"] == ("http://env.example:1080", "ftp_proxy")
    assert config_values("--proxy", PROXY, "ftp://h.example/")[None, "proxy"][1] == "the command line"
    assert config_values()["h.example", "proxy"] == ("http://****@proxy.example:3128", f"{name}, line 10")
    assert resolve("config", "a b:").status == 12
    assert resolve("config", "x:").status == 2
    assert resolve("config", "http://h/", "http://i/").status == 2


def test_config_output_keeps_hosts_and_mirrors(config_path: Path, folder: Path) -> None:
    write(config_path, ALL.replace("me:sekret@", ""))
    before = read(["http://h.example/"])
    config_path.write_bytes(resolve("config").out)
    after = read(["http://h.example/"])
    assert before is not None
    assert after is not None
    assert make_host_settings(after.configuration) == make_host_settings(before.configuration)
    assert get_mirrors(after.configuration) == get_mirrors(before.configuration)
    assert len(get_mirrors(after.configuration)) == 2
    assert len(make_host_settings(after.configuration)) == 2
