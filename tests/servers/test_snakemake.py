"""The storage plug-in of packaging/snakemake: Snakemake's own tests for plug-ins, and workflows.

The plug-in reads from nginx and vsftpd. The workflows run the command of Snakemake with the installed wheel.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import snakemake_storage_plugin_resolve as plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.tests import TestStorageBase

import fixtures.faulty
import resolver
from fixtures.faulty import Profile
from tests.elsewhere import served as started
from tests.hang import HANG
from tests.plugin.distribution import CHECKOUT, install, variables
from tests.servers.ftp_servers import FtpServer
from tests.servers.ftp_tree import LINES
from tests.servers.http_servers import ABOUT, HttpServer

PAGE = (CHECKOUT / "docs/how-to/libraries.md").read_text(encoding="utf-8")


def http_url(server: HttpServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def ftp_url(server: FtpServer, login: str = "") -> str:
    return f"ftp://{login}127.0.0.1:{server.ports['plain']}"


def provider(folder: Path, **settings: Any) -> plugin.StorageProvider:
    """Return a provider whose settings come from a Snakefile, where they may have any type."""
    chosen = plugin.StorageProviderSettings()
    chosen.__dict__.update(settings)
    return plugin.StorageProvider(folder, logging.getLogger("snakemake"), settings=chosen)


class StorageTests(TestStorageBase):
    """Snakemake's tests, for a plug-in that does not write."""

    __test__ = False
    retrieve_only = True
    url: str

    def get_storage_provider_cls(self) -> type[plugin.StorageProvider]:
        return plugin.StorageProvider

    def get_storage_provider_settings(self) -> plugin.StorageProviderSettings:
        return plugin.StorageProviderSettings(policy="default")

    def get_query(self, tmp_path: Path) -> str:
        return self.url

    def get_query_not_existing(self, tmp_path: Path) -> str:
        return f"{self.url}.missing"


class TestHttp(StorageTests):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _server(self, nginx: HttpServer) -> None:
        self.url = f"{http_url(nginx)}/about.txt"


class TestFtp(StorageTests):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _server(self, vsftpd: FtpServer) -> None:
        self.url = f"{ftp_url(vsftpd)}/pub/a.txt"


def test_object_has_size_date_and_content(vsftpd: FtpServer, tmp_path: Path) -> None:
    query = f"{ftp_url(vsftpd)}/pub/a.txt"
    found = provider(tmp_path).object(query)
    assert (found.size(), found.mtime()) == (len(LINES), 1_000_000_000)
    before = vsftpd.sent()
    asyncio.run(found.managed_retrieve())
    assert vsftpd.sent() == before + 1
    assert found.local_path() == tmp_path / "ftp" / query.split("/")[2].replace(":", "%3A") / "pub/a.txt"
    assert found.local_path().read_bytes() == LINES


@pytest.mark.parametrize(
    ("query", "suffix"),
    [
        ("ftp://h.example/{sample,[^/]+}.csv", "ftp/h.example/{sample}.csv"),
        ("http://h.example/../../etc//x", "http/h.example/%../%../etc/%/x"),
        ("http://h.example/a;b?c&d=$(e)", "http/h.example/a%3Bb%3Fc%26d%3D%24%28e%29"),
        ("ftp://joe:secret@h.example/a", "ftp/joe%3A%2A%2A%2A%2A%40h.example/a"),
        ("http://h.example/", "http/h.example/%"),
    ],
)
def test_local_path_stays_below_prefix_and_needs_no_quotes(query: str, suffix: str, tmp_path: Path) -> None:
    assert provider(tmp_path).object(query).local_suffix() == suffix


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("table.csv", "no-scheme"),
        ("http://joe:secret@h.example/a b", "bad-char"),
        ("s3://bucket/key", "scheme s3"),
        ("file:///etc/passwd", "scheme file"),
        ("mailto:joe@h.example", "scheme mailto"),
    ],
)
def test_query_that_is_not_a_supported_url_is_invalid(query: str, reason: str) -> None:
    found = plugin.StorageProvider.is_valid_query(query)
    assert not found
    assert reason in str(found)
    assert "secret" not in str(found)


def test_unknown_setting_is_an_error_of_the_workflow(tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match="polcy"):
        provider(tmp_path, polcy="untrusted")


