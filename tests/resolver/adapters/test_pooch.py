"""pooch with the `Downloader` for all schemes: pooch has the cache and verifies the hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pooch
import pytest

import resolver
from fixtures.gopher import GopherServer
from resolver.adapters.pooch import Downloader
from tests.resolver.adapters.conftest import DATA, allowing

HASH = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


def test_retrieve_fetches_once_and_compares_hash(gopher: GopherServer, tmp_path: Path) -> None:
    url = f"gopher://127.0.0.1:{gopher.port}/9data.bin"
    downloader = Downloader(policy=allowing(gopher))
    for _ in range(2):
        path = pooch.retrieve(url, HASH, fname="data.bin", path=tmp_path, downloader=downloader)
        assert Path(path).read_bytes() == DATA
    assert len(gopher.requests) == 1
    with pytest.raises(ValueError, match="hash"):
        pooch.retrieve(url, f"sha256:{'0' * 64}", fname="other", path=tmp_path, downloader=downloader)
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin"]


def test_registry_reports_whether_file_is_available(gopher: GopherServer, tmp_path: Path) -> None:
    hub = pooch.create(
        tmp_path, base_url=f"gopher://127.0.0.1:{gopher.port}/9", registry={"data.bin": HASH, "nix": HASH}
    )
    downloader = Downloader(policy=allowing(gopher))
    assert hub.is_available("data.bin", downloader=downloader)
    assert not hub.is_available("nix", downloader=downloader)


def test_downloader_shows_and_reports_progress(
    gopher: GopherServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[resolver.Event] = []
    downloader = Downloader(progressbar=True, policy=allowing(gopher), on_event=events.append)
    url = f"gopher://127.0.0.1:{gopher.port}/9data.bin"
    pooch.retrieve(url, HASH, fname="data.bin", path=tmp_path, downloader=downloader)
    assert "102k" in capsys.readouterr().err
    assert any(isinstance(event, resolver.Progress) for event in events)


def test_truncated_download_leaves_no_file(gopher: GopherServer, tmp_path: Path) -> None:
    downloader = Downloader(policy=allowing(gopher), patience=resolver.RetryPolicy(tries=1))
    with pytest.raises(resolver.Truncated):
        pooch.retrieve(
            f"gopher://127.0.0.1:{gopher.port}/9reset.bin", HASH, path=tmp_path, downloader=downloader
        )
    assert not list(tmp_path.iterdir())


def test_downloader_writes_into_open_file(gopher: GopherServer, tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as file:
        Downloader(policy=allowing(gopher))(f"gopher://127.0.0.1:{gopher.port}/9data.bin", file, None)
    assert (tmp_path / "data").read_bytes() == DATA
