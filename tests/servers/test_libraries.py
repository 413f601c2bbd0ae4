"""The data libraries on docs/how-to/libraries.md read tables and arrays by http (nginx) and ftp (vsftpd).

Each example of the section "Data libraries" is a test per scheme. Its last comment is the expected output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pytest

import resolver
from tests.servers.certificates import Certificates
from tests.servers.conftest import open_folder
from tests.servers.ftp_servers import FtpServer, FtpSite, vsftpd
from tests.servers.guests import IN_2025, TOTAL, write_data
from tests.servers.http_servers import HttpServer, nginx
from tests.servers.namespace import write_accounts

PAGE = (Path(__file__).parents[2] / "docs/how-to/libraries.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Data libraries\n")[2].partition("\n## ")[0]
#: The examples by library: the heading above each, and its lines.
EXAMPLES: Mapping[str, str] = dict(
    re.findall(r"^\*\*(\S+)\*\*[^\n]*\n\n```python\n(.*?)^```\n", SECTION, re.MULTILINE | re.DOTALL)
)
#: The rows of the table: library, http, ftp.
ROWS = re.findall(r"^\| (\S+) \| (\S+) \| (\S+) \|", SECTION, re.MULTILINE)[1:]


class Served(NamedTuple):
    nginx: HttpServer
    vsftpd: FtpServer

    @property
    def options(self) -> dict[str, Any]:
        return {"policy": resolver.Policy(allow_port={self.nginx.port, self.vsftpd.ports["plain"]})}

    def url(self, scheme: str) -> str:
        if scheme == "ftp":
            return f"resolve+ftp://127.0.0.1:{self.vsftpd.ports['plain']}/data"
        return f"resolve+http://127.0.0.1:{self.nginx.port}/objects/data"

    def requested(self, scheme: str) -> int:
        """Return the number of files that the server sent so far, or of its responses with http."""
        if scheme == "ftp":
            return self.vsftpd.sent()
        return self.nginx.log.read_text().count("/objects/data/") if self.nginx.log.exists() else 0


@pytest.fixture(scope="module")
def served(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with open_folder() as folder:
        write_data(folder / "tree/data")
        (folder / "tree").chmod(0o755)
        site = FtpSite(
            folder / "tree",
            certificates,
            write_accounts(tmp_path_factory.mktemp("accounts"), folder / "tree"),
        )
        with (
            nginx(site.tree, tmp_path_factory.mktemp("nginx"), certificates) as web,
            vsftpd(site, tmp_path_factory.mktemp("vsftpd")) as ftp,
        ):
            yield Served(web, ftp)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Undo `clobber` after the test."""
    from fsspec.registry import _registry  # read-only without the underscore

    known = dict(_registry)
    yield
    _registry.clear()
    _registry.update(known)


def test_table_lists_every_example_as_working() -> None:
    assert [row[0] for row in ROWS] == list(EXAMPLES)
    assert {cell for row in ROWS for cell in row[1:]} == {"yes"}
    assert len(ROWS) == 12


# h5py, intake, kerchunk, numcodecs and their dependencies use deprecated functions of one another.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("scheme", ["http", "ftp"])
@pytest.mark.parametrize("library", EXAMPLES)
def test_example_reads_data_from_server(
    library: str,
    scheme: str,
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = served.requested(scheme)
    names = {"fsspec": fsspec, "url": served.url(scheme), "options": served.options}
    exec(EXAMPLES[library], names)  # noqa: S102
    assert capsys.readouterr().out.split("\n")[:-1] == re.findall(
        r"  # (\S+)$", EXAMPLES[library], re.MULTILINE
    )
    assert served.requested(scheme) > before


@pytest.mark.parametrize(
    "place",
    [
        "ftp",
        "objects",
        "rounded",  # the HTML index of nginx, which encodes = as %3D in links
    ],
)
def test_partitions_are_selected_by_their_names(place: str, served: Served) -> None:
    """The names of hive partitions contain `=`."""
    import duckdb
    import pyarrow.compute
    import pyarrow.dataset

    url = served.url("ftp" if place == "ftp" else "http").replace("objects", place)
    fs, path = fsspec.url_to_fs(f"{url}/hive", **served.options)
    found = pyarrow.dataset.dataset(path, filesystem=fs, partitioning="hive")
    chosen = found.to_table(filter=pyarrow.compute.field("year") == 2025)
    assert sum(chosen["square"].to_pylist()) == IN_2025
    connection = duckdb.connect()
    connection.register_filesystem(fs)
    query = f"SELECT sum(square) FROM read_parquet('{url}/hive/*/*.parquet', hive_partitioning = true)"
    assert connection.execute(query).fetchall() == [(TOTAL,)]
    assert connection.execute(f"{query} WHERE year = 2025").fetchall() == [(IN_2025,)]