def test_policy_refuses_private_address(nginx: HttpServer, tmp_path: Path) -> None:
    refused = provider(tmp_path, policy="untrusted").object(f"{http_url(nginx)}/about.txt")
    with pytest.raises(WorkflowError, match="S08") as caught:
        refused.exists()
    assert isinstance(caught.value.__cause__, resolver.Refused)


@pytest.mark.parametrize("scheme", ["http", "ftp"])
def test_truncated_transfer_leaves_no_file(scheme: str, tmp_path: Path) -> None:
    manner = Profile(cuts=(40,))
    with started(partial(fixtures.faulty.serve, scheme=scheme, content=LINES * 10, profile=manner)) as server:
        found = provider(tmp_path, patience=resolver.RetryPolicy(tries=1)).object(server.url())
        with pytest.raises(WorkflowError) as caught:
            asyncio.run(found.managed_retrieve())
        assert "after 40 of 290 bytes" in str(caught.value)
        assert not found.local_path().exists()


def test_glob_lists_files_of_folders(
    nginx: HttpServer, vsftpd: FtpServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = provider(tmp_path)
    web, ftp = http_url(nginx), ftp_url(vsftpd)
    found = storage.object(f"{web}/objects/{{name}}.txt")
    texts = {f"{web}/objects/about.txt", f"{web}/objects/long.txt"}
    assert texts <= set(found.list_candidate_matches())
    found = storage.object(f"{ftp}/pub/{{folder}}/{{name}}.txt")
    with caplog.at_level(logging.WARNING):
        assert f"{ftp}/pub/weird/plain.txt" in set(found.list_candidate_matches())
    assert "noaccess" in caplog.text
    with pytest.raises(WorkflowError, match="missing"):
        list(storage.object(f"{ftp}/missing/{{name}}.txt").list_candidate_matches())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("distribution"), CHECKOUT / "packaging/snakemake")


class Workflow:
    """The Snakefile of the page in a folder, run by the command of Snakemake."""

    def __init__(self, site: Path, folder: Path, text: str) -> None:
        self.folder = folder
        self._environment = variables(site, folder / "home") | {"HOME": str(folder / "home")}
        (folder / "Snakefile").write_text(text, encoding="utf-8")

    def run(self, *words: str) -> tuple[int, str]:
        """Return the status and the output."""
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "1", *words],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HANG,
        )
        return done.returncode, done.stdout


@pytest.fixture
def workflow(nginx: HttpServer, vsftpd: FtpServer, site: Path, tmp_path: Path) -> Workflow:
    section = PAGE.partition("\n## Snakemake\n")[2]
    shown = re.search(r"^```python\n(.*?)^```\n", section, re.MULTILINE | re.DOTALL)
    assert shown is not None
    text = shown[1].replace("http://http.example", http_url(nginx))
    return Workflow(site, tmp_path, text.replace("ftp://ftp.example", ftp_url(vsftpd)))


def test_workflow_reads_http_and_ftp_once(workflow: Workflow, ftp_tree: Path, vsftpd: FtpServer) -> None:
    """A second run has nothing to do; a file that changes on the server is read again."""
    status, told = workflow.run()
    assert status == 0, told
    text = ABOUT + LINES
    assert (workflow.folder / "both.txt").read_bytes() == text
    assert (workflow.folder / "lines.txt").read_text().strip() == str(text.count(b"\n"))
    sent = vsftpd.sent()
    assert "Nothing to be done" in workflow.run()[1]
    assert vsftpd.sent() == sent
    path = ftp_tree / "pub/a.txt"
    before = path.stat()
    os.utime(path, (4_000_000_000, 4_000_000_000))
    try:
        assert "Updated input files" in workflow.run("--dry-run")[1]
    finally:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_workflow_with_missing_input_names_it_without_password(
    vsftpd: FtpServer, site: Path, tmp_path: Path
) -> None:
    url = f"{ftp_url(vsftpd, 'bob:not-shown@')}/pub/missing.txt"
    text = f'rule all:\n    input: storage.resolve("{url}")\n    output: "x"\n    shell: "cp {{input}} x"\n'
    status, told = Workflow(site, tmp_path, text).run()
    assert status == 1
    assert "127.0.0.1" in told
    assert "not-shown" not in told
    assert not (tmp_path / "x").exists()
